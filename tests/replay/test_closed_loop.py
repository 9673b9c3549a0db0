"""The model of a cluster: what may never happen, whatever the scenario and whoever steers.

Every scenario is played for some dozen cycles by a shedder of each kind. Checked are the rows that a cycle sees, and
what is told of it. Left out: whether the model is like a real cluster; `evenkeel simulate` measures that on recordings.
"""

import math
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.errors import BadInput
from evenkeel.model.bundles import bundle_name, initial_boundaries, ranges_of
from evenkeel.replay.closed_loop import MEANINGS, ModelSteering, Scenario, Size, scenario, simulate
from evenkeel.replay.comparison import CLOSED_LOOP, VariantComparison, page_of
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit, fitted
from evenkeel.replay.simulation import SimulationRequest, asked_simulation, play
from evenkeel.settings import Settings, resolve
from tests.vega_lite import checked_charts

SMALL = Size(brokers=3, bundles=24, cycles=30)
UNIFORM = {"loadBalancerLoadSheddingStrategy": "UniformLoadShedder"}
TRANSFER = {"evenkeelManager": "extensible", "loadBalancerLoadSheddingStrategy": "TransferShedder",
            "loadBalancerSheddingConditionHitCountThreshold": 0}  # fmt: skip
EAGER = {**UNIFORM, "loadBalancerMsgRateDifferenceShedderThreshold": 20, "maxUnloadPercentage": 0.5,
         "evenkeelGuardsEnabled": False, "loadBalancerDistributeBundlesEvenlyEnabled": False}  # fmt: skip
OFF = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMESPACE = "shop/ns"


def steering(**overrides: object) -> ModelSteering:
    return ModelSteering("one", (resolve(observed=None, overrides=overrides),), 0.85)


def played(name: str, overrides: dict[str, object], seed: int = 7) -> list[tuple[str, dict]]:
    return list(simulate(scenario(name, SMALL, seed), steering(**overrides)))


@pytest.mark.parametrize("overrides", [UNIFORM, TRANSFER], ids=["modular", "extensible"])
@pytest.mark.parametrize("name", MEANINGS)
def test_the_same_seed_gives_the_same_run_and_every_cycle_is_told(name: str, overrides: dict[str, object]) -> None:
    rows = played(name, overrides)
    assert rows == played(name, overrides)
    cycles = [row for table, row in rows if table == "replay_cycles"]
    assert len(cycles) == SMALL.cycles
    assert all(row["after_max_over_mean"] >= 1.0 and row["moved_traffic_share"] >= 0.0 for row in cycles)
    asked = [row for table, row in rows if table == "replay_decisions" and row["outcome"] == "asked"]
    assert len(asked) == sum(row["moves"] + row["splits"] for row in cycles)
    assert all(row["destination"] != row["from_broker"] for row in asked if row["kind"] == "unload")


def test_in_a_generated_cluster_a_shedder_of_the_extensible_manager_finds_brokers_of_its_own() -> None:
    asked = asked_simulation(
        SimulationRequest(scenario="rolling-restart", cycles=60, strategies=["TransferShedder"], seed=1)
    )
    untouched, transfer = play(asked, None, lambda done, total: None).rows()
    assert transfer["moves"] > 0
    assert transfer["moved_traffic"] >= untouched["moved_traffic"] > 0, "what a restart frees finds a place"


def test_another_seed_gives_another_run() -> None:
    assert played("zipf", UNIFORM, seed=7) != played("zipf", UNIFORM, seed=8)


def test_a_cluster_left_to_itself_asks_nothing_and_a_shedder_evens_it_out() -> None:
    untouched = [row for table, row in played("zipf", OFF) if table == "replay_cycles"]
    steered = [row for table, row in played("zipf", EAGER) if table == "replay_cycles"]
    assert not any(row["moves"] or row["splits"] for row in untouched)
    assert sum(row["moves"] for row in steered) > 0
    assert steered[-1]["after_max_over_mean"] < untouched[-1]["after_max_over_mean"]


def test_a_comparison_says_how_even_it_is_at_the_end_and_since_when_nothing_moves() -> None:
    comparison = VariantComparison("", "model", {"eager": "", "off": ""}, 0.85, columns=CLOSED_LOOP)
    for name, overrides in (("eager", EAGER), ("off", OFF)):
        own = [row for table, row in played("zipf", overrides) if table == "replay_cycles"]
        for row in own:
            comparison.add({**row, "variant": name})
        acted = [n for n, row in enumerate(own) if row["moves"] or row["splits"]]
        assert bool(acted) == (name == "eager")
        found = comparison.tallies[name].figures()
        assert found["at_rest"] == SMALL.cycles - 1 - max(acted, default=-1)
        assert found["last_max_over_mean"] == own[-1]["after_max_over_mean"]
        last = comparison.cells()[-1][-2:]
        assert last == [f"{found['last_max_over_mean']:.3f}", str(found["at_rest"])]
    with checked_charts() as charts:
        assert page_of(comparison).count("<svg role=") == len(charts)


def test_bundles_of_a_broker_that_dies_are_placed_on_those_that_live() -> None:
    rows = [row for table, row in played("broker-loss", OFF) if table == "replay_cycles"]
    dies = SMALL.cycles // 3
    assert rows[dies + 1]["after_max_usage"] > rows[dies - 1]["after_max_usage"]
    assert rows[dies]["moved_traffic_share"] > 0.0


def small(throughputs: int = 4) -> Cluster:
    boundaries = {NAMESPACE: initial_boundaries(4)}
    bundles = [bundle_name(NAMESPACE, one) for one in ranges_of(boundaries[NAMESPACE])]
    topics = [Topic(NAMESPACE, (n << 30) + 5) for n in range(throughputs)]
    return Cluster(
        "lab", {"a": UsageFit(0.1, 1e-3), "b": UsageFit(0.1, 1e-3)}, topics, boundaries, dict.fromkeys(bundles, "a")
    )


def command(kind: str, bundle: str, **more: object) -> dict:
    base = {"command_id": f"{kind} {bundle}", "plan_id": "", "kind": kind, "bundle": bundle, "from_broker": "a"}
    return base | {"cuts": None, "unload_children": None} | more


def test_usage_follows_a_move_two_report_intervals_later_and_ownership_at_once() -> None:
    cluster, settings = small(), Settings()
    flows = [100.0, 100.0, 100.0, 100.0]
    cluster.observe(AT, flows, (), settings)
    bundle = min(cluster.owner)
    cluster.carry_out([(command("unload", bundle), "b")], [])
    seen = []
    for minute in (1, 2, 3):
        cluster.observe(AT + timedelta(minutes=minute), flows, (), settings)
        rows = cluster.rows(settings)
        assert {row["owner"] for row in rows["bundle_load"] if row["bundle"] == bundle} == {"b"}
        seen.append({row["broker"]: row["weighted_usage"] for row in rows["broker_load"]})
    assert seen[0] == seen[1] == {"a": 0.5, "b": 0.1}
    assert seen[2] == pytest.approx({"a": 0.4, "b": 0.2})


def test_a_split_shares_the_traffic_by_where_topics_lie_and_loses_none() -> None:
    cluster, settings = small(), Settings()
    cluster.observe(AT, [100.0, 0.0, 50.0, 0.0], (), settings)
    parent = min(cluster.owner)
    cluster.carry_out([(command("split", parent, cuts=[1 << 29]), None)], [])
    assert len(cluster.owner) == 5
    for minutes in (1, 10):  # before the figures have settled, and then
        cluster.observe(AT + timedelta(minutes=minutes), [100.0, 0.0, 50.0, 0.0], (), settings)
        rows = cluster.rows(settings)["bundle_load"]
        flows = {row["bundle"]: row["used_msg_throughput_in"] + row["used_msg_throughput_out"] for row in rows}
        assert math.fsum(flows.values()) == 150.0
        assert flows[f"{NAMESPACE}/0x00000000_0x20000000"] == 100.0
        assert flows[f"{NAMESPACE}/0x20000000_0x40000000"] == 0.0


def test_the_figures_of_what_was_just_moved_are_those_from_before() -> None:
    cluster, settings = small(), Settings()
    cluster.observe(AT, [100.0] * 4, (), settings)
    bundle = min(cluster.owner)
    cluster.carry_out([(command("unload", bundle), "b")], [])
    cluster.observe(AT + timedelta(minutes=1), [900.0] * 4, (), settings)
    used = {r["bundle"]: r["used_msg_throughput_in"] for r in cluster.rows(settings)["bundle_load"]}
    assert used.pop(bundle) == 50.0
    assert set(used.values()) == {450.0}


def test_a_line_is_found_again_and_nothing_is_made_of_nothing() -> None:
    found = fitted([(x, 0.2 + 3e-6 * x) for x in (0.0, 1e4, 5e4, 2e5)])
    assert (found.base, found.per_byte) == pytest.approx((0.2, 3e-6))
    assert fitted([(1.0, 0.5), (2.0, 0.1)]) == UsageFit(0.3, 0.0)
    assert fitted([]) == UsageFit(0.0, 0.0)


@pytest.mark.parametrize(("name", "word"), [("difusal", "diurnal"), ("brokerloss", "broker-loss")])
def test_an_unknown_scenario_is_named_with_the_nearest(name: str, word: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {word}"):
        scenario(name, SMALL, 1)


def test_a_cluster_too_small_to_steer_is_refused() -> None:
    with pytest.raises(BadInput, match="two brokers or more"):
        scenario("zipf", Size(brokers=1), 1)


def test_generated_traffic_is_all_in_bundles_that_somebody_has() -> None:
    made: Scenario = scenario("growth", SMALL, 3)
    assert set(made.owners.values()) == set(made.fits)
    assert len(made.throughputs(0)) == len(made.topics)
    assert len(made.owners) == SMALL.bundles


def test_the_children_of_a_split_that_are_unloaded_have_an_owner_at_once_and_the_idlest() -> None:
    cluster, settings = small(), Settings()
    cluster.observe(AT, [100.0, 50.0, 50.0, 50.0], (), settings)
    parent = min(cluster.owner)
    cluster.carry_out([(command("split", parent, cuts=[1 << 29], unload_children=True), None)], [])
    assert {cluster.owner[f"{NAMESPACE}/{one}"] for one in ("0x00000000_0x20000000", "0x20000000_0x40000000")} == {"b"}
    cluster.observe(AT + timedelta(minutes=1), [100.0, 50.0, 50.0, 50.0], (), settings)
    flows = {row["broker"]: row["msg_throughput_in"] for row in cluster.rows(settings)["broker_load"]}
    assert flows == {"a": 75.0, "b": 50.0}
