"""ThresholdShedder: its limits, how much goes, and the idle broker that is fed."""

import pytest

from evenkeel.model.load import LoadData
from evenkeel.settings import Settings
from evenkeel.shed.strategies import threshold_shedder
from evenkeel.shed.try_shedder import try_shedder
from tests.shed.clusters import MIB, broker, cluster, said_of, taken

QUARTER = {"loadBalancerBrokerThresholdShedderPercentage": 25, "loadBalancerHistoryResourcePercentage": 0.0}


def three_brokers(mib_per_s: float) -> LoadData:
    return cluster(
        broker("broker1:8080", 40.0, mib=[mib_per_s / 10] * 10),
        broker("broker2:8080", 10.0, mib=[5.0] * 2),
        broker("broker3:8080", 10.0, mib=[5.0] * 2),
    )


@pytest.mark.parametrize(
    ("cpu", "rule"),
    [
        pytest.param(74.9, "below_threshold", id="a broker less than 25 points over the average keeps its bundles"),
        pytest.param(75.0, "above_threshold", id="a broker 25 points over the average sheds"),
        pytest.param(75.1, "above_threshold", id="a broker more than 25 points over the average sheds"),
    ],
)
def test_a_broker_sheds_from_its_distance_to_the_average_on(cpu: float, rule: str) -> None:
    brokers = [broker("b1:8080", cpu, mib=[100.0] * 10), broker("b2:8080", 100.0 - cpu, mib=[5.0] * 2)]
    found = try_shedder("ThresholdShedder", brokers, QUARTER)
    assert [row.rule for row in found.considered if row.subject == "b1:8080"] == [rule]
    assert taken(found) == (["b1-0"] if rule == "above_threshold" else [])


@pytest.mark.parametrize(
    ("mib_per_s", "gone"),
    [
        pytest.param(199.9, [], id="less than 10 MiB/s to offload is not worth moving"),
        pytest.param(200.0, ["b1-0"], id="10 MiB/s to offload is worth moving"),
        pytest.param(200.1, ["b1-0"], id="more than 10 MiB/s to offload is worth moving"),
    ],
)
def test_the_minimum_throughput_must_be_reached(mib_per_s: float, gone: list[str]) -> None:
    """A broker just at its limit offloads 5 % of its throughput."""
    brokers = [broker("b1:8080", 75.0, mib=[mib_per_s / 10] * 10), broker("b2:8080", 25.0, mib=[5.0] * 2)]
    assert taken(try_shedder("ThresholdShedder", brokers, QUARTER)) == gone


@pytest.mark.parametrize(
    ("idle", "gone"),
    [
        pytest.param(25.1, [], id="a broker less than 25 points under the average is not fed"),
        pytest.param(25.0, [], id="a broker 25 points under the average is not fed"),
        pytest.param(24.9, ["b1-0"], id="a broker more than 25 points under the average is fed by the busiest one"),
    ],
)
def test_a_broker_must_be_below_the_lower_boundary_to_be_fed(idle: float, gone: list[str]) -> None:
    others = (150.0 - idle) / 2
    brokers = [broker(f"b{n}:8080", others, mib=[100.0] * 4) for n in (1, 2)]
    found = try_shedder(
        "ThresholdShedder", [*brokers, broker("b3:8080", idle)], {**QUARTER, "lowerBoundarySheddingEnabled": True}
    )
    assert taken(found) == gone


def test_the_busiest_broker_feeds_an_idle_one_and_is_spoken_of_once() -> None:
    brokers = [broker("b1:8080", 45.0, mib=[40.0] * 10), *(broker(f"b{i}:8080", 45.0) for i in (2, 3))]
    brokers.append(broker("b4:8080", 10.0))
    assert try_shedder("ThresholdShedder", brokers).unloads == ()
    fed = try_shedder("ThresholdShedder", brokers, {"lowerBoundarySheddingEnabled": True})
    assert fed.unloads == (("t/b1-0/0x00000000_0xffffffff", "b1:8080"),)
    subjects = [row.subject for row in fed.considered if row.subject_kind == "broker"]
    assert sorted(subjects) == sorted(report.broker for report in brokers)
    assert said_of(fed, "b1:8080") == (
        "The idlest broker at 10.0 % is below the lower boundary of 26.3 %: "
        "b1:8080, the busiest at 45.0 %, gives 1 bundle."
    )


def test_concepts_threshold_shedder_at_40_10_10() -> None:
    """Only broker1 sheds, as the page says: 40 - 20 - 10 + 5 = 15 % of its traffic. Reaching the limit is enough."""
    shed = threshold_shedder.shed(three_brokers(100.0), {}, Settings())
    assert [from_ for _, from_ in shed.unloads] == ["broker1:8080", "broker1:8080"]
    (row,) = (row for row in shed.considered if row.subject == "broker1:8080")
    assert row.sentence() == (
        "broker1:8080 at 40.0 % is 20.0 points over the cluster's average of 20.0 %; the limit is 10 points: "
        "2 bundles to go, for 15.0 MiB/s to offload."
    )


def test_article_usage_moves_by_a_tenth_towards_the_latest_figure() -> None:
    shed = threshold_shedder.shed(three_brokers(100.0), {"usage_average": {"broker1:8080": 0.2}}, Settings())
    assert abs(shed.state["usage_average"]["broker1:8080"] - (0.2 * 0.9 + 0.4 * 0.1)) < 1e-12


def test_administration_threshold_shedder_aims_at_the_limit_and_not_below_the_average() -> None:
    """The page brings a broker 5 % below the average; it is 5 points below average and threshold together."""
    shed = threshold_shedder.shed(three_brokers(100.0), {}, Settings())
    (row,) = (row for row in shed.considered if row.subject == "broker1:8080")
    share = row.numbers["to_offload"] / (100 * MIB)
    assert abs((0.40 - share) - (0.20 + 0.10 - 0.05)) < 1e-6


def test_article_threshold_shedder_sheds_at_the_limit_already() -> None:
    """ "Bigger than" the average and the threshold, says the article; equal is enough, and 32 bits decide at 30 %."""
    even = cluster(
        broker("b1:8080", 30.0, mib=[100.0] * 10),
        broker("b2:8080", 15.0, mib=[5.0] * 2),
        broker("b3:8080", 15.0, mib=[5.0] * 2),
    )
    assert {from_ for _, from_ in threshold_shedder.shed(even, {}, Settings()).unloads} == {"b1:8080"}
