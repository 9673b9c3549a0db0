"""Uploading: one snapshot a moment, whoever races, whatever dies, whatever the network does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.sources.landing_zone import s3 as client
from evenkeel.sources.landing_zone import upload
from evenkeel.sources.landing_zone.s3 import S3Error
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.upload import Upload, upload_snapshot
from tests.sources.landing_zone.conftest import Bucket, client_of
from tests.sources.landing_zone.faults import Action, Hold, Together, cut_request, lose_answer, refuse
from tests.sources.landing_zone.snapshots import document, moment, parts

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
MANIFEST = r"manifest\.json$"
CONFLICT = refuse(409, "ConditionalRequestConflict")


def arrived(bucket: Bucket, folder: Path) -> bytes:
    """The bytes of the newest snapshot, which must be whole."""
    found = S3Landing(bucket.url, folder / "landing", "lab", bucket.plain).snapshot_at()
    assert found.problems == ()
    return Path(found.snapshot.path).read_bytes()


def test_of_eight_that_race_for_a_moment_one_wins_and_the_others_learn_whose_it_is(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.faults.on("PUT", MANIFEST, Together(8), times=8)
    snapshots = [document(tmp_path / str(number), mark=f"4.2.{number}") for number in range(8)]

    def run(number: int) -> Upload:
        return upload_snapshot(
            snapshots[number], bucket.url, "lab", client=bucket.client, collector=f"collector-{number}"
        )

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(run, range(8)))
    assert Counter(one.outcome for one in done) == {"uploaded": 1, "taken": 7}
    winner = next(one.manifest for one in done if one.outcome == "uploaded")
    assert {one.manifest for one in done} == {winner}
    loser = next(one for one in done if one.outcome == "taken")
    assert f"was landed by {winner.collector} before, with other content (s3://" in str(loser)
    assert len(bucket.manifests()) == 1
    assert len(bucket.names()) == 2, "losers remove their data"
    assert arrived(bucket, tmp_path) == snapshots[int(winner.collector[-1])].read_bytes()


def test_eight_uploads_of_the_same_bytes_are_one(bucket: Bucket, tmp_path: Path) -> None:
    bucket.faults.on("PUT", MANIFEST, Together(8), times=8)
    snapshot = document(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client), range(8)))
    assert Counter(one.outcome for one in done) == {"uploaded": 1, "was_there": 7}
    assert arrived(bucket, tmp_path) == snapshot.read_bytes()


def test_a_rival_that_comes_later_sends_no_data(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(document(tmp_path / "a"), bucket.url, "lab", client=bucket.client, collector="first")
    sent = bucket.faults.count("PUT")
    rival = upload_snapshot(document(tmp_path / "b", mark="4.0.8"), bucket.url, "lab", client=bucket.client)
    assert (rival.outcome, rival.manifest.collector) == ("taken", "first")
    assert bucket.faults.count("PUT") == sent


POINTS: list[tuple[str, str, str, Hold]] = [
    ("before any request", "GET", MANIFEST, Hold()),
    ("before the first file has arrived", "PUT", r"requests-0\.", Hold()),
    ("after the first file has arrived", "PUT", r"requests-0\.", Hold(after=True)),
    ("in the middle of a large file", "PUT", r"partNumber=2", Hold(after=True)),
    ("before a large file is put together", "POST", r"uploadId=", Hold()),
    ("before the manifest has arrived", "PUT", MANIFEST, Hold()),
    ("after the manifest has arrived", "PUT", MANIFEST, Hold(after=True)),
]


@pytest.mark.parametrize(("method", "path", "hold"), [p[1:] for p in POINTS], ids=[p[0] for p in POINTS])
def test_an_upload_that_is_killed_and_run_again_is_whole(
    bucket: Bucket, tmp_path: Path, method: str, path: str, hold: Hold
) -> None:
    is_large = "partNumber" in path or "uploadId" in path
    snapshot = parts(tmp_path, count=1 if is_large else 2, part_bytes=17 << 20 if is_large else 0)
    bucket.faults.on(method, path, hold)
    killed = start_upload(bucket, snapshot)
    try:
        assert hold.arrived.wait(60)
        assert killed.poll() is None
    finally:
        killed.kill()
        killed.wait()
        hold.release.set()
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.plain)
    if path == MANIFEST and hold.after:
        expected = "was_there"
    else:
        expected = "uploaded"
        with pytest.raises(BadInput, match="holds no snapshot of lab"):
            landing.snapshot_at()
    assert upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client).outcome == expected
    here = Path(landing.snapshot_at().snapshot.path)
    assert {file.name: file.read_bytes() for file in here.iterdir()} == {
        file.name: file.read_bytes() for file in snapshot.iterdir()
    }
    assert len(bucket.names()) == len(list(snapshot.iterdir())) + 1


def start_upload(bucket: Bucket, snapshot: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.sources.landing_zone.uploader",
        bucket.faults.url,
        str(snapshot),
        bucket.url,
        "lab",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'spark'}{os.pathsep}{CHECKOUT}"}
    return subprocess.Popen(command, env=environment, cwd=CHECKOUT)


def test_a_second_try_sends_only_what_is_missing(bucket: Bucket, tmp_path: Path) -> None:
    snapshot = parts(tmp_path, count=3)
    bucket.faults.on("PUT", r"requests-1\.", refuse(403, "AccessDenied"))
    with pytest.raises(S3Error, match="access is denied"):
        upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
    there = set(bucket.names())
    bucket.faults.forget()
    assert upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client).outcome == "uploaded"
    assert bucket.faults.count("PUT") == len(set(bucket.names()) - there)


def test_an_object_of_other_bytes_under_our_key_is_replaced(bucket: Bucket, tmp_path: Path) -> None:
    snapshot = document(tmp_path)
    bucket.faults.on("PUT", MANIFEST, refuse(403, "AccessDenied"))
    with pytest.raises(S3Error):
        upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
    (key,) = bucket.names()
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"x" * snapshot.stat().st_size)
    upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
    assert arrived(bucket, tmp_path) == snapshot.read_bytes()


@pytest.mark.parametrize(
    ("method", "path", "action", "times"),
    [
        ("PUT", MANIFEST, CONFLICT, 3),
        ("PUT", MANIFEST, lose_answer, 1),
        ("PUT", r"document\.json", cut_request, 2),
        ("PUT", r"document\.json", lose_answer, 1),
        ("GET", MANIFEST, refuse(500, "InternalError"), 2),
        *(
            pytest.param(method, path, refuse(503, "SlowDown"), 2, marks=pytest.mark.exhaustive)
            for method, path in (("PUT", MANIFEST), ("PUT", r"document\.json"), ("GET", "list-type=2"))
        ),
    ],
)
def test_what_passes_by_itself_is_tried_again(
    bucket: Bucket, tmp_path: Path, method: str, path: str, action: Action, times: int
) -> None:
    bucket.faults.on(method, path, action, times)
    snapshot = document(tmp_path)
    done = upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
    assert done.outcome == ("was_there" if path == MANIFEST and action is lose_answer else "uploaded")
    assert bucket.faults.count(method, path) > times
    assert arrived(bucket, tmp_path) == snapshot.read_bytes()


def test_a_conflict_that_a_rival_wins_names_the_rival(bucket: Bucket, tmp_path: Path) -> None:
    bucket.faults.on("PUT", MANIFEST, CONFLICT, 1)
    hold = Hold()
    bucket.faults.on("PUT", MANIFEST, hold, 1)
    rival = document(tmp_path / "rival", mark="4.0.8")
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(upload_snapshot, document(tmp_path), bucket.url, "lab", client=bucket.client)
        assert hold.arrived.wait(30)
        upload_snapshot(rival, bucket.url, "lab", client=bucket.plain, collector="rival")
        hold.release.set()
        assert (ours.result().outcome, ours.result().manifest.collector) == ("taken", "rival")
    assert arrived(bucket, tmp_path) == rival.read_bytes()
    assert len(bucket.names()) == 2


def test_conflicts_without_end_are_given_up(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "CONFLICT_TRIES", 3)
    bucket.faults.on("PUT", MANIFEST, CONFLICT, 100)
    with pytest.raises(S3Error, match=r"others were writing it in all of 3 tries\. Run it again later"):
        upload_snapshot(document(tmp_path), bucket.url, "lab", client=bucket.client)
    assert bucket.faults.count("PUT", MANIFEST) == 3


def test_a_store_that_stays_busy_is_given_up(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TRIES", 3)
    bucket.faults.on("PUT", r"document\.json", refuse(503, "SlowDown"), 100)
    with pytest.raises(S3Error, match=r"asks to slow down\. Nothing is lost: run it again later") as caught:
        upload_snapshot(document(tmp_path), bucket.url, "lab", client=client_of(bucket.faults.url))
    assert str(caught.value).startswith(f"cannot upload {tmp_path / '0000.json.gz'} to {bucket.url}: ")
    assert bucket.faults.count("PUT") == 3
    assert bucket.names() == []


def test_a_rivals_data_that_cannot_be_removed_stays_for_expiry(bucket: Bucket, tmp_path: Path) -> None:
    hold = Hold()
    bucket.faults.on("PUT", MANIFEST, hold).on("DELETE", "", refuse(403, "AccessDenied"))
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(upload_snapshot, document(tmp_path), bucket.url, "lab", client=bucket.client)
        assert hold.arrived.wait(30)
        upload_snapshot(document(tmp_path / "b", mark="4.0.8"), bucket.url, "lab", client=bucket.plain)
        hold.release.set()
        assert ours.result().outcome == "taken"
    assert len(bucket.names()) == 3


def test_a_moment_that_an_unreadable_manifest_has_is_not_overwritten(bucket: Bucket, tmp_path: Path) -> None:
    key = "land/lab/2026/03/01/1772366405000.manifest.json"
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"<html>")
    message = rf"{re.escape(key)} has the moment and cannot be read: it is not JSON.*Remove it, then upload again"
    with pytest.raises(S3Error, match=message):
        upload_snapshot(document(tmp_path), bucket.url, "lab", client=bucket.client)


def test_a_snapshot_that_cannot_be_read_is_not_uploaded(bucket: Bucket, tmp_path: Path) -> None:
    whole = document(tmp_path).read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "0001").mkdir()
    for name, reason in (("cut.json.gz", "ends too early"), ("0001", r"no snapshot\.json"), ("x", "no snapshot at")):
        with pytest.raises(BadInput, match=reason):
            upload_snapshot(tmp_path / name, bucket.url, "lab", client=bucket.client)
    assert bucket.names() == []


def test_a_file_that_changes_under_way_gets_no_manifest(bucket: Bucket, tmp_path: Path) -> None:
    small = parts(tmp_path, "0000", count=2)
    large = parts(tmp_path, "0001", minutes=1, count=1, part_bytes=17 << 20)
    for snapshot, error in ((small, S3Error), (large, BadInput)):
        hold = Hold()
        bucket.faults.forget()
        bucket.faults.on("GET", MANIFEST, hold)
        with ThreadPoolExecutor(1) as pool:
            ours = pool.submit(upload_snapshot, snapshot, bucket.url, "lab", client=bucket.client)
            assert hold.arrived.wait(30)
            part = snapshot / "requests-0.jsonl.gz"
            whole = part.read_bytes()
            part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            hold.release.set()
            with pytest.raises(error, match="changed"):
                ours.result()
    assert bucket.manifests() == []


def test_a_moment_outside_all_time_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    snapshot = document(tmp_path, cycle_at=moment().replace(year=1970))
    with pytest.raises(BadInput, match="is the collecting machine's clock set"):
        upload_snapshot(snapshot, bucket.url, "lab", client=bucket.client)
