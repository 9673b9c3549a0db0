"""Recordings: which snapshots a folder holds, in which order, and what cannot be read."""

import gzip
import json
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.sources.recordings import Recording, cluster_name
from evenkeel.sources.snapshot_files import read_header
from tests.pulsar.small_cluster import FINISHED_AT, SmallCluster
from tests.snapshot_lines import in_lines

RECORDINGS = Path(__file__).parent.parent / "recordings"
RUNTIME = "/admin/v2/brokers/configuration/runtime"


def land(folder: Path, name: str, *, minutes: int = 0, configuration: bool = True) -> Path:
    cluster = SmallCluster()
    cluster.started_at += timedelta(minutes=minutes)
    cluster.finished_at += timedelta(minutes=minutes)
    if not configuration:
        cluster.never_asked(RUNTIME, "b1:8080").never_asked(RUNTIME, "b2:8080")
    return cluster.land(folder, name)


def land_in_lines(folder: Path, name: str, *, minutes: int = 0) -> Path:
    cluster = SmallCluster()
    cluster.finished_at += timedelta(minutes=minutes)
    text = in_lines(cluster.document())
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder / name


def names(recording: Recording) -> list[str]:
    return [Path(snapshot.path).name for snapshot in recording.snapshots]


def test_snapshots_come_in_the_order_of_time_whatever_their_names_and_layouts(tmp_path: Path) -> None:
    land(tmp_path, "0003.json.gz", minutes=1)
    land(tmp_path, "0001.json", minutes=3)
    land_in_lines(tmp_path, "0002.jsonl", minutes=2)
    (tmp_path / "events.jsonl").write_text("{}")
    recording = Recording(tmp_path)
    assert names(recording) == ["0003.json.gz", "0002.jsonl", "0001.json"]
    assert recording.problems == ()
    assert [snapshot.previous_at for snapshot in recording.snapshots][1:] == [
        snapshot.cycle_at for snapshot in recording.snapshots
    ][:-1]
    assert recording.snapshots[0].cycle_at == "2026-03-01T12:01:05.000000+00:00"


def test_configuration_comes_from_the_latest_snapshot_up_to_this_one_that_holds_it(tmp_path: Path) -> None:
    for number, configuration in enumerate((False, True, False, True)):
        land(tmp_path, f"000{number}.json.gz", minutes=number, configuration=configuration)
    lenders = [
        Path(snapshot.configuration_path).name if snapshot.configuration_path else None
        for snapshot in Recording(tmp_path).snapshots
    ]
    assert lenders == [None, "0001.json.gz", "0001.json.gz", "0003.json.gz"]


def test_a_configuration_that_was_asked_for_and_refused_is_not_held(tmp_path: Path) -> None:
    SmallCluster(1).reply(RUNTIME, "refused", 0).land(tmp_path)
    assert Recording(tmp_path).snapshots[0].configuration_path is None


def test_the_path_of_the_configuration_inside_an_answer_is_no_configuration(tmp_path: Path) -> None:
    cluster = SmallCluster(1).never_asked(RUNTIME)
    cluster.reply("/admin/v2/brokers/version", json.dumps({"path": RUNTIME, "status": 200})).land(tmp_path)
    assert not read_header(tmp_path / "0000.json").has_configuration


def test_a_file_that_cannot_be_read_is_listed_and_does_not_stop_the_others(tmp_path: Path) -> None:
    good = land(tmp_path, "0000.json.gz")
    whole = good.read_bytes()
    (tmp_path / "0001.json.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "0002.json").write_text("<html><title>504</title></html>")
    (tmp_path / "0003.json").write_bytes(gzip.decompress(whole)[:-40])
    (tmp_path / "0004.json").write_text("")
    (tmp_path / "0005.json.gz").write_bytes(b"no gzip at all")
    (tmp_path / "0006.jsonl").write_text('{"format": 1}')
    (tmp_path / "0007.json").write_text('{"format": 2, "requests": []}')
    (tmp_path / "0008.json").write_text(
        '{"format": 1, "started_at": "2026-03-01T12:00:00", "finished_at": 5, "requests": []}'
    )
    recording = Recording(tmp_path)
    assert names(recording) == ["0000.json.gz"]
    reasons = {Path(problem.file).name: problem.reason for problem in recording.problems}
    expected = {
        "0001.json.gz": "ends too early",
        "0002.json": "HTML",
        "0003.json": "ends too early",
        "0004.json": "empty",
        "0005.json.gz": "cannot be unpacked",
        "0006.jsonl": "does not say how many `requests` follow",
        "0007.json": "format is 2",
        "0008.json": "no time zone",
    }
    assert {name: expected[name] in reason for name, reason in reasons.items()} == dict.fromkeys(expected, True), (
        reasons
    )


def test_of_two_snapshots_of_one_moment_the_second_is_refused(tmp_path: Path) -> None:
    land(tmp_path, "0000.json")
    land(tmp_path, "0001.json")
    recording = Recording(tmp_path)
    assert names(recording) == ["0000.json"]
    assert "is also that of 0000.json" in recording.problems[0].reason


def test_a_folder_that_is_missing_or_holds_nothing_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the folder does not exist"):
        Recording(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="expected files NNNN"):
        Recording(tmp_path)
    (tmp_path / "0000.json").write_text("<html>")
    with pytest.raises(BadInput, match=r"1 refused, first .*0000\.json: it is an HTML"):
        Recording(tmp_path)


def test_a_moment_is_answered_by_its_snapshot_or_the_latest_before(tmp_path: Path) -> None:
    for minutes in range(3):
        land(tmp_path, f"000{minutes}.json", minutes=minutes)
    recording = Recording(tmp_path)
    assert Path(recording.at(FINISHED_AT + timedelta(minutes=1)).path).name == "0001.json"
    assert Path(recording.at("2026-03-01T13:01:00+01:00").path).name == "0000.json"
    assert Path(recording.at("2027-01-01T00:00:00Z").path).name == "0002.json"
    with pytest.raises(BadInput, match=r"nearest is 2026-03-01T12:00:05\.000000\+00:00 \(0000\.json\)"):
        recording.at("2026-03-01T12:00:04Z")
    with pytest.raises(BadInput, match="not an ISO-8601 time"):
        recording.at("yesterday")


def test_a_header_behind_its_requests_is_found_too(tmp_path: Path) -> None:
    document = SmallCluster().document()
    path = tmp_path / "0000.json"
    path.write_text(json.dumps({"requests": document.pop("requests"), **document}))
    assert read_header(path).finished_at == FINISHED_AT


def test_a_snapshot_names_its_cluster_or_its_configuration_does(tmp_path: Path) -> None:
    land_in_lines(tmp_path, "0000.jsonl.gz")
    SmallCluster().reply("/admin/v2/clusters", ["peer", "lab"]).land(tmp_path / "two")
    assert cluster_name(Recording(tmp_path).snapshots[0]) == "lab"
    several = Recording(tmp_path / "two").snapshots[0]
    assert (cluster_name(several), cluster_name(several, "peer")) == ("lab", "peer")
    with pytest.raises(BadInput, match="knows no cluster 'other'; it lists lab, peer"):
        cluster_name(several, "other")


def test_a_real_recording_is_listed_with_its_lender() -> None:
    recording = Recording(RECORDINGS / "lost-modular")
    assert names(recording) == ["0000.json.gz", "0006.json.gz", "0007.json.gz"]
    assert {Path(snapshot.configuration_path or "").name for snapshot in recording.snapshots} == {"0000.json.gz"}
    assert cluster_name(recording.snapshots[1]) == "lab"
