"""`evenkeel report` and `evenkeel data-docs`, as an operator calls them."""

from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from evenkeel.cli import main
from tests.lakes.small_lake import SmallLake, moment


def test_report_writes_the_page_and_says_where(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "report.html"
    assert main(["report", "--lake", str(lake), "--cluster", "lab", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert "<html" in out.read_text(encoding="utf-8")


def test_a_recording_without_broker_logs_is_named(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    code = main(["report", "--lake", str(lake), "--recording", str(tmp_path / "nowhere"), "--out", str(out)])
    assert code == 2
    assert "nowhere" in capsys.readouterr().err
    assert not out.exists()


def test_data_docs_hold_each_clusters_rules(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data-docs", "--lake", str(lake), "--out", str(tmp_path / "docs")]) == 0
    front = Path(capsys.readouterr().out.strip())
    assert front == tmp_path / "docs" / "index.html"
    text = front.read_text(encoding="utf-8")
    assert "lab" in text
    assert "spread" in text


def test_a_cycle_in_which_nothing_was_checked_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = SmallLake(tmp_path / "lake")
    lake.add("lab", moment("2026-11-21T08:00:00"), {}, status="failed", plan_id=None, reason="ingest failed: no disk")
    assert main(["data-docs", "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "docs")]) == 2
    said = capsys.readouterr().err
    assert "nothing was checked in lab at 2026-11-21T08:00:00" in said
    assert not (tmp_path / "docs").exists()


def test_a_lake_on_this_machine_is_read_without_python_in_arrows_threads(lake: Path) -> None:
    """deltalake's own file system is Python; called while the process ends, it aborted one process in two."""
    from evenkeel.lake.record.tables import dataset

    files = dataset(lake, "cycles").filesystem
    assert isinstance(files, SubTreeFileSystem)
    assert isinstance(files.base_fs, LocalFileSystem)
