"""What a plan is forecast to do to the brokers' load."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.publish.plan import PlannedMove, forecast, max_over_mean

BROKERS = ("b1:8080", "b2:8080", "b3:8080")


def test_a_bundle_takes_along_its_share_of_its_brokers_usage() -> None:
    change = forecast({"b1:8080": 0.8, "b2:8080": 0.2}, {"b1:8080": 100.0, "b2:8080": 10.0}, [
        PlannedMove("t/n/0x00000000_0x80000000", "b1:8080", "b2:8080", 25.0)
    ])  # fmt: skip
    assert change.after == pytest.approx({"b1:8080": 0.6, "b2:8080": 0.4})
    assert change.moved_share == pytest.approx(25 / 110)
    assert change.before_max_over_mean == pytest.approx(1.6)
    assert change.after_max_over_mean == pytest.approx(1.2)


def test_a_bundle_whose_broker_is_gone_adds_no_usage_that_nobody_measured() -> None:
    change = forecast({"b1:8080": 0.5}, {"b1:8080": 10.0}, [PlannedMove("t/n/0x0_0x1", "dead:8080", "b1:8080", 5.0)])
    assert change.after == {"b1:8080": 0.5}


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
