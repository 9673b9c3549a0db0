"""What a plan is forecast to do to the brokers' load."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.publish.plan import PlannedMove, forecast, forecast_of, max_over_mean

BROKERS = ("b1:8080", "b2:8080", "b3:8080")


def test_a_bundle_takes_along_its_share_of_its_brokers_usage() -> None:
    change = forecast({"b1:8080": 0.8, "b2:8080": 0.2}, {"b1:8080": 100.0, "b2:8080": 10.0}, [
        PlannedMove("t/n/0x00000000_0x80000000", "b1:8080", "b2:8080", 25.0)
    ])  # fmt: skip
    assert change.after == pytest.approx({"b1:8080": 0.6, "b2:8080": 0.4})
    assert change.moved_share == pytest.approx(25 / 110)
    assert change.before_max_over_mean == pytest.approx(1.6)
    assert change.after_max_over_mean == pytest.approx(1.2)


B1, B2, _ = BROKERS
USAGE = {B1: 0.8, B2: 0.2}


@pytest.mark.parametrize(
    ("usage", "throughput", "source", "destination", "after", "share"),
    [
        pytest.param(USAGE, {B2: 10.0}, B1, B2, USAGE, 0.5, id="its broker's throughput is unknown"),
        pytest.param(USAGE, {B1: 0.0, B2: 10.0}, B1, B2, USAGE, 0.5, id="its broker has none"),
        pytest.param(USAGE, {B1: 4.0, B2: 6.0}, B1, B2, {B1: 0.0, B2: 1.0}, 0.5, id="no share above the whole"),
        pytest.param(USAGE, {B1: 0.5}, B1, B2, {B1: 0.0, B2: 1.0}, 10.0, id="less than a byte a second"),
        pytest.param({B2: 0.2}, {B1: 10.0}, B1, B2, {B2: 0.2}, 0.5, id="its broker's usage is unknown"),
        pytest.param(USAGE, {B1: 10.0}, B1, "new:8080", USAGE, 0.5, id="usage of its destination is unknown"),
        pytest.param(USAGE, {B1: 10.0}, None, B2, USAGE, 0.5, id="without owner"),
        pytest.param(USAGE, {}, B1, B2, USAGE, 0.0, id="no throughput is known"),
    ],
)
def test_no_usage_is_added_that_nobody_measured(
    usage: dict[str, float],
    throughput: dict[str, float],
    source: str | None,
    destination: str,
    after: dict[str, float],
    share: float,
) -> None:
    """A bundle of 5 byte/s."""
    change = forecast(usage, throughput, [PlannedMove("t/n/0x0_0x1", source, destination, 5.0)])
    assert change.after == pytest.approx(after)
    assert change.before == usage
    assert change.moved_share == share


def row(name: str, **figures: float | str | None) -> dict[str, Any]:
    return {"broker": name, "weighted_usage": 0.2, "msg_throughput_in": 60.0, "msg_throughput_out": 40.0} | figures


def placed(bundle: str, source: str | None, destination: str | None, outcome: str = "placed") -> dict[str, Any]:
    return {"subject": bundle, "broker": source, "destination": destination, "outcome": outcome}


def test_a_forecast_is_of_placements_by_the_traffic_of_bundles_and_brokers_in_and_out() -> None:
    loads = [row(B1, weighted_usage=0.8), row(B2, msg_throughput_out=None), row("b3:8080", weighted_usage=None)]
    bundles = [
        {"bundle": "heavy", "used_msg_throughput_in": 20.0, "used_msg_throughput_out": 5.0},
        {"bundle": "light", "used_msg_throughput_in": None, "used_msg_throughput_out": 5.0},
        {"bundle": "stays", "used_msg_throughput_in": 9.0, "used_msg_throughput_out": 9.0},
    ]
    moves = [
        placed("heavy", B1, B2), placed("light", B2, B1), placed("without load", B1, B2),
        placed("light", B1, "b3:8080"), placed("stays", B1, None, "kept"),
    ]  # fmt: skip
    change = forecast_of({"broker_load": loads, "bundle_load": bundles}, moves)
    assert change.before == {B1: 0.8, B2: 0.2}
    # A quarter of 80 % leaves b1; a twelfth of the 20 % of b2 comes back.
    assert change.after == pytest.approx({B1: 0.6 + 0.2 / 12, B2: 0.4 - 0.2 / 12})
    assert change.moved_share == pytest.approx(35 / 160)


def test_no_brokers_and_idle_brokers_have_no_ratio() -> None:
    assert max_over_mean([]) is None
    assert max_over_mean([0.0, 0.0]) is None


@given(
    usage=st.fixed_dictionaries({broker: st.floats(0, 1) for broker in BROKERS}),
    traffic=st.lists(st.tuples(st.sampled_from(BROKERS), st.sampled_from(BROKERS), st.floats(0, 1e6)), max_size=8),
)
def test_moves_keep_the_sum_of_usage_and_no_order_of_moves_matters(usage, traffic) -> None:
    moves = [PlannedMove(f"t/n/{n}", source, to, amount) for n, (source, to, amount) in enumerate(traffic)]
    throughput = dict.fromkeys(BROKERS, 1e7)
    change = forecast(usage, throughput, moves)
    assert sum(change.after.values()) == pytest.approx(sum(usage.values()), abs=1e-9)
    assert forecast(usage, throughput, moves[::-1]) == change
