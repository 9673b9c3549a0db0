"""UniformLoadShedder and AvgShedder at their limits: what is reached, exceeded, rounded, counted and said."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from evenkeel.model.averages import updated
from evenkeel.model.load import BrokerReport, BundleHistory, BundleStats, LoadData, ResourceUsage
from evenkeel.settings import Settings, Value
from evenkeel.shed.shedder import Shed, ShedderState
from evenkeel.shed.strategies import avg_shedder, uniform_load_shedder

MIB = 1_048_576.0
RATE_LIMIT = "loadBalancerMsgRateDifferenceShedderThreshold"
THROUGHPUT_LIMIT = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"


def bundles(broker: int, *rates: float) -> dict[str, BundleStats]:
    return {
        f"t/n{broker}-{i}/0x00000000_0xffffffff": BundleStats(topics=1, msg_rate_in=rate, msg_throughput_in=rate)
        for i, rate in enumerate(rates)
    }


def cluster(*brokers: Mapping[str, BundleStats], cpu: tuple[float, ...] = (), mib: tuple[float, ...] = ()) -> LoadData:
    """b1, b2, … with these bundles; `mib` replaces a broker's throughput in the report."""
    reports, histories = {}, dict[str, BundleHistory]()
    for i, stats in enumerate(brokers):
        reports[f"b{i + 1}:1"] = BrokerReport(
            f"b{i + 1}:1",
            cpu=ResourceUsage(cpu[i] if cpu else 50.0, 100.0),
            msg_rate_in=sum(found.msg_rate_in for found in stats.values()),
            msg_throughput_in=mib[i] * MIB if mib else 1.0,
            bundles=frozenset(stats),
            stats=stats,
        )
        histories |= {bundle: updated(None, found) for bundle, found in stats.items()}
    return LoadData(reports, histories)


def uniform(load: LoadData, **values: Value) -> Shed:
    return uniform_load_shedder.shed(load, {}, Settings().with_values(values))


def avg(load: LoadData, state: ShedderState, **values: Value) -> Shed:
    return avg_shedder.shed(load, state, Settings().with_values(values))


def taken(shed: Shed) -> list[str]:
    return [bundle.split("/")[1] for bundle, _ in shed.unloads]


def said_of(shed: Shed, subject: str) -> str:
    (row,) = (row for row in shed.considered if row.subject == subject)
    return row.sentence()


def test_the_rate_must_be_exceeded_and_the_minimum_reached() -> None:
    wanted = {"minUnloadMessage": 1000, "maxUnloadPercentage": 0.2}
    idle = bundles(2, 10_000.0)
    at_limit = uniform(cluster(bundles(1, 14_000.0, 1000.0), idle), **wanted)
    assert taken(at_limit) == []
    assert said_of(at_limit, "b1:1") == (
        "b1:1, the busiest with 15,000 msg/s, has 50.0 % more than the idlest with 10,000 msg/s; the limit is 50.0 %."
    )
    assert taken(uniform(cluster(bundles(1, 14_000.0, 1000.0, 1.0), idle), **wanted)) == ["n1-1"]
    over = cluster(bundles(1, 14_007.0, 1000.0), idle)
    assert taken(uniform(over, **wanted | {"minUnloadMessage": 1001})) == ["n1-1"]
    refused = uniform(over, **wanted | {"minUnloadMessage": 1002})
    assert taken(refused) == []
    assert said_of(refused, "b1:1") == (
        "b1:1 is far busier than the idlest broker, but the 1,001 msg/s to move is less than the 1,002 msg/s worth "
        "moving."
    )


def test_throughput_is_not_tried_where_the_rate_leads_to_nothing() -> None:
    load = cluster(bundles(1, 200.0, 100.0), bundles(2, 100.0), mib=(900.0, 10.0))
    assert taken(uniform(load)) == []
    assert [row.rule for row in uniform(load).considered if row.broker == "b1:1"] == ["below_minimum_unload"]
    by_throughput = uniform(load, **{RATE_LIMIT: 0.0})
    assert taken(by_throughput) == ["n1-0", "n1-1"]
    assert said_of(by_throughput, "b1:1") == (
        "b1:1, the busiest with 900.0 MiB/s, has 90 times the traffic of the idlest, 10.0 MiB/s; the limit is 4: "
        "2 bundles to go, for 178.0 MiB/s to move."
    )


def test_fractions_of_a_message_are_not_deducted_and_idle_bundles_go_along() -> None:
    """(90,000 - 10,000) x 0.2 = 16,000 to move: 15,999.9 leaves 1, which twice 0.9 does not use up."""
    busy = bundles(1, 15_999.9, 0.9, 0.9, 0.0, 73_998.3)
    assert taken(uniform(cluster(busy, bundles(2, 10_000.0)))) == ["n1-0", "n1-1", "n1-2", "n1-3"]
    capped = uniform(cluster(busy, bundles(2, 10_000.0)), maxUnloadBundleNumPerShedding=2)
    assert taken(capped) == ["n1-0", "n1-1"]
    assert said_of(capped, "t/n1-3/0x00000000_0xffffffff") == (
        "t/n1-3/0x00000000_0xffffffff stays on b1:1: 2 is the most that may go at once."
    )


def test_a_sole_bundle_stays_uniformly_and_goes_pair_by_pair() -> None:
    load = cluster(bundles(1, 90_000.0), bundles(2, 1000.0), cpu=(80.0, 20.0))
    assert taken(uniform(load, maxUnloadPercentage=1.0)) == []
    once = {"loadBalancerAvgShedderHitCountHighThreshold": 1, "minUnloadMessage": 100}
    small = cluster(bundles(1, 900.0), {}, cpu=(80.0, 20.0))
    assert taken(avg(small, {}, maxUnloadPercentage=1.0, **once)) == ["n1-0"]


def test_with_both_limits_switched_off_nothing_is_looked_at() -> None:
    found = uniform(cluster(bundles(1, 9e4, 1.0), bundles(2, 1.0)), **{RATE_LIMIT: 0.0, THROUGHPUT_LIMIT: -1.0})
    assert [(row.outcome, row.rule) for row in found.considered] == [("skipped", "no_difference_looked_at")]


@pytest.mark.parametrize(
    ("busy", "rounds"),
    [(34.99, []), (35.0, [8]), (59.99, [8]), (60.0, [2, 4, 6, 8])],
    ids=["below", "low", "under high", "high"],
)
def test_a_pair_gives_when_its_difference_has_lasted(busy: float, rounds: list[int]) -> None:
    """Against 20 %: 15 points for eight rounds, 40 points for two; reaching them counts."""
    load = cluster(bundles(1, *[2500.0] * 20), bundles(2, *[500.0] * 20), cpu=(busy, 20.0))
    state: ShedderState = {}
    acted = []
    for number in range(1, 9):
        found = avg(load, state)
        state = found.state
        acted += [number] * bool(found.unloads)
        assert set(found.destinations.values()) <= {"b2:1"}
        assert not found.unloads or state == {"low_hits": {}, "high_hits": {}}
    assert acted == rounds


def test_the_low_threshold_resets_the_count_of_the_high_one() -> None:
    large, small = (cluster(bundles(1, 9e4), bundles(2, 1e3), cpu=(x, 20.0)) for x in (80.0, 50.0))
    first = avg(large, {}).state
    assert first == {"low_hits": {"b1:1": 1.0, "b2:1": 1.0}, "high_hits": {"b1:1": 1.0, "b2:1": 1.0}}
    assert avg(small, first).state == {"low_hits": {"b1:1": 2.0, "b2:1": 2.0}, "high_hits": {}}


def test_a_broker_takes_its_count_along_into_another_pair() -> None:
    four = [bundles(n, 1000.0) for n in range(4)]
    before = {"low_hits": {"b1:1": 7.0}, "high_hits": {}}
    found = avg(cluster(*four, cpu=(60.0, 40.0, 39.0, 20.0)), before)
    assert [row.rule for row in found.considered if row.broker == "b1:1"] == ["not_above_minimum_unload"]
    assert found.state["low_hits"] == {}
