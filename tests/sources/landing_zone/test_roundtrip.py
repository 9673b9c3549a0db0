"""What goes through the landing zone arrives as it was, whatever its names."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.spool import upload_snapshot
from evenkeel.sources.recordings import Recording
from tests.sources.landing_zone.conftest import Bucket
from tests.sources.landing_zone.snapshots import moment, snapshot

pytestmark = pytest.mark.slow

ODD = 'o\'dd "name" %2F+ä日本?#&=;'


def test_snapshots_come_back_byte_for_byte_and_are_a_recording(bucket: Bucket, tmp_path: Path) -> None:
    sent = {minute: snapshot(tmp_path, f"{minute}.jsonl.gz", minutes=minute, size=minute << 20) for minute in range(3)}
    for minute in (2, 0, 1):  # one is late
        assert upload_snapshot(sent[minute], bucket.url, "lab", client=bucket.client).outcome == "uploaded"
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client)
    found = [landing.snapshot_at(moment(minute)) for minute in sent]
    assert [one.problems for one in found] == [()] * 3
    assert [Path(one.snapshot.path).read_bytes() for one in found] == [file.read_bytes() for file in sent.values()]
    assert list(Recording(landing.folder).snapshots) == [one.snapshot for one in found]


@pytest.mark.parametrize("cluster", [ODD, "a/b", "a%2Fb", "..", "ä" * 20])
def test_odd_names_of_prefix_and_cluster_survive(bucket: Bucket, tmp_path: Path, cluster: str) -> None:
    url = f"s3://{bucket.name}/{ODD}/deep er"
    done = upload_snapshot(snapshot(tmp_path, collector=ODD), url, cluster, client=bucket.client)
    assert (done.cluster, done.header.collector) == (cluster, ODD)
    found = S3Landing(url, tmp_path / "landing", cluster, bucket.client).snapshot_at()
    assert Path(found.snapshot.path).read_bytes() == (tmp_path / "0000.jsonl.gz").read_bytes()
    assert all(key.startswith(f"{ODD}/deep er/") for key in bucket.names())


def test_clusters_whose_names_look_alike_do_not_meet(bucket: Bucket, tmp_path: Path) -> None:
    for minute, cluster in enumerate(("a/b", "a%2Fb", "a")):
        upload_snapshot(snapshot(tmp_path, minutes=minute), bucket.url, cluster, client=bucket.client)
    found = [
        S3Landing(bucket.url, tmp_path / str(number), cluster, bucket.client).snapshot_at().snapshot
        for number, cluster in enumerate(("a/b", "a%2Fb", "a"))
    ]
    assert [datetime.fromisoformat(one.cycle_at) for one in found] == [moment(0), moment(1), moment(2)]
    assert [one.previous_at for one in found] == [None] * 3


def test_a_prefix_may_be_empty(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(snapshot(tmp_path), f"s3://{bucket.name}", "lab", client=bucket.client)
    assert bucket.names() == ["lab/1772366405000-configuration.jsonl.gz"]
    assert S3Landing(f"s3://{bucket.name}/", tmp_path / "landing", "lab", bucket.client).snapshot_at()


def test_a_snapshot_taken_for_a_cycle_has_the_cycles_moment(bucket: Bucket, tmp_path: Path) -> None:
    cycle_at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    upload_snapshot(snapshot(tmp_path, cycle_at=cycle_at), bucket.url, "lab", client=bucket.client)
    found = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client).snapshot_at(cycle_at)
    assert found.snapshot.cycle_at == found.snapshot.configuration_at == "2026-03-01T12:00:00.000000+00:00"


def test_what_is_here_is_not_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    for minute in range(3):
        one = snapshot(tmp_path, minutes=minute, configuration=minute == 0)
        upload_snapshot(one, bucket.url, "lab", client=bucket.client)
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client)
    first = landing.snapshot_at()
    fetched = bucket.faults.count("GET", r"jsonl\.gz$")
    assert fetched == 2  # the newest and the one that lends configuration, not the one between
    assert landing.snapshot_at() == first
    assert bucket.faults.count("GET", r"jsonl\.gz$") == fetched
    assert sorted(path.name for path in landing.folder.iterdir()) == [
        "1772366405000.jsonl.gz",
        "1772366525000.jsonl.gz",
    ]
