"""Collecting into the landing zone: nothing is lost while the store is away, and nothing fills the disk."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, LandingError
from evenkeel.pulsar.admin.http_exchange import Hop
from evenkeel.sources.landing_zone import spool
from evenkeel.sources.landing_zone.s3 import oldest_first, place_of
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.spool import S3Spool
from evenkeel.sources.recordings import cluster_name
from evenkeel.sources.snapshot_files import Header
from tests.snapshot_lines import requests_of
from tests.sources.landing_zone.conftest import Bucket
from tests.sources.landing_zone.faults import Hold, refuse
from tests.sources.landing_zone.snapshots import moment

OBJECT = r"jsonl\.gz$"
NO = refuse(403, "AccessDenied")


def spool_of(bucket: Bucket, folder: Path, cluster: str | None = "lab") -> S3Spool:
    return S3Spool(bucket.url, folder / "spool", bucket.client, cluster=cluster)


def collect(into: S3Spool, minutes: float, clusters: tuple[str, ...] = ("lab",)) -> bool:
    """As `evenkeel collect` writes a snapshot of one request."""
    at = moment(minutes)
    writer = into.begin("0000")
    writer.write(Hop("b1:8080", "GET", "/admin/v2/clusters", 200, at.isoformat(), 1.0, None, json.dumps(clusters)))
    return writer.commit(Header(0, at - timedelta(seconds=1), at, has_configuration=True))


def landed(bucket: Bucket) -> list[float]:
    """The minutes of all snapshots in the zone."""
    entries = oldest_first(bucket.plain, place_of(bucket.url), "lab", 0)
    return [(entry.number / 1000 - moment().timestamp()) / 60 for entry in entries]


def test_a_collected_snapshot_goes_to_the_zone_and_leaves_nothing_here(bucket: Bucket, tmp_path: Path) -> None:
    into = spool_of(bucket, tmp_path, cluster=None)
    assert collect(into, 0)
    assert list(into.folder.iterdir()) == []
    found = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client).snapshot_at().snapshot
    assert cluster_name(found) == "lab"
    assert [request["path"] for request in requests_of(Path(found.path))] == ["/admin/v2/clusters"]


def test_what_cannot_be_uploaded_is_kept_and_goes_with_the_next(bucket: Bucket, tmp_path: Path) -> None:
    into = spool_of(bucket, tmp_path)
    bucket.faults.on("PUT", OBJECT, NO, 2)
    for minute in (0, 1):
        with pytest.raises(
            LandingError, match=rf"access is denied.*The snapshot is kept at {into.folder}/\d+\.jsonl\.gz and"
        ):
            collect(into, minute)
    assert len(into.kept()) == 2
    assert landed(bucket) == []
    assert collect(spool_of(bucket, tmp_path), 2), "another run takes them along"
    assert into.kept() == []
    assert landed(bucket) == [0, 1, 2]


def test_the_newest_is_not_held_up_by_those_that_were_kept(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool, "CAUGHT_UP_AT_ONCE", 2)
    into = spool_of(bucket, tmp_path)
    bucket.faults.on("PUT", OBJECT, NO, 4)
    for minute in range(4):
        with pytest.raises(LandingError):
            collect(into, minute)
    assert collect(into, 4)
    assert landed(bucket) == [2, 3, 4]
    bucket.faults.on("PUT", r"1772366465000-", NO)
    assert collect(into, 5)
    assert landed(bucket) == [2, 3, 4, 5]
    assert f"snapshots still kept in {into.folder}: 2. " in caplog.text
    assert "access is denied" in caplog.text


def test_a_moment_that_a_rival_has_is_no_failure(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collect(spool_of(bucket, tmp_path / "rival"), 0, ("rival",))
    into = spool_of(bucket, tmp_path)
    assert collect(into, 0)
    assert "this snapshot is not needed" in caplog.text
    assert list(into.folder.iterdir()) == []


def test_too_many_that_wait_lose_their_oldest_and_it_is_said(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool, "MOST_KEPT", 2)
    into = spool_of(bucket, tmp_path)
    bucket.faults.on("PUT", OBJECT, NO, 3)
    for minute in range(3):
        with pytest.raises(LandingError):
            collect(into, minute)
    assert "that were never uploaded: 1. Only the newest 2 are kept" in caplog.text
    collect(into, 3)
    assert landed(bucket) == [1, 2, 3]


def test_a_kept_snapshot_that_was_damaged_is_put_aside(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    into = spool_of(bucket, tmp_path)
    bucket.faults.on("PUT", OBJECT, NO, 2)
    for minute in (0, 1):
        with pytest.raises(LandingError):
            collect(into, minute)
    into.kept()[1].write_bytes(gzip.compress(b"{"))
    collect(into, 2)
    assert landed(bucket) == [0, 2]
    assert [path.suffix for path in into.folder.iterdir()] == [".refused"]
    assert "It will not be tried again; its file is" in caplog.text


def test_a_snapshot_that_shows_several_clusters_is_kept_until_one_is_named(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(LandingError, match=r"lists several clusters \(lab, peer\).*name one.* is kept at"):
        collect(spool_of(bucket, tmp_path, cluster=None), 0, ("lab", "peer"))
    collect(spool_of(bucket, tmp_path), 1)
    assert landed(bucket) == [0, 1]


def test_two_runs_of_one_folder_do_not_hurt_each_other(bucket: Bucket, tmp_path: Path) -> None:
    into = spool_of(bucket, tmp_path)
    hold = Hold()
    bucket.faults.on("PUT", r"1772366405000-", hold)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(collect, into, 0)
        assert hold.arrived.wait(30)
        assert collect(spool_of(bucket, tmp_path), 1), "it also sends the first one, as if it had been kept"
        hold.release.set()
        assert slow.result()
    assert into.kept() == []
    assert landed(bucket) == [0, 1]


def test_an_address_that_is_none_is_refused_before_anything_is_collected(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not an S3 address"):
        S3Spool("bucket/prefix", tmp_path, bucket.client)
