"""A broker of a real cluster is emptied under load: its clients follow, and nothing comes back to it."""

import time
from pathlib import Path
from typing import Any

import pytest

from devtools.lab.layout import skewed
from devtools.lab.measures import measure_load, owners
from devtools.lab.traffic import traffic_for
from evenkeel.cli import main
from evenkeel.lake.record import Attempt
from evenkeel.manual_requests.drain import BY_DRAINING
from tests.e2e.scene import SEEN, Scene

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

CALM = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False, "evenkeelMaxUnloadsPerCycle": -1}
# What a look-up at the wrong moment gave back to the broker may leave it once figures have settled; bundles of tests
# before this one are on it, too.
CYCLES, SETTLED_SECONDS = 6, 125.0


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_broker_is_emptied_under_load_and_stays_empty(
    manager: str, spark: Any, engine: Any, request: Any, fresh_tenant: str, new_lake: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    cluster = request.getfixturevalue(f"{manager}_cluster")
    busy = cluster.broker_ids[0]
    layout = skewed(fresh_tenant, cluster.broker_ids, rate=200.0)
    scene = Scene(spark, cluster, new_lake.parent, CALM)
    with traffic_for(cluster, layout, seconds=1_000) as traffic:
        measure_load(cluster.admin(), [topic.name for topic in layout.topics])
        scene.wish("drain", busy)
        first = scene.cycle()
        _, left = _about(scene, first, busy)
        assert left >= len([bundle for bundle in layout.bundles if bundle.broker == busy])
        assert set(scene.tally(first)) <= SEEN, scene.tally(first)
        assert scene.tally(first)["done"] > 0
        rule = ""
        for number in range(CYCLES):
            time.sleep(SETTLED_SECONDS if number else 5.0)
            rule, _ = _about(scene, scene.cycle(), busy)
            if rule == "emptied":
                break
        assert rule == "emptied"
        there = owners(cluster.admin(), of=f"{layout.tenant}/")
        assert len(there) == len(layout.bundles), "clients have found all of them again"
        assert busy not in there.values()
        tally = traffic.stop()
    assert (tally.lost, tally.failed) == (0, 0), tally
    assert main(["verify", "--lake", str(new_lake)]) == 0


def _about(scene: Scene, attempt: Attempt, broker: str) -> tuple[str, float]:
    """What the cycle says of the broker: the rule, and how many bundles are left."""
    rows = scene.rows(attempt, "unload_decisions")
    (row,) = [row for row in rows if (row["strategy"], row["subject"]) == (BY_DRAINING, broker)]
    return row["rule"], row["measured"]
