"""`evenkeel pause`, `resume`, `approve` and `reject`: an operator's controls and answers for publishers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from evenkeel.cli.options import add_on_record, check_folder, said_by
from evenkeel.cli.output import add_json, print_result
from evenkeel.errors import BadInput, NoSuchCycle, SettingsError
from evenkeel.lake.controls import (
    APPROVED,
    PAUSE,
    REJECTED,
    RESUME,
    WITHOUT_SPLITS,
    answer_row,
    control_row,
    said_last,
)
from evenkeel.lake.record import Attempt, Record, read_where
from evenkeel.lake.record.ranges import nearest
from evenkeel.lake.record.tables import is_table
from evenkeel.lake.store import Lake, append_row
from evenkeel.report.plan_cost import asked_bundles

if TYPE_CHECKING:
    from evenkeel.sources.configuration import QueueSource

_SHORTEST = 6


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of all four."""
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


def run_control(kind: str, given: argparse.Namespace) -> int:
    """Record a pause or a resumption, then notify the agent; a publisher at work looks once a second.

    Faults of the request are found first; an unreachable queue does not prevent the record.
    """
    queues = _queues(given.config, given.cluster) if given.config else None
    check_folder(given.lake, "--lake")
    if queues is None:
        _demand_known(given.lake, given.cluster)
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
    row = said_last(row, read_where(lake, table, same) if is_table(lake, table) else ())
    append_row(Lake(lake), table, row)
    return row


def _demand_known(lake: str, cluster: str) -> None:
    """Raise NoSuchCycle, with the nearest name, for a cluster that is not in the lake."""
    record = Record(lake)
    known = sorted(
        {
            cluster_name
            for table in ("cycles", "broker_reports", "commands")
            for cluster_name in record.files(table).clusters()
        }
    )
    if cluster not in known:
        raise NoSuchCycle(
            f"nothing of a cluster {cluster!r} is on record in {lake}.{nearest(cluster, known)} Nothing was changed. "
            "For a cluster that has not run yet, give --config with the file that names it"
        )


def _queues(configuration: str, cluster: str) -> QueueSource:
    from evenkeel.sources.configuration import choose, read_configuration

    (source,) = choose(read_configuration(configuration), [cluster])
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
