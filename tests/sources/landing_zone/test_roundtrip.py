"""What goes through the landing zone arrives as it was, whatever its layout and its names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evenkeel.handover import Snapshot
from evenkeel.sources.landing_zone.layout import read_manifest
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.upload import upload_snapshot
from evenkeel.sources.recordings import Recording
from tests.sources.landing_zone.conftest import Bucket
from tests.sources.landing_zone.snapshots import document, moment, parts

pytestmark = pytest.mark.slow

RECORDINGS = Path(__file__).parents[2] / "recordings"
ODD = 'o\'dd "name" %2F+ä日本?#&=;'


def without_paths(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, path="", configuration_path=None)


@pytest.mark.parametrize("name", ["lost-modular", "lost-extensible", "own-transfer"])
def test_a_recording_comes_back_byte_for_byte_and_with_the_same_rows(bucket: Bucket, tmp_path: Path, name: str) -> None:
    recording = Recording(RECORDINGS / name)
    for snapshot in reversed(recording.snapshots):  # all but one are late
        assert upload_snapshot(snapshot.path, bucket.url, "lab", client=bucket.client).outcome == "uploaded"
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client)
    found = [landing.snapshot_at(snapshot.cycle_at) for snapshot in recording.snapshots]
    assert [one.problems for one in found] == [()] * len(found)
    assert [without_paths(one.snapshot) for one in found] == [without_paths(one) for one in recording.snapshots]
    for here, there in zip(found, recording.snapshots, strict=True):
        assert Path(here.snapshot.path).read_bytes() == Path(there.path).read_bytes()
        lenders = here.snapshot.configuration_path, there.configuration_path
        assert [path and Path(path).read_bytes() for path in lenders[:1]] == [
            path and Path(path).read_bytes() for path in lenders[1:]
        ]
    assert list(Recording(landing.folder).snapshots) == [one.snapshot for one in found]


def test_a_folder_of_parts_comes_back_file_by_file(bucket: Bucket, tmp_path: Path) -> None:
    place = parts(tmp_path)
    upload_snapshot(place, bucket.url, "lab", client=bucket.client)
    snapshot = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client).snapshot_at().snapshot
    assert {file.name: file.read_bytes() for file in Path(snapshot.path).iterdir()} == {
        file.name: file.read_bytes() for file in place.iterdir()
    }
    assert snapshot.configuration_path == snapshot.path


def test_a_large_file_goes_in_parts_with_checksums(bucket: Bucket, tmp_path: Path) -> None:
    place = parts(tmp_path, count=1, part_bytes=20 << 20)
    upload_snapshot(place, bucket.url, "lab", client=bucket.client)
    assert bucket.faults.count("PUT", "partNumber=") >= 2
    key = next(key for key in bucket.names() if key.endswith("requests-0.jsonl.gz"))
    head = bucket.plain.head_object(Bucket=bucket.name, Key=key, ChecksumMode="ENABLED")
    assert head["ChecksumType"] == "COMPOSITE"
    snapshot = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client).snapshot_at().snapshot
    part = "requests-0.jsonl.gz"
    assert (Path(snapshot.path) / part).read_bytes() == (place / part).read_bytes()


@pytest.mark.parametrize("cluster", [ODD, "a/b", "a%2Fb", "..", "ä" * 20])
def test_odd_names_of_prefix_and_cluster_survive(bucket: Bucket, tmp_path: Path, cluster: str) -> None:
    url = f"s3://{bucket.name}/{ODD}/deep er"
    done = upload_snapshot(document(tmp_path), url, cluster, client=bucket.client, collector=ODD)
    assert done.manifest.cluster == cluster
    found = S3Landing(url, tmp_path / "landing", cluster, bucket.client).snapshot_at()
    assert found.collector == ODD
    assert Path(found.snapshot.path).read_bytes() == (tmp_path / "0000.json.gz").read_bytes()
    assert all(key.startswith(f"{ODD}/deep er/") for key in bucket.names())


def test_clusters_whose_names_look_alike_do_not_meet(bucket: Bucket, tmp_path: Path) -> None:
    for minute, cluster in enumerate(("a/b", "a%2Fb", "a")):
        upload_snapshot(document(tmp_path, f"{minute}.json", minutes=minute), bucket.url, cluster, client=bucket.client)
    found = [
        S3Landing(bucket.url, tmp_path / str(number), cluster, bucket.client).snapshot_at().snapshot
        for number, cluster in enumerate(("a/b", "a%2Fb", "a"))
    ]
    assert [datetime.fromisoformat(snapshot.cycle_at) for snapshot in found] == [moment(0), moment(1), moment(2)]
    assert [snapshot.previous_at for snapshot in found] == [None] * 3


def test_a_prefix_may_be_empty(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(document(tmp_path), f"s3://{bucket.name}", "lab", client=bucket.client)
    assert bucket.manifests() == ["lab/2026/03/01/1772366405000.manifest.json"]
    assert S3Landing(f"s3://{bucket.name}/", tmp_path / "landing", "lab", bucket.client).snapshot_at()


def test_a_snapshot_taken_for_a_cycle_has_the_cycles_moment(bucket: Bucket, tmp_path: Path) -> None:
    cycle_at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    upload_snapshot(document(tmp_path, cycle_at=cycle_at), bucket.url, "lab", client=bucket.client)
    found = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client).snapshot_at(cycle_at)
    assert found.snapshot.cycle_at == found.snapshot.configuration_at == "2026-03-01T12:00:00.000000+00:00"


def test_the_manifest_tells_what_was_landed_by_whom_and_with_which_bytes(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(document(tmp_path), bucket.url, "lab", client=bucket.client, collector="agent-1")
    (key,) = bucket.manifests()
    manifest = read_manifest(bucket.plain.get_object(Bucket=bucket.name, Key=key)["Body"].read())
    assert (manifest.cluster, manifest.collector, manifest.finished_at) == ("lab", "agent-1", moment())
    assert manifest.has_configuration
    assert [(file.name, file.size) for file in manifest.files] == [
        ("document.json.gz", (tmp_path / "0000.json.gz").stat().st_size)
    ]


def test_what_is_here_is_not_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    for minute in range(3):
        snapshot = document(tmp_path, f"{minute}.json", minutes=minute, configuration=minute == 0)
        upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client)
    first = landing.snapshot_at()
    fetched = bucket.faults.count("GET", "document.json")
    assert fetched == 2  # the newest and the one that lends configuration, not the one between
    assert landing.snapshot_at() == first
    assert bucket.faults.count("GET", "document.json") == fetched
    assert sorted(path.name for path in landing.folder.iterdir()) == [
        "1772366405000.json",
        "1772366405000.manifest.json",
        "1772366525000.json",
        "1772366525000.manifest.json",
    ]


def test_a_landed_file_that_was_cut_is_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    for snapshot in (document(tmp_path, minutes=0), parts(tmp_path, "0001", minutes=1)):
        upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client)
    for minute, name in ((0, ""), (1, "requests-1.jsonl.gz")):
        file = Path(landing.snapshot_at(moment(minute)).snapshot.path) / name
        whole = file.read_bytes()
        file.write_bytes(whole[:-10])
        landing.snapshot_at(moment(minute))
        assert file.read_bytes() == whole
