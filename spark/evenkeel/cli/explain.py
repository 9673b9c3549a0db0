"""`evenkeel explain` and `evenkeel trace`: reasons of decisions, their inputs, and the dependents of an input."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TypeVar

from evenkeel.cli.lakes import ALL, LAKE_UNREAD, add_lake_option, each_of, first_with, lakes_chosen, say_unread
from evenkeel.cli.output import busy_with
from evenkeel.errors import BadInput, EvenkeelError, NoLake, NoSuchCycle
from evenkeel.times import IN_UTC

_Found = TypeVar("_Found")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `explain` and of `trace`."""
    parser = commands.add_parser("explain", help="say why something was decided, and what would have changed it")
    parser.add_argument("subject", metavar="SUBJECT", help="a bundle, a topic, a broker (host:port) or a command id")
    _add_place(parser)
    parser.add_argument("--at", metavar="TIME", help=f"the cycle in force at that time ({IN_UTC}; default: the newest)")
    parser.add_argument("--from", dest="first", metavar="TIME", help="all cycles from then on")
    parser.add_argument("--to", dest="last", metavar="TIME", help="all cycles up to then; a date is its whole day")
    _add_form(parser)
    parser.set_defaults(run=run_explain)
    _add_trace(commands)


def _add_place(parser: argparse.ArgumentParser) -> None:
    """Add the options for the lake and the cluster."""
    add_lake_option(parser, ALL)
    parser.add_argument("--cluster", metavar="NAME", help="needed where several clusters have the same name in them")


def _add_form(parser: argparse.ArgumentParser) -> None:
    """Add the options for the zone of times that are given without one and of those printed, and for JSON."""
    parser.add_argument("--tz", metavar="ZONE", help="read and print times there, like Europe/Berlin (default: UTC)")
    parser.add_argument("--json", action="store_true", help="for a program")


def _answered(
    given: argparse.Namespace,
    read: Callable[[str], _Found],
    as_text: Callable[[_Found], str],
    as_json: Callable[[_Found], str],
) -> int:
    """Print the answer, with its lake if there are several; return the exit code."""
    with busy_with("reading the record"):
        lake, found, is_whole = _asked_of(given, read)
    if not given.json:
        print(f"in the lake {lake}:\n{as_text(found)}" if lake else as_text(found), end="")
    elif lake:
        version, *others = json.loads(as_json(found)).items()
        print(json.dumps(dict([version, ("lake", lake), *others]), ensure_ascii=False, indent=2))
    else:
        print(as_json(found))
    return 0 if is_whole else LAKE_UNREAD


def _asked_of(given: argparse.Namespace, read: Callable[[str], _Found]) -> tuple[str, _Found, bool]:
    """Return the result of `read` in the named cluster's lake, else in the only lake that has the subject.

    With it come the lake's name ("": there is only one), and True if all lakes could be read. BadInput if several have
    it, the first error if none has.
    """
    lakes = lakes_chosen(given)
    if not lakes.is_several:
        return "", read(lakes.lakes[0].path), True
    if given.cluster is not None:
        names = {lake.path: lake.name for lake in lakes.lakes}
        return first_with(lakes, lambda path: (names[path], read(path), True), given.cluster)
    answers: dict[str, _Found] = {}
    missing: list[Exception] = []
    unread = 0
    for lake, answer in each_of(lakes, read):
        if isinstance(answer, BadInput | NoSuchCycle | NoLake):
            missing.append(answer)
        elif isinstance(answer, EvenkeelError | OSError):
            say_unread(lake, answer)
            missing.append(answer)
            unread += 1
        else:
            answers[lake.name] = answer
    if len(answers) > 1:
        raise BadInput(f"the lakes {' and '.join(answers)} have it: give --cluster, or --lake with one of these names.")
    if not answers:
        raise missing[0]
    ((name, only),) = answers.items()
    return name, only, not unread


def run_explain(given: argparse.Namespace) -> int:
    """Print the explanation."""
    from evenkeel.explain import Course, Moment, as_json, as_text, explain, times

    when = times(given.at, given.first, given.last, given.tz)

    def read(lake: str) -> Moment | Course:
        return explain(lake, given.subject, cluster=given.cluster, when=when)

    return _answered(given, read, lambda found: as_text(found, when.where), as_json)


# `evenkeel trace`: inputs of a decision, and dependents of an input.


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
    _add_place(parser)
    parser.add_argument(
        "--at", metavar="TIME", help=f"of a subject: the cycle in force at that time ({IN_UTC}; default: the newest)"
    )
    parser.add_argument("--from", dest="first", metavar="TIME", help="of a broker: reports from then on")
    parser.add_argument(
        "--to", dest="last", metavar="TIME", help="of a broker: reports up to then; a date is its whole day"
    )
    _add_form(parser)
    parser.set_defaults(run=run_trace)


def run_trace(given: argparse.Namespace) -> int:
    """Print the trace."""
    from evenkeel.explain import times, trace

    when = times(given.at, given.first, given.last, given.tz)
    if given.broker is None and when.is_range:
        raise BadInput("--from and --to go with --broker: a subject has --at, a write and a snapshot have no time.")
    if given.subject is None and when.at is not None:
        raise BadInput("--at goes with a subject: give --from and --to for a broker.")

    def read(lake: str) -> trace.Inputs | trace.Dependents:
        if given.broker is not None:
            return trace.of_broker(lake, given.broker, cluster=given.cluster, when=when)
        if given.write is not None:
            return trace.of_write(lake, given.write, cluster=given.cluster)
        if given.snapshot is not None:
            return trace.of_snapshot(lake, given.snapshot, cluster=given.cluster)
        return trace.inputs(lake, given.subject, cluster=given.cluster, when=when)

    return _answered(given, read, lambda found: trace.as_text(found, when.where), trace.as_json)
