"""The worked examples of Pulsar's own pages, with what Pulsar really answers.

Pages: "Load balance across brokers" (administration-load-balance), "Concepts" of broker load balancing
(concepts-broker-load-balancing-concepts), and the article "Achieving Broker Load Balancing with Apache Pulsar". Where a
page and Pulsar's classes differ, the test holds to the classes and says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from evenkeel.decisions.averages import first_averages, updated, with_sample
from evenkeel.decisions.bundles import FULL_RANGE, apply_split, parse_range, topic_hash
from evenkeel.decisions.load import BrokerReport, BundleHistory, BundleStats, LoadData, Policies, ResourceUsage
from evenkeel.decisions.placement.pipeline import PlacementRound
from evenkeel.decisions.sentences import sentence
from evenkeel.decisions.shedding import overload_shedder, threshold_shedder
from evenkeel.decisions.splitting import flow_or_qps_equally_divide, range_equally_divide, topic_count_equally_divide
from evenkeel.decisions.splitting.cut import BundleTopics, SplitOption, TopicLoads
from evenkeel.settings import Settings

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


def test_concepts_range_equally_divide() -> None:
    assert range_equally_divide.cut(SplitOption(0x00000000, 0x80000000)).positions == (0x40000000,)


def test_article_halves_of_the_full_range_are_not_round() -> None:
    """The pages halve a namespace at 0x80000000; the class cuts the one full bundle at 0x7fffffff."""
    assert range_equally_divide.cut(SplitOption(0, 0xFFFFFFFF)).positions == (0x7FFFFFFF,)


def test_concepts_topic_count_equally_divide() -> None:
    """The page says 0x50000000; half-way between the two middle topics is 0x4d000000."""
    hashes = [0x10000000, 0x20000000, 0x35000000, 0x65000000, 0x70000000, 0x75000000]
    assert topic_count_equally_divide.cut(SplitOption(0, 0x80000000, BundleTopics(hashes))).positions == (0x4D000000,)


def test_article_topic_count_equally_divide() -> None:
    hashes = [0x0000, 0x0005, 0x0010, 0x0015, 0x0020, 0x0025]
    assert topic_count_equally_divide.cut(SplitOption(0x0000, 0x8000, BundleTopics(hashes))).positions == (0x0012,)


def test_concepts_flow_or_qps_equally_divide() -> None:
    """The pages split in rounds, each with one cut; one call gives all cuts."""
    hashes = [number << 24 for number in (10, 15, 24, 39, 58, 76)]
    loads = TopicLoads.of((found, 100.0 * n, 10 * MIB * n) for n, found in enumerate(hashes, start=1))
    limits = {"max_rate": 1100.0, "max_throughput": 110 * MIB, "difference": 0.1}
    cut = flow_or_qps_equally_divide.cut(SplitOption(0, 0xFFFFFFFF, BundleTopics(hashes, loads), **limits))
    assert cut.positions == (0x30800001,)


def test_article_boundaries_after_a_split() -> None:
    """The article writes ranges of 16 bits; with Pulsar's 32 bits the same picture."""
    split = apply_split((0, 0x80000000, 0xFFFFFFFF), parse_range("0x00000000_0x80000000"), [0x40000000])
    assert split is not None
    assert split.boundaries == (0, 0x40000000, 0x80000000, 0xFFFFFFFF)
    assert [str(child) for child in split.children] == ["0x00000000_0x40000000", "0x40000000_0x80000000"]


def test_article_hash_of_my_topic() -> None:
    """The article's 0x0000000F is an illustration: the hash is that of the full name."""
    assert topic_hash("persistent://public/default/my-topic") == 0x2BAD45F7


def test_article_last_bundle_includes_the_highest_hash() -> None:
    assert FULL_RANGE.includes(0xFFFFFFFF)
    assert not parse_range("0x00000000_0x80000000").includes(0x80000000)


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
    assert sentence(row) == (
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
    shed = threshold_shedder.shed(three_brokers(100.0), {"broker1:8080": 0.2}, Settings())
    assert abs(shed.state["broker1:8080"] - (0.2 * 0.9 + 0.4 * 0.1)) < 1e-12


def test_article_short_and_long_term_averages() -> None:
    """Eleven samples of 100 msg/s and one of 1,000: the short-term average of ten moves faster."""
    short, long = first_averages(10), first_averages(1000)
    for rate in [100.0] * 11 + [1000.0]:
        sample = BundleStats(msg_rate_in=rate)
        short, long = with_sample(short, sample), with_sample(long, sample)
    assert (short.msg_rate_in, short.samples) == (190.0, 10)
    assert (long.msg_rate_in, long.samples) == (175.0, 12)


def test_administration_anti_affinity_table() -> None:
    """The table's candidates, step by step; any of them may be chosen, and the page's choice is one of them.

    It holds with failureDomainsEnabled=true only, which is off by default.
    """
    steps = [
        ("Broker1:1", ["Broker1:1", "Broker2:1", "Broker3:1", "Broker4:1"]),
        ("Broker3:1", ["Broker3:1", "Broker4:1"]),
        ("Broker2:1", ["Broker2:1", "Broker4:1"]),
        ("Broker4:1", ["Broker4:1"]),
    ]
    owned: dict[str, list[str]] = {f"Broker{i}:1": [] for i in range(1, 5)}
    for number, (chosen, candidates) in enumerate(steps, start=1):
        assert candidates_of(f"t/Namespace{number}/0x00000000_0xffffffff", owned, domains=True) == candidates
        owned[chosen].append(f"t/Namespace{number}/0x00000000_0xffffffff")
    after_one = {**{name: [] for name in owned}, "Broker1:1": ["t/Namespace1/0x00000000_0xffffffff"]}
    without = candidates_of("t/Namespace2/0x00000000_0xffffffff", after_one, domains=False)
    assert without == ["Broker2:1", "Broker3:1", "Broker4:1"]


def candidates_of(bundle: str, owned: dict[str, list[str]], *, domains: bool) -> list[str]:
    policies = Policies(
        groups={f"t/Namespace{i}": "group" for i in range(1, 5)},
        domains={"Domain1": ("Broker1:1", "Broker2:1"), "Domain2": ("Broker3:1", "Broker4:1")},
    )
    settings = Settings().with_values({"failureDomainsEnabled": domains})
    placing = PlacementRound(LoadData(dict(_reports(owned))), policies, settings)
    return [a.name for a in placing.assign(bundle).candidates if a.verdict in ("best", "candidate")]


def _reports(owned: dict[str, list[str]]) -> Iterable[tuple[str, BrokerReport]]:
    for name, bundles in owned.items():
        yield name, BrokerReport(name, bundles=frozenset(bundles))
