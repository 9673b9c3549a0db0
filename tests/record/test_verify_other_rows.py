"""Rows outside manifests that somebody added, removed or changed are named with table, cluster and date."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import as_arrow
from evenkeel.lake_log.catch_up import begin, catch_up
from tests.lake_log.lakes import LOG_KEY, add_upkeep, copied, kept_lake, publish_more, rows_of
from tests.lake_log.telling import Told, teller
from tests.record.small_lake import arrow_schema

pytestmark = pytest.mark.slow

Row = dict[str, Any]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of schema version 5 with a log, in which an approval was logged."""
    lake = kept_lake(tmp_path_factory.mktemp("kept"), with_others=True)
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab")
    approve(lake, last_cycle(lake) - timedelta(hours=2))
    catch_up(str(lake), [LOG_KEY])
    return lake


@pytest.fixture
def lake(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(published, tmp_path / "lake")


@pytest.fixture
def told(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    return teller(lake, capsys)


def last_cycle(lake: Path, cluster: str = "lab") -> datetime:
    return max(row["cycle_at"] for row in rows_of(lake, cluster))


def approve(lake: Path, at: datetime, answer: str = "approved", cluster: str = "lab") -> None:
    row = {"cluster": cluster, "plan_id": "p", "answer": answer, "by": "alice", "at": at, "note": None}
    write_deltalake(str(lake / "approvals"), as_arrow("approvals", [row]), mode="append", partition_by=["cluster"])


def change(lake: Path, table: str, to: Callable[[list[Row]], list[Row]]) -> None:
    """Puts other rows in the place of all rows of a table, as somebody with the right to write may."""
    there = DeltaTable(str(lake / table))
    rows = to(there.to_pyarrow_table().to_pylist())
    own = {field.name for field in there.schema().fields}
    schema = arrow_schema(TABLES[table])
    body = schema.empty_table().from_pylist(rows, schema).select([name for name in schema.names if name in own])
    write_deltalake(str(lake / table), body, mode="overwrite", partition_by=[*TABLES[table].partition])


def of_the_log(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(fault["table"], fault["cluster"], fault["words"]) for fault in found["faults"] if fault["kind"] == "log"]


def test_rows_that_are_as_they_were_are_sound_and_new_ones_wait_for_the_next_publish(lake: Path, told: Told) -> None:
    found = told()
    assert (found["sound"], found["log"]["not_logged_yet"]) == (True, [])
    approve(lake, last_cycle(lake) + timedelta(minutes=1), "rejected")
    found = told()
    waiting = "approvals: 1 row since the last publish, which the next one logs"
    assert (found["sound"], found["log"]["not_logged_yet"]) == (True, [waiting])
    publish_more(lake, "lab")
    catch_up(str(lake), [LOG_KEY])
    assert (told()["sound"], told()["log"]["not_logged_yet"]) == (True, [])


def test_a_row_that_is_gone_is_named(lake: Path, told: Told) -> None:
    for table in ("controls", "wishes", "approvals"):
        change(lake, table, lambda rows: sorted(rows, key=str)[1:])
    found = told()
    assert {(table, cluster) for table, cluster, _ in of_the_log(found)} == {
        ("approvals", "lab"), ("controls", "lab"), ("wishes", "lab"),
    }  # fmt: skip
    assert all("are gone, or were changed" in words for _, _, words in of_the_log(found))
    assert of_the_log(told("--cluster", "modular")) == [], "nothing of this one is gone"


def test_an_outcome_that_was_changed_is_named_by_its_write(lake: Path, told: Told) -> None:
    change(lake, "outcomes", lambda rows: [{**row, "outcome": "lost"} for row in rows if row["cluster"] == "lab"])
    found = of_the_log(told())
    gone = [(cluster, words) for table, cluster, words in found if table == "outcomes" and "gone" in words]
    assert {cluster for cluster, _ in gone} == {"extensible", "lab", "modular"}
    assert gone[0][1].startswith("1 of the 1 writes of 2026-11-21 that it holds")


def test_a_row_added_later_under_an_earlier_time_is_named(lake: Path, told: Told) -> None:
    at = last_cycle(lake) - timedelta(hours=3)
    approve(lake, at)
    (fault,) = told()["faults"]
    assert (fault["table"], fault["cluster"], fault["place"]) == (
        "approvals", "lab", f"p approved alice at {at.astimezone(UTC).isoformat()}",
    )  # fmt: skip
    assert "it was added or changed later" in fault["words"]


def test_a_row_that_was_doubled_is_named(lake: Path, told: Told) -> None:
    change(lake, "approvals", lambda rows: rows * 2)
    ((table, cluster, words),) = of_the_log(told())
    assert (table, cluster, "it was added or changed later" in words) == ("approvals", "lab", True)


def test_a_table_that_is_gone_or_cannot_be_read_is_named(lake: Path, told: Told) -> None:
    (first, *_) = (lake / "controls").rglob("*.parquet")
    first.write_bytes(b"PAR1")
    found = told()
    assert [(table, "cannot be read" in words) for table, _, words in of_the_log(found)] == [("controls", True)]


@pytest.mark.parametrize("days", [400, 2])
@pytest.mark.parametrize("is_logged", [True, False])
def test_rows_past_the_period_of_an_upkeep_that_is_logged_may_be_gone(
    days: int, is_logged: bool, lake: Path, told: Told
) -> None:
    """All wishes are of one date, some days before the upkeep."""
    add_upkeep(lake, last_cycle(lake) + timedelta(days=4), days)
    if is_logged:
        catch_up(str(lake), [LOG_KEY])
    change(lake, "wishes", lambda rows: [])
    found = told()
    assert found["sound"] is (is_logged and days == 2)
    assert {table for table, _, _ in of_the_log(found)} <= {"wishes"}
