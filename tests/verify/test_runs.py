"""`evenkeel verify` leaves word of itself in the lake, and never fails for it; what is read back is taken for text."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.transparency.lake_log import begin
from evenkeel.verify.export import MANIFEST
from evenkeel.verify.runs import FOLDER, KEPT, MOST_BYTES, VerifyRun, leave, read_runs
from tests.transparency.lakes import small_lake
from tests.transparency.logs import LOG_KEY

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
GOOD = VerifyRun(NOON, "jo@audit", "v1", "topics", "", "", "", 11, 5, 5, 0, 16, 2)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return small_lake(tmp_path)


def verified(lake: Path, *more: str) -> int:
    return main(["verify", "--lake", str(lake), "--depth", "chain", *more])


def test_a_run_says_when_who_what_and_the_result(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(str(lake), [LOG_KEY])
    began = datetime.now(UTC) - timedelta(seconds=1)
    vkey = LOG_KEY.verifier.text
    assert verified(lake, "--cluster", "lab", "--from", "2026-11-01", "--log-key", vkey) == 0
    assert capsys.readouterr().err == ""
    (run,) = read_runs(str(lake))
    assert began <= run.at <= datetime.now(UTC)
    assert "@" in run.by
    assert (run.depth, run.cluster, run.since, run.until) == ("chain", "lab", "2026-11-01T00:00:00+00:00", "")
    assert run.manifests > 0
    assert (run.places, run.held_against) == (0, 1)
    assert run.leaves >= run.manifests


def test_a_run_that_found_something_says_how_much(lake: Path) -> None:
    assert verified(lake, "--expect-head", "0" * 64) == 1
    (run,) = read_runs(str(lake))
    assert run.places == 1


def test_nothing_is_left_where_that_was_asked_and_in_an_export(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(lake, "--unrecorded") == 0
    assert not (lake / FOLDER).exists()
    assert capsys.readouterr().err == ""
    (lake / MANIFEST).write_text("{}")
    assert leave(str(lake), GOOD) == "an export is not written to"
    assert not (lake / FOLDER).exists()


def test_a_lake_that_cannot_be_written_is_verified_all_the_same(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / FOLDER).write_text("in the way")
    assert verified(lake) == 0
    said = capsys.readouterr()
    assert "all is as it was written" in said.out
    assert "the desk will not show this run" in said.err
    assert read_runs(str(lake)) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_the_right_to_write_is_verified_all_the_same(lake: Path) -> None:
    lake.chmod(0o555)
    try:
        assert verified(lake) == 0
    finally:
        lake.chmod(0o755)


def test_the_newest_come_first_and_old_ones_go(lake: Path) -> None:
    for n in range(KEPT + 3):
        assert leave(str(lake), replace(GOOD, at=NOON + timedelta(minutes=n))) is None
    found = read_runs(str(lake))
    assert [one.at for one in found[:2]] == [NOON + timedelta(minutes=KEPT + 2), NOON + timedelta(minutes=KEPT + 1)]
    assert len(found) == len([*(lake / FOLDER).iterdir()]) == KEPT
    assert len(read_runs(str(lake), 3)) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"[]", b"[" * 5_000, b'{"at": "noon"}', b"{" + b" " * MOST_BYTES + b"}",
        json.dumps({**dict.fromkeys(VerifyRun.__slots__, ""), "at": NOON.isoformat()}).encode(),
        json.dumps({**dict.fromkeys(VerifyRun.__slots__, True), "at": NOON.isoformat()}).encode(),
        json.dumps({**dict.fromkeys(VerifyRun.__slots__, 1), "at": "2026-11-26T12:00:00"}).encode(),
    ],
    ids=["empty", "no text", "a list", "deep", "no moment", "large", "texts", "truths", "no zone"],
)  # fmt: skip
def test_what_is_no_such_file_is_left_out(lake: Path, content: bytes) -> None:
    assert leave(str(lake), GOOD) is None
    (lake / FOLDER / "20991126T120000000000Z-00000000.json").write_bytes(content)
    (lake / FOLDER / "notes.txt").write_text("of somebody")
    assert read_runs(str(lake)) == [GOOD]
