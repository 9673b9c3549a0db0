"""What the demo runs over: small, explained, and with settings that Evenkeel knows."""

import json
from pathlib import Path

import pytest

from devtools.demo.course import course
from devtools.demo.folder import taken
from evenkeel.errors import BadInput
from evenkeel.sources.configuration import read_configuration
from evenkeel.sources.recordings import Recording
from tests.snapshot_lines import requests_of

CHECKOUT = Path(__file__).resolve().parents[2]
CONFIGURATION = CHECKOUT / "demo" / "evenkeel.toml"
RECORDINGS = CHECKOUT / "demo" / "recordings"
MOST_BYTES = 3_000_000


def test_the_recordings_are_small_enough_to_be_cloned_by_everybody() -> None:
    assert sum(file.stat().st_size for file in RECORDINGS.rglob("*") if file.is_file()) <= MOST_BYTES


def test_every_recording_is_explained_and_belongs_to_a_cluster() -> None:
    folders = sorted(folder.name for folder in RECORDINGS.iterdir() if folder.is_dir())
    readme = (RECORDINGS / "README.md").read_text()
    assert [name for name in folders if f"| `{name}` | {_snapshots(name)} of " not in readme] == []
    assert sorted(source.recording.name for source in read_configuration(CONFIGURATION)) == folders


def test_every_snapshot_can_be_read_and_knows_a_configuration() -> None:
    for source in read_configuration(CONFIGURATION):
        recording = Recording(source.recording)
        assert recording.problems == ()
        assert all(snapshot.configuration_path for snapshot in recording.snapshots), source.cluster


def test_every_value_of_the_settings_has_its_reason_above_it() -> None:
    lines = CONFIGURATION.read_text().splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith(("#", "recording")):
            assert lines[number - 1].startswith("#"), line


def test_the_compared_cluster_runs_under_what_its_brokers_had_in_force() -> None:
    (compared,) = [source for source in read_configuration(CONFIGURATION) if source.cluster == "own-threshold"]
    assert compared.overrides == {}
    first = Recording(compared.recording).snapshots[0]
    runtime = "/admin/v2/brokers/configuration/runtime"
    (body, *_) = [request["body"] for request in requests_of(Path(first.path)) if request["path"] == runtime]
    assert json.loads(body)["loadBalancerBundleUnloadMinThroughputThreshold"] == "0.01"
    assert json.loads(body)["loadBalancerHistoryResourcePercentage"] == "0.2"


def test_the_course_visits_every_snapshot_in_the_order_of_time() -> None:
    legs = course(CONFIGURATION)
    assert [leg.at for leg in legs] == sorted(leg.at for leg in legs)
    assert len(legs) == sum(len(Recording(source.recording).snapshots) for source in read_configuration(CONFIGURATION))
    assert course(CONFIGURATION, cycles=2) == legs[:2]
    assert {leg.cluster for leg in course(CONFIGURATION, ("broker-lost",))} == {"broker-lost"}


def test_a_second_demo_moves_next_door(tmp_path: Path) -> None:
    with taken(tmp_path / "demo") as first, taken(tmp_path / "demo") as second:
        assert first.path.name == "demo"
        assert second.path.name == "demo-2"
    with taken(tmp_path / "demo") as again:
        assert again.path.name == "demo"


def test_whoever_must_have_this_folder_is_told_that_it_is_taken(tmp_path: Path) -> None:
    with (
        taken(tmp_path / "demo"),
        pytest.raises(BadInput, match="in use by another demo"),
        taken(tmp_path / "demo", move=False),
    ):
        pass


def test_clearing_leaves_alone_what_the_demo_did_not_make(tmp_path: Path) -> None:
    with taken(tmp_path) as folder:
        (folder.lake / "cycles").mkdir(parents=True)
        folder.report.write_text("old")
        (tmp_path / "notes.txt").write_text("mine")
        folder.clear()
        assert not folder.lake.exists()
        assert not folder.report.exists()
        assert (tmp_path / "notes.txt").read_text() == "mine"


def _snapshots(name: str) -> int:
    return len(Recording(RECORDINGS / name).snapshots)
