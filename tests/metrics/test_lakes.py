"""An exporter over several lakes: every metric says its lake, a moved cluster counts once, and lakes come and go with
the configuration file."""

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from evenkeel.metrics.lake_watch import ConfigurationWatch
from tests.lakes.several_lakes import MOVED, Installation, configuration, lakes_in_force
from tests.metrics.exporting import Scraped, exporter, exporting, scrape, scraped, value_of

USABLE = "evenkeel_configuration_usable"
ONE, TWO = {"north": ["*"]}, {"north": ["eu-*"], "south": ["us-*", MOVED]}
CLUSTERS = ["eu-1", "eu-2", "us-1", MOVED]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    return lakes_in_force(tmp_path, monkeypatch)


def lakes_in(found: Scraped) -> set[str]:
    """The lakes of which an exporter says whether it can read them."""
    return {dict(labels).get("lake", "") for name, labels in found if name == "evenkeel_up"}


def test_every_metric_has_the_lake_and_a_lake_that_is_gone_is_down(made: Installation) -> None:
    made.lose("north")
    watch = ConfigurationWatch(made.lakes(), 3600)
    for one in watch.watched.watches.values():
        one.read_once()
    with exporting(watch) as url:
        found = scraped(httpx.get(f"{url}/metrics").text)
    assert {name for name, labels in found if "lake" not in dict(labels)} == {USABLE}
    assert {lake: value_of(found, "evenkeel_up", lake=lake) for lake in lakes_in(found)} == {
        "north": 0,
        "south": 1,
        "old": 1,
    }
    moments = {
        (dict(labels)["lake"], dict(labels)["cluster"])
        for name, labels in found
        if name == "evenkeel_cycle_timestamp_seconds"
    }
    assert moments == {("south", "us-1"), ("south", MOVED)}


def test_a_lake_that_stays_where_it_was_keeps_its_figures(made: Installation) -> None:
    watch = ConfigurationWatch(made.lakes(), 3600)
    before = dict(watch.watched.watches)
    before["north"].read_once()
    more = configuration({"nord": ["eu-*"], "fresh": ["us-*", MOVED]}, CLUSTERS)
    made.file.write_text(more.replace('path = "nord"', 'path = "north"'))
    watch.look()
    try:
        assert watch.watched.watches["nord"] is before["north"], "it has another name, and is the same lake"
        assert set(watch.watched.watches) == {"nord", "fresh"}
        assert watch.watched.watches["nord"].last.is_up
    finally:
        watch.watched.watches["fresh"].stop()


@pytest.mark.parametrize(
    ("text", "said"),
    [("[lakes.north]\n", "lakes.north.path"), ("lake = \n", "is not TOML"), ("", "names no lake any more")],
)
def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    made: Installation, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    watch = ConfigurationWatch(made.lakes(), 3600)
    good, before = made.file.read_text(), watch.watched
    made.file.write_text(text)
    watch.look()
    watch.look()
    with exporting(watch) as url:
        found = scrape(f"{url}/metrics")
    assert watch.watched is before
    assert (value_of(found, USABLE), lakes_in(found)) == (0, {"north", "south", "old"})
    assert [said in one.getMessage() for one in caplog.records] == [True]
    made.file.write_text(good)
    watch.look()
    assert watch.is_usable
    assert watch.watched is before


@pytest.mark.slow
def test_lakes_join_a_command_that_serves(made: Installation, tmp_path: Path) -> None:
    made.file.write_text(configuration(ONE, CLUSTERS))
    log = tmp_path / "log"
    with exporter(None, "--every", "1", log=log) as serving:

        def until(is_so: Callable[[Scraped], bool]) -> Scraped:
            ends = time.monotonic() + 120
            while not is_so(found := scrape(serving.url)):
                assert time.monotonic() < ends, (found, log.read_text())
                time.sleep(0.2)
            return found

        alone = until(lambda found: value_of(found, "evenkeel_up") == 1)
        assert value_of(alone, USABLE) == 1
        made.file.write_text(configuration(TWO, CLUSTERS))
        until(lambda found: value_of(found, "evenkeel_up", lake="south") == 1)
        made.file.write_text("lake = \n")
        kept = until(lambda found: value_of(found, USABLE) == 0)
        assert value_of(kept, "evenkeel_up", lake="south") == 1
        made.file.write_text(configuration(ONE, CLUSTERS))
        until(lambda found: value_of(found, "evenkeel_up") == 1)
    told = log.read_text().splitlines()
    assert [line.partition(" ")[2] for line in told] == [
        "INFO lakes that are watched: north, south",
        f"ERROR the lakes of before are watched on: configuration {made.file}:1: is not TOML: "
        "Invalid value (at line 1, column 8)",
        "INFO the configuration can be used again",
        "INFO lakes that are watched: north",
    ]
