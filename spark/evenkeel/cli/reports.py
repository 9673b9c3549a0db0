"""`evenkeel report` and `evenkeel data-docs`: a cycle as HTML."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.lakes import LAKE_UNREAD, add_lake_option, each_of, first_with, lakes_chosen, say_unread
from evenkeel.cli.options import check_file, check_folder
from evenkeel.cli.output import add_json, print_result
from evenkeel.times import IN_UTC

if TYPE_CHECKING:
    from evenkeel.lake.record import Attempt
    from evenkeel.settings.lakes import ConfiguredLake, LakeMap


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
    add_lake_option(parser, "as configured: that of the cluster, else a page for each lake")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    parser.add_argument(
        "--cycle", metavar="TIME", default="latest", help=f"of this moment ({IN_UTC}; default: the latest)"
    )
    add_json(parser)


def run_report(given: argparse.Namespace) -> int:
    """Write the page and report where."""
    from evenkeel.cli.output import busy_with
    from evenkeel.errors import BadInput
    from evenkeel.report import build_report
    from evenkeel.report.compare import LOG

    if given.recording and not (Path(given.recording) / LOG).is_file():
        raise BadInput(f"{given.recording} has no {LOG}: --recording wants a folder that holds the brokers' logs")
    check_file(given.out, "--out")
    out, lakes = Path(given.out), lakes_chosen(given)

    def drawn(lake: str, page: Path) -> Path:
        with busy_with("reading the cycle and drawing its page"):
            return build_report(lake, cluster=given.cluster, cycle=given.cycle, out=page, recording=given.recording)

    if lakes.is_several and given.cluster is None:
        return _each_lake(given, lakes, lambda lake: drawn(lake.path, out.with_stem(f"{out.stem}-{lake.name}")))
    page = first_with(lakes, lambda lake: drawn(lake, out), given.cluster)
    print_result(given, str(page), {"page": str(page)})
    return 0


def _each_lake(given: argparse.Namespace, lakes: LakeMap, drawn: Callable[[ConfiguredLake], Path]) -> int:
    """Write a page for each lake, and print its path; return 2 if one of them cannot be read."""
    code, named = 0, {lake.path: lake for lake in lakes.lakes}
    for lake, page in each_of(lakes, lambda path: drawn(named[path])):
        if isinstance(page, Exception):
            say_unread(lake, page)
            code = LAKE_UNREAD
        else:
            print_result(given, str(page), {"page": str(page), "lake": lake.name})
    return code


def run_data_docs(given: argparse.Namespace) -> int:
    """Write the pages and report where the first one is."""
    from evenkeel.cli.output import busy_with
    from evenkeel.errors import BadInput, LakeError
    from evenkeel.lake.record import find_cycles, read_rows
    from evenkeel.validate.data_docs import render

    check_folder(given.out, "--out")

    def read(lake: str) -> tuple[list[Attempt], list[dict[str, Any]]]:
        cycles = find_cycles(lake, cluster=given.cluster, cycle=given.cycle)
        return cycles, [row for cycle in cycles for row in read_rows(lake, cycle, "validation_results")]

    lakes = lakes_chosen(given)
    if lakes.is_several and given.cluster is None:
        names = " or ".join(lake.name for lake in lakes.lakes)
        raise BadInput(f"there are several lakes: give --cluster, or --lake with {names}")
    cycles, rows = first_with(lakes, read, given.cluster)
    if not rows:
        named = ", ".join(f"{cycle.cluster} at {cycle.cycle_at.isoformat()} ({cycle.status})" for cycle in cycles)
        raise LakeError(f"nothing was checked in {named}: its run ended before validate. Ask for another --cycle.")
    with busy_with("drawing the pages"):
        page = render(rows, Path(given.out))
    print_result(given, str(page), {"page": str(page)})
    return 0
