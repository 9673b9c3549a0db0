"""UniformLoadShedder at its limits: what is reached, exceeded, rounded and said."""

import math

import pytest

from evenkeel.model.load import LoadData
from evenkeel.settings import Settings, Value
from evenkeel.shed.shedder import Shed
from evenkeel.shed.strategies import uniform_load_shedder
from evenkeel.shed.try_shedder import try_shedder
from tests.shed.clusters import MIB, broker, cluster, said_of, taken

RATE_LIMIT = "loadBalancerMsgRateDifferenceShedderThreshold"
THROUGHPUT_LIMIT = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"


def uniform(load: LoadData, **values: Value) -> Shed:
    return uniform_load_shedder.shed(load, {}, Settings().with_values(values))


@pytest.mark.parametrize(
    ("rate", "gone"),
    [
        pytest.param(14_999.0, [], id="less than 50 % more than the idlest is even"),
        pytest.param(15_000.0, [], id="50 % more than the idlest is even"),
        pytest.param(15_001.0, ["b1-1"], id="over 50 % more than the idlest is not"),
    ],
)
def test_the_difference_in_rate_must_be_exceeded(rate: float, gone: list[str]) -> None:
    brokers = [broker("b1:8080", rates=(rate - 1_000.0, 1_000.0)), broker("b2:8080", rates=(10_000.0,))]
    assert taken(try_shedder("UniformLoadShedder", brokers, {"minUnloadMessage": 900})) == gone


@pytest.mark.parametrize(
    ("mib_per_s", "gone"),
    [
        pytest.param(399.0, [], id="less than 4 times the throughput of the idlest is even"),
        pytest.param(400.0, [], id="4 times the throughput of the idlest is even"),
        pytest.param(401.0, ["b1-1"], id="more than 4 times the throughput of the idlest is not"),
    ],
)
def test_the_ratio_of_throughput_must_be_exceeded(mib_per_s: float, gone: list[str]) -> None:
    brokers = [broker("b1:8080", mib=(mib_per_s - 40.0, 40.0)), broker("b2:8080", mib=(100.0,))]
    assert taken(try_shedder("UniformLoadShedder", brokers)) == gone


@pytest.mark.parametrize(
    ("least", "gone"),
    [
        pytest.param(1_000, ["b1-1"], id="1,001 msg/s are more than the minimum and go"),
        pytest.param(1_001, ["b1-1"], id="1,001 msg/s reach the minimum and go"),
        pytest.param(1_002, [], id="1,001 msg/s are less than the minimum and stay"),
    ],
)
def test_the_minimum_to_unload_must_be_reached(least: int, gone: list[str]) -> None:
    """A fifth of the difference of 5,007 msg/s is 1,001, in whole messages."""
    brokers = [broker("b1:8080", rates=(14_007.0, 1_000.0)), broker("b2:8080", rates=(10_000.0,))]
    assert taken(try_shedder("UniformLoadShedder", brokers, {"minUnloadMessage": least})) == gone


@pytest.mark.parametrize(
    ("figure", "whole"), [(math.nan, 0), (-1.9, -1), (1e12, 2_147_483_647), (-math.inf, -2_147_483_648)]
)
def test_a_figure_is_cut_as_by_a_java_cast_to_int(figure: float, whole: int) -> None:
    assert uniform_load_shedder._java_int(figure) == whole


def test_the_rate_must_be_exceeded_and_the_minimum_reached() -> None:
    wanted = {"minUnloadMessage": 1000, "maxUnloadPercentage": 0.2}
    idle = broker("b2:1", rates=(10_000.0,))
    at_limit = uniform(cluster(broker("b1:1", rates=(14_000.0, 1000.0)), idle), **wanted)
    assert taken(at_limit) == []
    assert said_of(at_limit, "b1:1") == (
        "b1:1, the busiest with 15,000 msg/s, has 50.0 % more than the idlest with 10,000 msg/s; the limit is 50.0 %."
    )
    assert taken(uniform(cluster(broker("b1:1", rates=(14_000.0, 1000.0, 1.0)), idle), **wanted)) == ["b1-1"]
    over = cluster(broker("b1:1", rates=(14_007.0, 1000.0)), idle)
    assert taken(uniform(over, **wanted | {"minUnloadMessage": 1001})) == ["b1-1"]
    refused = uniform(over, **wanted | {"minUnloadMessage": 1002})
    assert taken(refused) == []
    assert said_of(refused, "b1:1") == (
        "b1:1 is far busier than the idlest broker, but the 1,001 msg/s to move is less than the minimum of "
        "1,002 msg/s."
    )


def test_throughput_is_not_tried_where_the_rate_leads_to_nothing() -> None:
    load = cluster(
        broker("b1:1", rates=(200.0, 100.0), msg_throughput_in=900 * MIB),
        broker("b2:1", rates=(100.0,), msg_throughput_in=10 * MIB),
    )
    assert taken(uniform(load)) == []
    assert [row.rule for row in uniform(load).considered if row.broker == "b1:1"] == ["below_minimum_unload"]
    by_throughput = uniform(load, **{RATE_LIMIT: 0.0})
    assert taken(by_throughput) == ["b1-0", "b1-1"]
    assert said_of(by_throughput, "b1:1") == (
        "b1:1, the busiest with 900.0 MiB/s, has 90 times the traffic of the idlest, 10.0 MiB/s; the limit is 4: "
        "2 bundles to go, for 178.0 MiB/s to move."
    )


def test_fractions_of_a_message_are_not_deducted_and_idle_bundles_go_along() -> None:
    """(90,000 - 10,000) x 0.2 = 16,000 to move: 15,999.9 leaves 1, which twice 0.9 does not use up."""
    load = cluster(broker("b1:1", rates=(15_999.9, 0.9, 0.9, 0.0, 73_998.3)), broker("b2:1", rates=(10_000.0,)))
    assert taken(uniform(load)) == ["b1-0", "b1-1", "b1-2", "b1-3"]
    capped = uniform(load, maxUnloadBundleNumPerShedding=2)
    assert taken(capped) == ["b1-0", "b1-1"]
    assert said_of(capped, "t/b1-3/0x00000000_0xffffffff") == (
        "t/b1-3/0x00000000_0xffffffff stays on b1:1: 2 is the most that may go at once."
    )


@pytest.mark.parametrize(("version", "gone"), [("3.0", 8), ("4.0", 8), ("4", 1), ("5", 1)])
def test_below_1000_msg_per_s_everything_leaves_before_pulsar_4_2(version: str, gone: int) -> None:
    load = cluster(broker("b1:1", rates=(20.0, 19.0, 18.0, 17.0, 15.0, 12.0, 10.0, 8.0)), broker("b2:1", rates=(19.0,)))
    shed = uniform(load, minUnloadMessage=0, evenkeelPulsarVersion=version)
    assert len(shed.unloads) == gone
    words = said_of(shed, "b1:1")
    assert ("and 1,000 msg/s more, as before Pulsar 4.2" in words) == (gone == 8), words


def test_a_sole_bundle_stays() -> None:
    load = cluster(broker("b1:1", 80.0, rates=(90_000.0,)), broker("b2:1", 20.0, rates=(1000.0,)))
    assert taken(uniform(load, maxUnloadPercentage=1.0)) == []


def test_with_both_limits_switched_off_nothing_is_looked_at() -> None:
    load = cluster(broker("b1:1", rates=(9e4, 1.0)), broker("b2:1", rates=(1.0,)))
    found = uniform(load, **{RATE_LIMIT: 0.0, THROUGHPUT_LIMIT: -1.0})
    assert [(row.outcome, row.rule) for row in found.considered] == [("skipped", "no_difference_looked_at")]


def test_administration_uniform_load_shedder_looks_at_throughput_only_where_the_rate_is_even() -> None:
    """The page has it look at both differences. Here both are above their limit, and only the rate is acted on."""
    busy = broker("b1:1", rates=(20_000.0, 10_000.0), msg_throughput_in=900 * MIB)
    idle = broker("b2:1", rates=(10_000.0,), msg_throughput_in=10 * MIB)
    both = uniform(cluster(busy, idle), maxUnloadPercentage=0.5)
    assert [row.unit for row in both.considered if row.subject == "b1:1"] == ["percent"]
    assert taken(both) == ["b1-1"]
    even = broker("b1:1", rates=(10_000.0, 1_000.0), msg_throughput_in=900 * MIB)
    only_throughput = uniform(cluster(even, idle), maxUnloadPercentage=0.5)
    assert "times the traffic of the idlest" in said_of(only_throughput, "b1:1")
