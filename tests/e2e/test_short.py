"""A real cluster is watched and steered: bundles move and stay, nothing moves twice, no message is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import MODULAR, Scene
from tests.lab.cluster import Cluster
from tests.lab.layout import skewed
from tests.lab.measures import measure_load, owners
from tests.lab.traffic import traffic_for

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow]


def test_load_is_evened_out_once_and_the_next_cycle_lets_it_settle(
    spark: Any, modular_cluster: Cluster, fresh_tenant: str, tmp_path: Path
) -> None:
    layout = skewed(fresh_tenant, modular_cluster.broker_ids, rate=600.0)
    topics = [topic.name for topic in layout.topics]
    # The brokers' figures settle within seconds here; however slow this machine is, the second cycle is to come before.
    scene = Scene(spark, modular_cluster, tmp_path, {**MODULAR, "statsUpdateFrequencyInSecs": 600})
    with traffic_for(modular_cluster, layout, seconds=600) as traffic:
        before = measure_load(modular_cluster.admin(), topics)
        assert before.share[modular_cluster.broker_ids[0]] > 0.6

        first = scene.cycle()
        moved = {row["bundle"] for row in scene.commands(first) if row["kind"] == "unload"}
        assert moved
        assert set(scene.tally(first)) == {"done"}, scene.tally(first)
        found = owners(modular_cluster.admin(), of=f"{fresh_tenant}/")
        for row in scene.commands(first):
            if row["kind"] == "unload":
                assert found[row["bundle"]] == {row["destination"]}

        second = scene.cycle()
        assert not moved & {row["bundle"] for row in scene.commands(second)}
        loads = {row["bundle"]: row for row in scene.rows(second, "bundle_load")}
        assert {loads[bundle]["measured_gap"] for bundle in moved} == {"unsettled"}

        after = measure_load(modular_cluster.admin(), topics)
        assert after.max_over_mean < before.max_over_mean - 0.3
        tally = traffic.stop()
    assert (tally.lost, tally.failed) == (0, 0), tally


def test_a_pipeline_that_is_told_nothing_sends_nothing(
    spark: Any, modular_cluster: Cluster, fresh_tenant: str, tmp_path: Path
) -> None:
    layout = skewed(fresh_tenant, modular_cluster.broker_ids, rate=300.0)
    scene = Scene(spark, modular_cluster, tmp_path, MODULAR)
    with traffic_for(modular_cluster, layout, seconds=120):
        measure_load(modular_cluster.admin(), [topic.name for topic in layout.topics])
        before = owners(modular_cluster.admin(), of=f"{fresh_tenant}/")
        attempt = scene.cycle(mode="dry_run")
        assert set(scene.tally(attempt)) == {"dry_run"}
        assert owners(modular_cluster.admin(), of=f"{fresh_tenant}/") == before
