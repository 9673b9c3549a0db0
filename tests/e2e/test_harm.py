"""Consumers of a real cluster stay away after a move: a later cycle sees it, says so, and lets the namespace rest."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pulsar
import pytest

from devtools.lab.cluster import Cluster
from devtools.lab.layout import Bundle, skewed
from devtools.lab.measures import measure_load
from devtools.lab.traffic import traffic_for
from evenkeel.cli import main
from tests.e2e.scene import MODULAR, SEEN, Scene

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

# The shedder moves what it finds in every cycle, whatever figures have settled and however often a bundle moved.
EAGER = {**MODULAR, "evenkeelSplitEnabled": False, "loadBalancerMsgRateDifferenceShedderThreshold": 5.0,
         "loadBalancerSheddingIntervalMinutes": 0, "evenkeelFreeMovesPerBundlePerDay": -1,
         "evenkeelBounceWindowMinutes": 0}  # fmt: skip
CYCLES, SECONDS = 5, 20.0
WISHES = 12
"""After a move the figures of both brokers are not trusted for two minutes, and no bundle leaves or reaches them."""


def test_consumers_that_stay_away_are_harm_and_others_are_not(
    spark: Any, engine: Any, modular_cluster: Cluster, fresh_tenant: str, new_lake: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    cluster, brokers = modular_cluster, modular_cluster.broker_ids
    layout = skewed(fresh_tenant, brokers, rate=300.0)
    shy, *_ = found = sorted((one for one in layout.bundles if one.broker == brokers[0]), key=lambda one: -one.rate)
    steady = next(one for one in found if one.namespace != shy.namespace)
    scene = Scene(spark, cluster, new_lake.parent, {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False})
    with traffic_for(cluster, layout, seconds=900) as traffic:
        client = listeners(cluster, [shy, steady])
        stays = listeners(cluster, [steady])
        try:
            measure_load(cluster.admin(), [topic.name for topic in layout.topics])
            for bundle, to in ((steady, brokers[2]), (shy, brokers[1])):
                for _ in range(WISHES):  # a look-up at the wrong moment gives a bundle back to its broker
                    scene.wish("unload", bundle.namespace, "-b", str(bundle.range), "-d", to)
                    tally = scene.tally(scene.cycle())
                    if tally == {"done": 1}:
                        break
                    assert set(tally) <= SEEN, tally
                    if not tally:  # held, until what the last move did to its brokers is over
                        time.sleep(SECONDS)
                assert tally == {"done": 1}
            client.close()
            harmed: list[dict[str, Any]] = []
            for _ in range(CYCLES):
                time.sleep(SECONDS)
                scene.cycle()
                harmed = [row for row in scene.rows_of("outcomes") if row["outcome"] == "harmed"]
                if harmed:
                    break
        finally:
            stays.close()
        first = {row["command_id"]: row for row in scene.commands()}
        (row,) = harmed
        assert first[row["command_id"]]["bundle"] == shy.name
        assert "consumers are connected" in row["detail"]

        scene.settings = EAGER
        last = scene.cycle()
        guards = scene.rows(last, "guard_decisions")
        held = {one["rule"] for one in guards if one["namespace"] == shy.namespace and one["kind"] == "unload"}
        acts = [one for one in scene.rows(last, "unload_decisions") if one["outcome"] == "unload"]
        decided = [one for one in acts if one["namespace"]]
        assert decided
        assert not [one for one in scene.commands(last) if one["bundle"].startswith(f"{shy.namespace}/")]
        assert held == {"harmed_namespace"}
        traffic.stop()
    capsys.readouterr()
    assert main(["explain", shy.name, "--at", last.cycle_at.isoformat(), "--lake", str(new_lake)]) == 0
    assert main(["verify", "--lake", str(new_lake)]) == 0


def listeners(cluster: Cluster, bundles: Sequence[Bundle], each: int = 3) -> Any:
    """Consumers of every topic of the bundles, in one subscription beside that of the senders."""
    token = cluster.token()
    client = pulsar.Client(
        cluster.service_url,
        authentication=pulsar.AuthenticationToken(token) if token else None,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
    )
    for topic in [topic.name for bundle in bundles for topic in bundle.topics for _ in range(each)]:
        client.subscribe(
            topic,
            "away",
            consumer_type=pulsar.ConsumerType.Shared,
            message_listener=lambda consumer, message: consumer.acknowledge(message),
        )
    return client
