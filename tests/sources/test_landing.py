"""A landing folder: one snapshot a moment, never a past moment, listed by name, and old ones let go."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from evenkeel.errors import BadInput, LandingError
from evenkeel.pulsar.admin import Hop
from evenkeel.pulsar.limits import Limits
from evenkeel.sources import landing as landing_module
from evenkeel.sources.landing import SUFFIX, FolderStore, Landing, SnapshotWriter, clear_abandoned, milliseconds
from evenkeel.sources.recordings import Recording
from evenkeel.sources.snapshot_files import Header, read_header
from evenkeel.times import utc_text

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
HOP = Hop("b1:8080", "GET", "/admin/v2/brokers", 200, "2026-03-01T12:00:03.000Z", 1.0, None, "[]")


def taker(taken: list[tuple[datetime, bool]]) -> Callable[..., None]:
    """Takes snapshots of one request, and notes each."""

    def take(begin: Callable[[], SnapshotWriter], moment: datetime, number: int, full: bool) -> None:
        taken.append((moment, full))
        writer = begin()
        writer.write(HOP)
        late = moment + timedelta(seconds=5)
        writer.commit(Header(number, late, late, has_configuration=full, cycle_at=moment))

    return take


def land(folder: Path, *minutes: float, full_every: int = 1) -> list[tuple[datetime, bool]]:
    taken: list[tuple[datetime, bool]] = []
    for minute in minutes:
        at = NOON + timedelta(minutes=minute)
        Landing(folder).land(at, taker(taken), now=at, full_every=full_every)
    return taken


def name_of(moment: datetime) -> str:
    return f"{milliseconds(moment)}{SUFFIX}"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def count_opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    opened: list[Path] = []

    def read(path: Path, limits: Limits) -> Header:
        opened.append(path)
        return read_header(path, limits)

    monkeypatch.setattr(landing_module, "read_header", read)
    return opened


def test_a_moment_is_landed_once_and_found_again(tmp_path: Path) -> None:
    assert land(tmp_path, 0, 0, 0) == [(NOON.replace(microsecond=123000), True)]
    snapshot = Landing(tmp_path).find(NOON)
    assert snapshot is not None
    assert snapshot.cycle_at == "2026-03-01T12:00:00.123000+00:00"
    assert Path(snapshot.path).name == name_of(NOON) == "1772366400123.jsonl.gz"
    assert Landing(tmp_path).find(NOON.astimezone()) == snapshot


def test_the_folder_is_a_recording_whose_snapshots_stand_for_their_moments(tmp_path: Path) -> None:
    land(tmp_path, 0, 5, 10)
    recorded = Recording(tmp_path).snapshots
    moments = [NOON + timedelta(minutes=minutes) for minutes in (0, 5, 10)]
    assert list(recorded) == [Landing(tmp_path).find(moment) for moment in moments]
    assert [snapshot.previous_at for snapshot in recorded] == [None, recorded[0].cycle_at, recorded[1].cycle_at]
    assert read_header(Path(recorded[0].path)).finished_at > NOON, "the moment is not when it was finished"


def test_topic_lists_are_borrowed_from_the_latest_full_one_before(tmp_path: Path) -> None:
    taken = land(tmp_path, *range(0, 35, 5), full_every=3)
    assert [full for _, full in taken] == [True, False, False, True, False, False, True]
    found = [Landing(tmp_path).find(moment) for moment, _ in taken]
    lenders = [snapshot.configuration_at for snapshot in found if snapshot is not None]
    assert lenders == [utc_text(taken[number][0]) for number in (0, 0, 0, 3, 3, 3, 6)]


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(-11, r"A past moment cannot be observed \(660 s have passed\)"), (11, "It is still to come")],
)
def test_another_moment_than_now_is_not_observed(tmp_path: Path, minutes: float, words: str) -> None:
    land(tmp_path, -30, 30)
    taken: list[tuple[datetime, bool]] = []
    with pytest.raises(LandingError, match=words) as refused:
        Landing(tmp_path).land(NOON + timedelta(minutes=minutes), taker(taken), now=NOON)
    assert "the nearest are 2026-03-01T11:30:00.123000+00:00 and 2026-03-01T12:30:00.123" in str(refused.value)
    assert taken == []


def test_a_past_moment_that_was_landed_is_found_whatever_the_clock_says(tmp_path: Path) -> None:
    land(tmp_path, 0)
    taken: list[tuple[datetime, bool]] = []
    Landing(tmp_path).land(NOON, taker(taken), now=NOON + timedelta(days=300))
    assert taken == []


def test_nothing_landed_yet_is_said(tmp_path: Path) -> None:
    assert Landing(tmp_path / "none").find(NOON) is None
    assert "the folder has no snapshot" in Landing(tmp_path / "none").missing(NOON)


def test_two_runs_at_once_land_one_snapshot_and_both_get_it(tmp_path: Path) -> None:
    meeting, taken = Barrier(2, timeout=10), []

    def take(begin: Any, moment: datetime, number: int, full: bool) -> None:
        meeting.wait()
        taker(taken)(begin, moment, number, full)

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(Landing(tmp_path).land, NOON, take, now=NOON) for _ in range(2)]
        assert both[0].result() == both[1].result()
    assert len(taken) == 2
    assert len(names(tmp_path)) == 1


def test_a_year_of_snapshots_is_listed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, 0, full_every=3)
    for minute in range(1, 3_000):
        (tmp_path / f"{milliseconds(NOON) + minute * 60_000}{SUFFIX}").touch()
    last = 3_000
    opened = count_opened(monkeypatch)
    land(tmp_path, last, last + 1, full_every=2)
    assert Landing(tmp_path).find(NOON + timedelta(minutes=last + 1)) is not None
    assert len(opened) < 20


def test_what_is_no_moment_is_not_looked_at(tmp_path: Path) -> None:
    land(tmp_path, 0)
    (tmp_path / "0000").mkdir()
    (tmp_path / "notes.txt").write_text("")
    writer = FolderStore(tmp_path).begin("1772366400124")
    writer.write(HOP)
    assert Landing(tmp_path).find(NOON + timedelta(milliseconds=1)) is None
    snapshot = Landing(tmp_path).find(NOON)
    assert snapshot is not None
    assert snapshot.previous_at is None


def test_a_name_that_belies_its_content_is_refused(tmp_path: Path) -> None:
    land(tmp_path, 0)
    (tmp_path / "1772366400123.jsonl.gz").rename(tmp_path / "1772366400999.jsonl.gz")
    with pytest.raises(BadInput, match=r"is of 2026-03-01T12:00:00\.123000.*its name says 2026-03-01T12:00:00\.999"):
        Landing(tmp_path).find(NOON.replace(microsecond=999000))


def test_old_ones_go_and_the_newest_stays(tmp_path: Path) -> None:
    day = 24 * 60
    land(tmp_path, 0, day, 2 * day, 3 * day, 4 * day - 1)
    removed = Landing(tmp_path).expire(2)
    assert [path.name for path in removed] == [name_of(NOON), name_of(NOON + timedelta(days=1))]
    assert len(names(tmp_path)) == 3
    assert Landing(tmp_path).expire(0.0001) != []
    assert names(tmp_path) == [name_of(NOON + timedelta(minutes=4 * day - 1))]
    assert Landing(tmp_path / "none").expire(1) == []


YEAR = 365 * 24 * 60


@pytest.mark.parametrize(
    "wrong", [(YEAR,), (YEAR, YEAR + 1, YEAR + 2), (-YEAR,)], ids=["ahead", "ahead for long", "behind"]
)
@pytest.mark.parametrize("days", [0.1, 1.0, 3.0])
def test_a_clock_that_was_wrong_for_a_while_removes_nothing_that_is_not_due(
    tmp_path: Path, wrong: tuple[int, ...], days: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Each cycle lands its snapshot and removes the old ones, under the clock of its moment."""
    period = round(days * 24 * 60)
    right = [*range(-4 * 24 * 60, 1, 60)]
    due = {name_of(NOON + timedelta(minutes=minute)) for minute in right if minute < -period}

    def cycle(minute: int) -> None:
        land(tmp_path, minute)
        snapshot = Landing(tmp_path).find(NOON + timedelta(minutes=minute))
        assert snapshot is not None
        Landing(tmp_path).expire(days, snapshot)
        assert Path(snapshot.path).exists(), "the cycle under way reads it"

    for minute in right:
        cycle(minute)
    kept = set(names(tmp_path))
    assert kept == {name_of(NOON + timedelta(minutes=minute)) for minute in right} - due
    for minute in wrong:
        cycle(minute)
    assert kept - set(names(tmp_path)) == set()
    assert "set the clock and remove the file" in caplog.text or wrong[0] < 0
    cycle(1)
    assert name_of(NOON + timedelta(minutes=1)) in names(tmp_path)
    assert len(kept - set(names(tmp_path))) <= 1, "what has become due by a minute"


def test_after_a_pause_of_days_the_old_ones_go_once_a_day_has_followed(tmp_path: Path) -> None:
    day = 24 * 60
    land(tmp_path, 0, 5, 9 * day)
    assert Landing(tmp_path).expire(3) == []
    land(tmp_path, 10 * day)
    assert [path.name for path in Landing(tmp_path).expire(3)] == [
        name_of(NOON), name_of(NOON + timedelta(minutes=5))
    ]  # fmt: skip


def test_a_snapshot_from_the_future_does_not_end_the_full_ones(tmp_path: Path) -> None:
    land(tmp_path, YEAR, full_every=3)
    assert [full for _, full in land(tmp_path, 0, 1, 2, 3, full_every=3)] == [True, False, False, True]


def test_what_a_kept_one_borrows_from_stays(tmp_path: Path) -> None:
    land(tmp_path, 0, 10, 20, 30, 40, full_every=3)  # full: 0 and 30
    named = {minute: name_of(NOON + timedelta(minutes=minute)) for minute in range(60)}
    assert [path.name for path in Landing(tmp_path).expire(25 / 1440)] == [named[10]], "20 is kept, and needs 0"
    land(tmp_path, 50, full_every=3)
    assert [path.name for path in Landing(tmp_path).expire(25 / 1440)] == [named[0], named[20]]


def test_what_a_killed_writer_left_goes_after_an_hour_and_not_before(tmp_path: Path) -> None:
    writer = FolderStore(tmp_path).begin("1772366400123")
    writer.write(HOP)
    (left,) = tmp_path.iterdir()
    clear_abandoned(tmp_path)
    assert left.exists()
    long_ago = left.stat().st_mtime - 3_700
    os.utime(left, (long_ago, long_ago))
    clear_abandoned(tmp_path)
    assert not left.exists()


def test_a_snapshot_that_goes_meanwhile_is_an_error_that_says_so(tmp_path: Path) -> None:
    def take(begin: Any, moment: datetime, number: int, full: bool) -> None:
        taker([])(begin, moment, number, full)
        (tmp_path / name_of(moment)).unlink()

    with pytest.raises(LandingError, match="and is gone"):
        Landing(tmp_path).land(NOON, take, now=NOON)
