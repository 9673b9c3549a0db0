"""Tables that a process keeps open: each as fresh as its look, and never another one than stands there."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import NoLake
from evenkeel.lake import table_files
from evenkeel.lake.record import tables
from evenkeel.lake.record.tables import OpenTables, open_table, rows_where
from tests.lakes.plausible import broker_load
from tests.lakes.small_lake import SmallLake, moment

AT = moment("2026-11-21T12:00:00")


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    made = SmallLake(tmp_path / "lake")
    add(made, 0)
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables whose logs were read from their last checkpoint on."""
    found: list[str] = []
    delta_table: Callable[[str], Any] = table_files.delta_table
    monkeypatch.setattr(tables, "delta_table", lambda path: found.append(Path(path).name) or delta_table(path))
    return found


def add(lake: SmallLake, minute: int) -> None:
    lake.add("eu", AT.replace(minute=minute), {"broker_load": [broker_load("b1:8080", 0.5)]})


def counted(lake: SmallLake, table: str = "cycles") -> int:
    return len(rows_where(lake.root, table))


def test_a_look_has_each_table_once_and_the_next_one_has_what_is_new(lake: SmallLake, opened: list[str]) -> None:
    tables = OpenTables()
    with tables.look():
        assert [counted(lake), counted(lake, "broker_load")] == [2, 1]
        add(lake, 1)
        assert [counted(lake), counted(lake, "broker_load")] == [2, 1], "as it was when the look began"
    for expected in (4, 4):
        with tables.look():
            assert counted(lake) == expected
    assert opened == ["cycles", "broker_load"]


def test_no_table_is_older_than_the_manifests_that_list_its_rows(lake: SmallLake) -> None:
    with OpenTables().look():
        assert counted(lake, "broker_load") == 1
        add(lake, 1)
        assert counted(lake) == 4
        assert counted(lake, "broker_load") == 2


def test_another_lake_in_its_place_is_read_as_it_is_and_one_that_is_gone_is_missed(
    lake: SmallLake, opened: list[str]
) -> None:
    tables = OpenTables()
    with tables.look():
        assert counted(lake) == 2
    shutil.rmtree(lake.root)
    with tables.look(), pytest.raises(NoLake):
        counted(lake)
    other = SmallLake(lake.root)
    for minute in range(3):
        add(other, minute)
    with tables.look():
        assert counted(other) == 6
    assert opened == ["cycles"] * 3


def test_without_a_look_every_question_opens_a_table(lake: SmallLake, opened: list[str]) -> None:
    assert [counted(lake), counted(lake)] == [2, 2]
    assert opened == ["cycles", "cycles"]


def test_a_table_of_ones_own_is_left_alone(lake: SmallLake) -> None:
    tables = OpenTables()
    own = open_table(lake.root, "cycles", is_own=True)
    with tables.look():
        assert counted(lake) == 2
        assert open_table(lake.root, "cycles", is_own=True) is not open_table(lake.root, "cycles")
    before = own.version()
    add(lake, 1)
    with tables.look():
        assert counted(lake) == 4
    assert own.version() == before


def test_only_the_tables_used_last_are_kept(
    lake: SmallLake, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MOST_OPEN", 1)
    opened_tables = OpenTables()
    for _ in range(2):
        with opened_tables.look():
            assert [counted(lake, "broker_load"), counted(lake)] == [1, 2]
    assert opened == ["broker_load", "cycles"] * 2
