"""Cycles of a cluster cut into windows, by the folds that tasks run, come to what they come to one by one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.fold import FAILURES, STATE, Round, fold, read_back
from evenkeel.cycle.frames import linked, with_settings_once
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.handover import ClusterCycle, Handover, Predecessor, Run, Snapshot, Write
from evenkeel.lake.plain_rows import as_read
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.place import round as place_round
from evenkeel.plan_splits import round as split_round
from evenkeel.planner.memory import PlannerMemory, WantedSplit
from evenkeel.planner.round import rows_of
from evenkeel.publish import plan as plan_round
from evenkeel.settings import resolve
from evenkeel.shed import round as shed_round
from tests.cycle.whole_cycles import EAGER, VARIANTS, cycles
from tests.examples import at_most
from tests.shed.fitted import FITTED

KEY = {"cluster": "lab"}
DECIDED = ("split_decisions", "unload_decisions", "placement_decisions", "guard_decisions", "commands")
BY_TOPICS = {"defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide"}
Outcome = Mapping[str, list[Row]]


@cache
def decided(
    shedder: str, assuming: bool, seed: int, planner: str = "off"
) -> tuple[list[Row], dict[str, list[Row]], list[Outcome]]:
    """Cycle rows, observed rows with their cycle, and what each cycle comes to, decided one after the other."""
    overrides = {**EAGER, "loadBalancerLoadSheddingStrategy": shedder, **VARIANTS[shedder]}
    overrides |= {**FITTED[shedder], "evenkeelAssumeUnloadsSucceed": assuming, "evenkeelPlanner": planner}
    if "evenkeelManager" in overrides:
        overrides |= {"loadManagerClassName": "ExtensibleLoadManagerImpl"}
    found: list[Row] = []
    observed: dict[str, list[Row]] = {}
    answers: list[Outcome] = []
    state: list[Row] = []
    for number, (at, rows) in enumerate(cycles(resolve(observed=None, overrides=overrides), seed)):
        # The one in the middle is decided with other settings.
        other = {"loadBalancerNamespaceBundleMaxTopics": 6} if number == 3 else {}
        settings = resolve(observed=None, overrides=overrides | other)
        before = (found[-1]["cycle_at"], "used") if found else (None, "none")
        row = reading.cycle_row(
            "lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager, predecessor=before
        )
        made = whole.decide(rows, row, state)
        state = list(made.rows[whole.STATE])
        found.append(row)
        answers.append({**made.rows, "plan": [made.plan.figures]})
        stamp = {"cluster": "lab", "cycle_at": row["cycle_at"]}
        for table, own in rows.items():
            observed.setdefault(table, []).extend({**stamp, **one} for one in own)
    return found, observed, answers


def in_a_window(
    asked: Sequence[Row], observed: Rows, recorded: Sequence[Row], *, planner: str = "off", looks_ahead: bool = True
) -> Decided:
    """What the tasks write of these cycles, each task reading what the one before it wrote."""
    moments = {row["cycle_at"] for row in asked}
    rows: dict[str, Sequence[Row]] = {t: [r for r in own if r["cycle_at"] in moments] for t, own in observed.items()}
    rows |= {"cycle": with_settings_once(asked), "topic_hashes": (), "split_decisions": (), "unload_decisions": ()}
    written: Decided = {whole.STATE: []}

    def take(made: Decided) -> None:
        assert FAILURES not in made
        for table, own in made.items():
            if table == whole.STATE:
                written[table] += [as_read(table, row) for row in own]
            elif table in TABLES:
                written[table] = rows[table] = read_back(table, own)  # type: ignore[assignment]

    state = [*recorded]
    plan_splits = split_round.decide_cycles if planner == "off" else split_round.decide_and_plan_cycles
    take(plan_splits(KEY, {**rows, STATE: state}))
    given_shed = {**rows, STATE: [*recorded, *within(written, moments)]}
    if looks_ahead:
        take(shed_round.decide_cycles(KEY, given_shed))
    else:
        take(fold((shed_round.SHED,), KEY, given_shed))
    take(place_round.decide_cycles(KEY, {**rows, STATE: [*recorded, *within(written, moments)]}))
    made = plan_round.decide_cycles(KEY, rows)
    take(made)
    return {**written, "plan": made["plan"]}


def within(written: Decided, moments: set[str]) -> list[Row]:
    """The state that the run has written so far, as a later task reads it of predecessors inside the window."""
    return [row for row in written[whole.STATE] if row["cycle_at"] in moments]


def content(table: str, rows: Sequence[Row]) -> list[str]:
    return sorted(repr(as_read(table, row)) for row in rows)


CASES = [(shedder, assuming) for shedder in VARIANTS for assuming in (True, False)]
PLANNED = [
    ("ThresholdShedder", False, "shadow"),
    ("ThresholdShedder", True, "on"),
    ("TransferShedder", False, "on"),
    ("TransferShedder", True, "on"),
]


@pytest.mark.parametrize(("shedder", "assuming", "planner"), [*((*case, "off") for case in CASES), *PLANNED])
@at_most(25)
@given(data=st.data())
def test_windows_of_any_size_come_to_what_cycles_come_to_one_by_one(
    shedder: str, assuming: bool, planner: str, data: st.DataObject
) -> None:
    asked, observed, answers = decided(shedder, assuming, data.draw(st.integers(0, 2), "seed"), planner)
    cuts = data.draw(st.sets(st.integers(1, len(asked) - 1)), "cuts")
    recorded: list[Row] = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(asked)], strict=True):
        found = in_a_window(asked[begin:end], observed, recorded, planner=planner)
        assert planner == "off" or len(found["planner_targets"]) > 0
        for number in range(begin, end):
            at, expected = asked[number]["cycle_at"], answers[number]
            own = {table: [row for row in rows if row["cycle_at"] == at] for table, rows in found.items()}
            assert [row["plan_id"] for row in own["plan"]] == [row["plan_id"] for row in expected["plan"]]
            for table in (*DECIDED, *(PLANNER_TABLES if planner != "off" else ()), whole.STATE):
                assert content(table, own[table]) == content(table, expected[table]), (table, at)
        recorded = [row for row in found[whole.STATE] if row["cycle_at"] == asked[end - 1]["cycle_at"]]


@pytest.mark.parametrize(("shedder", "assuming"), CASES)
def test_the_cases_act_and_remember_and_shedding_rests_on_what_placement_assumed(shedder: str, assuming: bool) -> None:
    differs = 0
    for seed in range(3):
        asked, observed, answers = decided(shedder, assuming, seed)
        kept = {row["name"] for answer in answers for row in answer[whole.STATE]}
        assert ("assumed_unloaded" in kept) == assuming
        assert sum(row["kind"] == "unload" for answer in answers for row in answer["commands"]) > 0
        blind = in_a_window(asked, observed, [], looks_ahead=False)
        plans = [row["plan_id"] for answer in answers for row in answer["plan"]]
        differs += [row["plan_id"] for row in blind["plan"]] != plans
    assert (differs > 0) == assuming


@pytest.mark.parametrize("seed", range(3))
def test_all_bundles_are_chosen_that_any_state_could_choose(seed: int) -> None:
    asked, observed, answers = decided("TransferShedder", False, seed)
    by_topics = resolve(observed=None, overrides={**EAGER, **VARIANTS["TransferShedder"], **BY_TOPICS})
    chosen = 0
    for number, cycle in enumerate(asked):
        cycle = {**cycle, "settings": by_topics.to_json()}
        rows = {t: [r for r in own if r["cycle_at"] == cycle["cycle_at"]] for t, own in observed.items()}
        rows |= {"cycle": [cycle], "topic_hashes": [], STATE: answers[number - 1][whole.STATE] if number else []}
        one, any_ = (
            {row["bundle"] for row in choose(KEY, rows)["chosen"]}
            for choose in (split_round.choose, split_round.choose_any)
        )
        assert one <= any_
        chosen += len(one)
    assert chosen > 0


@pytest.mark.parametrize("shedder", ["ThresholdShedder", "TransferShedder"])
def test_in_a_window_all_bundles_are_chosen_that_the_planner_could_want(shedder: str) -> None:
    asked, observed, _ = decided(shedder, False, 1, "on")
    chosen = 0
    for cycle in asked:
        rows = {t: [r for r in own if r["cycle_at"] == cycle["cycle_at"]] for t, own in observed.items()}
        wanted = WantedSplit(datetime.fromisoformat(cycle["cycle_at"]), "cpu", 0.0, 0.6, 0.5)
        memory = PlannerMemory(splits=dict.fromkeys((row["bundle"] for row in rows["bundle_load"]), wanted))
        state = [as_read("strategy_state", row) for row in rows_of(memory)]
        stamp = {"cluster": "lab", "cycle_at": cycle["predecessor_cycle_at"]}
        found = []
        for choose, known in ((split_round.choose, state), (split_round.choose_any, [])):
            given = {**rows, "cycle": [cycle], "topic_hashes": [], STATE: [{**row, **stamp} for row in known]}
            made = fold((Round(choose),), KEY, given)
            found.append({row["bundle"] for row in made["chosen"]})
        if cycle["predecessor_cycle_at"] is not None:
            assert found[0] <= found[1]
            assert len(found[1]) < len(rows["bundle_load"])
            chosen += len(found[0])
    assert chosen > 0


AT = [f"2026-11-21T08:{minute:02}:00.000000+00:00" for minute in range(0, 50, 10)]


def counted(key: Row, rows: SharedRows) -> Decided:
    """Counts the cycles that came before, by what they left; raises where a row says so."""
    if any(row["value"] is None for row in rows["figures"]):
        raise ZeroDivisionError("a figure\nis not known")
    before = math.fsum(row["value"] for row in rows[STATE])
    left = {"strategy": "s", "subject": "x", "name": "n", "cluster": "lab", "cycle_at": rows["cycle"][0]["cycle_at"]}
    return {
        "seen": [{"figures": len(rows["figures"]), "before": before}],
        "strategy_state": [{**left, "value": before + 1}],
    }


def cycle(at: int, before: int | None) -> Row:
    row = {"cluster": "lab", "cycle_at": AT[at], "predecessor_cycle_at": None if before is None else AT[before]}
    return {**row, "settings": f"settings {at}", "settings_digest": f"digest {at}"}


def seen(cycles: Sequence[Row], values: Sequence[float | None], recorded: Mapping[int, float], **more: Any) -> Decided:
    figures = [{"cycle_at": at, "value": value} for at, value in zip(AT, values, strict=False)]
    state = [{"cycle_at": AT[at], "value": value} for at, value in recorded.items()]
    return fold((Round(counted),), KEY, {"cycle": cycles, "figures": figures, STATE: state}, **more)


def test_a_round_sees_rows_of_its_cycle_and_what_its_predecessor_left() -> None:
    # In no order; the third was left out of the run, and the fourth's predecessor is on record.
    found = seen([cycle(4, 3), cycle(1, 0), cycle(0, None), cycle(3, 2)], [1.0] * 5, {2: 40.0, 1: 99.0})
    assert found["seen"] == [
        {"figures": 1, "before": before, "cycle_at": at}
        for at, before in zip((AT[0], AT[1], AT[3], AT[4]), (0.0, 1.0, 40.0, 41.0), strict=True)
    ]


def test_an_error_ends_a_cluster_and_tells_where() -> None:
    found = seen([cycle(0, None), cycle(1, 0), cycle(2, 1)], [1.0, None, 1.0], {})
    assert [row["cycle_at"] for row in found["seen"]] == [AT[0]]
    assert found[FAILURES] == [{"error": "ZeroDivisionError: a figure", "cycle_at": AT[1]}]


def test_with_recorded_rows_no_round_goes_on_from_what_is_decided_here() -> None:
    """Each cycle has the state that is on record of its predecessor, and a round the rows on record of the one before
    it; a round that looks ahead is not asked."""

    def told(key: Row, rows: SharedRows) -> Decided:
        return {"told": [{"seen": [row["figures"] for row in rows["seen"]]}]}

    def unasked(key: Row, rows: SharedRows) -> Decided:
        raise AssertionError("nothing goes on from this")

    cycles = [cycle(0, None), cycle(1, 0), cycle(2, 1)]
    rows = {
        "cycle": cycles,
        "figures": [{"cycle_at": AT[n], "value": 1.0} for n in range(3)],
        "seen": [{"cycle_at": AT[n], "figures": 10 + n} for n in range(3)],
        STATE: [{"cycle_at": AT[0], "value": 7.0}],
    }
    rounds = (Round(counted, ("seen",), is_read_back=False), Round(told), Round(unasked, ahead_of="place"))
    found = fold(rounds, KEY, rows, as_recorded=True)
    assert [row["before"] for row in found["seen"]] == [0.0, 7.0, 0.0]
    assert [row["seen"] for row in found["told"]] == [[10], [11], [12]]
    assert fold(rounds, KEY, rows)[FAILURES] == [
        {"error": "in the rule of place: AssertionError: nothing goes on from this", "cycle_at": AT[0]}
    ]
    found = fold(rounds[:2], KEY, rows)
    assert [row["seen"] for row in found["told"]] == [[1], [1], [1]]
    assert [row["before"] for row in found["seen"]] == [0.0, 8.0, 9.0]


def test_the_predecessors_of_a_window_are_its_own_cycles_with_what_they_have_written() -> None:
    def one(number: int, recorded: Predecessor) -> ClusterCycle:
        return ClusterCycle("lab", AT[number], Snapshot("s", AT[number]), {}, manager="modular", predecessor=recorded)

    old = (Write("bundle_load", "old", 1, 1, "d", "lab"),)
    given_ = [
        one(0, Predecessor("used", "2026-11-21T07:50:00.000000+00:00", "a", None, old)),
        one(1, Predecessor("used", AT[0], "b", AT[0], old)),
        replace(one(2, Predecessor("older", AT[0], "b", AT[1], old)), status="skipped"),
        one(3, Predecessor("older", AT[0], "b", AT[2], old)),
    ]
    writes = tuple(Write("bundle_load", f"w{n}", 2, 1, "d", "lab", cycle_at=at) for n, at in enumerate(AT))
    handover = Handover("lake", Run("cli", "run"), tuple(given_), writes)
    found = [cycle.predecessor for cycle in linked(handover).cycles]
    assert found[0] == given_[0].predecessor
    assert found[1] == Predecessor("used", AT[0], None, AT[0], (writes[0],))
    assert found[2] == Predecessor("used", AT[1], None, AT[1], (writes[1],))
    assert found[3] == Predecessor("older", AT[1], None, AT[2], (writes[1],))
    # What no strategy can decide on is left out later, and hands nothing on from the beginning.
    mixed = handover.with_cycles(replace(c, manager="mixed") if c.cycle_at == AT[1] else c for c in handover.cycles)
    assert [cycle.predecessor.cycle_at for cycle in linked(mixed).cycles[1:]] == [AT[0]] * 3
    alone = replace(handover, cycles=tuple(given_[3:]))
    assert linked(alone) is alone


@pytest.mark.parametrize(("shedder", "assuming"), [("ThresholdShedder", False), ("TransferShedder", True)])
def test_recorded_cycles_that_are_decided_again_come_to_what_is_on_record(shedder: str, assuming: bool) -> None:
    """A difference stays in the cycle and the table in which it arose."""
    asked, observed, answers = decided(shedder, assuming, 1)
    tables = [table for one in whole.ROUNDS for table in one.tables]
    recorded = {table: [row for answer in answers for row in answer[table]] for table in tables}
    state = [row for answer in answers for row in answer[whole.STATE]]
    rows = {**observed, **recorded, "cycle": with_settings_once(asked), "topic_hashes": (), STATE: state}

    def differing(given: Rows) -> set[tuple[str, str]]:
        found = fold((*whole.ROUNDS, plan_round.PLAN), KEY, given, as_recorded=True)
        assert FAILURES not in found
        return {
            (table, cycle["cycle_at"])
            for cycle, answer in zip(asked, answers, strict=True)
            for table in (*tables, whole.STATE, "guard_decisions", "commands", "plan")
            if content_of(table, [row for row in found[table] if row["cycle_at"] == cycle["cycle_at"]])
            != content_of(table, answer[table])
        }

    assert differing(rows) == set()
    unloads = recorded["unload_decisions"]
    place = next(n for n, row in enumerate(unloads) if row["outcome"] == "unload" and row["cycle_at"] != AT[0])
    other = [*unloads[:place], *unloads[place + 1 :]]
    assert {at for _, at in differing({**rows, "unload_decisions": other})} == {unloads[place]["cycle_at"]}


def content_of(table: str, rows: Sequence[Row]) -> list[Any]:
    return [row["plan_id"] for row in rows] if table == "plan" else content(table, rows)
