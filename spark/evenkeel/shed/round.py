"""Shedding of one cluster in one cycle, by either load manager (Pulsar: LoadSheddingTask, UnloadScheduler)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.fold import THE_CLUSTER, Round, assumed_unloaded, fold, shed_at, shedder_state, state_rows
from evenkeel.cycle.loads import SHEDDER, load_of, owned_of, see
from evenkeel.cycle.reading import Decided, Row, Rows, acts_before
from evenkeel.cycle.reasons import named, telling
from evenkeel.manual_requests.drain import drained
from evenkeel.manual_requests.round import granted_unloads, unloaded_by, with_unloads
from evenkeel.model.consideration import Considered, Rule
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.past_commands import brokers_unloaded, recently_unloaded
from evenkeel.place.round import PLACE
from evenkeel.planner.round import TARGETS, decides
from evenkeel.settings import Settings, settings_in
from evenkeel.shed.schedule import TransferRound, run_shedding, run_transfers, within_grace
from evenkeel.shed.strategies import shedder_named
from evenkeel.shed.strategies.transfer_shedder import TransferState


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `unload_decisions` and `strategy_state`."""
    return reading.by_manager(rows, decide_modular, decide_extensible)(key, rows)


SHED = Round(decide, ("unload_decisions",))
PLACE_AHEAD = replace(PLACE, ahead_of="place")


def decide_cycles(key: Row, rows: Rows) -> Decided:
    """Shed in every cycle of a cluster (`fold`).

    With evenkeelAssumeUnloadsSucceed shedding reads the assumptions of the previous cycle's placement. In a window
    these are not written yet. So the fold places too; the place task decides and writes the same later.
    """
    texts = {cycle["settings"] for cycle in rows["cycle"]} - {None}
    assumes = any(settings_in(text).evenkeelAssumeUnloadsSucceed for text in texts)
    return fold((SHED, PLACE_AHEAD) if assumes else (SHED,), key, rows)


def decide_modular(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return rows of `unload_decisions`, for every considered broker, bundle and manual request, and of
    `strategy_state`.

    `state` holds the predecessor's rows. A cycle inside the shedding interval is `not_due` and hands the state on
    unchanged.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    shedder = settings.loadBalancerLoadSheddingStrategy
    wished = granted_unloads(rows)
    gone = assumed_unloaded(rows["state"]) | recently_unloaded(acts_before(cycle))
    drain = drained(rows, settings, unloaded_by(wished))
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    if decides(rows, settings):
        now = datetime.fromisoformat(cycle["cycle_at"])
        verdict_rows = [*planned_unloads(rows), *with_unloads([], shedder, wished), *drain.rows()]
        before = shedder_state(rows["state"], shedder)
        last, recent = shed_at(rows["state"]), within_grace(gone, now, settings)
        return _stamped(verdict_rows, state_rows(shedder, before, last, recent), stamp)
    load = replace(load_of(rows), recently_unloaded=gone, wished=unloaded_by(wished) | drain.leaving)
    decided = run_shedding(
        load,
        shedder_state(rows["state"], shedder),
        unload_gates(load, reading.policies(rows), settings, owned=owned_of(rows, load)),
        settings,
        now=datetime.fromisoformat(cycle["cycle_at"]),
        last_shed_at=shed_at(rows["state"]),
        shedder=shedder_named(shedder),
    )
    shown = telling((*drain.beside(decided.considered), *silent_brokers(rows)), rows)
    verdicts = [named(verdict, cycle["cluster"]) for verdict in shown]
    verdict_rows = [*with_unloads(verdicts, shedder, wished), *drain.rows()]
    return _stamped(verdict_rows, state_rows(shedder, decided.state, decided.shed_at, decided.recently_unloaded), stamp)


def _stamped(verdict_rows: Iterable[Row], kept: Iterable[Row], stamp: Row) -> dict[str, list[dict[str, Any]]]:
    return {
        "unload_decisions": [{**row, **stamp} for row in verdict_rows],
        "strategy_state": [{**row, **stamp} for row in kept],
    }


# Transfers of one cluster in one cycle (Pulsar: UnloadScheduler, TransferShedder).
#
# A bundle's destination, where the shedder names one, is the "best" alternative of its row. The extensible manager has
# no other shedder: Pulsar takes TransferShedder whatever modular class the settings name.

HITS = "hits"
UNLOADED_AT = "unloaded_at"


def decide_extensible(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `unload_decisions`, for the cluster, every broker and the bundles looked at, and of `strategy_state`.

    `state` holds the predecessor's rows. A cycle inside the shedding interval is `not_due`: hits and unloads are handed
    on as they were, while load averages move on all the same.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    before = shedder_state(rows["state"], SHEDDER)
    seen = see(rows, before, settings)
    now = datetime.fromisoformat(cycle["cycle_at"])
    wished, acts = granted_unloads(rows), acts_before(cycle)
    drain = drained(rows, settings, unloaded_by(wished))
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    if decides(rows, settings):
        verdict_rows = [*planned_unloads(rows), *with_unloads([], SHEDDER, wished), *drain.rows()]
        handed_on = {name: before[name] for name in (HITS, UNLOADED_AT) if name in before}
        last, recent = shed_at(rows["state"]), within_grace(seen.load.recently_unloaded, now, settings)
        return _stamped(verdict_rows, state_rows(SHEDDER, {**seen.averages, **handed_on}, last, recent), stamp)
    unloaded = {broker: int(at) for broker, at in before.get(UNLOADED_AT, {}).items()}
    for broker, at in brokers_unloaded(acts).items():
        unloaded[broker] = max(at, unloaded.get(broker, at))
    decided = run_transfers(
        replace(seen.load, wished=unloaded_by(wished) | drain.leaving),
        TransferState(int(before.get(HITS, {}).get(THE_CLUSTER, 0)), unloaded),
        reading.policies(rows),
        seen.owners,
        settings,
        now=now,
        last_shed_at=shed_at(rows["state"]),
    )
    after = {**seen.averages, **_remember(decided, settings, now)}
    # A round that ran has its own rows about brokers without load data.
    silent = () if decided.status == "ran" else silent_brokers(rows)
    verdicts = [
        named(verdict, cycle["cluster"]) for verdict in telling((*drain.beside(decided.considered), *silent), rows)
    ]
    verdict_rows = [*with_unloads(verdicts, SHEDDER, wished), *drain.rows()]
    return _stamped(verdict_rows, state_rows(SHEDDER, after, decided.shed_at, decided.recently_unloaded), stamp)


def _remember(decided: TransferRound, settings: Settings, now: datetime) -> dict[str, Mapping[str, float]]:
    """Return hits and brokers that gave bundles away, with evenkeelAssumeUnloadsSucceed also those of this cycle."""
    unloaded = {broker: float(at) for broker, at in decided.state.recently_unloaded.items()}
    if settings.evenkeelAssumeUnloadsSucceed:
        unloaded |= {transfer.source: now.timestamp() * 1_000 for transfer in decided.transfers}
    return {HITS: {THE_CLUSTER: float(decided.state.hits)}, UNLOADED_AT: unloaded}


NO_REPORT = Rule(
    "skipped",
    "no_report",
    lambda row: f"{row.subject} gave no load report: it counts neither as idle nor in the average, and gets no bundle.",
)


def silent_brokers(rows: Rows) -> list[Considered]:
    """Return brokers that cannot be decided on: their load is unknown, and so never counts as 0."""
    usable = {row["broker"] for row in reading.usable_reports(rows)}
    silent = sorted(row["broker"] for row in rows["broker_load"] if row["broker"] not in usable)
    return [NO_REPORT.about_broker(broker) for broker in silent]


_OF_TARGETS = frozenset({"destination", "position", "gain", "cost", "needs_split", "basis"})
"""Columns of `planner_targets` beside those of a reason."""


def planned_unloads(rows: Rows) -> list[dict[str, Any]]:
    """Return the planner's due moves as rows of `unload_decisions`, and the state of the cluster.

    In the order of the plan, each with the best alternative as its destination.
    """
    moves = [row for row in rows[TARGETS] if row["outcome"] == "unload" or row["subject_kind"] == "cluster"]
    return [
        {name: value for name, value in row.items() if name not in _OF_TARGETS}
        for row in sorted(moves, key=lambda row: (row["position"] or 0, row["subject"]))
    ]
