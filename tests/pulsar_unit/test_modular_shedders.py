"""Restates the tests of the modular manager's four shedders (Pulsar 4.2.4)."""

from dataclasses import replace
from typing import Any

import pytest

from evenkeel.model.load import BrokerReport, BundleHistory, LoadData, ResourceUsage
from evenkeel.model.usage import percent
from evenkeel.place.strategies.avg_shedder import ByAverages, ByName
from evenkeel.place.strategy import Asked, broker_figures
from evenkeel.settings import Settings
from evenkeel.shed.shedder import Shed, without_gone
from evenkeel.shed.strategies import avg_shedder, overload_shedder, threshold_shedder, uniform_load_shedder
from tests.pulsar_unit.given import MIB, averages, history, load_of, named, report, settings, short, usage
from tests.pulsar_unit.mirror import mirrors

THRESHOLD, OVERLOAD, UNIFORM, AVG = (
    "impl.ThresholdShedderTest",
    "impl.OverloadShedderTest",
    "impl.UniformLoadShedderTest",
    "impl.AvgShedderTest",
)
NEARLY_FULL: dict[str, Any] = {"bandwidth_in": usage(999, 1000), "bandwidth_out": usage(999, 1000)}
HALF_FULL: dict[str, Any] = {"bandwidth_in": usage(500, 1000), "bandwidth_out": usage(500, 1000)}
ONE_BUNDLE = {named("bundle-1"): history(throughput_in=1000, throughput_out=1000)}


def unloads(shed: Shed) -> dict[str, list[str]]:
    """Broker -> its unloaded bundles by short name, in the order chosen."""
    found: dict[str, list[str]] = {}
    for bundle, broker in shed.unloads:
        found.setdefault(broker, []).append(short(bundle))
    return found


def overload(load: LoadData, **values: object) -> dict[str, list[str]]:
    values = {"loadBalancerBrokerOverloadedThresholdPercentage": 85} | values
    return unloads(overload_shedder.shed(load, {}, settings(**values)))


def threshold(load: LoadData, lower_boundary: bool = False) -> dict[str, list[str]]:
    return unloads(threshold_shedder.shed(load, {}, settings(lowerBoundarySheddingEnabled=lower_boundary)))


def ten_bundles(with_another: str | None) -> LoadData:
    """A nearly full broker-1 with bundles of 1, 2, … 10 MiB/s each way, and an idle broker with equal bundles."""
    histories: dict[str, BundleHistory] = {}
    total = 0.0
    theirs = set()
    for i in range(1, 11):
        flow = i * MIB
        histories[named(f"bundle-{i}")] = history(throughput_in=flow, throughput_out=flow)
        if with_another:
            name = named(f"{with_another}-bundle-{10 + i}")
            histories[name] = history(throughput_in=flow, throughput_out=flow)
            theirs.add(name)
        total += flow
    own = report(
        "broker-1",
        [named(f"bundle-{i}") for i in range(1, 11)],
        msg_throughput_in=total,
        msg_throughput_out=total,
        **NEARLY_FULL,
    )
    others = [report(with_another, theirs)] if with_another else []
    return load_of(own, *others, histories=histories)


@mirrors(THRESHOLD, "testNoBrokers")
def test_threshold_shedder_without_brokers() -> None:
    assert threshold(load_of()) == {}


@mirrors(OVERLOAD, "testNoBrokers")
def test_overload_shedder_without_brokers() -> None:
    assert overload(load_of()) == {}


@mirrors(THRESHOLD, "testBrokersWithNoBundles")
def test_threshold_shedder_without_bundles() -> None:
    assert threshold(load_of(report("broker-1", **NEARLY_FULL))) == {}


@mirrors(OVERLOAD, "testBrokersWithNoBundles")
def test_overload_shedder_without_bundles() -> None:
    assert overload(load_of(report("broker-1", **NEARLY_FULL))) == {}


@mirrors(THRESHOLD, "testBrokerNotReachThreshold")
def test_threshold_shedder_leaves_a_broker_below_the_threshold() -> None:
    assert threshold(load_of(report("broker-1", ONE_BUNDLE, **HALF_FULL), histories=ONE_BUNDLE)) == {}


@mirrors(OVERLOAD, "testBrokerNotOverloaded")
def test_overload_shedder_leaves_a_broker_below_the_threshold() -> None:
    assert overload(load_of(report("broker-1", ONE_BUNDLE, **HALF_FULL), histories=ONE_BUNDLE)) == {}


@mirrors(THRESHOLD, "testBrokerWithSingleBundle")
def test_threshold_shedder_leaves_a_sole_bundle() -> None:
    assert threshold(load_of(report("broker-1", ONE_BUNDLE, **NEARLY_FULL), histories=ONE_BUNDLE)) == {}


@mirrors(OVERLOAD, "testBrokerWithSingleBundle")
def test_overload_shedder_leaves_a_sole_bundle() -> None:
    assert overload(load_of(report("broker-1", ONE_BUNDLE, **NEARLY_FULL), histories=ONE_BUNDLE)) == {}


def one_far_above() -> LoadData:
    """A broker at 140 % of CPU with unbounded throughput, one of its two bundles measured, and a broker at 10 %."""
    alike = {"memory": usage(10, 100), "direct_memory": usage(10, 100), **HALF_FULL}
    busy = report(
        "broker-2",
        [named("bundle-1"), named("bundle-2")],
        cpu=usage(140, 100),
        msg_throughput_in=1.7976931348623157e308,
        **alike,
    )
    calm = report("broker-3", [named("bundle-3"), named("bundle-4")], cpu=usage(10, 100), **alike)
    return load_of(busy, calm, histories={named("bundle-2"): history(throughput_in=1000, throughput_out=1000)})


@mirrors(THRESHOLD, "testBrokerReachThreshold")
def test_threshold_shedder_unloads_above_the_threshold() -> None:
    assert threshold(one_far_above())


@mirrors(THRESHOLD, "testCleanCache")
def test_threshold_shedder_forgets_the_averages_of_brokers_that_are_gone() -> None:
    held = settings(lowerBoundarySheddingEnabled=False)
    first = threshold_shedder.shed(one_far_above(), {}, held)
    assert first.unloads
    assert first.state[threshold_shedder.USAGE_AVERAGE]
    assert threshold_shedder.SHEDDER.forgets_gone_brokers
    state = without_gone(first.state, {"leader"})
    after = threshold_shedder.shed(load_of(), state, held)
    assert not after.state[threshold_shedder.USAGE_AVERAGE]


@mirrors(THRESHOLD, "testBrokerWithMultipleBundles")
def test_threshold_shedder_takes_the_heaviest_bundles() -> None:
    assert threshold(ten_bundles("broker2")) == {"broker-1": ["bundle-10", "bundle-9", "bundle-8"]}


@mirrors(OVERLOAD, "testBrokerWithMultipleBundles")
def test_overload_shedder_takes_the_heaviest_bundles() -> None:
    assert overload(ten_bundles("another-broker")) == {"broker-1": ["bundle-10", "bundle-9"]}


@mirrors(OVERLOAD, "testBrokerWithResourceWeight")
def test_overload_shedder_leaves_out_resources_of_weight_zero() -> None:
    load = ten_bundles(None)
    assert overload(load)
    without = {"loadBalancerBandwidthInResourceWeight": 0.0, "loadBalancerBandwidthOutResourceWeight": 0.0}
    assert overload(load, **without) == {}


@mirrors(THRESHOLD, "testFilterRecentlyUnloaded")
def test_threshold_shedder_leaves_recently_unloaded_bundles() -> None:
    load = replace(ten_bundles("broker2"), recently_unloaded={named("bundle-10"): 1, named("bundle-9"): 1})
    assert threshold(load) == {"broker-1": ["bundle-8", "bundle-7", "bundle-6", "bundle-5"]}


@mirrors(OVERLOAD, "testFilterRecentlyUnloaded")
def test_overload_shedder_leaves_recently_unloaded_bundles() -> None:
    load = replace(ten_bundles(None), recently_unloaded={named("bundle-10"): 1, named("bundle-9"): 1})
    assert overload(load) == {"broker-1": ["bundle-8", "bundle-7"]}


@mirrors(THRESHOLD, "testPrintResourceUsage")
@mirrors(OVERLOAD, "testPrintResourceUsage")
def test_percentages_of_the_five_resources() -> None:
    """Only the percentages: Evenkeel has no counterpart of the sentence that Pulsar prints."""
    shown = [f"{percent(usage(used, 100)):.2f}" for used in (10, 50, 90, 30, 20)]
    assert shown == ["10.00", "50.00", "90.00", "30.00", "20.00"]


def eleven_brokers(flow: float, used: float, idle: int | None, bundles: dict[int, int], shared: bool) -> LoadData:
    """Brokers 0 to 10, equally busy except `idle`; `shared`: all report further bundles that have no averages."""
    reports: list[BrokerReport] = []
    histories: dict[str, BundleHistory] = {}
    for i in range(11):
        mine = 0.0 if i == idle else flow
        own = [named(f"broker-{i}-bundle-{j}") for j in range(bundles.get(i, bundles[-1]))]
        histories |= {name: history(throughput_in=mine, throughput_out=mine) for name in own}
        others = [named(f"bundle-{j}") for j in range(len(own))] if shared else []
        busy = usage(0.0 if i == idle else used, 100)
        reports.append(
            report(
                f"broker-{i}",
                [*own, *others],
                bandwidth_in=busy,
                bandwidth_out=busy,
                msg_throughput_in=mine,
                msg_throughput_out=mine,
            )
        )
    return load_of(*reports, histories=histories)


@mirrors(THRESHOLD, "testLowerBoundaryShedding")
def test_lower_boundary_sheds_towards_an_idle_broker() -> None:
    load = eleven_brokers(100 * MIB, 80, 10, {-1: 10}, shared=True)
    assert threshold(load) == {}
    assert threshold(load, lower_boundary=True)


@mirrors(THRESHOLD, "testLowerBoundarySheddingNoBrokerToOffload")
def test_lower_boundary_sheds_nothing_without_an_idle_broker() -> None:
    load = eleven_brokers(80 * MIB, 80, None, {-1: 10}, shared=True)
    assert threshold(load) == {}
    assert threshold(load, lower_boundary=True) == {}


@mirrors(THRESHOLD, "testLowerBoundarySheddingBrokerWithOneBundle")
def test_lower_boundary_takes_from_a_broker_with_several_bundles() -> None:
    load = eleven_brokers(100 * MIB, 80, 5, {-1: 1, 3: 10}, shared=False)
    assert threshold(load) == {}
    found = threshold(load, lower_boundary=True)
    assert list(found) == ["broker-3"]
    assert len(found["broker-3"]) == 1


def uniform(load: LoadData, **values: object) -> dict[str, list[str]]:
    return unloads(uniform_load_shedder.shed(load, {}, settings(**values)))


def alone_busy(flows: list[float]) -> LoadData:
    """broker-1 with bundles of these throughputs (byte/s each way), broker2 without bundles."""
    histories = {
        named(f"bundle-{i}"): history(throughput_in=flow, throughput_out=flow) for i, flow in enumerate(flows, start=1)
    }
    total = sum(flows)
    busy = report("broker-1", histories, msg_throughput_in=total, msg_throughput_out=total)
    return load_of(busy, report("broker2"), histories=histories)


@mirrors(UNIFORM, "testMaxUnloadBundleNumPerShedding")
def test_uniform_shedder_holds_the_cap_of_bundles() -> None:
    found = uniform(alone_busy([MIB] * 20), maxUnloadBundleNumPerShedding=2)
    assert sum(map(len, found.values())) == 2


@mirrors(UNIFORM, "testBrokerWithMultipleBundles")
def test_uniform_shedder_unloads_from_a_broker_with_several_bundles() -> None:
    assert uniform(alone_busy([i * MIB for i in range(1, 11)]))


@mirrors(UNIFORM, "testOverloadBrokerSelect")
@pytest.mark.parametrize(
    ("rate_percent", "throughput_ratio", "sheds"),
    [(50.0, 0.0, "broker2"), (0.0, 2.0, "broker3"), (50.0, 2.0, "broker2")],
)
def test_uniform_shedder_unloads_the_broker_of_highest_rate_or_throughput(
    rate_percent: float, throughput_ratio: float, sheds: str
) -> None:
    rates = [50_000.0, 60_000.0, 70_000.0, 10_000.0, 20_000.0]
    flows = [50 * MIB, 60 * MIB, 70 * MIB, 80 * MIB, 10 * MIB]
    reports: list[BrokerReport] = []
    histories: dict[str, BundleHistory] = {}
    for i, (rate, flow) in enumerate(zip(rates, flows, strict=True)):
        own = {named(f"broker-{i}-bundle-{j}"): history(rate_in=rate / 5, throughput_in=flow / 5) for j in range(5)}
        histories |= own
        reports.append(report(f"broker{i}", own, msg_rate_in=rate, msg_throughput_in=flow))
    found = uniform(
        load_of(*reports, histories=histories),
        maxUnloadBundleNumPerShedding=1,
        maxUnloadPercentage=0.5,
        loadBalancerMsgRateDifferenceShedderThreshold=rate_percent,
        loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=throughput_ratio,
    )
    assert {broker: len(bundles) for broker, bundles in found.items()} == {sheds: 1}


@mirrors(UNIFORM, "testSmallTrafficShedding")
def test_uniform_shedder_unloads_without_a_minimum_of_traffic() -> None:
    values = {
        "minUnloadMessage": 0,
        "minUnloadMessageThroughput": 0,
        "maxUnloadPercentage": 0.5,
        "maxUnloadBundleNumPerShedding": -1,
    }
    names = [named(f"bundle-{i}") for i in range(1, 6)]
    by_rate = load_of(
        report("broker-1", names, msg_rate_in=250.0, msg_rate_out=250.0),
        report("broker-2"),
        histories={name: history(rate_in=50, rate_out=50) for name in names},
    )
    assert sum(map(len, uniform(by_rate, **values).values())) == 2
    by_throughput = load_of(
        report("broker-1", names, msg_throughput_in=5 * 1024.0, msg_throughput_out=5 * 1024.0),
        report("broker-2"),
        histories={name: history(throughput_in=1024, throughput_out=1024) for name in names},
    )
    assert sum(map(len, uniform(by_throughput, **values).values())) == 2


def broker_at(name: str, cpu: float, rate: float, bundles: list[str] | None = None) -> BrokerReport:
    unknown = ResourceUsage(-1.0, -1.0)
    return report(
        name,
        bundles or [],
        cpu=usage(cpu, 100),
        memory=unknown,
        bandwidth_in=unknown,
        bandwidth_out=unknown,
        msg_rate_in=rate,
        msg_rate_out=rate,
    )


def eleven(prefix: str, first_sample: int = 0) -> dict[str, BundleHistory]:
    """Eleven bundles of 900 msg/s that differ in their number of samples, as in Pulsar's test."""
    found = {}
    for i in range(11):
        short_term = averages(first_sample + i, rate_in=450.0, rate_out=450.0)
        found[named(f"{prefix}{i}")] = BundleHistory(short_term, averages())
    return found


def destinations(shed: Shed, load: LoadData, held: Settings, generation: str) -> dict[str, tuple[str, ...]]:
    """Shed bundle -> brokers that AvgShedder as placement strategy chooses; all brokers are candidates."""
    placing = (ByName if generation == "5" else ByAverages)(broker_figures(load, held), held)
    for bundle, destination in shed.destinations.items():
        placing.plan(bundle, load.histories[bundle], destination)
    owners = dict(shed.unloads)
    asked = [Asked(bundle, load.histories[bundle], owners[bundle]) for bundle in owners]
    candidates = tuple(sorted(load.brokers))
    return {short(one.bundle): placing.choose(one, candidates).brokers for one in asked}


def until_it_sheds(load: LoadData, held: Settings, rounds: int) -> Shed:
    """Runs this many rounds and returns the last one; all rounds before it must shed nothing."""
    shed = Shed((), (), {})
    for n in range(rounds):
        assert not shed.unloads, n
        shed = avg_shedder.shed(load, shed.state, held)
    return shed


GENERATIONS = pytest.mark.parametrize("generation", ["4", "5"])


@mirrors(AVG, "testHitHighThreshold")
@GENERATIONS
def test_avg_shedder_acts_after_hits_above_the_high_threshold(generation: str) -> None:
    histories = eleven("bundle-")
    load = load_of(
        broker_at("broker1", 80, 10_000.0, list(histories)),
        broker_at("broker2", 30, 1_000.0),
        broker_at("broker3", 50, 5_000.0),
        histories=histories,
    )
    held = settings(
        maxUnloadPercentage=0.5, loadBalancerAvgShedderHighThreshold=40, loadBalancerAvgShedderHitCountHighThreshold=2
    )
    shed = until_it_sheds(load, held, 2)
    assert {broker: len(bundles) for broker, bundles in unloads(shed).items()} == {"broker1": 10}
    assert set(destinations(shed, load, held, generation).values()) == {("broker2",)}


@mirrors(AVG, "testHitLowThreshold")
@GENERATIONS
def test_avg_shedder_acts_after_hits_above_the_low_threshold(generation: str) -> None:
    histories = eleven("bundle-")
    load = load_of(
        broker_at("broker1", 60, 10_000.0, list(histories)),
        broker_at("broker2", 40, 1_000.0),
        broker_at("broker3", 50, 5_000.0),
        histories=histories,
    )
    held = settings(
        maxUnloadPercentage=0.5, loadBalancerAvgShedderLowThreshold=20, loadBalancerAvgShedderHitCountLowThreshold=6
    )
    shed = until_it_sheds(load, held, 6)
    assert {broker: len(bundles) for broker, bundles in unloads(shed).items()} == {"broker1": 10}
    assert set(destinations(shed, load, held, generation).values()) == {("broker2",)}


@mirrors(AVG, "testSheddingMultiplePairs")
@GENERATIONS
def test_avg_shedder_acts_on_two_pairs_of_brokers(generation: str) -> None:
    first, third = eleven("bundle1-"), eleven("bundle3-", first_sample=11)
    load = load_of(
        broker_at("broker1", 80, 10_000.0, list(first)),
        broker_at("broker2", 30, 1_000.0),
        broker_at("broker3", 75, 10_000.0, list(third)),
        broker_at("broker4", 35, 1_000.0),
        histories={**first, **third},
    )
    held = settings(
        maxUnloadPercentage=0.5, loadBalancerAvgShedderHighThreshold=40, loadBalancerAvgShedderHitCountHighThreshold=2
    )
    shed = until_it_sheds(load, held, 2)
    assert {broker: len(bundles) for broker, bundles in unloads(shed).items()} == {"broker1": 10, "broker3": 10}
    for bundle, brokers in destinations(shed, load, held, generation).items():
        assert brokers == ("broker2" if bundle.startswith("bundle1-") else "broker4",), bundle
