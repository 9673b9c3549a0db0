"""How far the model is off when bundles change hands: by hand-made cycles whose traffic is known."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.replay.recorded_traffic import Error, SeenCycle, Shift, shift_of

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAIT = timedelta(seconds=10)
ONE, TWO = "a/b/0x00000000_0x80000000", "a/b/0x80000000_0xffffffff"
LOWER, UPPER = "a/b/0x00000000_0x40000000", "a/b/0x40000000_0x80000000"


def seen(second: int, bundles: Mapping[str, tuple[str | None, float]]) -> SeenCycle:
    owner = {bundle: broker for bundle, (broker, _) in bundles.items()}
    flow = {bundle: traffic for bundle, (_, traffic) in bundles.items()}
    return SeenCycle(BEGIN + timedelta(seconds=second), flow, flow, owner, {"x": 0.5, "y": 0.5})


def test_traffic_that_goes_with_its_bundle_is_foreseen_whatever_its_first_figures_say() -> None:
    moved = [
        seen(0, {ONE: ("x", 300.0), TWO: ("x", 100.0)}),
        seen(6, {ONE: ("x", 300.0), TWO: ("y", 900.0)}),  # inflated: not looked at
        seen(12, {ONE: ("x", 300.0), TWO: ("y", 500.0)}),
        seen(18, {ONE: ("x", 600.0), TWO: ("y", 200.0)}),
    ]
    assert shift_of(moved, WAIT) == Shift(1, 0.0, 0.25)


def test_traffic_that_does_something_else_is_an_error_in_points() -> None:
    found = shift_of(
        [
            seen(0, {ONE: ("x", 300.0), TWO: ("x", 100.0)}),
            seen(6, {ONE: ("x", 300.0), TWO: ("y", 100.0)}),
            seen(16, {ONE: ("x", 200.0), TWO: ("y", 200.0)}),
        ],
        WAIT,
    )
    assert found == Shift(1, 0.25, 0.5)


def test_a_bundle_that_is_back_by_then_shows_nothing() -> None:
    there, back = {ONE: ("x", 300.0), TWO: ("y", 100.0)}, {ONE: ("x", 300.0), TWO: ("x", 100.0)}
    assert shift_of([seen(0, back), seen(600, there), seen(1200, back)], WAIT) is None
    assert shift_of([seen(0, back), seen(600, there), seen(1200, there)], WAIT) == Shift(1, 0.0, 0.25)


def test_children_of_a_split_share_their_parents_traffic_by_width() -> None:
    found = shift_of(
        [
            seen(0, {ONE: ("x", 400.0), TWO: ("x", 400.0)}),
            seen(6, {LOWER: ("x", 200.0), UPPER: ("y", 200.0), TWO: ("y", 400.0)}),
            seen(16, {LOWER: ("x", 200.0), UPPER: ("y", 200.0), TWO: ("y", 400.0)}),
        ],
        WAIT,
    )
    assert found == Shift(1, 0.0, 0.75)


@pytest.mark.parametrize(
    "cycles",
    [
        [seen(0, {ONE: ("x", 1.0)}), seen(60, {ONE: ("x", 1.0)}), seen(120, {ONE: ("x", 1.0)})],  # nothing moves
        [seen(0, {ONE: ("x", 1.0)}), seen(60, {ONE: ("y", 1.0)})],  # nothing is seen after it
        [seen(0, {ONE: ("x", 0.0)}), seen(60, {ONE: ("y", 0.0)}), seen(120, {ONE: ("y", 1.0)})],  # no figures before
        [],
    ],
)
def test_without_a_move_between_two_figures_nothing_is_said(cycles: list[SeenCycle]) -> None:
    assert shift_of(cycles, WAIT) is None


def test_the_sentence_tells_of_it_only_where_something_moved() -> None:
    still = Error(10, 0.01, 0.02, 0.1, 0)
    assert "share of the traffic" not in still.sentence()
    moved = Error(10, 0.01, 0.02, 0.1, 3, Shift(2, 0.031, 0.2))
    assert moved.sentence().endswith("share of the traffic by 3.1 points (had nothing moved: 20.0).")
