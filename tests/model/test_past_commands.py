"""What follows from commands of late: unsettled bundles and brokers, and what was unloaded recently."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.model.past_commands import (
    Act,
    Move,
    brokers_unloaded,
    past_moves,
    recently_unloaded,
    unsettled_brokers,
    unsettled_bundles,
)
from evenkeel.settings import Settings

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
BUNDLE = "acme/orders/0x00000000_0x80000000"


def act(kind: str = "unload", outcome: str | None = "done", **more: Any) -> Act:
    given = {"from_broker": "b1:8080", "destination": "b2:8080", "seen_at": AT if outcome else None} | more
    return Act("c1", kind, BUNDLE, cycle_at=AT - timedelta(seconds=5), outcome=outcome, **given)


def after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


@pytest.mark.parametrize(("seconds", "upset"), [(0, True), (119.9, True), (120, False)])
def test_a_moved_bundles_figures_settle_after_two_stats_periods(seconds: float, upset: bool) -> None:
    assert (BUNDLE in unsettled_bundles([act()], after(seconds), Settings())) is upset


@pytest.mark.parametrize(("seconds", "upset"), [(119.9, True), (120, False)])
def test_its_brokers_resources_settle_after_two_measurements(seconds: float, upset: bool) -> None:
    found = unsettled_brokers([act()], after(seconds), Settings())
    assert list(found) == (["b1:8080", "b2:8080"] if upset else [])


def test_intervals_are_the_clusters_own() -> None:
    quick = Settings().with_values({"statsUpdateFrequencyInSecs": 3, "loadBalancerHostUsageCheckIntervalMinutes": 5})
    assert not unsettled_bundles([act()], after(6), quick)
    assert unsettled_brokers([act()], after(599), quick)


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_what_became_of_it_is_not_known_so_nothing_settles(outcome: str | None) -> None:
    found = unsettled_bundles([act(outcome=outcome)], after(9_999), Settings())
    assert found[BUNDLE].until is None
    assert "not known yet" in found[BUNDLE].why


@pytest.mark.parametrize("outcome", ["refused", "stale", "withheld", "dry_run"])
def test_what_was_not_carried_out_upsets_nothing(outcome: str) -> None:
    assert not unsettled_bundles([act(outcome=outcome)], AT, Settings())
    assert not unsettled_brokers([act(outcome=outcome)], AT, Settings())
    assert not recently_unloaded([act(outcome=outcome)])


def test_a_split_upsets_its_children_and_no_broker_unless_they_are_unloaded() -> None:
    cut = act("split", cuts=(0x40000000,), destination=None)
    assert list(unsettled_bundles([cut], AT, Settings())) == [
        "acme/orders/0x00000000_0x40000000", BUNDLE, "acme/orders/0x40000000_0x80000000",
    ]  # fmt: skip
    assert not unsettled_brokers([cut], AT, Settings())
    assert list(unsettled_brokers([act("split", unload_children=True, destination=None)], AT, Settings())) == [
        "b1:8080"
    ]


def test_the_later_of_two_commands_counts_and_an_open_one_outlasts_both() -> None:
    late = act(seen_at=after(60))
    assert unsettled_bundles([late, act()], after(130), Settings())[BUNDLE].until == after(180)
    open_one = act(outcome=None)
    for order in ([open_one, late], [late, open_one]):
        assert unsettled_bundles(order, after(130), Settings())[BUNDLE].until is None


def test_recently_unloaded_is_what_was_seen_to_be_done() -> None:
    at = round(AT.timestamp() * 1_000)
    acts = [act(), act(outcome="overridden", seen_at=after(9)), act("split", seen_at=after(20)), act(outcome=None)]
    assert recently_unloaded(acts) == {BUNDLE: at}
    assert brokers_unloaded(acts) == {"b1:8080": at}
    later = [act(), act(seen_at=after(9))]
    for order in (later, later[::-1]):
        assert recently_unloaded(order) == {BUNDLE: at + 9_000}
        assert brokers_unloaded(order) == {"b1:8080": at + 9_000}
    assert not brokers_unloaded([act("split"), act(from_broker=None), act(outcome=None), act(outcome="overridden")])


def test_of_rows_of_one_command_the_one_with_a_seen_outcome_counts_whatever_its_clock() -> None:
    """A clock that is behind has an outcome seen before its command's cycle."""
    for minutes in (-1, 1):
        seen = after(60 * minutes)
        for outcome, moves in (("refused", []), ("done", [Move(BUNDLE, "b1:8080", seen)])):
            rows = [act(outcome=None), act(outcome=outcome, seen_at=seen)]
            for order in (rows, rows[::-1]):
                assert past_moves(order, after(120), Settings()) == moves
    unknown = [Move(BUNDLE, "b1:8080", after(-5))]
    assert past_moves([act(outcome=None)], AT, Settings()) == unknown
    assert past_moves([act(outcome="refused", seen_at=after(1))], AT, Settings()) == unknown, "not seen by then"
    assert past_moves([act(outcome="refused", seen_at=AT)], AT, Settings()) == []
    assert past_moves([act()], after(-5), Settings()) == [], "of the same cycle"
