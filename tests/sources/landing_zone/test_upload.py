"""Uploading: one snapshot a moment, whoever races, whatever dies, whatever the network does."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.sources.landing_zone import s3 as client
from evenkeel.sources.landing_zone import spool
from evenkeel.sources.landing_zone.s3 import S3Error
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.spool import Upload, upload_snapshot
from tests.sources.landing_zone.conftest import Bucket, client_of
from tests.sources.landing_zone.faults import Action, Hold, Together, cut_request, lose_answer, refuse
from tests.sources.landing_zone.snapshots import moment, snapshot

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
OBJECT = r"jsonl\.gz$"
CONFLICT = refuse(409, "ConditionalRequestConflict")


def arrived(bucket: Bucket, folder: Path) -> bytes:
    """The bytes of the newest snapshot, which must be whole."""
    found = S3Landing(bucket.url, folder / "landing", "lab", bucket.plain).snapshot_at()
    assert found.problems == ()
    return Path(found.snapshot.path).read_bytes()


def test_of_eight_that_race_for_a_moment_one_wins_and_the_others_learn_whose_it_is(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.faults.on("PUT", OBJECT, Together(8), times=8)
    snapshots = [
        snapshot(tmp_path / str(number), mark=f"4.2.{number}", collector=f"collector-{number}") for number in range(8)
    ]

    def run(number: int) -> Upload:
        return upload_snapshot(snapshots[number], bucket.url, "lab", client=bucket.client)

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(run, range(8)))
    assert Counter(one.outcome for one in done) == {"uploaded": 1, "taken": 7}
    winner = next(one.header for one in done if one.outcome == "uploaded")
    assert {one.header for one in done} == {winner}
    loser = next(one for one in done if one.outcome == "taken")
    assert f"was landed by {winner.collector} before, with other content (s3://" in str(loser)
    assert len(bucket.names()) == 1
    assert arrived(bucket, tmp_path) == snapshots[int(winner.collector[-1])].read_bytes()


def test_eight_uploads_of_the_same_bytes_are_one(bucket: Bucket, tmp_path: Path) -> None:
    bucket.faults.on("PUT", OBJECT, Together(8), times=8)
    one = snapshot(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: upload_snapshot(one, bucket.url, "lab", client=bucket.client), range(8)))
    assert Counter(each.outcome for each in done) == {"uploaded": 1, "was_there": 7}
    assert arrived(bucket, tmp_path) == one.read_bytes()


POINTS: list[tuple[str, Hold, str]] = [
    ("before the object has arrived", Hold(), "uploaded"),
    ("after the object has arrived", Hold(after=True), "was_there"),
]


@pytest.mark.parametrize(("hold", "expected"), [p[1:] for p in POINTS], ids=[p[0] for p in POINTS])
def test_an_upload_that_is_killed_and_run_again_is_whole(
    bucket: Bucket, tmp_path: Path, hold: Hold, expected: str
) -> None:
    one = snapshot(tmp_path, size=1 << 20)
    bucket.faults.on("PUT", OBJECT, hold)
    killed = start_upload(bucket, one)
    try:
        assert hold.arrived.wait(60)
        assert killed.poll() is None
    finally:
        killed.kill()
        killed.wait()
        hold.release.set()
    landing = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.plain)
    if expected == "uploaded":
        with pytest.raises(BadInput, match="holds no snapshot of lab"):
            landing.snapshot_at()
    assert upload_snapshot(one, bucket.url, "lab", client=bucket.client).outcome == expected
    assert Path(landing.snapshot_at().snapshot.path).read_bytes() == one.read_bytes()
    assert len(bucket.names()) == 1


def start_upload(bucket: Bucket, path: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.sources.landing_zone.uploader",
        bucket.faults.url,
        str(path),
        bucket.url,
        "lab",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'spark'}{os.pathsep}{CHECKOUT}"}
    return subprocess.Popen(command, env=environment, cwd=CHECKOUT)


@pytest.mark.parametrize(
    ("method", "action", "times"),
    [
        ("PUT", CONFLICT, 3),
        ("PUT", lose_answer, 1),
        ("PUT", cut_request, 2),
        pytest.param("PUT", refuse(503, "SlowDown"), 2, marks=pytest.mark.exhaustive),
    ],
)
def test_what_passes_by_itself_is_tried_again(
    bucket: Bucket, tmp_path: Path, method: str, action: Action, times: int
) -> None:
    bucket.faults.on(method, OBJECT, action, times)
    one = snapshot(tmp_path)
    done = upload_snapshot(one, bucket.url, "lab", client=bucket.client)
    assert done.outcome == ("was_there" if action is lose_answer else "uploaded")
    assert bucket.faults.count(method, OBJECT) > times
    assert arrived(bucket, tmp_path) == one.read_bytes()


def test_a_conflict_that_a_rival_wins_names_the_rival(bucket: Bucket, tmp_path: Path) -> None:
    bucket.faults.on("PUT", OBJECT, CONFLICT, 1)
    hold = Hold()
    bucket.faults.on("PUT", OBJECT, hold, 1)
    rival = snapshot(tmp_path / "rival", mark="4.0.8", collector="rival")
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(upload_snapshot, snapshot(tmp_path), bucket.url, "lab", client=bucket.client)
        assert hold.arrived.wait(30)
        upload_snapshot(rival, bucket.url, "lab", client=bucket.plain)
        hold.release.set()
        assert (ours.result().outcome, ours.result().header.collector) == ("taken", "rival")
    assert arrived(bucket, tmp_path) == rival.read_bytes()
    assert len(bucket.names()) == 1


def test_conflicts_without_end_are_given_up(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "CONFLICT_TRIES", 3)
    bucket.faults.on("PUT", OBJECT, CONFLICT, 100)
    with pytest.raises(S3Error, match=r"others were writing it in all of 3 tries\. Run it again later"):
        upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=bucket.client)
    assert bucket.faults.count("PUT", OBJECT) == 3


def test_a_store_that_stays_busy_is_given_up(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TRIES", 3)
    bucket.faults.on("PUT", OBJECT, refuse(503, "SlowDown"), 100)
    with pytest.raises(S3Error, match=r"asks to slow down\. Nothing is lost: run it again later") as caught:
        upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=client_of(bucket.faults.url))
    assert str(caught.value).startswith(f"cannot upload {tmp_path / '0000.jsonl.gz'} to {bucket.url}: ")
    assert bucket.faults.count("PUT") == 3
    assert bucket.names() == []


def test_a_moment_that_an_unreadable_object_has_is_not_overwritten(bucket: Bucket, tmp_path: Path) -> None:
    key = "land/lab/1772366405000-configuration.jsonl.gz"
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"<html>")
    message = rf"{re.escape(key)} has the moment and cannot be read: it cannot be unp.*Remove it, then upload again"
    with pytest.raises(S3Error, match=message):
        upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=bucket.client)


def test_a_snapshot_that_cannot_be_read_is_not_uploaded(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(snapshot(tmp_path).read_bytes()[:20])
    (tmp_path / "0001.jsonl.gz").mkdir()
    for name, reason in (
        ("cut.jsonl.gz", "ends too early"),
        ("0001.jsonl.gz", "not a regular"),
        ("x.jsonl", "No such"),
    ):
        with pytest.raises(BadInput, match=reason):
            upload_snapshot(tmp_path / name, bucket.url, "lab", client=bucket.client)
    assert bucket.names() == []


def test_a_file_that_changes_under_way_is_not_taken(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = snapshot(tmp_path)
    digest = hashlib.file_digest

    def changing(*given: Any) -> Any:
        found = digest(*given)
        whole = one.read_bytes()
        one.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        return found

    monkeypatch.setattr(hashlib, "file_digest", changing)
    with pytest.raises(S3Error, match="the bytes changed on their way"):
        upload_snapshot(one, bucket.url, "lab", client=bucket.client)
    assert bucket.names() == []


def test_a_moment_outside_all_time_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    one = snapshot(tmp_path, cycle_at=moment().replace(year=1970))
    with pytest.raises(BadInput, match="is the collecting machine's clock set"):
        upload_snapshot(one, bucket.url, "lab", client=bucket.client)
