"""Finding snapshots: few requests however many there are, and late, doubled, half-written and damaged ones."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.pulsar.limits import Limits
from evenkeel.sources.landing import hidden, milliseconds
from evenkeel.sources.landing_zone import search
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.spool import upload_snapshot
from evenkeel.sources.recordings import Recording
from evenkeel.times import utc_text
from tests.sources.landing_zone.conftest import Bucket
from tests.sources.landing_zone.faults import Hold, cut_answer
from tests.sources.landing_zone.snapshots import moment, snapshot

pytestmark = pytest.mark.slow

OBJECT = r"jsonl\.gz$"


def land(bucket: Bucket, folder: Path, minutes: float, *, collector: str = "c1", configuration: bool = True) -> str:
    one = snapshot(
        folder, f"{minutes}.jsonl.gz", minutes=minutes, configuration=configuration, mark=collector, collector=collector
    )
    done = upload_snapshot(one, bucket.url, "lab", client=bucket.plain)
    return done.url.removeprefix(f"s3://{bucket.name}/")


def landing(bucket: Bucket, folder: Path) -> S3Landing:
    return S3Landing(bucket.url, folder / "landing", "lab", bucket.client)


def minutes_of(time: str | None) -> float | None:
    """The minute that `land` was given for this moment."""
    return (datetime.fromisoformat(time) - moment()) / timedelta(minutes=1) if time else None


def land_empty(bucket: Bucket, moments: list[datetime]) -> None:
    """Objects that are no snapshots, straight into the store's folder: a thousand requests take their time."""
    for at in moments:
        file = bucket.folder / f"land/lab/{milliseconds(at)}-configuration.jsonl.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"none")


def test_one_of_many_thousand_snapshots_is_found_with_a_few_requests(bucket: Bucket, tmp_path: Path) -> None:
    land_empty(bucket, [moment(-minute) for minute in range(2, 3_000)])
    land(bucket, tmp_path, -1)
    land(bucket, tmp_path, 0)
    bucket.faults.forget()
    found = landing(bucket, tmp_path).snapshot_at(moment(0.5))
    assert (found.snapshot.cycle_at, found.snapshot.previous_at) == (utc_text(moment(0)), utc_text(moment(-1)))
    assert bucket.faults.count("GET", "list-type=2") == 1, "the hour before is listed"
    assert bucket.faults.count() == 2


def test_after_a_long_silence_the_last_snapshot_is_found(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    bucket.faults.forget()
    assert minutes_of(landing(bucket, tmp_path).snapshot_at(moment(60 * 24 * 30)).snapshot.cycle_at) == 0
    assert bucket.faults.count("GET", "list-type=2") < 12


def test_snapshots_dated_ahead_of_the_stores_own_clock_are_set_aside(bucket: Bucket, tmp_path: Path) -> None:
    """More of them than refused ones end a search; those of a clock that is a little ahead count."""
    now = (datetime.now(UTC) - moment()) / timedelta(minutes=1)
    land(bucket, tmp_path, now - 1)
    a_little = land(bucket, tmp_path, now + 3)
    ahead = [land(bucket, tmp_path, now + 60 * 24 * 365 + minute) for minute in range(search.MOST_REFUSED + 2)]
    found = landing(bucket, tmp_path).snapshot_at(datetime.now(UTC) + timedelta(days=400))
    assert a_little.rpartition("/")[2].startswith(Path(found.snapshot.path).name.split(".")[0])
    assert {problem.file for problem in found.problems} < {f"s3://{bucket.name}/{key}" for key in ahead}
    assert len(found.problems) == search.MOST_REFUSED
    assert all("set its collector's clock" in problem.reason for problem in found.problems)


def test_a_late_snapshot_stands_at_its_own_moment(bucket: Bucket, tmp_path: Path) -> None:
    zone = landing(bucket, tmp_path)
    land(bucket, tmp_path, 0)
    land(bucket, tmp_path, 2)
    assert minutes_of(zone.snapshot_at().snapshot.previous_at) == 0
    land(bucket, tmp_path, 1)
    found = zone.snapshot_at().snapshot
    assert (minutes_of(found.cycle_at), minutes_of(found.previous_at)) == (2, 1)
    assert minutes_of(zone.snapshot_at(moment(1.5)).snapshot.cycle_at) == 1


def test_of_two_collectors_seconds_apart_the_first_counts(bucket: Bucket, tmp_path: Path) -> None:
    for minute in range(3):
        land(bucket, tmp_path, minute, collector="c1")
        land(bucket, tmp_path, minute + 3 / 60, collector="c2")
    found = landing(bucket, tmp_path).snapshot_at()
    assert (minutes_of(found.snapshot.cycle_at), minutes_of(found.snapshot.previous_at)) == (2, 1)
    assert found.problems == ()
    assert [problem.reason for problem in found.doubled] == [
        f"another collector took it 3.000 s after the one of {utc_text(moment(minute))}, which is kept"
        for minute in (2, 1)
    ]


def test_the_double_stands_in_where_the_first_is_damaged(bucket: Bucket, tmp_path: Path) -> None:
    damage_at_rest(bucket, land(bucket, tmp_path, 0, collector="c1"))
    land(bucket, tmp_path, 3 / 60, collector="c2")
    found = landing(bucket, tmp_path).snapshot_at()
    assert minutes_of(found.snapshot.cycle_at) == 3 / 60
    assert len(found.problems) == 1


def test_one_collectors_snapshots_are_never_doubles(bucket: Bucket, tmp_path: Path) -> None:
    for number in range(4):
        land(bucket, tmp_path, number * 2 / 60)
    found = landing(bucket, tmp_path).snapshot_at()
    assert (found.snapshot.cycle_at, found.snapshot.previous_at) == (utc_text(moment(6 / 60)), utc_text(moment(4 / 60)))
    assert found.doubled == ()


def damage_content(bucket: Bucket, key: str) -> None:
    size = bucket.plain.head_object(Bucket=bucket.name, Key=key)["ContentLength"]
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=b"x" * size)


def damage_moment(bucket: Bucket, key: str) -> None:
    """The snapshot of another moment under this name."""
    other = min(name for name in bucket.names())
    body = bucket.plain.get_object(Bucket=bucket.name, Key=other)["Body"].read()
    bucket.plain.put_object(Bucket=bucket.name, Key=key, Body=body)


def damage_at_rest(bucket: Bucket, key: str) -> None:
    """As a disk would: the checksum that the store keeps stays the old one."""
    file = bucket.folder / key
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    with file.open("r+b") as stream:
        stream.write(data)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(damage_content, "cannot be unpacked"), (damage_moment, "its name says"), (damage_at_rest, "damaged")],
)
def test_a_damaged_snapshot_is_refused_on_record_and_the_one_before_is_taken(
    bucket: Bucket, tmp_path: Path, damage: Callable[[Bucket, str], None], reason: str
) -> None:
    land(bucket, tmp_path, 0)
    key = land(bucket, tmp_path, 1)
    damage(bucket, key)
    zone = landing(bucket, tmp_path)
    found = zone.snapshot_at()
    assert minutes_of(found.snapshot.cycle_at) == 0
    (problem,) = found.problems
    assert (problem.file, problem.place) == (f"s3://{bucket.name}/{key}", "snapshot")
    assert reason in problem.reason
    assert [path.name for path in zone.folder.iterdir()] == ["1772366405000.jsonl.gz"]


def test_a_snapshot_beyond_its_limits_is_refused_and_the_one_before_is_taken(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 1)
    large = snapshot(tmp_path, minutes=2, size=2 << 20)
    upload_snapshot(large, bucket.url, "lab", client=bucket.plain)
    found = S3Landing(bucket.url, tmp_path / "landing", "lab", bucket.client, Limits(packed_mib=1)).snapshot_at()
    assert minutes_of(found.snapshot.cycle_at) == 1
    (problem,) = found.problems
    assert "bytes as stored, beyond the limit of 1 MiB (`packed_mib`, set in [limits]" in problem.reason
    assert len(list((tmp_path / "landing").iterdir())) == 1, "nothing is left of the one that was refused"


def test_objects_of_other_names_are_not_looked_at(bucket: Bucket, tmp_path: Path) -> None:
    key = land(bucket, tmp_path, 0)
    for name in ("1772366465000.json", "1772366465000.jsonl.gz.part", "x/1772366465000.jsonl.gz", "../1772366465000.x"):
        bucket.plain.put_object(Bucket=bucket.name, Key=f"land/lab/{name}", Body=b"{}")
    found = landing(bucket, tmp_path).snapshot_at()
    assert (minutes_of(found.snapshot.cycle_at), found.problems) == (0, ())
    assert key in bucket.names()


def test_configuration_comes_from_the_latest_that_has_it_and_is_whole(bucket: Bucket, tmp_path: Path) -> None:
    keys = {day: land(bucket, tmp_path, day * 24 * 60, configuration=day in (-1, 0, 5)) for day in range(-2, 6)}
    zone = landing(bucket, tmp_path)
    assert minutes_of(zone.snapshot_at(moment(4 * 24 * 60)).snapshot.configuration_at) == 0
    assert zone.snapshot_at(moment(-2 * 24 * 60)).snapshot.configuration_path is None
    bucket.plain.put_object(Bucket=bucket.name, Key=keys[0], Body=b"")
    found = S3Landing(bucket.url, tmp_path / "elsewhere", "lab", bucket.client).snapshot_at(moment(4 * 24 * 60))
    assert minutes_of(found.snapshot.configuration_at) == -24 * 60
    assert [problem.reason for problem in found.problems] == ["the file is empty"]


def test_a_lender_is_not_looked_for_without_end(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LENDER_NAMES", 3)
    land(bucket, tmp_path, 0)
    for minute in (1, 2, 3):
        land(bucket, tmp_path, minute, configuration=False)
    assert landing(bucket, tmp_path).snapshot_at().snapshot.configuration_path is None
    assert landing(bucket, tmp_path).snapshot_at(moment(2)).snapshot.configuration_path is not None


def test_no_snapshot_for_the_moment_names_the_nearest(bucket: Bucket, tmp_path: Path) -> None:
    zone = landing(bucket, tmp_path)
    with pytest.raises(
        BadInput, match=r"holds no snapshot of lab; it holds nothing yet: does `evenkeel collect` run\?"
    ):
        zone.snapshot_at()
    upload_snapshot(snapshot(tmp_path), bucket.url, "laboratory", client=bucket.plain)
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
    land_empty(bucket, [moment(minute) for minute in range(100)])
    with pytest.raises(BadInput, match=r"that can be used: 1[67] refused, first s3://.*cannot be unpacked"):
        landing(bucket, tmp_path).snapshot_at()
    assert bucket.faults.count() < 50


@pytest.mark.parametrize("path", [OBJECT, "list-type=2"])
def test_answers_that_break_off_are_asked_for_again(bucket: Bucket, tmp_path: Path, path: str) -> None:
    land(bucket, tmp_path, 0)
    bucket.faults.on("GET", path, cut_answer, 2)
    found = landing(bucket, tmp_path).snapshot_at()
    assert Path(found.snapshot.path).read_bytes() == (tmp_path / "0.jsonl.gz").read_bytes()


def test_a_snapshot_is_whole_or_not_there_while_it_is_fetched(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    hold = Hold()
    bucket.faults.on("GET", OBJECT, hold)
    zone = landing(bucket, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(zone.snapshot_at)
        assert hold.arrived.wait(30)
        assert [path.name for path in zone.folder.iterdir() if not path.name.startswith(".part-")] == []
        hold.release.set()
        assert Path(coming.result().snapshot.path).exists()


def test_two_tasks_that_fetch_at_once_end_with_one_whole_snapshot(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=bucket.plain)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: landing(bucket, tmp_path).snapshot_at(), range(4)))
    assert len(found) == 1
    zone = landing(bucket, tmp_path)
    assert len(Recording(zone.folder).snapshots) == 1
    assert not list(zone.folder.glob(".part-*"))


def test_what_a_killed_fetch_left_behind_is_removed_after_an_hour(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    zone = landing(bucket, tmp_path)
    zone.folder.mkdir()
    old, young = (hidden(zone.folder / "1772366465000.jsonl.gz") for _ in range(2))
    for file in (old, young):
        file.touch()
    os.utime(old, (0, young.stat().st_mtime - 3_700))
    zone.snapshot_at()
    assert (old.exists(), young.exists()) == (False, True)


def test_what_was_landed_stays_when_the_store_changes_its_mind(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0, collector="c1")
    zone = landing(bucket, tmp_path)
    before = Path(zone.snapshot_at().snapshot.path).read_bytes()
    bucket.plain.delete_object(Bucket=bucket.name, Key=bucket.names()[0])
    land(bucket, tmp_path, 0, collector="c2")
    assert Path(zone.snapshot_at().snapshot.path).read_bytes() == before


def test_a_landing_folder_that_cannot_be_written_says_so(bucket: Bucket, tmp_path: Path) -> None:
    land(bucket, tmp_path, 0)
    (tmp_path / "landing").write_text("a file")
    with pytest.raises(BadInput, match=r"cannot land a snapshot of lab in .*landing: "):
        landing(bucket, tmp_path).snapshot_at()
