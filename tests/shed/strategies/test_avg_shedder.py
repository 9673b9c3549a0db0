"""AvgShedder at its limits: what lasts, what a pair gives, what is counted and said."""

import pytest

from evenkeel.model.load import LoadData
from evenkeel.settings import Settings, Value
from evenkeel.shed.shedder import Shed, ShedderState
from evenkeel.shed.strategies import avg_shedder
from evenkeel.shed.try_shedder import try_shedder
from tests.shed.clusters import broker, cluster, said_of, taken


def avg(load: LoadData, state: ShedderState, **values: Value) -> Shed:
    return avg_shedder.shed(load, state, Settings().with_values(values))


@pytest.mark.parametrize(
    ("busy", "rounds"),
    [
        pytest.param(34.99, [], id="under the low limit of 15 points nothing goes"),
        pytest.param(35.0, [8], id="15 points must last for eight rounds"),
        pytest.param(35.01, [8], id="over 15 points must last for eight rounds"),
        pytest.param(59.99, [8], id="under the high limit of 40 points the low one holds"),
        pytest.param(60.0, [2, 4, 6, 8], id="40 points must last for two rounds"),
        pytest.param(60.01, [2, 4, 6, 8], id="over 40 points must last for two rounds"),
    ],
)
def test_a_pair_gives_when_its_difference_has_lasted(busy: float, rounds: list[int]) -> None:
    """Against 20 %: 15 points for eight rounds, 40 points for two; reaching them counts."""
    load = cluster(broker("b1:1", busy, rates=[2500.0] * 20), broker("b2:1", 20.0, rates=[500.0] * 20))
    state: ShedderState = {}
    acted = []
    for number in range(1, 9):
        found = avg(load, state)
        state = found.state
        acted += [number] * bool(found.unloads)
        assert set(found.destinations.values()) <= {"b2:1"}
        assert not found.unloads or state == {"low_hits": {}, "high_hits": {}}
    assert acted == rounds


@pytest.mark.parametrize(
    ("least", "gone"),
    [
        pytest.param(249, ["b1-0", "b1-1"], id="250 msg/s are more than the minimum and go"),
        pytest.param(250, [], id="250 msg/s only reach the minimum and stay"),
        pytest.param(251, [], id="250 msg/s are less than the minimum and stay"),
    ],
)
def test_the_minimum_to_unload_must_be_exceeded(least: int, gone: list[str]) -> None:
    """Half of the pair's difference of 500 msg/s; two bundles of 100 fit into it."""
    brokers = [broker("b1:8080", 80.0, rates=[100.0] * 10), broker("b2:8080", 20.0, rates=[50.0] * 10)]
    values: dict[str, Value] = {"maxUnloadPercentage": 0.5, "minUnloadMessage": least}
    assert taken(try_shedder("AvgShedder", brokers, values, rounds=2)) == gone


def test_a_sole_bundle_goes_pair_by_pair() -> None:
    once = {"loadBalancerAvgShedderHitCountHighThreshold": 1, "minUnloadMessage": 100}
    small = cluster(broker("b1:1", 80.0, rates=(900.0,)), broker("b2:1", 20.0))
    assert taken(avg(small, {}, maxUnloadPercentage=1.0, **once)) == ["b1-0"]


def test_a_broker_in_the_middle_is_its_own_partner_and_gives_nothing_whatever_the_threshold() -> None:
    load = cluster(*(broker(f"b{n}:1", 30.0 * n, rates=[1000.0 * n] * 3) for n in (1, 2, 3)))
    for values, rule in (
        ({}, "no_partner"),
        ({"loadBalancerAvgShedderLowThreshold": 0}, "too_few_hits"),
        ({"loadBalancerAvgShedderLowThreshold": 0, "loadBalancerAvgShedderHitCountLowThreshold": 1},
         "not_above_minimum_unload"),
    ):  # fmt: skip
        found = avg(load, {}, **values)
        (middle,) = (row for row in found.considered if row.subject == "b2:1")
        assert (middle.rule, middle.alternatives) == (rule, ())
        assert all(broker == "b3:1" for _, broker in found.unloads)
        assert middle.numbers["score"] == middle.numbers["partner_score"] == pytest.approx(60.0)


def test_the_low_threshold_resets_the_count_of_the_high_one() -> None:
    idle = broker("b2:1", 20.0, rates=(1e3,))
    large, small = (cluster(broker("b1:1", cpu, rates=(9e4,)), idle) for cpu in (80.0, 50.0))
    first = avg(large, {}).state
    assert first == {"low_hits": {"b1:1": 1.0, "b2:1": 1.0}, "high_hits": {"b1:1": 1.0, "b2:1": 1.0}}
    assert avg(small, first).state == {"low_hits": {"b1:1": 2.0, "b2:1": 2.0}, "high_hits": {}}
    high_at_once = avg(small, {}, loadBalancerAvgShedderHitCountHighThreshold=1)
    (busy,) = (row for row in high_at_once.considered if row.rule == "too_few_hits")
    assert (busy.measured, busy.numbers["low_hits"], busy.numbers["high_hits"]) == (1.0, 1.0, 0.0)


def test_a_broker_takes_its_count_along_into_another_pair() -> None:
    usages = (60.0, 40.0, 39.0, 20.0)
    four = cluster(*(broker(f"b{n}:1", cpu, rates=(1000.0,)) for n, cpu in enumerate(usages, start=1)))
    found = avg(four, {"low_hits": {"b1:1": 7.0}, "high_hits": {}})
    assert [row.rule for row in found.considered if row.broker == "b1:1"] == ["not_above_minimum_unload"]
    assert found.state["low_hits"] == {}


def test_concepts_avg_shedder_moves_a_quarter_of_a_thousand_only_where_told_to() -> None:
    """The page has both brokers end with 750 msg/s. In fact nothing is large enough by default; half of the outer
    pair's 500 msg/s moves once minUnloadMessage is below 250. The inner pair is 39.999998 apart in 32 bits."""
    standing = [(20.0, 500.0), (30.0, 600.0), (52.0, 700.0), (70.0, 800.0), (80.0, 1000.0)]
    five = cluster(*(broker(f"b{n}:1", cpu, rates=[rate / 10] * 10) for n, (cpu, rate) in enumerate(standing, start=1)))
    first = avg(five, {})
    assert first.state["high_hits"] == {"b1:1": 1.0, "b5:1": 1.0}
    assert first.state["low_hits"] == dict.fromkeys(("b1:1", "b2:1", "b4:1", "b5:1"), 1.0)
    assert said_of(first, "b3:1") == "b3:1 at 52.0 % is in the middle and has no partner."
    too_briefly = "b5:1 at 80.0 % is 60 points over its partner b1:1, for 1 round so far; the rule needs 2."
    assert said_of(first, "b5:1") == too_briefly
    assert taken(avg(five, first.state)) == []
    assert taken(avg(five, first.state, maxUnloadPercentage=0.5, minUnloadMessage=250)) == []
    moved = avg(five, first.state, maxUnloadPercentage=0.5, minUnloadMessage=249)
    assert taken(moved) == ["b5-0", "b5-1"]
    assert said_of(moved, "b5:1") == (
        "b5:1 at 80.0 % is 60 points over its partner b1:1, and the limit of 40 has been reached for long enough: "
        "2 bundles to go there, for 250 msg/s to move."
    )
    assert said_of(moved, "t/b5-1/0x00000000_0xffffffff") == (
        "t/b5-1/0x00000000_0xffffffff (100 msg/s) leaves b5:1 for b1:1: it fits into the 150 msg/s left to move."
    )
