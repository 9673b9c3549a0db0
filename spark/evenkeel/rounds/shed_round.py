"""Shedding of one cluster in one cycle (Pulsar: LoadSheddingTask, ModularLoadManagerImpl.doLoadShedding)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.decisions.acts.settling import recently_unloaded
from evenkeel.decisions.placement.gates import unload_gates
from evenkeel.decisions.shedding.frame import run_shedding
from evenkeel.rounds import reading, state, wishes
from evenkeel.rounds.loads import load_of, owned_of
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import named, telling
from evenkeel.rounds.shed_rows import silent_brokers
from evenkeel.rounds.steering import acts_before


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `unload_decisions`, for every broker and bundle considered and every wish, and of `strategy_state`.

    `state` holds the predecessor's rows. A cycle inside the shedding interval is `not_due` and hands the state on as
    it was.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    shedder = settings.loadBalancerLoadSheddingStrategy
    wished = wishes.granted_unloads(rows)
    gone = state.assumed_unloaded(rows["state"]) | recently_unloaded(acts_before(cycle))
    load = replace(load_of(rows), recently_unloaded=gone, wished=wishes.unloaded_by(wished))
    made = run_shedding(
        load,
        state.shedder_state(rows["state"], shedder),
        unload_gates(load, reading.policies(rows), settings, owned=owned_of(rows, load)),
        settings,
        now=datetime.fromisoformat(cycle["cycle_at"]),
        last_shed_at=state.shed_at(rows["state"]),
    )
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    told = telling((*made.considered, *silent_brokers(rows)), rows)
    verdicts = [named(verdict, cycle["cluster"]) for verdict in told]
    found = wishes.with_unloads(verdicts, shedder, wished)
    kept = state.state_rows(shedder, made.state, made.shed_at, made.recently_unloaded)
    return {
        "unload_decisions": [{**row, **stamp} for row in found],
        "strategy_state": [{**row, **stamp} for row in kept],
    }
