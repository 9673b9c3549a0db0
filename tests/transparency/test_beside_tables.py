"""The folder of the log lies among the tables of a lake, and nothing takes it for one."""

from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.lake.schemas import TABLES
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.lake_log import begin
from tests.transparency.lakes import small_lake
from tests.transparency.logs import LOG_KEY


def test_no_table_has_the_name_of_the_log() -> None:
    assert LOG_FOLDER not in TABLES
    assert not any(name.startswith("_") for name in TABLES)


def test_with_a_log_beside_them_tables_are_counted_and_exported_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = small_lake(tmp_path)
    assert main(["storage", "--lake", str(lake)]) == 0
    before = capsys.readouterr().out
    begin(str(lake), [LOG_KEY])
    assert main(["storage", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == before
    out = tmp_path / "part"
    span = ("--from", "2026-11-26", "--to", "2026-11-27")
    assert main(["export", "--lake", str(lake), "--cluster", "lab", *span, "--out", str(out)]) == 0
    assert (out / "cycles").is_dir()
    assert not (out / LOG_FOLDER).exists()
