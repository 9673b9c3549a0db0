"""An exporter over several lakes: every metric says its lake, and a moved cluster counts once."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from evenkeel.metrics.exporter import WatchedLakes
from evenkeel.metrics.lake_watch import LakeWatch
from tests.metrics.exporting import exporting, scraped, value_of
from tests.several_lakes import MOVED, Installation, several_lakes


@pytest.fixture
def made(tmp_path: Path) -> Installation:
    return several_lakes(tmp_path)


def test_every_metric_has_the_lake_and_a_lake_that_is_gone_is_down(made: Installation) -> None:
    made.lose("north")
    lakes = made.lakes()
    watches = {lake.name: LakeWatch(lake.path, 3600) for lake in lakes.lakes}
    for watch in watches.values():
        watch.read_once()
    with exporting(WatchedLakes(lakes, watches)) as url:
        found = scraped(httpx.get(f"{url}/metrics").text)
    assert all("lake" in dict(labels) for _, labels in found)
    assert {lake: value_of(found, "evenkeel_up", lake=lake) for lake in watches} == {"north": 0, "south": 1, "old": 1}
    moments = {
        (dict(labels)["lake"], dict(labels)["cluster"])
        for name, labels in found
        if name == "evenkeel_cycle_timestamp_seconds"
    }
    assert moments == {("south", "us-1"), ("south", MOVED)}
