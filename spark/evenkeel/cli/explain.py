"""`evenkeel explain` and `evenkeel trace`: why something was decided, what it rests on, and what rests on an input."""

from __future__ import annotations

import argparse

from evenkeel.errors import BadInput
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.times import IN_UTC

_READING = "reading the record"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `explain` and of `trace`."""
    _add_explain(commands)
    _add_trace(commands)


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `explain`."""
    parser = commands.add_parser("explain", help="say why something was decided, and what would have changed it")
    parser.add_argument("subject", metavar="SUBJECT", help="a bundle, a topic, a broker (host:port) or a command id")
    add_lake(parser)
    parser.add_argument("--at", metavar="TIME", help=f"the cycle in force then ({IN_UTC}; default: the newest)")
    parser.add_argument("--from", dest="first", metavar="TIME", help="all cycles from then on")
    parser.add_argument("--to", dest="last", metavar="TIME", help="all cycles up to then; a date is its whole day")
    add_zone(parser)
    parser.add_argument("--json", action="store_true", help="for a program")
    parser.set_defaults(run=run_explain)


def add_lake(parser: argparse.ArgumentParser) -> None:
    """Where the tables are, and of which cluster."""
    parser.add_argument("--lake", metavar="DIR", help="where the tables are (default: $EVENKEEL_LAKE)")
    parser.add_argument("--cluster", metavar="NAME", help="needed where several clusters have the same name in them")


def add_zone(parser: argparse.ArgumentParser) -> None:
    """The zone of times that are given without one, and of those that are printed."""
    parser.add_argument("--tz", metavar="ZONE", help="read and print times there, like Europe/Berlin (default: UTC)")


def lake_of(given: argparse.Namespace) -> str:
    """The lake that was named; BadInput where none was."""
    lake: str | None = given.lake or ENVIRONMENT.get("EVENKEEL_LAKE")
    if not lake:
        raise BadInput("no lake is named: give --lake DIR, or set EVENKEEL_LAKE.")
    return lake


def run_explain(given: argparse.Namespace) -> int:
    """Prints the explanation."""
    from evenkeel.cli.progress import busy_with
    from evenkeel.record.explain import as_json, as_text, explain, times

    when, lake = times(given.at, given.first, given.last, given.tz), lake_of(given)
    with busy_with(_READING):
        found = explain(lake, given.subject, cluster=given.cluster, when=when)
    print(as_json(found) if given.json else as_text(found, when.where), end="\n" if given.json else "")
    return 0


# `evenkeel trace`: what a decision rests on, and what rests on an input.


def _add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `trace`."""
    parser = commands.add_parser("trace", help="say what a decision rests on, or what rests on an input")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "subject", nargs="?", metavar="SUBJECT", help="a bundle, topic, broker or command id: what it rests on (--at)"
    )
    asked.add_argument("--broker", metavar="HOST:PORT", help="what rests on its reports (--from, --to)")
    asked.add_argument("--write", metavar="WRITE_ID", help="what rests on a write")
    asked.add_argument("--snapshot", metavar="PATH", help="what rests on a landed snapshot")
    add_lake(parser)
    parser.add_argument(
        "--at", metavar="TIME", help=f"of a subject: the cycle in force then ({IN_UTC}; default: the newest)"
    )
    parser.add_argument("--from", dest="first", metavar="TIME", help="of a broker: reports from then on")
    parser.add_argument(
        "--to", dest="last", metavar="TIME", help="of a broker: reports up to then; a date is its whole day"
    )
    add_zone(parser)
    parser.add_argument("--json", action="store_true", help="for a program")
    parser.set_defaults(run=run_trace)


def run_trace(given: argparse.Namespace) -> int:
    """Prints the trace."""
    from evenkeel.cli.progress import busy_with
    from evenkeel.record import trace
    from evenkeel.record.explain import times

    when, lake = times(given.at, given.first, given.last, given.tz), lake_of(given)
    if given.broker is None and when.is_range:
        raise BadInput("--from and --to go with --broker: a subject has --at, a write and a snapshot have no time.")
    if given.subject is None and when.at is not None:
        raise BadInput("--at goes with a subject: give --from and --to for a broker.")
    found: trace.Inputs | trace.Dependents
    with busy_with(_READING):
        if given.broker is not None:
            found = trace.of_broker(lake, given.broker, cluster=given.cluster, when=when)
        elif given.write is not None:
            found = trace.of_write(lake, given.write, cluster=given.cluster)
        elif given.snapshot is not None:
            found = trace.of_snapshot(lake, given.snapshot, cluster=given.cluster)
        else:
            found = trace.inputs(lake, given.subject, cluster=given.cluster, when=when)
    print(trace.as_json(found) if given.json else trace.as_text(found, when.where), end="\n" if given.json else "")
    return 0
