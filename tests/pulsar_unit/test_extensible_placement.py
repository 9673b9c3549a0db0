"""Restates the tests of the extensible manager's broker filters and placement (Pulsar 4.2.4)."""

from collections.abc import Mapping

import pytest

from devtools.conformance.reading import following_switches
from evenkeel.model.filters.broker_filters import BrokerFilters
from evenkeel.model.load import BrokerLoadData, BrokerReport, ExtensibleLoad, Policies
from evenkeel.model.usage import ExtensibleAverages
from evenkeel.place.extensible_placement import ExtensiblePlacementRound
from evenkeel.place.strategies.least_resource_usage_with_weight import select_extensible as select
from evenkeel.settings import resolve
from evenkeel.shed.schedule import run_transfers
from evenkeel.shed.strategies.transfer_shedder import TransferState
from tests.pulsar_unit.given import EXTENSIBLE, FULL, MODULAR, NOW, report, settings, usages
from tests.pulsar_unit.mirror import mirrors


def filters(
    brokers: Mapping[str, BrokerReport], loads: Mapping[str, BrokerLoadData] | None = None, **values: object
) -> BrokerFilters:
    held = settings(**({"loadManagerClassName": EXTENSIBLE} | values))
    return BrokerFilters(ExtensibleLoad(brokers, loads or {}), Policies(), {}, held)


def candidates(found: BrokerFilters) -> set[str]:
    return set(found.candidates(f"t/n/{FULL}").brokers)


def versions(**found: str) -> dict[str, BrokerReport]:
    """Brokers of these versions; a keyword `p50` is localhost:6650."""
    return {
        f"localhost:66{port[1:]}": report(f"localhost:66{port[1:]}", load_manager=EXTENSIBLE, version=version)
        for port, version in found.items()
    }


VERSIONS = "extensions.filter.BrokerVersionFilterTest"


@mirrors(VERSIONS, "testFilterEmptyBrokerList")
def test_no_brokers_to_filter() -> None:
    assert candidates(filters({}, preferLaterVersions=True)) == set()


@mirrors(VERSIONS, "testDisabledFilter")
def test_versions_play_no_part_while_the_filter_is_off() -> None:
    brokers = versions(p50="2.10.0", p51="2.10.1")
    assert candidates(filters(brokers, preferLaterVersions=False)) == set(brokers)


@mirrors(VERSIONS, "testFilter")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"p50": "2.10.0", "p51": "2.10.1", "p52": "2.10.1", "p53": "2.10.1"}, {51, 52, 53}),
        ({"p50": "2.10.0", "p51": "2.10.1-SNAPSHOT", "p52": "2.10.1", "p53": "2.10.1"}, {52, 53}),
        ({"p50": "2.10.0", "p51": "2.10.1-SNAPSHOT", "p52": "2.10.1", "p53": "2.10.2-SNAPSHOT"}, {53}),
    ],
)
def test_only_brokers_of_the_newest_version_are_candidates(found: dict[str, str], expected: set[int]) -> None:
    assert candidates(filters(versions(**found), preferLaterVersions=True)) == {f"localhost:66{n}" for n in expected}


@mirrors(VERSIONS, "testInvalidVersionString")
def test_an_unreadable_version_is_reported() -> None:
    assert filters(versions(p50="xxx"), preferLaterVersions=True).unreadable_version


@mirrors("extensions.filter.BrokerLoadManagerClassFilterTest", "test")
def test_only_brokers_of_the_same_load_manager_are_candidates() -> None:
    managers = [EXTENSIBLE, EXTENSIBLE, MODULAR, MODULAR, None]
    brokers = {f"broker{n}:8080": report(f"broker{n}:8080", load_manager=m) for n, m in enumerate(managers, start=1)}
    assert candidates(filters(brokers)) == {"broker1:8080", "broker2:8080"}
    assert candidates(filters(brokers, loadManagerClassName=MODULAR)) == {"broker3:8080", "broker4:8080"}


@mirrors("extensions.filter.BrokerMaxTopicCountFilterTest", "test")
def test_brokers_with_too_many_topics_are_no_candidates() -> None:
    most = settings().loadBalancerBrokerMaxTopics
    brokers = {f"broker{n}:8080": report(f"broker{n}:8080", load_manager=EXTENSIBLE) for n in range(1, 5)}
    loads = {
        "broker1:8080": BrokerLoadData(topics=most),
        "broker2:8080": BrokerLoadData(),
        "broker3:8080": BrokerLoadData(topics=most * 2),
    }
    assert candidates(filters(brokers, loads)) == {"broker2:8080", "broker4:8080"}


PLACE = "extensions.strategy.LeastResourceUsageWithWeightTest"
WEIGHTED = settings(
    loadBalancerCPUResourceWeight=1.0,
    loadBalancerMemoryResourceWeight=0.1,
    loadBalancerDirectMemoryResourceWeight=0.1,
    loadBalancerBandwidthInResourceWeight=1.0,
    loadBalancerBandwidthOutResourceWeight=1.0,
    loadBalancerHistoryResourcePercentage=0.5,
    loadBalancerAverageResourceUsageDifferenceThresholdPercentage=5,
)
THREE = ["1", "2", "3"]


class Averages:
    """The usage averages of brokers; a keyword `b1=10` is broker "1" with all resources used to 10 %."""

    def __init__(self, **percents: float) -> None:
        self._averages: dict[str, ExtensibleAverages] = {}
        for name, value in percents.items():
            self.restart(name.removeprefix("b"), value)

    def restart(self, broker: str, percent: float) -> None:
        """The broker's averages begin with this usage."""
        self._averages[broker] = ExtensibleAverages()
        self.update(broker, percent)

    def update(self, broker: str, percent: float) -> None:
        """The broker's averages take up this usage."""
        self._averages[broker] = self._averages[broker].updated(report(broker, **usages(percent)), WEIGHTED)

    def loads(self) -> dict[str, BrokerLoadData]:
        return {name: BrokerLoadData(weighted_max_ema=one.weighted_maximum) for name, one in self._averages.items()}

    def best(self, brokers: list[str]) -> tuple[str, ...]:
        """The brokers of which Pulsar draws one."""
        return select(brokers, self.loads(), WEIGHTED).brokers


@mirrors(PLACE, "testSelect")
def test_the_broker_well_below_the_mean_usage_is_chosen() -> None:
    found = Averages(b1=10, b2=30, b3=60, b4=5)
    assert found.best(THREE) == ("1",)
    for broker, value in zip(THREE, (20, 30, 50), strict=True):
        found.restart(broker, value)
    assert found.best(THREE) == ("1",)
    for values, expected in (((30, 30, 40), "1"), ((30, 30, 40), "1"), ((35, 20, 45), "2")):
        for broker, value in zip(THREE, values, strict=True):
            found.update(broker, value)
        assert found.best(THREE) == (expected,), values
    found.update("1", 35)
    found.update("2", 20)
    found.restart("3", 0)
    assert found.best(THREE) == ("3",)


@mirrors(PLACE, "testArithmeticException")
def test_the_broker_well_below_the_mean_is_chosen_with_averages_set_by_hand() -> None:
    found = Averages(b1=10, b2=30, b3=60, b4=5)
    loads = found.loads()
    loads |= {name: BrokerLoadData(weighted_max_ema=load) for name, load in (("1", 0.1), ("2", 0.3), ("4", 0.05))}
    assert select(THREE, loads, WEIGHTED).brokers == ("1",)


@mirrors(PLACE, "testNoLoadDataBrokers")
def test_placement_among_brokers_without_load_data() -> None:
    brokers = ["1", "2", "5"]
    assert Averages(b1=50, b2=100).best(brokers) == ("1",)
    assert set(Averages(b1=100, b2=100).best(brokers)) <= set(brokers)
    assert Averages(b1=100, b2=100).best(brokers)
    assert set(Averages().best(brokers)) <= set(brokers)
    assert Averages().best(brokers)


IMPL = "extensions.ExtensibleLoadManagerImplTest"
TWO = versions(p50="4.2.4", p51="4.2.4")


def placing(brokers: Mapping[str, BrokerReport], **values: object) -> ExtensiblePlacementRound:
    held = settings(**({"loadManagerClassName": EXTENSIBLE} | values))
    load = ExtensibleLoad(brokers, dict.fromkeys(brokers, BrokerLoadData(weighted_max_ema=0.1)))
    return ExtensiblePlacementRound(load, Policies(), {}, held)


@mirrors(IMPL, "testSelectBrokerForSheddingExcludedNamespaces")
def test_bundles_of_an_excluded_namespace_go_in_turns() -> None:
    placement = placing(TWO, loadBalancerSheddingExcludedNamespaces=frozenset({"public/test"}))
    first, second = placement.place(["public/test/0x00000000_0x40000000", "public/test/0x40000000_0x80000000"])
    assert None not in (first.destination, second.destination)
    assert first.destination != second.destination


@mirrors(IMPL, "testFilterHasException")
def test_placement_goes_on_without_a_filter_that_fails() -> None:
    """The filter of versions is the only one of Evenkeel's that can fail."""
    found = placing(versions(p50="xxx", p51="4.2.4"), preferLaterVersions=True).assign(f"public/test/{FULL}")
    assert found.destination is not None


@mirrors(IMPL, "testMoreThenOneFilter")
def test_a_filter_before_the_one_that_fails_still_applies() -> None:
    brokers = versions(p50="4.2.4", p51="xxx")
    brokers["localhost:6650"] = report("localhost:6650", load_manager=MODULAR, version="4.2.4")
    found = placing(brokers, preferLaterVersions=True).assign(f"public/test/{FULL}")
    assert found.destination == "localhost:6651"


@mirrors("extensions.scheduler.UnloadSchedulerTest", "testDisableLoadBalancer")
@pytest.mark.parametrize("key", ["loadBalancerEnabled", "loadBalancerSheddingEnabled"])
def test_no_bundle_is_shed_while_a_switch_is_off(key: str) -> None:
    """Only where the brokers' switches are followed; those of a live cluster never switch Evenkeel."""
    observed = {"loadManagerClassName": f"org.apache.pulsar.broker.loadbalance.extensions.{EXTENSIBLE}"}

    def status(observed: dict[str, str]) -> str:
        held = following_switches(resolve(observed=observed, overrides=None).settings, observed)
        load = ExtensibleLoad(TWO, {})
        return run_transfers(load, TransferState(), Policies(), {}, held, now=NOW, last_shed_at=None).status

    assert status(observed) != "switched_off"
    assert status(observed | {key: "false"}) == "switched_off"
