"""The worked examples of Pulsar's own pages, with what Pulsar really answers.

The name of a test begins with the page: `administration` is "Load balance across brokers"
(administration-load-balance), `concepts` is "Concepts" of broker load balancing
(concepts-broker-load-balancing-concepts), `article` is "Achieving Broker Load Balancing with Apache Pulsar",
`configuration` is the text beside a key in broker.conf. Where a page and Pulsar's classes differ, the test holds to the
classes and says so.
"""

from __future__ import annotations

from evenkeel.model.averages import updated
from evenkeel.model.load import BrokerReport, BundleHistory, BundleStats, LoadData, ResourceUsage
from evenkeel.settings import Settings
from evenkeel.shed.strategies import overload_shedder, threshold_shedder

MIB = 1_048_576.0


def broker(name: str, cpu: float, bundles: int, mib_per_s: float) -> tuple[BrokerReport, dict[str, BundleHistory]]:
    """A broker whose throughput comes in equal parts from one-bundle namespaces."""
    each = BundleStats(topics=5, msg_throughput_in=mib_per_s * MIB / bundles if bundles else 0.0)
    stats = {f"t/{name}-{i:02}/0x00000000_0xffffffff": each for i in range(bundles)}
    usage = ResourceUsage(cpu, 100.0)
    report = BrokerReport(name, cpu=usage, msg_throughput_in=mib_per_s * MIB, bundles=frozenset(stats), stats=stats)
    return report, {bundle: updated(None, found) for bundle, found in stats.items()}


def cluster(*brokers: tuple[BrokerReport, dict[str, BundleHistory]]) -> LoadData:
    histories: dict[str, BundleHistory] = {}
    for _, own in brokers:
        histories |= own
    return LoadData({report.broker: report for report, _ in brokers}, histories)


def test_administration_overload_shedder_at_95_percent() -> None:
    """(95 % - 85 %) + 5 % = 15 % of the broker's traffic, and the last bundle overshoots.

    The page also says that exactly one bundle goes, by message rate: it is as many as it takes, by throughput.
    """
    load = cluster(broker("b1:8080", 95.0, 10, 100.0), broker("b2:8080", 20.0, 2, 10.0))
    shed = overload_shedder.shed(load, {}, Settings())
    assert [from_ for _, from_ in shed.unloads] == ["b1:8080", "b1:8080"]
    (row,) = (row for row in shed.considered if row.subject == "b1:8080")
    assert abs(row.numbers["to_offload"] - 15 * MIB) < 1.0


def test_administration_overload_shedder_acts_at_the_threshold_already() -> None:
    """The concepts page says "reaches", the administration page "exceeds"; reaching it is enough."""
    load = cluster(broker("b1:8080", 85.0, 10, 100.0), broker("b2:8080", 20.0, 2, 10.0))
    assert len(overload_shedder.shed(load, {}, Settings()).unloads) == 1


def test_administration_heap_memory_never_makes_a_broker_overloaded() -> None:
    """The pages name memory among the resources; heap never counts, and direct memory has weight 0 by default."""
    report, histories = broker("b1:8080", 10.0, 4, 100.0)
    full = ResourceUsage(100.0, 100.0)
    stuffed = BrokerReport(
        "b1:8080",
        cpu=report.cpu,
        memory=full,
        direct_memory=full,
        msg_throughput_in=report.msg_throughput_in,
        bundles=report.bundles,
    )
    load = cluster((stuffed, histories), broker("b2:8080", 20.0, 2, 10.0))
    assert overload_shedder.shed(load, {}, Settings()).unloads == ()
    heavy = Settings().with_values({"loadBalancerDirectMemoryResourceWeight": 1.0})
    assert overload_shedder.shed(load, {}, heavy).unloads != ()


def three_brokers(mib_per_s: float) -> LoadData:
    return cluster(
        broker("broker1:8080", 40.0, 10, mib_per_s),
        broker("broker2:8080", 10.0, 2, 10.0),
        broker("broker3:8080", 10.0, 2, 10.0),
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


def test_concepts_threshold_shedder_does_nothing_for_little_traffic() -> None:
    """What the page leaves out: 15 % of 60 MiB/s is less than the 10 MiB/s worth moving."""
    shed = threshold_shedder.shed(three_brokers(60.0), {}, Settings())
    assert shed.unloads == ()
    (row,) = (row for row in shed.considered if row.subject == "broker1:8080")
    assert row.rule == "below_minimum_throughput"


def test_article_usage_moves_by_a_tenth_towards_the_latest_figure() -> None:
    shed = threshold_shedder.shed(three_brokers(100.0), {"usage_average": {"broker1:8080": 0.2}}, Settings())
    assert abs(shed.state["usage_average"]["broker1:8080"] - (0.2 * 0.9 + 0.4 * 0.1)) < 1e-12


# Bundles and hashes


# When a bundle is split


# Shedding


def test_administration_threshold_shedder_aims_at_the_limit_and_not_below_the_average() -> None:
    """The page brings a broker 5 % below the average; it is 5 points below average and threshold together."""
    shed = threshold_shedder.shed(three_brokers(100.0), {}, Settings())
    (row,) = (row for row in shed.considered if row.subject == "broker1:8080")
    share = row.numbers["to_offload"] / (100 * MIB)
    assert abs((0.40 - share) - (0.20 + 0.10 - 0.05)) < 1e-6


def test_article_threshold_shedder_sheds_at_the_limit_already() -> None:
    """ "Bigger than" the average and the threshold, says the article; equal is enough, and 32 bits decide at 30 %."""
    even = cluster(
        broker("b1:8080", 30.0, 10, 1000.0), broker("b2:8080", 15.0, 2, 10.0), broker("b3:8080", 15.0, 2, 10.0)
    )
    assert {from_ for _, from_ in threshold_shedder.shed(even, {}, Settings()).unloads} == {"b1:8080"}


# Placement


# specified_positions_divide, flow_or_qps_equally_divide


# UniformLoadShedder, AvgShedder, TransferShedder: see test_differences.py and test_transfers.py
