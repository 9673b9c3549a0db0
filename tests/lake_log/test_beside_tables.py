"""The folder of the log lies among the tables of a lake, and nothing takes it for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.lake.schemas import TABLES
from evenkeel.lake_log import LOG_FOLDER
from evenkeel.lake_log.catch_up import begin
from tests.lake_log.lakes import LOG_KEY, kept_lake


def test_no_table_has_the_name_of_the_log() -> None:
    assert LOG_FOLDER not in TABLES
    assert not any(name.startswith("_") for name in TABLES)


def test_with_a_log_beside_them_tables_are_read_counted_and_exported_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = kept_lake(tmp_path, with_others=True)
    asked = (
        ("storage", "--lake", str(lake)),
        ("wish", "list", "--lake", str(lake), "--cluster", "modular"),
        ("explain", "acme/ns1/0x80000000_0x90000000", "--lake", str(lake), "--cluster", "extensible"),
    )
    before = []
    for words in asked:
        assert main(words) == 0
        before.append(capsys.readouterr().out)
    begin(str(lake), [LOG_KEY])
    for words, text in zip(asked, before, strict=True):
        assert main(words) == 0
        assert capsys.readouterr().out == text
    out = tmp_path / "part"
    span = ("--from", "2026-11-21", "--to", "2026-11-22")
    assert main(["export", "--lake", str(lake), "--cluster", "lab", *span, "--out", str(out)]) == 0
    assert (out / "cycles").is_dir()
    assert not (out / LOG_FOLDER).exists()
