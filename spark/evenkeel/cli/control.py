"""`evenkeel pause`, `resume`, `approve`, `reject`, `takeover` and `handback`: an operator's controls, recorded.

The first four are controls and answers for publishers. The last two switch the brokers' own shedding and auto-split off
and back.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from evenkeel.cli.lakes import known_record
from evenkeel.cli.options import add_on_record, check_folder, configured_source, said_by
from evenkeel.cli.output import add_json, busy_with, print_result
from evenkeel.errors import BadInput, SettingsError
from evenkeel.lake.controls import (
    APPROVED,
    HANDBACK,
    PAUSE,
    REJECTED,
    RESUME,
    TAKEOVER,
    WITHOUT_SPLITS,
    answer_row,
    control_row,
    last_switches,
    said_last,
)
from evenkeel.lake.record import Attempt, Record, read_table
from evenkeel.lake.record.tables import is_table
from evenkeel.lake.store import Lake, append_row
from evenkeel.pulsar.admin import AdminClient
from evenkeel.report.plan_cost import asked_bundles
from evenkeel.steering.broker_switches import OFF, Values

if TYPE_CHECKING:
    from evenkeel.sources.configuration import QueueSource


_SHORTEST = 6


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of all six."""
    for word, kind, text in (
        ("pause", PAUSE, "send a cluster no further command, at once, until it is resumed"),
        ("resume", RESUME, "let a paused cluster be steered again"),
    ):
        parser = commands.add_parser(word, help=text)
        parser.add_argument("cluster", metavar="CLUSTER")
        parser.add_argument(
            "--config", metavar="FILE", help="notify the cluster's agent too, by the queue in this file"
        )
        add_on_record(parser, "why; it is shown wherever the pause is")
        add_json(parser)
        parser.set_defaults(run=partial(run_control, kind))
    for word, answer in (("approve", APPROVED), ("reject", REJECTED)):
        parser = commands.add_parser(word, help=f"{word} a plan that waits for it")
        parser.add_argument("plan", metavar="PLAN", help=f"its plan id, or the first {_SHORTEST} or more signs of it")
        add_on_record(parser, "what else there is to say")
        add_json(parser)
        parser.set_defaults(run=partial(run_answer, answer), without_splits=False)
        if answer == APPROVED:
            text = "send no command that splits a bundle, or that rests on a split; the others are sent"
            parser.add_argument("--without-splits", action="store_true", help=text)
    for word, run, text in (
        ("takeover", run_takeover, "switch the brokers' own shedding and auto-split off, so that a cluster is steered"),
        ("handback", run_handback, "give a cluster back to its brokers, with their switches as they were before"),
    ):
        parser = commands.add_parser(word, help=text)
        parser.add_argument("cluster", metavar="CLUSTER")
        parser.add_argument("--config", required=True, metavar="FILE", help="the configuration that names its brokers")
        add_on_record(parser, "reason, which is recorded")
        add_json(parser)
        parser.set_defaults(run=run)


def run_control(kind: str, given: argparse.Namespace) -> int:
    """Record a pause or a resumption, then notify the agent; a publisher at work looks once a second.

    Faults of the request are found first; an unreachable queue does not prevent the record.
    """
    queues = _queues(given.config, given.cluster) if given.config else None
    check_folder(given.lake, "--lake")
    if queues is None:
        known_record(
            given.lake, given.cluster, "For a cluster that has not run yet, give --config with the file that names it"
        )
    row = control_row(given.cluster, kind, said_by(given), given.reason)
    row = say(given.lake, "controls", row, cluster=[given.cluster], kind=[PAUSE, RESUME])
    state = "is paused: no further command goes out" if kind == PAUSE else "may be steered again from its next cycle on"
    if not given.json:
        print(f"{given.cluster} {state}", flush=True)
    if queues is not None:
        _tell_agent(queues, row)
    result = {"cluster": given.cluster, "kind": kind, **{name: row[name] for name in ("at", "by", "reason")}}
    if given.json:
        print_result(given, "", {**result, "agent_told": queues is not None})
    elif queues is None:
        print("An agent beside it, if there is one, gets it with the next publish; --config sends it at once")
    return 0


def say(lake: str, table: str, row: dict[str, Any], **same: Sequence[str]) -> dict[str, Any]:
    """Record a control after all others on the same (column -> values); return it as recorded.

    By its own clock alone, a pause of an operator whose clock is behind would be older than the resumption before it.
    """
    row = said_last(row, read_table(lake, table, same) if is_table(lake, table) else ())
    append_row(Lake(lake), table, row)
    return row


def _queues(configuration: str, cluster: str) -> QueueSource:
    source = configured_source(configuration, cluster)
    if source.queues is None:
        raise BadInput(f"{configuration} names no `queue` for {cluster}: leave out --config, or name it there")
    return source.queues


def _tell_agent(queues: QueueSource, row: Mapping[str, Any]) -> None:
    from evenkeel.steering.queue.fifo import QueueError
    from evenkeel.steering.queue.signing import Signature, resolved_keys
    from evenkeel.steering.sqs import SqsSink

    try:
        signature = Signature(row["cluster"], resolved_keys(queues.keys))
        sink = SqsSink(signature, queues.commands, queues.reports)
        sink.control(row["kind"], made_at=row["at"], by=row["by"], reason=row["reason"] or "")
    except (QueueError, SettingsError) as error:
        raise type(error)(
            f"the {row['kind']} of {row['cluster']} is on record and holds for every publisher, but its agents "
            f"did not get it: {error}. Run the same command again, or make the file at which its agents stop "
            "(`paused_file`)"
        ) from error


def run_answer(answer: str, given: argparse.Namespace) -> int:
    """Record an answer to a plan."""
    attempt = _waiting(given.lake, given.plan)
    plan = str(attempt.plan_id)
    if given.without_splits:
        if not asked_bundles(given.lake, attempt, "splits"):
            raise BadInput(f"plan {plan[:12]} of {attempt.cluster} asks for no split: approve it without this option")
        answer = WITHOUT_SPLITS
    row = answer_row(attempt.cluster, plan, answer, said_by(given), given.reason)
    row = say(given.lake, "approvals", row, plan_id=[plan])
    words = f"plan {plan[:12]} of {attempt.cluster} at {attempt.cycle_at.isoformat()} is {answer.replace('_', ' ')}"
    result = {"cluster": attempt.cluster, "plan_id": plan, "cycle_at": attempt.cycle_at, "answer": answer}
    print_result(given, words, {**result, "at": row["at"], "by": row["by"], "reason": row["note"]})
    return 0


def _waiting(lake: str, plan: str) -> Attempt:
    """Return the attempt whose plan is meant. Only an attempt with a plan for approval can be."""
    if len(plan) < _SHORTEST:
        raise BadInput(f"{plan!r} is too short for a plan id: give at least {_SHORTEST} signs of it")
    record = Record(lake)
    attempts = [one for name in record.clusters() for one in record.planned(name, plan) if one.mode == "approve"]
    plans = sorted({str(attempt.plan_id) for attempt in attempts})
    if len(plans) > 1:
        raise BadInput(
            f"{plan} fits {len(plans)} plans: {', '.join(plan_id[:16] for plan_id in plans)}. Give more signs of it"
        )
    if not attempts:
        raise BadInput(f"no plan {plan} of a cycle in mode `approve` is on record in {lake}")
    return attempts[-1]


def run_takeover(given: argparse.Namespace) -> int:
    """Record the switches, then switch them off and wait until every broker reports so."""
    from evenkeel.steering.broker_switches import await_off, dynamic_values, set_values

    with _client(given) as client:
        noted = _noted(given)
        before = dynamic_values(client)
        if noted is None:  # recorded before any change, so that a second takeover still knows the first state
            _record(given, TAKEOVER, before)
        set_values(client, dict.fromkeys(before, OFF))
        with busy_with("waiting until every broker says that it is off"):
            await_off(client)
    restored = before if noted is None else noted
    words = (
        f"the brokers of {given.cluster} neither shed nor split by themselves any more\n"
        f"`evenkeel handback {given.cluster}` restores their switches: {_in_words(restored)}"
    )
    print_result(given, words, {"cluster": given.cluster, "kind": TAKEOVER, "switches": dict(restored)})
    return 0


def run_handback(given: argparse.Namespace) -> int:
    """Set the switches to their values before the takeover."""
    from evenkeel.steering.broker_switches import set_values

    noted = _noted(given)
    if noted is None:
        raise BadInput(
            f"no takeover of {given.cluster} is on record in {given.lake}, so it is not known what its switches were: "
            "set them by `pulsar-admin brokers update-dynamic-config` or `delete-dynamic-config`"
        )
    with _client(given) as client:
        set_values(client, noted)
    _record(given, HANDBACK, noted)
    words = f"{given.cluster} is its brokers' own again: {_in_words(noted)}"
    print_result(given, words, {"cluster": given.cluster, "kind": HANDBACK, "switches": dict(noted)})
    return 0


def _noted(given: argparse.Namespace) -> Values | None:
    """Return the values before the takeover in force, None if no takeover is."""
    return last_switches(read_table(given.lake, "controls", {"cluster": [given.cluster]}))


def _record(given: argparse.Namespace, kind: str, values: Values) -> None:
    row = control_row(given.cluster, kind, said_by(given), given.reason)
    row["switches"] = json.dumps(values, sort_keys=True)
    say(given.lake, "controls", row, cluster=[given.cluster], kind=[TAKEOVER, HANDBACK])


def _client(given: argparse.Namespace) -> AdminClient:
    from evenkeel.pulsar.admin.connection import from_environment
    from evenkeel.sources.collecting import connection_of

    source = configured_source(given.config, given.cluster)
    if source.live is None:
        raise SettingsError(
            f"{given.config} names no `admin` for {given.cluster}: its brokers cannot be reached from this machine"
        )
    return AdminClient(connection_of(source.live, from_environment))


def _in_words(values: Values) -> str:
    by_file = "as the brokers' files say"
    return ", ".join(f"{key} {by_file if value is None else value}" for key, value in sorted(values.items()))
