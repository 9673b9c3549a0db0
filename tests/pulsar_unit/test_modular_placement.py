"""Restates the tests of the modular manager's placement strategies and candidate filters (Pulsar 4.2.4)."""

from dataclasses import replace

from evenkeel.model.filters.broker_filters import version_rank
from evenkeel.model.load import (
    BrokerAverages,
    BrokerReport,
    BundleHistory,
    LoadData,
    Ownership,
    Policies,
    ResourceUsage,
)
from evenkeel.place.modular_placement import PlacementView, fewest_bundles, newest_version, same_load_manager
from evenkeel.place.strategies import least_long_term_message_rate
from evenkeel.place.strategies import least_resource_usage_with_weight as least_usage
from evenkeel.place.strategies import round_robin_broker_selector as round_robin
from evenkeel.place.strategies.avg_shedder import ByAverages
from evenkeel.place.strategy import Asked, PlacementState, broker_figures
from evenkeel.settings import Settings
from tests.pulsar_unit.given import EXTENSIBLE, FULL, MODULAR, history, load_of, report, settings, usage, usages
from tests.pulsar_unit.mirror import mirrors

STRATEGY = "ModularLoadManagerStrategyTest"
BUNDLE = f"test/ns/{FULL}"


def view(load: LoadData, held: Settings, ownership: Ownership | None = None) -> PlacementView:
    return PlacementView.of(load, Policies(), ownership or Ownership(), held)


def follow(placing: ByAverages, found: BundleHistory, candidates: list[str]) -> tuple[str, ...]:
    return placing.choose(Asked(BUNDLE, found, None), tuple(candidates)).brokers


@mirrors(STRATEGY, "testAvgShedderWithPreassignedBroker")
def test_avg_shedder_places_a_bundle_where_it_was_planned() -> None:
    placing, found = ByAverages({}, settings()), history()
    placing.plan(BUNDLE, found, "1")
    assert follow(placing, found, ["1", "2", "3"]) == ("1",)
    assert follow(placing, found, ["1", "2", "3"]) == ("1",)
    assert follow(placing, found, ["2"]) == ("2",)
    assert follow(placing, found, ["1", "2", "3"]) == ("2",), "what was drawn is remembered"


@mirrors(STRATEGY, "testAvgShedderWithoutPreassignedBroker")
def test_avg_shedder_without_a_plan_keeps_what_it_drew() -> None:
    placing, found = ByAverages({}, settings()), history()
    candidates = ["1", "2", "3"]
    drawn = follow(placing, found, candidates)[0]
    assert drawn in candidates
    assert follow(placing, found, candidates) == (drawn,)
    candidates.remove(drawn)
    second = follow(placing, found, candidates)[0]
    assert second in candidates
    assert follow(placing, found, candidates) == (second,)


def calm(name: str) -> BrokerReport:
    unknown = ResourceUsage(-1.0, -1.0)
    return report(name, cpu=unknown, memory=unknown, bandwidth_in=unknown, bandwidth_out=unknown)


@mirrors(STRATEGY, "testLeastLongTermMessageRate")
def test_least_long_term_message_rate_passes_over_overloaded_brokers() -> None:
    load = load_of(calm("1"), calm("2"), calm("3"))
    rates = {"1": 100.0, "2": 200.0, "3": 300.0}

    def best(cpu_weight: float = 1.0) -> tuple[str, ...]:
        held = settings(loadBalancerCPUResourceWeight=cpu_weight)
        known = replace(load, averages={name: BrokerAverages(long_term_rate_in=rate) for name, rate in rates.items()})
        return least_long_term_message_rate.select(known.brokers, broker_figures(known, held), held).brokers

    assert best() == ("1",)
    rates["1"] = 400.0
    assert best() == ("2",)
    load = replace(load, brokers={**load.brokers, "2": replace(load.brokers["2"], cpu=usage(90, 100))})
    assert best() == ("3",)
    assert best(cpu_weight=0.0) == ("2",)


WEIGHTED = {
    "loadBalancerCPUResourceWeight": 1.0,
    "loadBalancerMemoryResourceWeight": 0.1,
    "loadBalancerDirectMemoryResourceWeight": 0.1,
    "loadBalancerBandwidthInResourceWeight": 1.0,
    "loadBalancerBandwidthOutResourceWeight": 1.0,
    "loadBalancerHistoryResourcePercentage": 0.5,
    "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": 5,
}


def busy(name: str, percent: float, bundles: tuple[str, ...] = (BUNDLE,)) -> BrokerReport:
    return report(name, bundles, msg_rate_in=100.0, msg_rate_out=100.0, **usages(percent))


def choose(load: LoadData, candidates: list[str], state: PlacementState) -> tuple[tuple[str, ...], PlacementState]:
    """The brokers of which Pulsar draws one, and the state after the choice."""
    held = settings(**WEIGHTED)
    best = least_usage.select(candidates, broker_figures(load, held), state, held)
    return best.brokers, best.after(state)


@mirrors(STRATEGY, "testLeastResourceUsageWithWeight")
def test_least_resource_usage_over_rounds() -> None:
    load = load_of(busy("1", 10), busy("2", 30), busy("3", 60), busy("4", 5))
    _, state = choose(load, ["1", "2", "3", "4"], {})
    three = ["1", "2", "3"]
    best, state = choose(load, three, state)
    assert best == ("1",)
    for percents, expected in (((20, 30, 50), "1"), ((30, 30, 40), "1"), ((30, 30, 40), "1"), ((35, 20, 45), "2")):
        load = load_of(*(busy(name, percent) for name, percent in zip(three, percents, strict=True)), busy("4", 5))
        best, state = choose(load, three, state)
        assert best == (expected,), percents
    restarted = load_of(busy("1", 35), busy("2", 20), busy("3", 0, bundles=()), busy("4", 5))
    best, _ = choose(restarted, three, state)
    assert best == ("3",)


@mirrors(STRATEGY, "testLeastResourceUsageWithWeightWithArithmeticException")
def test_least_resource_usage_with_averages_of_other_brokers() -> None:
    load = load_of(busy("1", 10), busy("2", 30), busy("3", 60), busy("4", 5))
    state = {least_usage.USAGE_AVERAGE: {"1": 0.1, "2": 0.3, "4": 0.05}}
    best, _ = choose(load, ["1", "2", "3"], state)
    assert best == ("1",)


@mirrors(STRATEGY, "testRoundRobinBrokerSelector")
def test_round_robin_takes_brokers_in_turn() -> None:
    turn = round_robin.FIRST_TURN

    def take(*brokers: str) -> str | None:
        nonlocal turn
        taken, turn = round_robin.select(brokers, turn)
        return taken

    assert take() is None
    for i in range(10):
        assert take("1", "2", "3") == str(i % 3 + 1)
    for i in range(10, 20):
        assert take("2", "3", "1") == str(i % 3 + 1), "the remembered list goes on"
    assert [take("1", "2", "4") for _ in range(6)] == ["4", "1", "2", "4", "1", "2"]
    assert [take("2", "4") for _ in range(4)] == ["2", "4", "2", "4"]
    most = 2_147_483_647
    turn = replace(turn, count=most)
    assert take("1", "2", "3") == str(most % 3 + 1)
    assert turn.count == 0


@mirrors(STRATEGY, "testActiveBrokersChange")
def test_usage_of_brokers_that_are_gone_is_forgotten() -> None:
    load = load_of(calm("1"), calm("2"), calm("3"))
    held = settings()
    state = least_usage.select(load.brokers, broker_figures(load, held), {}, held).after({})
    assert len(state[least_usage.USAGE_AVERAGE]) == 3
    assert not least_usage.without_gone(state, [])[least_usage.USAGE_AVERAGE]


@mirrors("impl.LoadManagerSharedTest", "testRemoveMostServicingBrokersForNamespace")
def test_only_brokers_with_the_fewest_bundles_of_the_namespace_are_candidates() -> None:
    namespace = "tenant1/ns1"
    asked = f"{namespace}/0x00000000_0x40000000"
    ownership = Ownership()
    load = load_of(report("broker1"), report("broker2"), report("broker3"))

    def left(*candidates: str) -> set[str]:
        return set(fewest_bundles(asked, candidates, view(load, settings(), ownership)).brokers)

    assert left() == set()
    assert left("broker1") == {"broker1"}
    ownership.add(f"{namespace}/0x40000000_0x80000000", "broker1")
    assert left("broker1") == {"broker1"}
    assert left("broker1", "broker2") == {"broker2"}
    ownership.add(f"{namespace}/0x80000000_0xc0000000", "broker2")
    assert left("broker1", "broker2") == {"broker1", "broker2"}
    ownership.add(f"{namespace}/0xc0000000_0xd0000000", "broker2")
    assert left("broker1", "broker2") == {"broker1"}
    ownership.add(f"{namespace}/0xd0000000_0xffffffff", "broker3")
    assert left("broker1", "broker2", "broker3") == {"broker1", "broker3"}


@mirrors("impl.BrokerLoadManagerClassFilterTest", "test")
def test_only_brokers_of_the_leaders_load_manager_are_candidates() -> None:
    load = load_of(
        report("broker1", load_manager=MODULAR),
        report("broker2", load_manager=EXTENSIBLE),
        report("broker3", load_manager=None),
    )
    for leaders, expected in ((MODULAR, "broker1"), (EXTENSIBLE, "broker2")):
        held = settings(loadManagerClassName=leaders)
        assert same_load_manager(BUNDLE, load.brokers, view(load, held)).brokers == (expected,)


@mirrors("BrokerVersionFilterTest", "testLatestVersion")
def test_only_brokers_of_the_newest_version_are_candidates() -> None:
    versions = {"broker1": "1.1.0-SNAPSHOT", "broker2": "1.1.0-SNAPSHOT", "broker3": "1.2.0-SNAPSHOT"}
    load = load_of(*(report(name, version=version) for name, version in versions.items()))
    highest = max(rank for rank in map(version_rank, versions.values()) if rank is not None)
    assert highest[0] == (1, 2, 0)
    held = settings(preferLaterVersions=True)
    assert newest_version(BUNDLE, load.brokers, view(load, held)).brokers == ("broker3",)
