"""Transfers of one cluster in one cycle (Pulsar: UnloadScheduler, TransferShedder).

A bundle's destination, where the shedder names one, is the "best" alternative of its row. The extensible manager has no
other shedder: Pulsar takes TransferShedder whatever modular class the settings name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.decisions.acts.act import Act
from evenkeel.decisions.acts.settling import brokers_unloaded
from evenkeel.decisions.shedding.extensible_frame import TransferRound, run_transfers
from evenkeel.decisions.shedding.transfer_shedder import TransferState
from evenkeel.rounds import reading, state, wishes
from evenkeel.rounds.extensible_loads import SHEDDER, Remembered, see
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import named, telling
from evenkeel.rounds.shed_rows import silent_brokers
from evenkeel.rounds.steering import acts_before
from evenkeel.settings import Settings

HITS = "hits"
UNLOADED_AT = "unloaded_at"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `unload_decisions`, for the cluster, every broker and the bundles looked at, and of `strategy_state`.

    `state` holds the predecessor's rows. A cycle inside the shedding interval is `not_due`: hits and unloads are handed
    on as they were, while load averages move on all the same.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    before = state.shedder_state(rows["state"], SHEDDER)
    seen = see(rows, before, settings)
    now = datetime.fromisoformat(cycle["cycle_at"])
    wished, acts = wishes.granted_unloads(rows), acts_before(cycle)
    made = run_transfers(
        replace(seen.load, wished=wishes.unloaded_by(wished)),
        _state_of(before, acts),
        reading.policies(rows),
        seen.owners,
        settings,
        now=now,
        last_shed_at=state.shed_at(rows["state"]),
    )
    after = {**seen.averages, **_remember(made, settings, now)}
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    # A round that ran has its own rows about brokers without load data.
    silent = () if made.status == "ran" else silent_brokers(rows)
    verdicts = [named(verdict, cycle["cluster"]) for verdict in telling((*made.considered, *silent), rows)]
    found = wishes.with_unloads(verdicts, SHEDDER, wished)
    kept = state.state_rows(SHEDDER, after, made.shed_at, made.recently_unloaded)
    return {
        "unload_decisions": [{**row, **stamp} for row in found],
        "strategy_state": [{**row, **stamp} for row in kept],
    }


def _state_of(before: Remembered, acts: Iterable[Act]) -> TransferState:
    unloaded = {broker: int(at) for broker, at in before.get(UNLOADED_AT, {}).items()}
    for broker, at in brokers_unloaded(acts).items():
        unloaded[broker] = max(at, unloaded.get(broker, at))
    return TransferState(int(before.get(HITS, {}).get(state.THE_CLUSTER, 0)), unloaded)


def _remember(made: TransferRound, settings: Settings, now: datetime) -> dict[str, Mapping[str, float]]:
    """Hits and brokers that gave bundles away, with evenkeelAssumeUnloadsSucceed also those of this cycle."""
    unloaded = {broker: float(at) for broker, at in made.state.recently_unloaded.items()}
    if settings.evenkeelAssumeUnloadsSucceed:
        unloaded |= {transfer.source: now.timestamp() * 1_000 for transfer in made.transfers}
    return {HITS: {state.THE_CLUSTER: float(made.state.hits)}, UNLOADED_AT: unloaded}
