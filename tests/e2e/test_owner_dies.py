"""The broker that was to give bundles away dies between plan and command, on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devtools.lab.cluster import Cluster
from devtools.lab.conf import SESSION_SECONDS
from devtools.lab.layout import skewed
from devtools.lab.measures import measure_load
from devtools.lab.readiness import listed
from devtools.lab.traffic import traffic_for
from devtools.lab.waiting import wait_until
from evenkeel.ingest.open_run import open_cycles
from evenkeel.pipeline import DECIDING, PUBLISH, task
from evenkeel.publish.dispatch import Sending, reach_with
from evenkeel.record.read import find_cycles
from tests.e2e.scene import MODULAR, Scene

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]


def test_commands_whose_owner_has_died_are_stale_and_nothing_is_lost(
    spark: Any, modular_cluster: Cluster, fresh_tenant: str, new_lake: Path
) -> None:
    cluster = modular_cluster
    layout = skewed(fresh_tenant, cluster.broker_ids, rate=300.0)
    scene = Scene(spark, cluster, new_lake.parent, MODULAR)
    with traffic_for(cluster, layout, seconds=300) as traffic:
        measure_load(cluster.admin(), [topic.name for topic in layout.topics])
        handover = open_cycles(spark, scene.request("auto"))
        for name in DECIDING:
            handover = task(name)(spark, handover)
        cluster.kill_broker(1)
        try:
            cluster.await_gone(1, seconds=SESSION_SECONDS + 15)
            task(PUBLISH)(spark, handover, Sending(reach_with()))
        finally:
            cluster.start_broker(1)
        everybody = frozenset(cluster.broker_ids)
        wait_until("all to know all", lambda: listed(cluster.admin()) == everybody, seconds=30)
        tally = traffic.stop()

    (attempt,) = find_cycles(scene.lake, cluster="lab")
    asked = scene.commands(attempt)
    assert {row["from_broker"] for row in asked} == {cluster.broker_id(1)}
    assert set(scene.tally(attempt)) == {"stale"}, scene.tally(attempt)
    assert {row["detail"].partition(":")[0] for row in scene.rows_of("outcomes")} == {"not sent"}
    assert tally.lost == 0, tally
