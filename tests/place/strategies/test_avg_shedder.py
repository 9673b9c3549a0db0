"""AvgShedder as placement: plans by averages (4.x) and by name (5.0)."""

from evenkeel.model.averages import updated
from evenkeel.model.load import BrokerReport, BundleStats, IsolationPolicy, LoadData, Policies, ResourceUsage
from evenkeel.place.modular_placement import PlacementRound, strategy_in_force
from evenkeel.settings import Settings, Value

ONE, TWO, NEW, OTHER = (f"t/{name}/0x00000000_0xffffffff" for name in ("one", "two", "new", "other"))
CPU = {"b1:1": 90.0, "b2:1": 50.0, "b3:1": 20.0, "b4:1": 10.0}
AVG: dict[str, Value] = {
    "loadBalancerLoadSheddingStrategy": "AvgShedder",
    "loadBalancerLoadPlacementStrategy": "AvgShedder",
    "loadBalancerDistributeBundlesEvenlyEnabled": False,
}
B3_ONLY = Policies(isolation={"p": IsolationPolicy(("t/one",), ("b[13]",))})


def placing(generation: str, policies: Policies = Policies(), cpu: dict[str, float] = CPU) -> PlacementRound:  # noqa: B008
    """One and two are b1's, with equal averages; new and other are unknown."""
    stats = BundleStats(topics=3, msg_rate_in=100.0)
    reports = {name: BrokerReport(name, cpu=ResourceUsage(usage, 100.0)) for name, usage in cpu.items()}
    load = LoadData(reports, {bundle: updated(None, stats) for bundle in (ONE, TWO)})
    return PlacementRound(load, policies, Settings().with_values(AVG | {"evenkeelPulsarVersion": generation}))


def test_a_planned_destination_is_taken_and_said() -> None:
    for generation in ("4.x", "5.0"):
        around = placing(generation)
        around.plan({ONE: "b3:1"})
        found = around.place_shed(ONE, "b1:1")
        assert (found.destination, found.best) == ("b3:1", ("b3:1",))
        assert found.considered.sentence() == f"{ONE} goes from b1:1 to b3:1: the shedder planned that destination."


def test_in_4_x_bundles_with_equal_averages_share_the_last_plan_and_in_5_0_each_has_its_own() -> None:
    plans = {ONE: "b4:1", TWO: "b3:1"}
    old, new = placing("4.x"), placing("5.0")
    old.plan(plans)
    new.plan(plans)
    assert [old.place_shed(bundle, "b1:1").destination for bundle in plans] == ["b3:1", "b3:1"]
    assert [new.place_shed(bundle, "b1:1").destination for bundle in plans] == ["b4:1", "b3:1"]


def test_in_4_x_new_bundles_follow_the_first_of_them_and_in_5_0_each_is_drawn() -> None:
    cpu = {"b1:1": 10.0, "b2:1": 10.0}
    old, new = placing("4.x", cpu=cpu), placing("5.0", cpu=cpu)
    assert [old.assign(bundle).best for bundle in (NEW, OTHER)] == [("b1:1", "b2:1"), ("b1:1",)]
    assert [new.assign(bundle).best for bundle in (NEW, OTHER)] == [("b1:1", "b2:1"), ("b1:1", "b2:1")]


def test_in_5_0_a_plan_is_forgotten_when_a_bundle_has_lost_its_owner() -> None:
    around = placing("5.0", cpu={"b2:1": 10.0, "b3:1": 10.0})
    around.plan({ONE: "b3:1"})
    assert around.assign(ONE).destination == "b2:1"


def test_a_planned_broker_that_is_no_candidate_is_replaced_in_5_0_never_by_the_source() -> None:
    for generation, best in (("4.x", ("b1:1", "b3:1")), ("5.0", ("b3:1",))):
        around = placing(generation, B3_ONLY, {**CPU, "b1:1": 60.0})
        around.plan({ONE: "b4:1"})
        found = around.place_shed(ONE, "b1:1")
        assert (found.best, found.considered.rule == "already_best") == (best, generation == "4.x")


def test_in_5_0_an_overloaded_plan_gives_way_to_a_healthy_broker_if_there_is_one() -> None:
    """Exactly at the threshold of 85 % is healthy."""
    hot = {"b1:1": 50.0, "b2:1": 85.5, "b3:1": 85.0, "b4:1": 84.0}
    around = placing("5.0", cpu=hot)
    around.plan({ONE: "b2:1"})
    turned = around.place_shed(ONE, "b1:1")
    assert (turned.best, turned.considered.rule) == (("b3:1", "b4:1"), "planned_is_overloaded")
    nowhere = placing("5.0", cpu={"b1:1": 50.0, "b2:1": 86.0, "b3:1": 87.0})
    nowhere.plan({ONE: "b2:1"})
    kept = nowhere.place_shed(ONE, "b1:1")
    assert (kept.destination, kept.considered.rule) == ("b2:1", "planned_destination_of_all_allowed")


def test_without_the_shedder_5_0_places_by_rate_and_4_x_as_it_was_told() -> None:
    alone = Settings().with_values({"loadBalancerLoadPlacementStrategy": "AvgShedder"})
    assert strategy_in_force(alone.with_values({"evenkeelPulsarVersion": "5.0"})) == "LeastLongTermMessageRate"
    assert strategy_in_force(alone) == "AvgShedder"
