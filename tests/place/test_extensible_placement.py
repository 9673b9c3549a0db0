"""Placement and averages of the extensible manager."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.load import BrokerLoadData, BrokerReport, ExtensibleLoad, IsolationPolicy, Policies
from evenkeel.place.extensible_placement import ExtensiblePlacementRound
from evenkeel.place.placement import Placement
from evenkeel.settings import Settings
from tests.cycle.extensible_clusters import MANAGER, ExtensibleCluster, extensible_clusters, shuffled
from tests.examples import reached, reaching

SETTINGS = Settings(loadManagerClassName=MANAGER)
RANGE = "0x00000000_0xffffffff"


def load(*loads: float | None, **first: object) -> ExtensibleLoad:
    """Brokers b1, b2, … with these loads (None: no load data); `first` is about b1's registration."""
    names = [f"b{n}:8080" for n in range(1, len(loads) + 1)]
    brokers = {name: BrokerReport(name, load_manager=MANAGER, version="4.2.4") for name in names}
    brokers["b1:8080"] = replace(brokers["b1:8080"], **first)  # type: ignore[arg-type]
    known = {name: BrokerLoadData(x) for name, x in zip(names, loads, strict=True) if x is not None}
    return ExtensibleLoad(brokers, known)


def place(
    found: ExtensibleLoad,
    bundle: str = f"t/n/{RANGE}",
    settings: Settings = SETTINGS,
    policies: Policies = Policies(),  # noqa: B008 (frozen)
    owners: dict[str, list[str]] | None = None,
) -> Placement:
    return ExtensiblePlacementRound(found, policies, owners or {}, settings).assign(bundle)


def removed(placement: Placement) -> dict[str, str]:
    return {one.name: one.rule for one in placement.candidates if one.verdict == "removed"}


@reaching()
@given(found=extensible_clusters(), data=st.data())
def test_the_order_of_the_input_changes_nothing(found: ExtensibleCluster, data: st.DataObject) -> None:
    other = shuffled(data, found)
    placed = found.placing().place(found.ownerless)
    reached(len(placed) > 1)
    assert other.placing().place(other.ownerless) == placed


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_every_broker_is_accounted_for_and_no_removed_one_is_chosen(found: ExtensibleCluster) -> None:
    last = max(found.load.brokers)
    brokers = {**found.load.brokers, last: replace(found.load.brokers[last], load_manager="ModularLoadManagerImpl")}
    found = replace(found, load=replace(found.load, brokers=brokers))
    placed = found.placing().place(found.ownerless)
    reached(any(placement.best and removed(placement) for placement in placed))
    for placement in placed:
        assert [one.name for one in placement.candidates] == sorted(found.load.brokers)
        assert not set(placement.best) & removed(placement).keys()
        assert (placement.destination is None) == (not placement.best)
        assert placement.destination is None or placement.destination == placement.best[0]
        row = placement.considered
        assert row.sentence().endswith(".")
        assert "None" not in row.sentence()


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_a_preferred_broker_is_well_below_the_mean(found: ExtensibleCluster) -> None:
    placed = found.placing().place(found.ownerless)
    reached(any(placement.considered.rule == "well_below_mean_load" for placement in placed))
    for placement in placed:
        row = placement.considered
        if row.rule == "well_below_mean_load":
            assert row.measured is not None
            assert row.threshold is not None
            assert row.measured <= row.threshold


def test_being_exactly_so_far_below_the_mean_is_enough() -> None:
    settings = SETTINGS.with_values({"loadBalancerAverageResourceUsageDifferenceThresholdPercentage": 25})
    assert place(load(0.25, 0.75), settings=settings).best == ("b1:8080",)
    settings = SETTINGS.with_values({"loadBalancerAverageResourceUsageDifferenceThresholdPercentage": 26})
    assert place(load(0.25, 0.75), settings=settings).best == ("b1:8080", "b2:8080")


def test_a_broker_without_load_data_is_drawn_only_where_nobody_is_preferred() -> None:
    assert place(load(None, 0.1, 0.9)).best == ("b2:8080",)
    assert place(load(None, 0.5, 0.5)).best == ("b1:8080", "b2:8080", "b3:8080")
    unknown = place(load(None, None))
    assert (unknown.best, unknown.considered.rule) == (("b1:8080", "b2:8080"), "none_well_below_mean_load")


def test_filters_remove_in_pulsars_order_and_say_so() -> None:
    assert removed(place(load(0.1, 0.9, load_manager="Other"))) == {"b1:8080": "other_load_manager"}
    older = SETTINGS.with_values({"preferLaterVersions": True})
    assert removed(place(load(0.1, 0.9, version="4.2.3"), settings=older)) == {"b1:8080": "older_version"}
    assert removed(place(load(0.1, 0.9, version=None), settings=older)) == {}
    both = load(0.1, 0.9, load_manager="Other", version="5.0.0")
    assert removed(place(both, settings=older)) == {"b1:8080": "other_load_manager"}
    policies = Policies(isolation={"p": IsolationPolicy(("t/n",), ("b2",))})
    assert removed(place(load(0.1, 0.9), policies=policies)) == {"b1:8080": "outside_policy"}
    group = Policies(groups={"t/n": "g", "t/m": "G"})
    assert removed(place(load(0.1, 0.9), policies=group, owners={"b1:8080": [f"t/m/{RANGE}"]})) == {
        "b1:8080": "anti_affinity"
    }
    halves = {"b1:8080": ["t/m/0x00000000_0x40000000", "t/m/0x40000000_0x80000000"], "b2:8080": [f"t/m/{RANGE}"]}
    fewer_bundles = place(load(0.1, 0.9), policies=group, owners=halves)
    assert removed(fewer_bundles) == {"b1:8080": "anti_affinity"}, "its bundles count, not its namespaces"


@pytest.mark.parametrize(("topics", "left"), [(49_999, 2), (50_000, 1)])
def test_a_broker_with_as_many_topics_as_allowed_is_out(topics: int, left: int) -> None:
    found = load(0.1, 0.9)
    full = replace(found, loads={**found.loads, "b1:8080": BrokerLoadData(0.1, topics=topics)})
    assert len(place(full).candidates) - len(removed(place(full))) == left


def test_where_filters_leave_nobody_nobody_gets_the_bundle() -> None:
    placement = place(load(0.1, load_manager="Other"))
    assert (placement.destination, placement.considered.rule) == (None, "no_candidate")


def test_secondaries_count_among_those_that_other_filters_left() -> None:
    """b1 is the only primary, and out by its load manager: the secondary b2 takes over."""
    policies = Policies(isolation={"p": IsolationPolicy(("t/n",), ("b1",), ("b2",), 1)})
    assert place(load(0.1, 0.9, 0.1), policies=policies).destination == "b1:8080"
    assert place(load(0.1, 0.9, 0.1, load_manager="Other"), policies=policies).destination == "b2:8080"


def test_bundles_of_a_group_given_away_count_for_those_after_them() -> None:
    policies = Policies(groups={"t/n": "g"})
    around = ExtensiblePlacementRound(load(0.5, 0.5, 0.5), policies, {}, SETTINGS)
    names = [f"t/n/0x{n:08x}_0x{n + 1:08x}" for n in range(4)]
    assert [one.destination for one in around.place(names)] == ["b1:8080", "b2:8080", "b3:8080", "b1:8080"]


def test_excluded_namespaces_are_placed_in_turns_and_brokers_own_at_home() -> None:
    settings = SETTINGS.with_values({"loadBalancerSheddingExcludedNamespaces": frozenset(["t/n"])})
    around = ExtensiblePlacementRound(load(0.1, 0.9), Policies(), {}, settings)
    names = [f"t/n/0x{n:08x}_0x{n + 1:08x}" for n in range(3)]
    assert [one.destination for one in around.place(names)] == ["b1:8080", "b2:8080", "b1:8080"]
    assert around.turn.count == 3
    assert around.assign(names[0]).considered.numbers == {"candidates": 2, "best": 1, "removed": 0}
    assert place(load(0.1, 0.9), f"pulsar/b2:8080/{RANGE}").destination == "b2:8080"
    assert place(load(0.1, 0.9), f"sla-monitor/b7:8080/{RANGE}").destination is None
