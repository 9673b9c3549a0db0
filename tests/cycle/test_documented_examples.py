"""The worked examples of Pulsar's own pages, with what Pulsar really answers.

The name of a test begins with the page: `administration` is "Load balance across brokers"
(administration-load-balance), `concepts` is "Concepts" of broker load balancing
(concepts-broker-load-balancing-concepts), `article` is "Achieving Broker Load Balancing with Apache Pulsar",
`configuration` is the text beside a key in broker.conf. Where a page and Pulsar's classes differ, the test holds to the
classes and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from evenkeel.model.averages import first_averages, updated, with_sample
from evenkeel.model.bundles import (
    FULL_RANGE,
    apply_split,
    bundle_of,
    initial_boundaries,
    parse_range,
    parse_topic,
    topic_hash,
)
from evenkeel.model.load import (
    BrokerAverages,
    BrokerReport,
    BundleHistory,
    BundleStats,
    LoadData,
    Policies,
    ResourceUsage,
)
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.plan_splits.rules.bundle_splitter_task import find_bundles_to_split
from evenkeel.settings import Settings, resolve
from evenkeel.shed.strategies import overload_shedder, threshold_shedder
from evenkeel.split_algorithms import (
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)
from evenkeel.split_algorithms.split_option import BundleTopics, SplitOption, TopicLoads

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


# Bundles and hashes


def test_article_an_administrator_chooses_four_bundles_by_default() -> None:
    """The pages' four bundles are 4.x's default; Pulsar 5 makes 32."""
    four = Settings.for_generation("4.x").defaultNumberOfNamespaceBundles
    assert [f"{x:08x}" for x in initial_boundaries(four)] == [
        "00000000",
        "40000000",
        "80000000",
        "c0000000",
        "ffffffff",
    ]
    assert Settings.for_generation("5.0").defaultNumberOfNamespaceBundles == 32


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("my-topic", 0x2BAD45F7),
        ("public/default/my-topic", 0x2BAD45F7),
        ("non-persistent://public/default/my-topic", 0x831E214A),
        ("persistent://public/default/my-topic-partition-0", 0x3D4B4235),
        ("persistent://public/default/my-topic-partition-1", 0x4A4C72A3),
        ("persistent://my-tenant/my-namespace/orders", 0x20124DDE),
    ],
)
def test_concepts_a_topic_is_hashed_by_its_full_name(topic: str, found: int) -> None:
    """The pages hash "the topic name"; domain, tenant, namespace and partition are part of it."""
    assert parse_topic(topic).hash == found


def test_article_the_last_bundle_is_closed_and_pulsar_cannot_look_up_its_last_hash() -> None:
    """The article includes 0xffffffff in the last bundle; Pulsar's look-up raises, and Evenkeel follows the page."""
    last = topic_hash("persistent://t/n/SO0aSc")
    assert last == 0xFFFFFFFF
    assert str(bundle_of((0, 0x80000000, 0xFFFFFFFF), last)) == "0x80000000_0xffffffff"


# When a bundle is split


def hot(topics: int, rate: float = 0.0) -> dict[str, BundleStats]:
    return {"t/n/0x00000000_0x80000000": BundleStats(topics=topics, msg_rate_in=rate)}


def to_split(latest: dict[str, BundleStats], past: dict[str, BundleStats], count: int = 2, **values: int) -> list[str]:
    brokers = {
        "b1:8080": BrokerReport("b1:8080", stats=latest, bundles=frozenset(latest)),
        "b2:8080": BrokerReport("b2:8080"),
    }
    histories = {bundle: updated(None, stats) for bundle, stats in past.items()}
    return list(find_bundles_to_split(brokers, histories, {"t/n": count}, Settings().with_values(values)).splits)


def test_administration_a_bundle_is_split_above_each_limit_and_not_at_it() -> None:
    assert to_split(hot(1_000), {}) == []
    assert to_split(hot(1_001), {}) == list(hot(0))


def test_article_topics_count_as_they_are_now_and_rates_as_they_have_long_been() -> None:
    """The article judges all by "load"; Pulsar takes topics and sessions as last reported, and rates from averages."""
    assert to_split(hot(5, rate=90_000.0), hot(5, rate=10.0)) == []
    assert to_split(hot(5, rate=10.0), hot(5, rate=30_001.0)) == list(hot(0))


def test_article_a_namespace_at_its_maximum_of_bundles_is_left_alone() -> None:
    """Bundles chosen in the same round count too, which the article leaves out."""
    assert to_split(hot(2_000), {}, count=127) != []
    assert to_split(hot(2_000), {}, count=128) == []
    two = {**hot(2_000), "t/n/0x80000000_0xffffffff": BundleStats(topics=2_000)}
    assert len(to_split(two, {}, count=127)) == 1


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


def test_administration_memory_has_weight_0_by_default() -> None:
    """The page lists 1.0 for memory and direct memory."""
    settings = Settings()
    assert settings.loadBalancerMemoryResourceWeight == settings.loadBalancerDirectMemoryResourceWeight == 0.0
    assert (
        settings.loadBalancerCPUResourceWeight == settings.bandwidth_in_weight == settings.bandwidth_out_weight == 1.0
    )


def test_administration_the_old_spelling_of_bandwidth_still_counts() -> None:
    found = resolve(observed=None, overrides={"loadBalancerBandwithInResourceWeight": 0.5})
    assert found.settings.bandwidth_in_weight == 0.5


def test_administration_defaults_of_4_and_of_5() -> None:
    """The page's figures are 4.x's; it names ThresholdShedder, which Pulsar 5 replaces by AvgShedder."""
    four, five = Settings.for_generation("4.x"), Settings.for_generation("5.0")
    assert (four.loadBalancerLoadSheddingStrategy, five.loadBalancerLoadSheddingStrategy) == (
        "ThresholdShedder",
        "AvgShedder",
    )
    for settings in (four, five):
        assert settings.loadBalancerSheddingIntervalMinutes == 1
        assert settings.loadBalancerSheddingGracePeriodMinutes == 30
        assert settings.loadBalancerBrokerOverloadedThresholdPercentage == 85
        assert settings.loadBalancerNamespaceBundleMaxTopics == settings.loadBalancerNamespaceBundleMaxSessions == 1_000
        assert settings.loadBalancerNamespaceBundleMaxMsgRate == 30_000
        assert settings.loadBalancerNamespaceBundleMaxBandwidthMbytes == 100
        assert settings.loadBalancerNamespaceMaximumBundles == 128


# Placement


def standing(usages: dict[str, float], rates: dict[str, float]) -> LoadData:
    reports = {
        name: BrokerReport(
            name, cpu=ResourceUsage(cpu, 100.0), msg_rate_in=1.0, bundles=frozenset(["t/own/0x00000000_0xffffffff"])
        )
        for name, cpu in usages.items()
    }
    return LoadData(reports, averages={name: BrokerAverages(long_term_rate_in=rate) for name, rate in rates.items()})


def best(load: LoadData, bundle: str = "t/new/0x00000000_0xffffffff", **values: str | int | bool) -> tuple[str, ...]:
    return PlacementRound(load, Policies(), Settings().with_values(values)).assign(bundle).best


def test_article_least_long_term_message_rate_scores_by_long_term_rates() -> None:
    load = standing({"b1:1": 10.0, "b2:1": 10.0, "b3:1": 10.0}, {"b1:1": 300.0, "b2:1": 100.0, "b3:1": 200.0})
    assert best(load) == ("b2:1",)


def test_article_a_broker_is_overloaded_above_the_threshold_only() -> None:
    """The article's INF score needs more than 85 %; exactly 85 % is not overloaded."""
    rates = {"b1:1": 1.0, "b2:1": 100.0}
    assert best(standing({"b1:1": 85.0, "b2:1": 10.0}, rates)) == ("b1:1",)
    assert best(standing({"b1:1": 86.0, "b2:1": 10.0}, rates)) == ("b2:1",)


def test_article_bundles_given_away_count_before_they_are_reported() -> None:
    """Not in the article: what was assigned and is in no report yet counts with its long-term rate."""
    load = standing({"b1:1": 10.0, "b2:1": 10.0}, {"b1:1": 100.0, "b2:1": 50.0})
    given = {"b2:1": {"t/x/0x00000000_0xffffffff": updated(None, BundleStats(msg_rate_in=60.0))}}
    assert best(LoadData(load.brokers, averages=load.averages, preallocated=given)) == ("b1:1",)


def test_article_bundles_of_a_namespace_are_spread_before_any_load_is_looked_at() -> None:
    """Not in the article: with even distribution, as 4.x has by default and 5.0 has not, the strategy breaks ties."""
    load = standing({"b1:1": 10.0, "b2:1": 10.0}, {"b1:1": 1.0, "b2:1": 1e6})
    owned = {**load.brokers, "b1:1": BrokerReport("b1:1", bundles=frozenset(["t/new/0x00000000_0x80000000"]))}
    crowded = LoadData(owned, averages=load.averages)
    second = "t/new/0x80000000_0xffffffff"
    assert best(crowded, second) == ("b2:1",)
    assert best(crowded, second, loadBalancerDistributeBundlesEvenlyEnabled=False) == ("b1:1",)


def test_administration_the_overload_threshold_is_not_overload_shedders_alone() -> None:
    """The page keeps it to OverloadShedder; placement asks it too, and then looks past its own filters."""
    load = standing({"b1:1": 60.0, "b2:1": 10.0}, {"b1:1": 1.0, "b2:1": 100.0})
    assert best(load) == ("b1:1",)
    assert best(load, loadBalancerBrokerOverloadedThresholdPercentage=50) == ("b2:1",)


def test_configuration_least_resource_usage_at_10_30_80_percent() -> None:
    """The text beside loadBalancerAverageResourceUsageDifferenceThresholdPercentage: mean 40 %, so brokers 1 and 2.

    In 32 bits 30 % is 0.30000001, which with 0.1 is above the mean: only broker 1 is left.
    """
    load = standing({"broker1:1": 10.0, "broker2:1": 30.0, "broker3:1": 80.0}, {})
    assert best(load, loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight") == ("broker1:1",)


def test_concepts_the_destination_of_a_shed_bundle_is_chosen_before_it_is_unloaded() -> None:
    """The page leaves it to the look-up after unloading; the leader chooses first, and sends the unload there."""
    load = standing({"b1:1": 90.0, "b2:1": 10.0}, {"b1:1": 300.0, "b2:1": 100.0})
    placed = PlacementRound(load, Policies(), Settings()).place_shed("t/own/0x00000000_0xffffffff", "b1:1")
    assert placed.destination == "b2:1"


# specified_positions_divide, flow_or_qps_equally_divide


def test_concepts_specified_positions_divide() -> None:
    """As the page has it; its bundle holds two topics, and with fewer Pulsar cuts nothing."""
    topics = BundleTopics([0x30000000, 0x35000000])
    asked = SplitOption(0x00000000, 0x40000000, topics, positions=[0x33000000])
    assert specified_positions_divide.cut(asked).positions == (0x33000000,)
    assert specified_positions_divide.cut(replace(asked, topics=BundleTopics([0x30000000]))).positions == ()


@pytest.mark.parametrize(
    ("max_rate", "max_mib", "cuts"),
    [
        (450.0, 200, (0x1C800001, 0x2E800001, 0x48800001, 0x67000001)),
        (1900.0, 90, (0x2E800001, 0x67000001)),
        (1100.0, 110, (0x48800001,)),
    ],
    ids=["case 1, by rate", "case 2, by throughput", "case 3, both"],
)
def test_concepts_flow_or_qps_equally_divide(max_rate: float, max_mib: int, cuts: tuple[int, ...]) -> None:
    """The places are those of the page. Its numbers are not: it takes the mean of hexadecimal digits as if they were
    decimal (0x19500000, 0x31500000, …), and Pulsar adds 1. Nor are there rounds of splitting: one call gives all cuts.
    """
    hashes = [0x10000000, 0x15000000, 0x24000000, 0x39000000, 0x58000000, 0x76000000]
    loads = TopicLoads(hashes, [100.0 * n for n in range(1, 7)], [10.0 * MIB * n for n in range(1, 7)])
    option = SplitOption(0, 0xFFFFFFFF, BundleTopics(hashes, loads), None, max_rate, max_mib * MIB, 0.1)
    assert flow_or_qps_equally_divide.cut(option).positions == cuts


def test_concepts_flow_or_qps_leaves_a_bundle_alone_that_is_hardly_too_busy() -> None:
    """The page knows no tolerance; 1,050 msg/s are within 110 % of a limit of 1,000."""
    loads = TopicLoads([0x10000000, 0x20000000], [500.0, 550.0], [0.0, 0.0])
    option = SplitOption(0, 0xFFFFFFFF, BundleTopics(list(loads.hashes), loads), None, 1000.0, 100 * MIB, 0.1)
    assert flow_or_qps_equally_divide.cut(option).positions == ()
    assert flow_or_qps_equally_divide.cut(replace(option, max_rate=950.0)).positions == (0x18000001,)


# UniformLoadShedder, AvgShedder, TransferShedder: see test_differences.py and test_transfers.py
