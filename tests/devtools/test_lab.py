"""The lab itself: what tests on a real cluster take for granted."""

import subprocess
import sys
from pathlib import Path

import pytest

from devtools.lab.admin import Admin
from devtools.lab.cluster import Cluster, find
from devtools.lab.conf import SESSION_SECONDS
from devtools.lab.jvms import child_environment
from devtools.lab.laying_out import owner_of
from devtools.lab.layout import Layout, skewed
from devtools.lab.measures import Load, measure_load, owners
from devtools.lab.readiness import listed
from devtools.lab.traffic import traffic_for
from devtools.lab.waiting import wait_until
from evenkeel.spark.home import lives

pytestmark = pytest.mark.pulsar


def hands_off(cluster: Cluster) -> bool:
    """Whether every broker says that it neither sheds nor splits by itself."""
    keys = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
    settings = [cluster.admin().get("/admin/v2/brokers/configuration/runtime", url=url) for url in cluster.urls]
    return all(found[key] == "false" for found in settings for key in keys)


def skewed_load(cluster: Cluster, tenant: str) -> tuple[Layout, Load]:
    """Runs a skewed layout until its load was measured; nothing may be lost or fail on the way."""
    layout = skewed(tenant, cluster.broker_ids)
    with traffic_for(cluster, layout, seconds=120) as traffic:
        load = measure_load(cluster.admin(), [topic.name for topic in layout.topics])
        tally = traffic.stop()
    assert (tally.lost, tally.failed, tally.unanswered) == (0, 0, 0), tally
    assert tally.received == tally.acknowledged == tally.sent > 5_000
    return layout, load


def assert_skewed(cluster: Cluster, layout: Layout, load: Load) -> None:
    hot = cluster.broker_ids[0]
    assert load.share[hot] > 0.6
    assert load.max_over_mean > 1.8
    found = owners(cluster.admin(), of=f"{layout.tenant}/")
    assert {bundle.name: found[bundle.name] for bundle in layout.bundles if bundle.broker} == {
        bundle.name: bundle.broker for bundle in layout.bundles if bundle.broker
    }
    hottest = sum(load.by_topic[topic.name] for topic in layout.hottest.topics) / sum(load.by_topic.values())
    assert hottest == pytest.approx(0.24, abs=0.06)
    assert layout.hottest.broker == hot
    apart = [owner for name, owner in found.items() if name.rpartition("/")[0] in layout.groups]
    assert len(set(apart)) == len(apart) == 2


def lose_and_regain(cluster: Cluster, number: int) -> None:
    """Kills a broker, sees it go from the lists of the others, and starts it again."""
    everybody = frozenset(cluster.broker_ids)
    cluster.kill_broker(number)
    assert cluster.jvm(number).identity() is None
    cluster.await_gone(number, seconds=SESSION_SECONDS + 15)
    assert listed(cluster.admin()) == everybody - {cluster.broker_id(number)}
    cluster.start_broker(number)
    wait_until("all to know all", lambda: listed(cluster.admin()) == everybody, seconds=20)
    assert cluster.is_ready(number)


@pytest.mark.exhaustive
def test_three_modular_brokers_know_each_other_and_keep_their_hands_off(modular_cluster: Cluster) -> None:
    admin = modular_cluster.admin()
    assert [listed(admin, url=url) for url in modular_cluster.urls] == [set(modular_cluster.broker_ids)] * 3
    runtime = admin.get("/admin/v2/brokers/configuration/runtime")
    assert runtime["loadManagerClassName"].endswith(".ModularLoadManagerImpl")
    assert hands_off(modular_cluster)
    assert admin.get(f"/admin/v2/clusters/{modular_cluster.name}")["serviceUrl"] == modular_cluster.urls[0]


@pytest.mark.exhaustive
def test_one_modular_broker_carries_most_and_no_message_is_lost(modular_cluster: Cluster, fresh_tenant: str) -> None:
    assert_skewed(modular_cluster, *skewed_load(modular_cluster, fresh_tenant))


@pytest.mark.exhaustive
def test_a_killed_modular_broker_goes_from_the_lists_and_comes_back(modular_cluster: Cluster) -> None:
    lose_and_regain(modular_cluster, 3)


@pytest.mark.exhaustive
def test_extensible_brokers_are_ready_carry_skewed_load_and_can_be_killed(
    extensible_cluster: Cluster, fresh_tenant: str
) -> None:
    runtime = extensible_cluster.admin().get("/admin/v2/brokers/configuration/runtime")
    assert runtime["loadManagerClassName"].endswith(".ExtensibleLoadManagerImpl")
    assert hands_off(extensible_cluster)
    assert_skewed(extensible_cluster, *skewed_load(extensible_cluster, fresh_tenant))
    lose_and_regain(extensible_cluster, 3)


OWNER = """
import sys
from pathlib import Path
from devtools.lab.cluster import cluster_for
from devtools.lab.settings import LabSettings
with cluster_for(LabSettings(brokers=1, auth=True, own_split=True, broker={"statsUpdateFrequencyInSecs": "7"})) as it:
    print(it.home, flush=True)
    sys.stdin.read()
"""


@pytest.mark.exhaustive
def test_a_cluster_beside_another_asks_for_tokens_and_ends_with_its_killed_owner(modular_cluster: Cluster) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment()
    )
    try:
        assert owner.stdout is not None
        cluster = find(Path(owner.stdout.readline().strip()))
        assert set(cluster.urls).isdisjoint(modular_cluster.urls)
        path = "/admin/v2/brokers/configuration/runtime"
        assert Admin(cluster.urls).ask("GET", path).status == 401
        assert Admin(cluster.urls, cluster.token("stranger")).ask("GET", path).status == 401
        runtime = cluster.admin().get(path)
        assert runtime["statsUpdateFrequencyInSecs"] == "7"
        assert runtime["loadBalancerAutoBundleSplitEnabled"] == "true"
        processes = [jvm.identity() for jvm in cluster.jvms()]
        assert all(processes)
        assert str(cluster.token()) not in repr(cluster)
    finally:
        owner.kill()
        owner.wait()
    wait_until("its JVMs to end", lambda: not any(lives(known) for known in processes if known), seconds=15)
    wait_until("its folder to go", lambda: not cluster.home.exists(), seconds=15)
    assert owner_of(modular_cluster.admin(), "persistent://public/default/any") in modular_cluster.broker_ids
