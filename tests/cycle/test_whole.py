"""Whole cycles in memory: whoever is asked for acts alone, or shares what was worked out, comes to the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from evenkeel.cycle import whole
from evenkeel.rounds import reading
from evenkeel.rounds.memo import SharedRows
from evenkeel.settings import resolve
from tests.cycle.whole_cycles import EAGER, VARIANTS, cycles

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def acts(made: whole.DecidedCycle) -> list[tuple[Any, ...]]:
    names = ("kind", "bundle", "from_broker", "destination", "cuts", "step")
    return [tuple(map(str, (row[name] for name in names))) for row in made.rows["commands"]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shedder", VARIANTS)
def test_acts_alone_and_shared_work_change_neither_acts_nor_state(shedder: str, seed: int) -> None:
    overrides = {**EAGER, "loadBalancerLoadSheddingStrategy": shedder, **VARIANTS[shedder]}
    settings = resolve(observed=None, overrides=overrides)
    state: list[Any] = []
    seen = 0
    for at, rows in cycles(settings, seed):
        cycle = reading.cycle_row("lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager)
        thorough = whole.decide(rows, cycle, state)
        shared = SharedRows(rows)
        first = whole.decide(shared, cycle, state)
        few = whole.decide(SharedRows(rows, shared.known, acts_only=True), cycle, state)
        assert first.rows == thorough.rows
        assert first.plan_id == thorough.plan_id != "" == few.plan_id
        assert acts(few) == acts(thorough)
        assert few.rows[whole.STATE] == thorough.rows[whole.STATE]
        without = {"plan_id"}
        assert {k: v for k, v in few.plan.figures.items() if k not in without} == {
            k: v for k, v in thorough.plan.figures.items() if k not in without
        }
        state = list(thorough.rows[whole.STATE])
        seen += len(thorough.plan.commands) + thorough.plan.figures["held"]
    assert seen > 0
