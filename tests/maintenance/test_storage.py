"""What a lake holds, told without Spark."""

import json
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.maintenance.inventory import measure
from evenkeel.model.amounts import size
from tests.lakes.plausible import plausible_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plausible_lake(tmp_path_factory.mktemp("stored") / "lake")


def test_bytes_and_files_are_those_on_disk(lake: Path) -> None:
    stored = measure(str(lake))
    assert (stored.cycles, stored.cycles_of_last_date) == (11, 11)
    for one in stored.tables:
        parquet = list((lake / one.table).glob("**/part-*.parquet"))
        assert (one.files, one.live) == (len(parquet), sum(file.stat().st_size for file in parquet)), one.table
        assert one.disk == sum(file.stat().st_size for file in (lake / one.table).rglob("*") if file.is_file())
        assert one.history == 0


def test_files_that_only_earlier_versions_name_are_told_apart(lake: Path, tmp_path: Path) -> None:
    import shutil

    from deltalake import DeltaTable

    shutil.copytree(lake / "cycles", tmp_path / "cycles")
    DeltaTable(str(tmp_path / "cycles")).optimize.compact()
    (cycles,) = measure(str(tmp_path)).tables
    assert cycles.files == 2
    assert cycles.history is not None
    assert cycles.history > 3 * cycles.live


def test_the_command_prints_a_line_per_table_largest_first_or_objects(lake: Path, capsys) -> None:
    assert main(["storage", "--lake", str(lake)]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1].startswith("cycles ")
    assert "for 11 cycles" in text
    assert main(["storage", "--lake", str(lake), "--json"]) == 0
    tables = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {table["table"] for table in tables} >= {"cycles", "bundle_load"}


def test_no_lake_is_said_and_not_measured(tmp_path: Path, capsys) -> None:
    assert main(["storage", "--lake", str(tmp_path / "none")]) == 2
    assert "there is no lake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "text"), [(None, ""), (0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (3e15, "3000.0 TB")]
)
def test_sizes_can_be_read(number, text) -> None:
    assert size(number) == text
