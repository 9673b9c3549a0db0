"""`evenkeel explain`: why a bundle, a topic or a broker was treated as it was."""

from __future__ import annotations

import argparse
import os

from evenkeel.errors import BadInput
from evenkeel.times import IN_UTC


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `explain`."""
    parser = commands.add_parser("explain", help="say why something was decided, and what would have changed it")
    parser.add_argument("subject", metavar="SUBJECT", help="a bundle, a topic, a broker (host:port) or a command id")
    add_lake(parser)
    parser.add_argument("--at", metavar="TIME", help=f"the cycle in force then ({IN_UTC}; default: the newest)")
    parser.add_argument("--from", dest="first", metavar="TIME", help="all cycles from then on")
    parser.add_argument("--to", dest="last", metavar="TIME", help="all cycles up to then; a date is its whole day")
    add_zone(parser)
    parser.add_argument("--json", action="store_true", help="for a program")
    parser.set_defaults(run=run)


def add_lake(parser: argparse.ArgumentParser) -> None:
    """Where the tables are, and of which cluster."""
    parser.add_argument("--lake", metavar="DIR", help="where the tables are (default: $EVENKEEL_LAKE)")
    parser.add_argument("--cluster", metavar="NAME", help="needed where several clusters have the same name in them")


def add_zone(parser: argparse.ArgumentParser) -> None:
    """The zone of times that are given without one, and of those that are printed."""
    parser.add_argument("--tz", metavar="ZONE", help="read and print times there, like Europe/Berlin (default: UTC)")


def lake_of(given: argparse.Namespace) -> str:
    """The lake that was named; BadInput where none was."""
    lake: str | None = given.lake or os.environ.get("EVENKEEL_LAKE")
    if not lake:
        raise BadInput("no lake is named: give --lake DIR, or set EVENKEEL_LAKE.")
    return lake


def run(given: argparse.Namespace) -> int:
    """Prints the explanation."""
    from evenkeel.record.explain import as_json, as_text, explain, times

    when = times(given.at, given.first, given.last, given.tz)
    found = explain(lake_of(given), given.subject, cluster=given.cluster, when=when)
    print(as_json(found) if given.json else as_text(found, when.where), end="\n" if given.json else "")
    return 0
