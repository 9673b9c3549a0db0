"""Finding snapshots: few requests however many there are, and late, doubled, half-written and damaged ones."""

from __future__ import annotations

import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.pulsar.limits import Limits
from evenkeel.sources.landing_zone import search
from evenkeel.sources.landing_zone.fetch import LEFT_BEHIND_SECONDS
from evenkeel.sources.landing_zone.layout import Manifest, StoredFile, place_of, read_manifest
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.upload import upload_snapshot
from evenkeel.sources.recordings import Recording
from evenkeel.times import utc_text
from tests.sources.landing_zone.conftest import Bucket
from tests.sources.landing_zone.faults import Hold, cut_answer, refuse
from tests.sources.landing_zone.snapshots import document, moment, parts

pytestmark = pytest.mark.slow

MANIFEST = r"manifest\.json$"


def land(
    bucket: Bucket, folder: Path, minutes: float, *, collector: str = "c1", configuration: bool = True
) -> Manifest:
    snapshot = document(folder, f"{minutes}.json.gz", minutes=minutes, configuration=configuration, mark=collector)
    return upload_snapshot(snapshot, bucket.url, "lab", client=bucket.plain, collector=collector).manifest


def landing(bucket: Bucket, folder: Path) -> S3Landing:
    return S3Landing(bucket.url, folder / "landing", "lab", bucket.client)


def minutes_of(time: str | None) -> float | None:
    """The minute that `land` was given for this moment."""
    return (datetime.fromisoformat(time) - moment()) / timedelta(minutes=1) if time else None


def bare_manifest(at: datetime) -> Manifest:
    """A manifest whose data nobody looks for."""
    file = StoredFile("document.json", 1, "0" * 64)
    return Manifest("lab", at, at, has_configuration=False, files=(file,), collector="c1", version="0")


def land_manifests(bucket: Bucket, moments: list[datetime]) -> None:
    """Straight into the store's folder: a thousand requests take their time."""
    for at in moments:
        file = bucket.folder / place_of(bucket.url).manifest("lab", at)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bare_manifest(at).to_bytes())


def test_one_of_a_thousand_snapshots_a_day_is_found_with_a_few_requests(bucket: Bucket, tmp_path: Path) -> None:
    midnight = moment().replace(hour=0, minute=0, second=1)
    a_day = [midnight + timedelta(minutes=minute) for minute in range(0, 1200)]
    other_days = [midnight - timedelta(days=day) for day in range(1, 60)]
    newest = a_day[-1] + timedelta(minutes=1)
    land_manifests(bucket, a_day[:-1] + other_days)
    for at in (a_day[-1], newest):
        land(bucket, tmp_path, (at - moment()) / timedelta(minutes=1))
    zone = landing(bucket, tmp_path)

    bucket.faults.forget()
    assert len(zone.listed(a_day[0], newest)) == 1201
    assert bucket.faults.count() == 5, "years, months, days, two pages"

    bucket.faults.forget()
    assert len(zone.listed(a_day[1100], a_day[1105])) == 6
    assert bucket.faults.count() == 4, "listing begins at the first one wanted"

    bucket.faults.forget()
    found = zone.snapshot_at()
    assert (found.snapshot.cycle_at, found.snapshot.previous_at) == (utc_text(newest), utc_text(a_day[-1]))
    assert bucket.faults.count("GET", "list-type=2") == 7, "as above, and the objects of two snapshots"
    assert bucket.faults.count() <= 12


def test_a_late_snapshot_stands_at_its_own_moment(bucket: Bucket, tmp_path: Path) -> None:
    zone = landing(bucket, tmp_path)
    land(bucket, tmp_path, 0)
    land(bucket, tmp_path, 2)
    assert minutes_of(zone.snapshot_at().snapshot.previous_at) == 0
    land(bucket, tmp_path, 1)
    found = zone.snapshot_at().snapshot
    assert (minutes_of(found.cycle_at), minutes_of(found.previous_at)) == (2, 1)
    assert minutes_of(zone.snapshot_at(moment(1.5)).snapshot.cycle_at) == 1
    assert [
        minutes_of(utc_text(moment(0) + timedelta(milliseconds=e.number - 1772366405000)))
        for e in zone.listed(moment(0), moment(2))
    ] == [0, 1, 2]


def test_of_two_collectors_seconds_apart_the_first_counts(bucket: Bucket, tmp_path: Path) -> None:
    for minute in range(3):
        land(bucket, tmp_path, minute, collector="c1")
        land(bucket, tmp_path, minute + 3 / 60, collector="c2")
    found = landing(bucket, tmp_path).snapshot_at()
    assert (minutes_of(found.snapshot.cycle_at), minutes_of(found.snapshot.previous_at)) == (2, 1)
    assert found.problems == ()
    assert [problem.reason for problem in found.doubled] == [
        f"c2 took it 3.000 s after c1 took the one of {utc_text(moment(minute))}, which is kept" for minute in (2, 1)
    ]


def test_the_double_stands_in_where_the_first_is_damaged(bucket: Bucket, tmp_path: Path) -> None:
    first = land(bucket, tmp_path, 0, collector="c1")
    land(bucket, tmp_path, 3 / 60, collector="c2")
    bucket.plain.delete_object(Bucket=bucket.name, Key=place_of(bucket.url).data(first) + "document.json.gz")
    found = landing(bucket, tmp_path).snapshot_at()
    assert found.collector == "c2"
    assert [problem.place for problem in found.problems] == ["object"]


def test_one_collectors_snapshots_are_never_doubles(bucket: Bucket, tmp_path: Path) -> None:
    for number in range(4):
        land(bucket, tmp_path, number * 2 / 60)
    found = landing(bucket, tmp_path).snapshot_at()
    assert (found.snapshot.cycle_at, found.snapshot.previous_at) == (utc_text(moment(6 / 60)), utc_text(moment(4 / 60)))
    assert found.doubled == ()


def test_a_half_written_snapshot_is_not_seen(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    bucket.faults.on("PUT", MANIFEST, refuse(403, "AccessDenied"))
    with pytest.raises(Exception, match="access is denied"):
        upload_snapshot(parts(tmp_path, minutes=1), bucket.url, "lab", client=bucket.client)
    found = landing(bucket, tmp_path).snapshot_at()
    assert (minutes_of(found.snapshot.cycle_at), found.problems) == (0, ())


def damage_missing(bucket: Bucket, key: str) -> None:
    bucket.plain.delete_object(Bucket=bucket.name, Key=key)


def damage_size(bucket: Bucket, key: str) -> None:
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"short")


def damage_content(bucket: Bucket, key: str) -> None:
    size = bucket.plain.head_object(Bucket=bucket.name, Key=key)["ContentLength"]
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"x" * size)


def damage_at_rest(bucket: Bucket, key: str) -> None:
    """As a disk would: the checksum that the store keeps stays the old one."""
    file = bucket.folder / key
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    with file.open("r+b") as stream:
        stream.write(data)


@pytest.mark.parametrize(
    ("damage", "place", "reason"),
    [
        (damage_missing, "object", "it is not there"),
        (damage_size, "size", "it has 5 bytes, its manifest says"),
        (damage_content, "sha256", "replaced or damaged"),
        (damage_at_rest, r"checksum|sha256", "damaged"),
    ],
)
@pytest.mark.parametrize("as_folder", [False, True])
def test_a_damaged_snapshot_is_refused_on_record_and_the_one_before_is_taken(
    bucket: Bucket, tmp_path: Path, damage: object, place: str, reason: str, as_folder: bool
) -> None:
    land(bucket, tmp_path, 0)
    snapshot = parts(tmp_path, minutes=1) if as_folder else document(tmp_path, minutes=1)
    upload_snapshot(snapshot, bucket.url, "lab", client=bucket.plain)
    key = max(key for key in bucket.names() if "manifest" not in key)
    assert callable(damage)
    damage(bucket, key)
    zone = landing(bucket, tmp_path)
    found = zone.snapshot_at()
    assert minutes_of(found.snapshot.cycle_at) == 0
    (problem,) = found.problems
    assert problem.file == f"s3://{bucket.name}/{key}"
    assert problem.place in place.split("|")
    assert reason in problem.reason
    assert len(Recording(zone.folder).snapshots) == 1
    assert not list(zone.folder.glob(".partial-*"))


def tampered(manifest: Manifest, **members: object) -> bytes:
    return json.dumps({**json.loads(manifest.to_bytes()), **members}).encode()


def test_a_snapshot_beyond_its_limits_is_refused_and_the_one_before_is_taken(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 1)
    large = tmp_path / "large.json"
    large.write_bytes(document(tmp_path, "x.json", minutes=2).read_bytes() + os.urandom(600_000).hex().encode() + b"}")
    upload_snapshot(large, bucket.url, "lab", client=bucket.plain)
    bomb = document(tmp_path, "y.json", minutes=3).read_bytes()
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(bomb[:-1] + b" " * (3 << 20) + b"}"))
    upload_snapshot(tmp_path / "bomb.json.gz", bucket.url, "lab", client=bucket.plain)
    limits = Limits(packed_mib=1, document_mib=2)
    found = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client, limits).snapshot_at()
    assert minutes_of(found.snapshot.cycle_at) == 1
    packed, unpacked = sorted((problem.reason for problem in found.problems), key=lambda reason: "document" in reason)
    assert "bytes as it lies there, beyond the limit of 1 MiB (`packed_mib`, set in [limits]" in packed
    assert "larger than 2,097,152 bytes, unpacked, beyond the limit of 2 MiB (`document_mib`" in unpacked
    landed = sorted(path.name for path in (tmp_path / "landing").iterdir())
    assert len(landed) == 2, "the snapshot and its manifest: nothing is left of those refused"


def test_manifests_that_cannot_be_believed_are_refused(bucket: Bucket, tmp_path: Path) -> None:
    good = land(bucket, tmp_path, 0)
    outside = replace(good, files=(replace(good.files[0], name="../../outside.json"),))
    bodies: list[tuple[bytes, str]] = [
        (b"<html>", "it is not JSON"),
        (b"[]", "a JSON list"),
        (tampered(good, format=2), "this version reads format 1"),
        (tampered(good, cluster=None), "member cluster is missing"),
        (tampered(good, finished_at="yesterday"), "not an ISO-8601 time"),
        (tampered(good, files=[]), "lists nothing"),
        (tampered(good, files=[{"name": "x"}]), "has the size None"),
        (tampered(good, digest="0" * 64), "it was altered"),
        (tampered(good), "is not the one of its name"),
        (replace(good, cluster="other", cycle_at=moment(10)).to_bytes(), "it is of cluster 'other'"),
        (outside.to_bytes(), "'../../outside.json' belongs to no snapshot"),
    ]
    for number, (body, _) in enumerate(bodies, start=1):
        key = place_of(bucket.url).manifest("lab", moment(number))
        bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=body)
    found = landing(bucket, tmp_path).snapshot_at()
    assert minutes_of(found.snapshot.cycle_at) == 0
    assert [
        expected in problem.reason for problem, (_, expected) in zip(reversed(found.problems), bodies, strict=True)
    ] == [True] * len(bodies), found.problems


def test_a_damaged_predecessor_is_passed_over(bucket: Bucket, tmp_path: Path) -> None:
    for minute in range(3):
        land(bucket, tmp_path, minute)
    key = next(key for key in bucket.names() if "1772366465000-" in key)
    bucket.plain.delete_object(Bucket=bucket.name, Key=key)
    found = landing(bucket, tmp_path).snapshot_at()
    assert (minutes_of(found.snapshot.cycle_at), minutes_of(found.snapshot.previous_at)) == (2, 0)
    assert [problem.file for problem in found.problems] == [f"s3://{bucket.name}/{key}"]


def test_configuration_comes_from_the_latest_that_has_it_and_is_whole(bucket: Bucket, tmp_path: Path) -> None:
    for minute in range(-2, 6):
        land(bucket, tmp_path, minute * 24 * 60, configuration=minute in (-1, 0, 5))
    zone = landing(bucket, tmp_path)
    assert minutes_of(zone.snapshot_at(moment(4 * 24 * 60)).snapshot.configuration_at) == 0
    assert zone.snapshot_at(moment(-2 * 24 * 60)).snapshot.configuration_path is None
    (key,) = (key for key in bucket.names() if "1772366405000-" in key)
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"")
    found = S3Landing(bucket.url, tmp_path / "elsewhere", "lab", bucket.client).snapshot_at(moment(4 * 24 * 60))
    assert minutes_of(found.snapshot.configuration_at) == -24 * 60
    assert [problem.place for problem in found.problems] == ["size"]


def test_a_lender_is_not_looked_for_without_end(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LENDER_DAYS", 3)
    land(bucket, tmp_path, 0)
    land_manifests(bucket, [moment(day * 24 * 60) for day in range(1, 10)])
    land(bucket, tmp_path, 10 * 24 * 60, configuration=False)
    found = landing(bucket, tmp_path).snapshot_at()
    assert found.snapshot.configuration_path is None


def test_no_snapshot_for_the_moment_names_the_nearest(bucket: Bucket, tmp_path: Path) -> None:
    zone = landing(bucket, tmp_path)
    with pytest.raises(
        BadInput, match=r"holds no snapshot of lab; it holds nothing yet: does `evenkeel collect` run\?"
    ):
        zone.snapshot_at()
    upload_snapshot(document(tmp_path), bucket.url, "laboratory", client=bucket.plain)
    with pytest.raises(BadInput, match="no snapshot of lab; it holds laboratory"):
        zone.snapshot_at()
    land(bucket, tmp_path, 60 * 24 * 400)
    land(bucket, tmp_path, 5)
    with pytest.raises(
        BadInput, match=r"at or before 2026-03-01T12:00:05.0+\+00:00; the nearest is 2026-03-01T12:05:05"
    ):
        zone.snapshot_at(moment(0))
    with pytest.raises(BadInput, match="no time zone"):
        zone.snapshot_at("2026-03-01T12:00:00")


def test_a_search_ends_where_everything_is_damaged(bucket: Bucket, tmp_path: Path) -> None:
    land_manifests(bucket, [moment(minute) for minute in range(100)])
    with pytest.raises(BadInput, match=r"that can be used: 1[67] refused, first s3://.*it is not there"):
        landing(bucket, tmp_path).snapshot_at()
    assert bucket.faults.count() < 50


def test_a_zone_of_damaged_snapshots_says_so(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    (key,) = bucket.manifests()
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"")
    with pytest.raises(BadInput, match=r"that can be used: 1 refused, first s3://.*manifest\.json: it is not JSON"):
        landing(bucket, tmp_path).snapshot_at()


def test_a_moment_is_exact_to_the_microsecond(bucket: Bucket, tmp_path: Path) -> None:
    at = moment() + timedelta(microseconds=700)
    upload_snapshot(document(tmp_path, cycle_at=at), bucket.url, "lab", client=bucket.plain)
    zone = landing(bucket, tmp_path)
    assert zone.snapshot_at(at).snapshot.cycle_at == "2026-03-01T12:00:05.000700+00:00"
    with pytest.raises(BadInput, match=r"the nearest is 2026-03-01T12:00:05\.000700"):
        zone.snapshot_at(at - timedelta(microseconds=1))


@pytest.mark.parametrize("path", [r"document\.json", MANIFEST, "list-type=2"])
def test_answers_that_break_off_are_asked_for_again(bucket: Bucket, tmp_path: Path, path: str) -> None:
    land(bucket, tmp_path, 0)
    bucket.faults.on("GET", path, cut_answer, 2)
    found = landing(bucket, tmp_path).snapshot_at()
    assert Path(found.snapshot.path).read_bytes() == (tmp_path / "0.json.gz").read_bytes()


def test_a_snapshot_is_whole_or_not_there_while_it_is_fetched(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    hold = Hold()
    bucket.faults.on("GET", r"document\.json", hold)
    zone = landing(bucket, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(zone.snapshot_at)
        assert hold.arrived.wait(30)
        assert [path.name for path in zone.folder.iterdir() if not path.name.startswith(".partial-")] == []
        hold.release.set()
        assert Path(coming.result().snapshot.path).exists()


def test_two_tasks_that_fetch_at_once_end_with_one_whole_snapshot(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(parts(tmp_path), bucket.url, "lab", client=bucket.plain)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: landing(bucket, tmp_path).snapshot_at(), range(4)))
    assert len(found) == 1
    zone = landing(bucket, tmp_path)
    assert len(Recording(zone.folder).snapshots) == 1
    assert not list(zone.folder.glob(".partial-*"))


def test_what_a_killed_fetch_left_behind_is_removed_after_a_day(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    zone = landing(bucket, tmp_path)
    old, young = zone.folder / ".partial-old", zone.folder / ".partial-young"
    for folder in (old, young):
        (folder / "data").mkdir(parents=True)
    os.utime(old, (0, young.stat().st_mtime - LEFT_BEHIND_SECONDS - 60))
    zone.snapshot_at()
    assert (old.exists(), young.exists()) == (False, True)


def test_what_was_landed_stays_when_the_store_changes_its_mind(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0, collector="c1")
    zone = landing(bucket, tmp_path)
    before = Path(zone.snapshot_at().snapshot.path).read_bytes()
    bucket.plain.delete_object(Bucket=bucket.name, Key=bucket.manifests()[0])
    land(bucket, tmp_path, 0, collector="c2")
    assert Path(zone.snapshot_at().snapshot.path).read_bytes() == before


def test_a_landing_folder_that_cannot_be_written_says_so(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    (tmp_path / "landing").write_text("a file")
    with pytest.raises(BadInput, match=r"cannot land a snapshot of lab in .*landing: "):
        landing(bucket, tmp_path).snapshot_at()


def test_a_manifest_reads_back_as_it_was_written() -> None:
    manifest = bare_manifest(moment())
    assert read_manifest(manifest.to_bytes()) == manifest
