"""`evenkeel report` and `evenkeel data-docs`: a cycle as HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from evenkeel.cli.options import check_file, check_folder
from evenkeel.cli.output import add_json, print_result
from evenkeel.times import IN_UTC


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `report` and of `data-docs`."""
    report = commands.add_parser("report", help="write a cycle as one self-contained HTML page")
    _add_cycle(report)
    report.add_argument("--out", metavar="FILE", default="report.html", help="default: report.html")
    report.add_argument(
        "--recording", metavar="DIR", help="folder with broker logs, to compare with Pulsar's own shedder"
    )
    report.set_defaults(run=run_report)
    docs = commands.add_parser("data-docs", help="write what was checked in a cycle as Great Expectations' Data Docs")
    _add_cycle(docs)
    docs.add_argument("--out", metavar="DIR", default="data-docs", help="default: data-docs")
    docs.set_defaults(run=run_data_docs)


def _add_cycle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    parser.add_argument(
        "--cycle", metavar="TIME", default="latest", help=f"of this moment ({IN_UTC}; default: the latest)"
    )
    add_json(parser)


def run_report(given: argparse.Namespace) -> int:
    """Writes the page and says where."""
    from evenkeel.cli.progress import busy_with
    from evenkeel.errors import BadInput
    from evenkeel.record.compare import LOG
    from evenkeel.record.report import build_report

    if given.recording and not (Path(given.recording) / LOG).is_file():
        raise BadInput(f"{given.recording} has no {LOG}: --recording wants a folder that holds the brokers' logs")
    check_file(given.out, "--out")
    out = Path(given.out)
    with busy_with("reading the cycle and drawing its page"):
        page = build_report(given.lake, cluster=given.cluster, cycle=given.cycle, out=out, recording=given.recording)
    print_result(given, str(page), {"page": str(page)})
    return 0


def run_data_docs(given: argparse.Namespace) -> int:
    """Writes the pages and says where the first one is."""
    from evenkeel.cli.progress import busy_with
    from evenkeel.errors import LakeError
    from evenkeel.record.read import find_cycles, read_rows
    from evenkeel.validate.data_docs import render

    check_folder(given.out, "--out")
    cycles = find_cycles(given.lake, cluster=given.cluster, cycle=given.cycle)
    rows = [row for cycle in cycles for row in read_rows(given.lake, cycle, "validation_results")]
    if not rows:
        named = ", ".join(f"{cycle.cluster} at {cycle.cycle_at.isoformat()} ({cycle.status})" for cycle in cycles)
        raise LakeError(f"nothing was checked in {named}: its run ended before validate. Ask for another --cycle.")
    with busy_with("drawing the pages"):
        page = render(rows, Path(given.out))
    print_result(given, str(page), {"page": str(page)})
    return 0
