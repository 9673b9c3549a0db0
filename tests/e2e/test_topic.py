"""A topic of a real cluster is unloaded under load: its clients come back to the same broker, and the others stay."""

from pathlib import Path
from typing import Any

import pytest

from devtools.lab.admin import Admin
from devtools.lab.layout import skewed
from devtools.lab.measures import measure_load, owners
from devtools.lab.traffic import traffic_for
from devtools.lab.waiting import wait_until
from evenkeel.cli import main
from evenkeel.lake.record import read_table
from tests.e2e.scene import Scene

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

CALM = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_topics_clients_connect_again_and_its_bundle_stays(
    manager: str, spark: Any, engine: Any, request: Any, fresh_tenant: str, new_lake: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    cluster = request.getfixturevalue(f"{manager}_cluster")
    layout = skewed(fresh_tenant, cluster.broker_ids, rate=200.0)
    admin, scene = cluster.admin(), Scene(spark, cluster, new_lake.parent, CALM)
    bundle = max(layout.bundles, key=lambda bundle: len(bundle.topics))
    wished, *others = [topic.name for topic in bundle.topics]
    with traffic_for(cluster, layout, seconds=600) as traffic:
        measure_load(admin, [topic.name for topic in layout.topics])
        before = {topic: taken_in(admin, topic) for topic in (wished, *others)}
        there = owners(admin, of=f"{layout.tenant}/")
        for topic in (wished, f"persistent://{bundle.namespace}/{'x' * 20}"):
            scene.wish("unload-topic", topic)
        tally = scene.tally(scene.cycle())
        assert tally == {"done": 1, "stale": 1}, [row["detail"] for row in scene.rows_of("outcomes")]
        wait_until("its clients", lambda: clients_of(admin, wished) == (1, 1), seconds=60)
        assert taken_in(admin, wished) < before[wished]
        assert [topic for topic in others if taken_in(admin, topic) < before[topic]] == []
        assert owners(admin, of=f"{layout.tenant}/") == there
        sent = traffic.stop()
    assert (sent.lost, sent.failed) == (0, 0), sent
    assert {row["kind"] for row in read_table(new_lake, "commands")} == {"unload_topic"}
    assert main(["verify", "--lake", str(new_lake)]) == 0


def taken_in(admin: Admin, topic: str) -> int:
    """How many messages its broker has taken in since it loaded the topic.

    When clients have connected says less: they may connect again for reasons of their own.
    """
    return int(stats_of(admin, topic)["msgInCounter"])


def clients_of(admin: Admin, topic: str) -> tuple[int, int]:
    """How many producers and consumers are connected."""
    stats = stats_of(admin, topic)
    return len(stats["publishers"]), sum(len(each["consumers"]) for each in stats["subscriptions"].values())


def stats_of(admin: Admin, topic: str) -> dict[str, Any]:
    return dict(admin.get(f"/admin/v2/{topic.replace('://', '/')}/stats"))
