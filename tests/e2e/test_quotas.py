"""Resource quotas that an operator stored in a real Pulsar: a cycle keeps those of their own, and starts from them."""

from pathlib import Path
from typing import Any

import pytest

from devtools.lab.admin import segments
from devtools.lab.cluster import Cluster
from devtools.lab.layout import skewed
from devtools.lab.measures import owners
from devtools.lab.traffic import traffic_for
from devtools.lab.waiting import wait_until
from tests.e2e.scene import Scene

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow]

QUOTA = {
    "msgRateIn": 70.5, "msgRateOut": 90.0, "bandwidthIn": 50000.0, "bandwidthOut": 64000.0,
    "memory": 12.5, "dynamic": False,
}  # fmt: skip


@pytest.mark.exhaustive
def test_a_stored_quota_is_kept_and_one_like_the_default_is_none(
    spark: Any, modular_cluster: Cluster, fresh_tenant: str, new_lake: Path
) -> None:
    cluster, admin = modular_cluster, modular_cluster.admin()
    layout = skewed(fresh_tenant, cluster.broker_ids, rate=60.0)
    own, alike, *_ = sorted(bundle.name for bundle in layout.bundles)
    with traffic_for(cluster, layout, seconds=120):
        wait_until("owners", lambda: {own, alike} <= set(owners(admin, of=f"{fresh_tenant}/")), seconds=60)
        default = admin.get("/admin/v2/resource-quotas")
        assert admin.get(asked(alike)) == default
        for name, quota in ((own, QUOTA), (alike, default)):
            admin.demand("POST", asked(name), quota)
        wait_until("the quota", lambda: admin.get(asked(own)) == QUOTA, seconds=30)
        gone = own.rpartition("/")[0] + "/0x00000001_0x00000002"
        assert admin.ask("GET", asked(gone)).status in (404, 412)

        scene = Scene(spark, cluster, new_lake.parent)
        cycle = scene.cycle("dry_run")
    kept = {row["bundle"]: row for row in scene.rows(cycle, "resource_quotas")}
    assert {name for name in kept if name.startswith(f"{fresh_tenant}/")} == {own}
    figures = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out", "memory", "is_dynamic")
    assert [kept[own][name] for name in figures] == list(QUOTA.values())
    began = {row["bundle"]: row["samples_since_quota"] for row in scene.rows(cycle, "bundle_load")}
    assert (began[own], began[alike]) == (1, None)
    assert not [row for row in scene.rows(cycle, "rejected") if row["rejected_from"] == "resource_quotas"]


def asked(bundle: str) -> str:
    """The path that a bundle's quota is read and written at."""
    return f"/admin/v2/resource-quotas/{segments(*bundle.split('/'))}"
