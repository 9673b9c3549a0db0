"""The guards over a plan's commands: from rows to the situation they look at, and from their verdicts to rows.

Harm of past commands is part of the situation. It is searched in every cycle, recorded beside `done`, and handed to the
guards. The state of a bundle before its command is in the command itself (`commands.clients`). So a later cycle needs
only the command and its own `bundle_load`. Harm is a row of `outcomes` with the outcome `harmed`, beside the command's
own outcome. Later cycles read it with the commands of the previous day.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.memo import once
from evenkeel.cycle.reading import Row, Rows
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.model.bundles import namespace_of
from evenkeel.model.harm import clients_of, harm_of, is_watched, samples_of, together
from evenkeel.model.past_commands import HARMED, Act, act_of, past_moves, unsettled_brokers, unsettled_bundles
from evenkeel.publish.commands import Wanted
from evenkeel.publish.guards.hold_back import hold_back, sentence
from evenkeel.publish.guards.situation import Broker, Command, Harm, Pause, Situation, Unsettled, Verdict, overlaps
from evenkeel.settings import Settings


def guarded(
    rows: Rows, commands: Sequence[Wanted], settings: Settings, harms: Sequence[Harm] = ()
) -> tuple[list[Wanted], list[dict[str, Any]]]:
    """Return the allowed commands, in the plan's order, and the rows of `guard_decisions`.

    Beside the decisions' own figures the guards use the past: earlier commands with their observed outcomes, figures
    that are not trusted yet, pauses, and `harms`.
    """
    if not commands:
        return [], []
    situation = situation_of(rows, commands, settings, harms)
    verdicts = hold_back(situation, settings)
    cluster = reading.the_cycle(rows)["cluster"]
    return [commands[index] for index in verdicts.allowed], [
        _row(verdict, commands, cluster) for verdict in verdicts.verdicts
    ]


def throughput(row: Row, prefix: str = "") -> float:
    """Return the throughput in and out, byte/s; unknown figures count as 0."""
    return float((row[f"{prefix}msg_throughput_in"] or 0.0) + (row[f"{prefix}msg_throughput_out"] or 0.0))


def situation_of(rows: Rows, commands: Sequence[Wanted], settings: Settings, harms: Sequence[Harm] = ()) -> Situation:
    """Return the guards' input."""
    cycle = reading.the_cycle(rows)
    now = datetime.fromisoformat(cycle["cycle_at"])
    traffic = _traffic_of_bundles(rows)
    acts = reading.acts_before(cycle)
    unsettled = [*unsettled_bundles(acts, now, settings).items(), *unsettled_brokers(acts, now, settings).items()]
    return Situation(
        cluster=cycle["cluster"],
        at=now,
        commands=tuple(_command(command, traffic) for command in commands),
        brokers=_brokers(rows),
        traffic=math.fsum(value for value in traffic.values() if value is not None),
        bundle_counts=_bundle_counts(rows),
        unclear=_unclear(rows),
        moves=past_moves(acts, now, settings),
        unsettled=[Unsettled(subject, event.until, event.why) for subject, event in unsettled],
        pauses=[Pause(row.get("reason") or "", row.get("by") or "") for row in reading.pauses(cycle)],
        harms=harms,
    )


@once
def _traffic_of_bundles(rows: Rows) -> dict[str, float | None]:
    return {row["bundle"]: _traffic(row) for row in rows["bundle_load"]}


@once
def _bundle_counts(rows: Rows) -> Counter[str]:
    return Counter(namespace_of(row["bundle"]) for row in rows["bundle_load"])


@once
def _unclear(rows: Rows) -> frozenset[str]:
    return frozenset(row["bundle"] for row in rows["bundle_load"] if row["ownership"] in reading.UNCLEAR)


def _command(act: Wanted, traffic: dict[str, float | None]) -> Command:
    """Return the command with the destination that placement expects, also if Pulsar does not get it."""
    asked, decision = act.command, act.decision
    return Command(
        kind=asked["kind"],
        bundle=asked["bundle"],
        source=asked["from_broker"],
        destination=decision["destination"] if asked["kind"] == "unload" else None,
        traffic=traffic.get(asked["bundle"]),
        cuts=len(asked["cuts"] or ()),
        topic=asked["topic"],
        wished=decision.get("strategy") in (BY_REQUEST, BY_DRAINING),
        asked_again=decision.get("strategy") == BY_DRAINING,
    )


def _traffic(row: Row) -> float | None:
    """A bundle's traffic in use, byte/s; None where neither direction is known."""
    known = (row["used_msg_throughput_in"], row["used_msg_throughput_out"])
    return None if all(figure is None for figure in known) else throughput(row, "used_")


def _brokers(rows: Rows) -> dict[str, Broker]:
    """Return every listed broker; one without a usable report has reported nothing."""
    given = {row["broker"]: row for row in rows["broker_reports"]}
    loads = {row["broker"]: row for row in rows["broker_load"]}
    usable = {row["broker"] for row in reading.usable_reports(rows)}
    at = reading.moment_of_ages(reading.the_cycle(rows))
    return {
        name: Broker(
            reported=name in usable,
            report_age=reading.report_age(given[name], at) if name in usable else None,
            usage=loads[name].get("weighted_usage") if name in usable else None,
            traffic=throughput(loads[name]) if name in usable else 0.0,
        )
        for name in sorted(given.keys() | loads.keys())
        if given.get(name, {}).get("is_listed") is not False
    }


def _row(verdict: Verdict, commands: Sequence[Wanted], cluster: str) -> dict[str, Any]:
    command, objection = verdict.command, verdict.objection
    decision = commands[verdict.position - 1].decision if command else {}
    return {
        "subject": command.bundle if command else cluster,
        "subject_kind": "bundle" if command else "cluster",
        "namespace": namespace_of(command.bundle) if command else None,
        "position": verdict.position,
        "kind": command.kind if command else None,
        "broker": command.source if command else None,
        "destination": command.destination if command else None,
        "outcome": verdict.outcome,
        "rule": objection.rule,
        "setting": objection.setting,
        "measured": _number(objection.measured),
        "threshold": _number(objection.threshold),
        "margin": _number(objection.margin),
        "unit": objection.unit or None,
        "numbers": {name: float(value) for name, value in sorted(objection.numbers.items())},
        "sentence": sentence(verdict, cluster),
        "wish_id": decision.get("wish_id"),
    }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


HarmSeen = tuple[Act, str]
"""A command, and the harm of it that this cycle was the first to see, in words."""


def harm_found(rows: Rows, settings: Settings) -> list[HarmSeen]:
    """Return past commands whose bundles were harmed in this cycle's observations, without already recorded harm.

    A command is not checked any more once a later one touched its bundle: either could have done the harm.
    """
    cycle = reading.the_cycle(rows)
    known = {row["command_id"] for row in reading.harm_rows(cycle)}
    now, before_at = datetime.fromisoformat(cycle["cycle_at"]), cycle.get("predecessor_cycle_at")
    previous = datetime.fromisoformat(before_at) if before_at else None
    given = {row["command_id"]: row for row in reading.act_rows(cycle) if row["command_id"] not in known}
    acts = reading.acts_before(cycle)
    watched = [
        candidate
        for candidate in acts
        if candidate.command_id in given and is_watched(candidate, now, previous, settings)
    ]
    seen = []
    for act in watched:
        samples = clients_of(given[act.command_id].get("clients"))
        bundle_rows = _rows_of(act, rows) if samples and not _is_followed(act, acts) else []
        harm = harm_of(samples, together(bundle_rows, now), _published(bundle_rows), settings) if bundle_rows else None
        if harm is not None:
            seen.append((act, harm))
    return seen


def harms(rows: Rows, seen: Sequence[HarmSeen]) -> list[Harm]:
    """Return all harm known so far, recorded or just found."""
    cycle = reading.the_cycle(rows)
    now = datetime.fromisoformat(cycle["cycle_at"])
    on_record = [(act_of(row), datetime.fromisoformat(row["seen_at"])) for row in reading.harm_rows(cycle)]
    return [Harm(act.bundle, act.kind, at) for act, at in (*on_record, *((act, now) for act, _ in seen))]


def outcome_rows(cluster: str, now: datetime, seen: Sequence[HarmSeen]) -> list[dict[str, Any]]:
    """The rows of `outcomes`; as every outcome they belong to the cycle of their command."""
    return [
        {
            "cluster": cluster,
            "cycle_at": act.cycle_at,
            "command_id": act.command_id,
            "outcome": HARMED,
            "seen_at": now,
            "detail": detail,
        }
        for act, detail in seen
    ]


def with_clients(commands: Sequence[Mapping[str, Any]], rows: Rows) -> list[dict[str, Any]]:
    """Return the commands with the state of their bundles at the decision, and in the previous cycle."""
    cycle, asked = reading.the_cycle(rows), {command["bundle"] for command in commands}
    loads = {row["bundle"]: row for row in rows["bundle_load"] if row["bundle"] in asked} if asked else {}
    before_at = cycle.get("predecessor_cycle_at")
    return [
        {**command, "clients": samples_of(loads.get(command["bundle"]), cycle["cycle_at"], before_at)}
        for command in commands
    ]


def _rows_of(act: Act, rows: Rows) -> list[Row]:
    """Return the rows of the bundle, or of the children of a split; empty if one of them is missing."""
    wanted = set(act.children()) if act.kind == "split" else {act.bundle}
    bundle_rows = [row for row in rows["bundle_load"] if row["bundle"] in wanted]
    return bundle_rows if len(bundle_rows) == len(wanted) else []


def _is_followed(act: Act, acts: Sequence[Act]) -> bool:
    return any(
        later.touched and later.cycle_at > act.cycle_at and overlaps(later.bundle, act.bundle)
        for later in acts
        if later != act
    )


def _published(bundle_rows: Sequence[Row]) -> float | None:
    rates = [row["used_msg_rate_in"] for row in bundle_rows]
    return None if any(rate is None for rate in rates) else math.fsum(rates)
