"""Whole cycles in memory: whoever is asked for acts alone, or shares what was worked out, comes to the same."""

from datetime import UTC, datetime
from typing import Any

import pytest

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.settings import resolve
from tests.cycle.whole_cycles import EAGER, VARIANTS, cycles

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def acts(made: whole.DecidedCycle) -> list[tuple[Any, ...]]:
    names = ("kind", "bundle", "from_broker", "destination", "cuts", "step")
    return [tuple(map(str, (row[name] for name in names))) for row in made.rows["commands"]]


OF_LAB = {"clusters": {"an attempt": "lab"}}
TO_THE_WORD, IN_OTHER_WORDS = {**OF_LAB, "to_the_word": ["an attempt"]}, {**OF_LAB, "to_the_word": []}


@pytest.mark.parametrize(
    ("change", "parameters", "differing", "reworded"),
    [
        ({}, TO_THE_WORD, [], []),
        ({"sentence": "In the words of then."}, TO_THE_WORD, ["unload_decisions"], []),
        ({"sentence": "In the words of then."}, IN_OTHER_WORDS, [], ["unload_decisions"]),
        ({"sentence": "In the words of then.", "rule": "another"}, IN_OTHER_WORDS, ["unload_decisions"], []),
        ({"measured": 1e9}, IN_OTHER_WORDS, ["unload_decisions"], []),
    ],
)
def test_other_words_are_told_from_another_decision(
    change: dict[str, Any], parameters: dict[str, Any], differing: list[str], reworded: list[str]
) -> None:
    settings = resolve(observed=None, overrides={**EAGER, "loadBalancerLoadSheddingStrategy": "ThresholdShedder"})
    at, rows = cycles(settings, 1)[0]
    cycle = reading.cycle_row("lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager)
    made = whole.decide(rows, cycle, [])
    kept = {table: [dict(row) for row in made.rows[table]] for table in whole.OUTPUTS}
    kept["unload_decisions"][0].update(change)
    recorded = {whole.recorded(table): found for table, found in kept.items()}
    given = {**rows, "cycle": [cycle], "state": [], "topic_hashes": [], **recorded}
    found = whole.compare_decisions({"cluster": "an attempt"}, given, parameters=parameters)
    assert [row["table_name"] for row in found[whole.DIFFERING]] == differing
    assert [row["table_name"] for row in found[whole.REWORDED]] == reworded
    assert set(found) == {whole.PLAN, whole.DIFFERING, whole.REWORDED, *differing}


def test_what_the_planner_said_is_held_against_what_it_says_now() -> None:
    settings = resolve(observed=None, overrides={**EAGER, "evenkeelPlanner": "shadow"})
    at, rows = cycles(settings, 1)[0]
    cycle = reading.cycle_row("lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager)
    made = whole.decide(rows, cycle, [])
    kept = {table: [dict(row) for row in made.rows[table]] for table in whole.OUTPUTS}
    for changed, differing in (({}, []), ({"measured": 1e9}, ["planner_targets"])):
        kept["planner_targets"][0].update(changed)
        recorded = {whole.recorded(table): found for table, found in kept.items()}
        given = {**rows, "cycle": [cycle], "state": [], "topic_hashes": [], **recorded}
        found = whole.compare_decisions({"cluster": "an attempt"}, given, parameters=IN_OTHER_WORDS)
        assert [row["table_name"] for row in found[whole.DIFFERING]] == differing
        assert [row["plan_id"] for row in found[whole.PLAN]] == [made.plan_id]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shedder", VARIANTS)
def test_a_planner_that_only_looks_on_changes_nothing_else(shedder: str, seed: int) -> None:
    overrides = {**EAGER, "loadBalancerLoadSheddingStrategy": shedder, **VARIANTS[shedder]}
    off, shadow = (resolve(observed=None, overrides=overrides | {"evenkeelPlanner": m}) for m in ("off", "shadow"))
    assert off.digest != shadow.digest
    states: dict[str, list[Any]] = {"off": [], "shadow": []}
    for at, rows in cycles(off, seed):
        made = {}
        for mode, settings in (("off", off), ("shadow", shadow)):
            cycle = reading.cycle_row("lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager)
            made[mode] = whole.decide(rows, cycle, states[mode])
            states[mode] = list(made[mode].rows[whole.STATE])
        assert made["shadow"].plan_id == made["off"].plan_id
        assert made["shadow"].plan == made["off"].plan
        for table, found in made["off"].rows.items():
            own = [row for row in made["shadow"].rows[table] if row.get("strategy") != "Planner"]
            assert (own if table not in PLANNER_TABLES else []) == found, table
        assert all(made["shadow"].rows[table] for table in ("planner_targets", "planner_models"))
        assert any(row["strategy"] == "Planner" for row in states["shadow"])


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
