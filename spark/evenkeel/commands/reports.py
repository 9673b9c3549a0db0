"""`evenkeel report`: a cycle as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `report`."""
    parser = commands.add_parser("report", help="write a cycle as one self-contained HTML page")
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    parser.add_argument("--cycle", metavar="TIME", default="latest", help="of this moment (default: the latest)")
    parser.add_argument("--out", metavar="FILE", default="report.html", help="default: report.html")
    parser.add_argument("--recording", metavar="DIR", help="compare with Pulsar's own shedder there")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Writes the page and says where."""
    from evenkeel.audit.report import build_report

    print(build_report(given.lake, cluster=given.cluster, cycle=given.cycle, out=Path(given.out)))
    return 0
