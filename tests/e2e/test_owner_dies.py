"""A broker dies between plan and command, on a real cluster: the one that was to give bundles away, or the leader."""

from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import pytest

from devtools.lab.cluster import Cluster
from devtools.lab.conf import SESSION_SECONDS
from devtools.lab.layout import skewed
from devtools.lab.measures import measure_load
from devtools.lab.readiness import listed
from devtools.lab.traffic import traffic_for
from devtools.lab.waiting import wait_until
from evenkeel.cli import main
from evenkeel.ingest.open_run import open_cycles
from evenkeel.lake.record import find_cycles
from evenkeel.pipeline import DECIDING, publish
from evenkeel.publish.dispatch import Sending, reach_with
from evenkeel.steering.command_executor import CommandExecutor
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.premise import Command
from tests.e2e.scene import MODULAR, SEEN, Scene

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
        for task in DECIDING:
            handover = task(spark, handover)
        cluster.kill_broker(1)
        try:
            cluster.await_gone(1, seconds=SESSION_SECONDS + 15)
            publish(spark, handover, Sending(reach_with()))
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


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_the_leaders_death_between_plan_and_command_doubles_and_loses_nothing(
    manager: str, spark: Any, engine: Any, request: Any, fresh_tenant: str, new_lake: Path, monkeypatch: Any
) -> None:
    """The plan is a drain, which both managers carry out alike. The leader dies when everything that gates sending was
    asked and before the first command goes out: earlier, nothing would go out while it is still listed. Commands may
    name its bundles or send bundles there: then they are not carried out."""
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    cluster = request.getfixturevalue(f"{manager}_cluster")
    leader = urlsplit(cluster.admin().get("/admin/v2/brokers/leaderBroker")["serviceUrl"]).netloc
    number = cluster.broker_ids.index(leader) + 1
    hot, *others = [one for one in cluster.broker_ids if one != leader]
    layout = skewed(fresh_tenant, [hot, leader, *others], rate=200.0)
    scene = Scene(spark, cluster, new_lake.parent, {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False})
    with traffic_for(cluster, layout, seconds=300) as traffic:
        measure_load(cluster.admin(), [topic.name for topic in layout.topics])
        scene.wish("drain", hot)
        handover = open_cycles(spark, scene.request("auto"))
        for task in DECIDING:
            handover = task(spark, handover)
        killed = dies_before_the_first_command(cluster, number, monkeypatch)
        try:
            publish(spark, handover, Sending(reach_with()))
            assert killed == [number]
            cluster.await_gone(number, seconds=SESSION_SECONDS + 15)
        finally:
            cluster.start_broker(number)
        everybody = frozenset(cluster.broker_ids)
        wait_until("all to know all", lambda: listed(cluster.admin()) == everybody, seconds=30)
        tally = traffic.stop()

    (attempt,) = find_cycles(scene.lake, cluster="lab")
    asked = scene.commands(attempt)
    assert asked
    outcomes = scene.tally(attempt)
    assert set(outcomes) <= SEEN | {"refused", "unknown", "lost"}, outcomes
    assert len({row["bundle"] for row in asked}) == len(asked), "one command per bundle"
    assert tally.lost == 0, tally
    assert main(["verify", "--lake", str(new_lake)]) == 0


def dies_before_the_first_command(cluster: Cluster, number: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Kills the broker just before the first command is looked at; the list gets its number then."""
    killed: list[int] = []
    lock, carry_out = Lock(), CommandExecutor.carry_out

    def after_the_death(executor: CommandExecutor, command: Command, *more: Any) -> Outcome:
        with lock:
            if not killed:
                cluster.kill_broker(number)
                killed.append(number)
        return carry_out(executor, command, *more)

    monkeypatch.setattr(CommandExecutor, "carry_out", after_the_death)
    return killed
