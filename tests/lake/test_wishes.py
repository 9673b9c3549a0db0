"""Which cycle takes which wish: each wish in exactly one, and the same ones however often a cycle is decided."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.handover import Run
from evenkeel.lake.wishes import TakenWishes, wishes_for

LIVE = Run("rebalance", "scheduled__1")
BACKFILL = Run("rebalance", "backfill__1", "backfill")


def at(minute: int) -> str:
    return f"2026-11-21T08:{minute:02}:00.000000+00:00"


def wish(number: int, minute: int, **more: Any) -> dict[str, Any]:
    return {"cluster": "lab", "wish_id": f"w{number}", "made_at": at(minute), "run_id": None, "kind": "unload"} | more


def ids(cycle: int, known: list[dict[str, Any]], taken: list[TakenWishes] | None = None, run: Run = LIVE) -> list[str]:
    return [one["wish_id"] for one in wishes_for("lab", at(cycle), known, taken or [], run)]


def took(cycle: int, *wish_ids: str) -> TakenWishes:
    return TakenWishes("lab", at(cycle), wish_ids)


def test_a_cycle_takes_what_was_made_up_to_its_moment_oldest_first() -> None:
    assert ids(5, [wish(1, 5), wish(2, 4), wish(3, 6)]) == ["w2", "w1"]


def test_a_wish_on_record_twice_is_one_and_another_clusters_is_none_of_ours() -> None:
    assert ids(5, [wish(1, 4), wish(1, 4), wish(2, 4, cluster="other")]) == ["w1"]


def test_what_another_cycle_took_is_not_taken_again_not_even_by_an_earlier_one_decided_late() -> None:
    assert ids(6, [wish(1, 3)], [took(5, "w1")]) == []
    assert ids(4, [wish(1, 3)], [took(5, "w1")]) == []
    assert ids(6, [wish(1, 3)], [TakenWishes("other", at(5), ("w1",))]) == ["w1"]


def test_a_re_run_takes_what_the_cycle_took_and_leaves_a_wish_that_came_late_to_the_next_cycle() -> None:
    known, taken = [wish(1, 3), wish(2, 4)], [took(5, "w1")]
    assert ids(5, known, taken) == ["w1"]
    assert ids(6, known, taken) == ["w2"]
    assert ids(5, [wish(2, 4)], [took(5)]) == []


def test_a_wish_that_the_run_brings_joins_a_cycle_that_was_decided_before() -> None:
    own = wish(3, 5, run_id="manual__9")
    by_hand = Run("rebalance", "manual__9")
    assert ids(5, [wish(2, 4), own], [took(5)], by_hand) == ["w3"]
    assert ids(5, [own], [took(5), took(5, "w3")], by_hand) == ["w3"]
    assert ids(5, [own], [took(5), took(6, "w3")], by_hand) == []


def drain(number: int, minute: int, broker: str = "b1:8080", kind: str = "drain", **more: Any) -> dict[str, Any]:
    return wish(number, minute, kind=kind, broker=broker, **more)


def test_a_drain_is_taken_by_each_cycle_until_it_is_ended_whichever_took_it_before() -> None:
    known = [drain(1, 3), drain(2, 8, kind="undrain"), drain(3, 4, broker="b2:8080"), drain(4, 12)]
    assert ids(2, known) == []
    assert ids(5, known, [took(4, "w1")]) == ["w1", "w3"]
    assert ids(6, known, [took(4, "w1"), took(5, "w1", "w3")]) == ["w1", "w3"]
    assert ids(9, known, [took(5, "w1", "w3")]) == ["w3", "w2"]
    assert ids(10, known, [took(9, "w3", "w2")]) == ["w3"]
    assert ids(12, known, [took(9, "w3", "w2")]) == ["w3", "w4"]
    # A cycle before the end that is decided late is still one of a drain.
    assert ids(7, known, [took(9, "w3", "w2")]) == ["w1", "w3"]


def test_a_re_run_of_a_cycle_drains_what_it_drained_and_a_backfill_no_more_than_that() -> None:
    known = [drain(1, 3), drain(2, 8, kind="undrain")]
    assert ids(5, known, [took(5)]) == []
    assert ids(5, known, [took(5, "w1"), took(6, "w1")]) == ["w1"]
    assert ids(5, known, [took(5, "w1")], BACKFILL) == ["w1"]
    assert ids(5, known, [took(4, "w1")], BACKFILL) == []


def test_a_second_drain_of_a_broker_takes_the_place_of_the_first() -> None:
    assert ids(5, [drain(1, 3), drain(2, 4)]) == ["w2"]
    assert ids(5, [drain(1, 3), drain(2, 4, cluster="other")]) == ["w1"]


def test_a_backfill_takes_what_its_cycle_took_and_nothing_that_waits() -> None:
    known = [wish(1, 3), wish(2, 4)]
    assert ids(5, known, [took(5, "w1")], BACKFILL) == ["w1"]
    assert ids(5, known, [], BACKFILL) == []


@given(
    made=st.lists(st.integers(0, 9), max_size=8),
    order=st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 8)), max_size=25),
)
def test_in_whatever_order_cycles_are_decided_each_wish_is_taken_by_one_cycle_at_most(
    made: list[int], order: list[tuple[int, bool, int]]
) -> None:
    """`order`: cycles decided one after the other, whether as a backfill, and how many wishes were on record then."""
    every = [wish(number, minute) for number, minute in enumerate(made)]
    taken: list[TakenWishes] = []
    first: dict[int, list[str]] = {}
    for cycle, backfill, known in order:
        found = ids(cycle, every[:known], taken, BACKFILL if backfill else LIVE)
        if backfill:
            assert set(found) <= set(first.get(cycle, []))
            continue
        if known >= len(made):
            assert found == first.setdefault(cycle, found), "a re-run takes the same"
        first.setdefault(cycle, found)
        taken.append(took(cycle, *found))
    owners = [{one.cycle_at for one in taken if one_wish["wish_id"] in one.wish_ids} for one_wish in every]
    assert all(len(cycles) <= 1 for cycles in owners)
