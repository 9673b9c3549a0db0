"""Namespaces, ownership and policies of a cluster, and real snapshots of both load managers."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.observed_rows import ObservedRows, observe
from evenkeel.pulsar.snapshot import SnapshotView, own_cluster, times_that_do_not_fit
from evenkeel.sources.snapshot_files import read_header
from evenkeel.times import moment_in
from tests.pulsar.small_cluster import FULL, SmallCluster
from tests.snapshot_lines import requests_of

RECORDINGS = Path(__file__).parent.parent / "recordings"
BUNDLE = f"shop/orders/{FULL}"
RUNTIME = "/admin/v2/brokers/configuration/runtime"


def recorded(name: str) -> ObservedRows:
    path = RECORDINGS / name
    header = read_header(path)
    answers = Answers(
        Answer(n, r["broker"], r["path"], r["status"], r["body"], moment_in(r["at"]), r["location"], r["method"])
        for n, r in enumerate(requests_of(path))
    )
    return observe(SnapshotView("lab", str(path), header.started_at, header.finished_at, answers, Answers(()), None))


def states(observed: ObservedRows) -> dict[str, str]:
    return {row["broker"].split(":")[0]: row["state"] for row in observed.rows["broker_reports"]}


def test_a_killed_broker_is_listed_and_says_nothing_and_its_bundles_are_in_nobodys_list() -> None:
    observed = recorded("lost-modular/0006.json.gz")
    assert states(observed) == {"127.0.0.1": "reported", "127.0.0.2": "no_answer", "127.0.0.3": "reported"}
    dead = observed.rows["broker_reports"][1]
    assert (dead["is_listed"], dead["owned_bundles"], dead["has_topic_figures"]) == (True, None, False)
    assert {row["broker"] for row in observed.rows["bundle_ownership"]} == {"127.0.0.1:19080", "127.0.0.3:19080"}
    assert observed.left_out is None
    assert observed.rejections == ()


@pytest.mark.parametrize("number", ["0015", "0016"])
def test_a_broker_that_came_back_is_not_ready_while_it_says_that_it_owns_nothing(number: str) -> None:
    observed = recorded(f"lost-extensible/{number}.json.gz")
    assert states(observed) == {"127.0.0.1": "reported", "127.0.0.2": "not_ready", "127.0.0.3": "reported"}
    assert observed.policies["manager"] == "extensible"


def test_pulsar_4_0_answers_no_group_with_204_and_names_heartbeats_in_three_parts() -> None:
    observed = recorded("by-hand-4.0.8/0020.json.gz")
    assert {row["anti_affinity_group"] for row in observed.rows["namespace_bundles"]} == {None}
    heartbeats = [r["bundle"] for r in observed.rows["bundle_ownership"] if r["namespace"].startswith("pulsar/lab/")]
    assert len(heartbeats) == 3
    assert (observed.policies["generation"], observed.rejections) == ("4.0", ())


def test_the_snapshot_that_holds_the_configuration_says_so() -> None:
    with_it, without = recorded("lost-modular/0000.json.gz"), recorded("lost-modular/0006.json.gz")
    assert with_it.policies["configuration"]["loadBalancerOverrideBrokerNicSpeedGbps"] == "Optional[1.0]"
    assert (with_it.policies["configuration_broker"], with_it.policies["configuration_age_seconds"]) == (
        with_it.policies["leader"],
        0.0,
    )
    assert without.policies["configuration"] is None
    assert (len(with_it.topic_lists), len(without.topic_lists)) == (7, 0)


def test_ownership_joins_the_owned_list_with_the_reports_own_figures() -> None:
    cluster = SmallCluster()
    cluster.reply("/admin/v2/brokers/lab/b2:8080/ownedNamespaces", {BUNDLE: {"is_active": False}}, broker="b2:8080")
    cluster.reply("/admin/v2/brokers/lab/b1:8080/ownedNamespaces", {}, broker="b1:8080")
    rows = {row["broker"]: row for row in observe(cluster.view()).rows["bundle_ownership"]}
    assert (rows["b1:8080"]["is_owned"], rows["b1:8080"]["is_reported"]) == (False, True)
    assert (rows["b1:8080"]["msg_rate_in"], rows["b1:8080"]["topics"]) == (1.0, 1)
    assert (rows["b2:8080"]["is_owned"], rows["b2:8080"]["is_reported"]) == (True, False)
    assert (rows["b2:8080"]["is_active"], rows["b2:8080"].get("msg_rate_in")) == (False, None)


def test_an_owned_list_that_did_not_come_leaves_ownership_unknown() -> None:
    path = "/admin/v2/brokers/lab/b1:8080/ownedNamespaces"
    rows = observe(SmallCluster().reply(path, "gone", 0).view()).rows["bundle_ownership"]
    owned = {row["bundle"]: row["is_owned"] for row in rows if row["broker"] == "b1:8080"}
    assert owned == {BUNDLE: None}


def test_boundaries_with_a_hole_are_kept_as_they_came() -> None:
    boundaries = ["0x00000000", "0x40000000", "0x30000000", "0xffffffff"]
    rows = observe(SmallCluster().namespace("shop/orders", boundaries).view()).rows["namespace_bundles"]
    assert rows[0]["boundaries"] == boundaries


def test_boundaries_come_from_the_policies_where_their_own_answer_is_broken() -> None:
    cluster = SmallCluster().reply("/admin/v2/namespaces/shop/orders/bundles", '{"boundaries": ["0x0')
    observed = observe(cluster.view())
    assert observed.rows["namespace_bundles"][0]["boundaries"] == ["0x00000000", "0xffffffff"]
    assert [r.rule for r in observed.rejections] == ["unreadable_json"]


def test_a_namespace_without_known_boundaries_is_set_aside() -> None:
    observed = observe(SmallCluster().reply("/admin/v2/namespaces/shop", ["shop/orders", "shop/new"]).view())
    assert [row["namespace"] for row in observed.rows["namespace_bundles"]] == ["shop/orders"]
    assert [(r.rule, r.place) for r in observed.rejections] == [("no_boundaries", "namespace shop/new")]


@pytest.mark.parametrize("group", ['"g"', "größe", "<script>alert(1)</script>", "it's", "x" * 2_000])
def test_a_groups_name_is_kept_as_stored(group: str) -> None:
    observed = observe(SmallCluster().namespace("shop/orders", ["0x00000000", "0xffffffff"], group).view())
    assert observed.rows["namespace_bundles"][0]["anti_affinity_group"] == group
    assert observed.policies["anti_affinity_groups"] == {"shop/orders": group}


def test_a_page_in_place_of_a_group_is_no_name() -> None:
    page = "<html>proxy error</html>"
    observed = observe(SmallCluster().namespace("shop/orders", ["0x00000000", "0xffffffff"], page).view())
    assert observed.rows["namespace_bundles"][0]["anti_affinity_group"] is None
    assert [r.rule for r in observed.rejections] == ["html_page"]


def test_a_group_that_is_not_known_is_set_aside() -> None:
    path = "/admin/v2/namespaces/shop/orders/antiAffinity"
    observed = observe(SmallCluster().reply(path, "refused", 0).view())
    assert observed.rows["namespace_bundles"][0]["anti_affinity_group"] is None
    assert [r.rule for r in observed.rejections] == ["unknown_group"]


def test_no_isolation_policy_was_ever_made_is_none_and_no_answer_is_unknown() -> None:
    path = "/admin/v2/clusters/lab/namespaceIsolationPolicies"
    assert observe(SmallCluster().view()).policies["isolation_policies"] == "{}"
    assert observe(SmallCluster().reply(path, "refused", 0).view()).policies["isolation_policies"] is None
    told = observe(SmallCluster().reply(path, {"p": {"x": 1}}).view()).policies["isolation_policies"]
    assert json.loads(told) == {"p": {"x": 1}}


def test_failure_domains_are_lists_of_brokers() -> None:
    path = "/admin/v2/clusters/lab/failureDomains"
    domains = {"east": {"brokers": ["b2:8080", "b1:8080"]}, "empty": {}}
    assert observe(SmallCluster().reply(path, domains).view()).policies["failure_domains"] == {
        "east": ["b1:8080", "b2:8080"],
        "empty": [],
    }
    assert observe(SmallCluster().reply(path, "x", 500).view()).policies["failure_domains"] is None


def test_brokers_that_are_configured_otherwise_are_named_with_their_values() -> None:
    base = {"clusterName": "lab", "brokerId": "b1:8080", "webServicePort": "Optional[1]"}
    cluster = SmallCluster().reply(RUNTIME, base | {"loadBalancerSheddingEnabled": "false"}, broker="b1:8080")
    cluster.reply(RUNTIME, base | {"brokerId": "b2:8080", "webServicePort": "Optional[2]"}, broker="b2:8080")
    differs = json.loads(observe(cluster.view()).policies["configuration_differs"])
    assert differs == {"loadBalancerSheddingEnabled": {"b1:8080": "false", "b2:8080": None}}


def test_the_leaders_configuration_holds() -> None:
    cluster = SmallCluster().reply("/admin/v2/brokers/leaderBroker", {"brokerId": "b2:8080"})
    cluster.reply(RUNTIME, {"minUnloadMessage": "7"}, broker="b2:8080")
    policies = observe(cluster.view()).policies
    assert (policies["configuration_broker"], policies["configuration"]) == ("b2:8080", {"minUnloadMessage": "7"})


def test_a_cluster_names_itself_or_is_told_by_its_configuration() -> None:
    both = '["lab","peer"]'
    assert own_cluster('["lab"]', None, None, where="s") == "lab"
    assert own_cluster(both, None, "peer", where="s") == "peer"
    assert own_cluster(both, '{"clusterName":"lab"}', None, where="s") == "lab"
    for clusters, configuration, wanted in (
        (both, None, None),
        (None, None, None),
        ('["lab"]', None, "x"),
        ("<", None, None),
    ):
        with pytest.raises(BadInput):
            own_cluster(clusters, configuration, wanted, where="s")


def shifted(**times: Any) -> SnapshotView:
    cluster = SmallCluster()
    for name, seconds in times.items():
        setattr(cluster, name, getattr(cluster, name) + timedelta(seconds=seconds))
    return cluster.view()


def test_a_snapshot_from_the_future_does_not_fit_its_own_requests() -> None:
    misfit = times_that_do_not_fit(shifted(started_at=86_400, finished_at=86_400), 300.0)
    assert misfit is not None
    assert "requests lie outside the snapshot's time" in misfit.reason
    assert "evenkeelFutureToleranceSeconds = 300" in misfit.reason


def test_a_snapshot_that_finished_before_it_started_does_not_fit() -> None:
    misfit = times_that_do_not_fit(shifted(started_at=5), 300.0)
    assert misfit is not None
    assert "is before started_at" in misfit.reason


def test_times_inside_the_tolerance_fit() -> None:
    assert times_that_do_not_fit(shifted(started_at=200, finished_at=200), 300.0) is None


def test_a_configuration_asked_for_in_vain_is_lent_by_the_earlier_snapshot() -> None:
    cluster, earlier = SmallCluster(1).reply(RUNTIME, "refused", 0), SmallCluster(1)
    view = replace(cluster.view(), lent=earlier.view().own, lent_age_seconds=60.0)
    policies = observe(view).policies
    assert (policies["configuration_age_seconds"], policies["configuration"]["clusterName"]) == (60.0, "lab")


def test_the_brokers_of_a_peer_cluster_are_none_of_ours() -> None:
    cluster = SmallCluster(1).reply("/admin/v2/brokers/peer", ["far:8080"])
    assert observe(cluster.view()).policies["brokers"] == ["b1:8080"]
    cluster.reply("/admin/v2/brokers/lab", ["b1:8080", "b9:8080"]).never_asked("/admin/v2/brokers")
    assert observe(cluster.view()).policies["brokers"] == ["b1:8080", "b9:8080"]


@pytest.mark.parametrize("name", ["NoopLoadManager", "SimpleLoadManagerImpl"])
def test_a_load_manager_that_is_not_supported_is_the_cause_that_is_told(name: str) -> None:
    cluster = SmallCluster()
    for broker in ("b1:8080", "b2:8080"):
        cluster.reply(RUNTIME, {"loadManagerClassName": f"org.apache.pulsar.broker.loadbalance.{name}"}, broker=broker)
        cluster.reply("/admin/v2/broker-stats/load-report", "", 204, broker=broker)
    left_out = observe(cluster.view()).left_out
    assert left_out is not None
    assert (left_out.rule, left_out.record) == ("other_load_manager", name)
    assert "ModularLoadManagerImpl or ExtensibleLoadManagerImpl" in left_out.reason
