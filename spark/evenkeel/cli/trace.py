"""`evenkeel trace`: what a decision rests on, and what rests on an input."""

from __future__ import annotations

import argparse

from evenkeel.cli.explain import add_lake, add_zone, lake_of
from evenkeel.errors import BadInput
from evenkeel.times import IN_UTC


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Prints the trace."""
    from evenkeel.record import trace
    from evenkeel.record.explain import times

    when, lake = times(given.at, given.first, given.last, given.tz), lake_of(given)
    if given.broker is None and when.is_range:
        raise BadInput("--from and --to go with --broker: a subject has --at, a write and a snapshot have no time.")
    if given.subject is None and when.at is not None:
        raise BadInput("--at goes with a subject: give --from and --to for a broker.")
    found: trace.Inputs | trace.Dependents
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
