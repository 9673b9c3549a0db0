"""The work that upkeep plans, from the files of a table. No Spark is needed."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import LakeError
from evenkeel.lake.schemas import TABLES
from evenkeel.maintenance.compaction import CHAIN_BYTES, SMALL_BYTES, batches
from evenkeel.maintenance.expiry import ExpiryContext, Periods, expired_days
from evenkeel.maintenance.inventory import DatesOnRecord, File, Inventory
from evenkeel.maintenance.upkeep import Request, keep, why_not_believed
from tests.lakes.small_lake import SmallLake

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1000)


def at(days_ago: int) -> date:
    return (NOW - timedelta(days=days_ago)).date()


def file(days_ago: int, cluster: str = "lab", written: datetime | None = None, size: int = 1000) -> File:
    return File(cluster, at(days_ago), size, 5, written or LONG_AGO, "w")


def table(name: str, *files: File) -> Inventory:
    return Inventory(TABLES[name], 3, files, {})


def look(record: DatesOnRecord | None = None, **more) -> ExpiryContext:
    return ExpiryContext(NOW, Periods(), record or DatesOnRecord({}, {}, frozenset()), **more)


def test_a_date_goes_the_day_after_its_period_whatever_other_clusters_have() -> None:
    files = [file(30), file(31), file(31, "other"), file(29)]
    assert expired_days(table("bundle_load", *files), look(), "observed") == [("lab", at(31)), ("other", at(31))]


def test_a_date_that_was_decided_anew_lately_is_fresh() -> None:
    record = DatesOnRecord({("lab", at(50)): NOW - timedelta(days=10), ("lab", at(51)): LONG_AGO}, {}, frozenset())
    assert expired_days(table("bundle_load", file(50), file(51)), look(record), "observed") == [("lab", at(51))]


@pytest.mark.parametrize("place", ["settings/more", "settings/cluster=lab/more"])
def test_upkeep_of_a_lake_with_a_link_in_it_ends_before_spark_sees_it(tmp_path: Path, place: str) -> None:
    """VACUUM of Spark removes the files of a folder that a link leads to."""
    SmallLake(tmp_path / "lake").add("lab", NOW, {"settings": [{"key": "k", "value": "v"}]})
    (tmp_path / "theirs").mkdir()
    (tmp_path / "lake" / place).symlink_to(tmp_path / "theirs")
    no_spark: Any = None
    with pytest.raises(LakeError, match=f"{place} is a symbolic link"):
        keep(no_spark, Request(str(tmp_path / "lake"), "ann"), lambda text: None)


def test_what_a_kept_cycle_or_the_next_one_rests_on_stays() -> None:
    kept, before, used = ("lab", at(29)), ("lab", at(40)), ("lab", at(90))
    recorded = dict.fromkeys((kept, before, used), LONG_AGO)
    record = DatesOnRecord(recorded, {kept: frozenset({before})}, frozenset({used}))
    files = table("bundle_load", file(29), file(40), file(90), file(91))
    assert expired_days(files, look(record), "observed") == [("lab", at(91))]


def test_what_was_written_within_a_week_may_belong_to_an_open_run() -> None:
    young = file(31, written=NOW - timedelta(days=6))
    assert expired_days(table("bundle_load", file(31), young), look(), "observed") == []


def test_what_the_last_upkeep_dealt_with_is_not_looked_at_again_unless_something_came() -> None:
    last = look(last_at=NOW - timedelta(days=1), last_periods=Periods())
    assert last.done_before("considered", ("lab", at(40)), [file(40)])
    assert not last.done_before("considered", ("lab", at(40)), [file(40, written=NOW - timedelta(hours=5))])
    assert not last.done_before("considered", ("lab", at(32)), [file(32)])
    assert not look().done_before("considered", ("lab", at(40)), [file(40)])
    longer = look(last_at=NOW - timedelta(days=1), last_periods=Periods(considered_days=60))
    assert not longer.done_before("considered", ("lab", at(40)), [file(40)]), "it was not past its period then"


def test_only_dates_that_are_over_and_have_several_small_files_are_compacted() -> None:
    files = [file(0), file(0), file(1), file(1), file(2), file(3), file(3, size=SMALL_BYTES), file(4), file(4, "other")]
    (batch,) = batches(table("bundle_load", *files), NOW.date(), 100)
    assert (batch.files, batch.condition()) == (
        2,
        f" WHERE cycle_date >= DATE'{at(1)}' AND cycle_date <= DATE'{at(1)}'",
    )


def test_one_run_compacts_the_oldest_dates_up_to_its_bound_and_at_least_one() -> None:
    files = [file(days) for days in (5, 4, 3) for _ in range(10)]
    assert [(b.first, b.last, b.files) for b in batches(table("bundle_load", *files), NOW.date(), 25)] == [
        (at(5), at(4), 20)
    ]
    assert [b.files for b in batches(table("bundle_load", *files), NOW.date(), 3)] == [10]


def test_a_large_backlog_is_cut_into_statements() -> None:
    files = [file(days) for days in (5, 4, 3) for _ in range(1500)]
    assert [b.files for b in batches(table("bundle_load", *files), NOW.date(), 10**6)] == [1500, 1500, 1500]


def test_the_chain_is_compacted_once_enough_came_and_full_files_are_left_alone() -> None:
    def chain(count: int, size: int) -> list[File]:
        return [File("lab", None, size, 2, LONG_AGO, None) for _ in range(count)]

    full = chain(30, CHAIN_BYTES // 2)
    assert batches(table("cycles", *chain(19, 5000), *full), NOW.date(), 100) == []
    (batch,) = batches(table("cycles", *chain(20, 5000), *full), NOW.date(), 100)
    assert (batch.files, batch.condition()) == (20, "")


def test_the_clock_of_an_upkeep_is_believed_as_far_as_the_record_goes() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    record = [at + timedelta(days=number) for number in range(10)]
    year = timedelta(days=365)
    assert why_not_believed([], at + year) is None, "nothing is on record, so nothing can be dropped"
    for days in (-365, 0, 9, 23):
        assert why_not_believed(record, at + timedelta(days=days)) is None
    for believed in (record, [*record, at + year], [*record, at + year, at + year + timedelta(hours=20)]):
        assert "set it" in (why_not_believed(believed, at + year + timedelta(days=1)) or "")
    gone_on = [*record, at + year, at + year + timedelta(days=1)]
    assert why_not_believed(gone_on, at + year + timedelta(days=2)) is None, "a lake that rested for a year"


def test_what_an_upkeep_under_a_clock_ahead_has_finished_is_looked_at_again() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    for last_at, done in ((now - timedelta(days=1), True), (now + timedelta(days=365), False)):
        look = ExpiryContext(now, Periods(), DatesOnRecord({}, {}, frozenset()), last_at, Periods())
        assert look.done_before("considered", ("lab", date(2026, 8, 1)), ()) == done
