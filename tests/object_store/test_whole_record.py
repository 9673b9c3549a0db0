"""All that an operator does with a lake works with one in an object store: decide, verify, ask, keep, take along."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.lake.record import read_attempts
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import delta_table
from evenkeel.object_store import hand_over
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine
from tests.object_store.stores import Store
from tests.written_rows import rows_digest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold"
Run = Callable[..., str]


@pytest.fixture
def run(engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command that has to succeed, and gives what it printed."""
    for name, value in store.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    hand_over(Home.of(engine.home).folder, store.lake("any"))

    def one(*words: str) -> str:
        capsys.readouterr()
        code = main(words)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return one


def rows(lake: str, table: str) -> list[dict[str, Any]]:
    return delta_table(Lake(lake).path(table)).to_pyarrow_table().to_pylist()


def test_a_cycle_is_decided_and_its_files_prove_it(run: Run, store: Store) -> None:
    lake = store.lake("cycle")
    assert "closed" in run("rebalance", "--recording", str(RECORDING), "--lake", lake)
    assert "0 looked at by row" in run("verify", "--lake", lake)


@pytest.mark.exhaustive
def test_a_day_is_decided_proved_and_taken_along_as_in_a_folder(run: Run, store: Store, tmp_path: Path) -> None:
    lake, folder = store.lake("day"), str(tmp_path / "folder")
    for place in (lake.replace("s3a://", "s3://"), folder):
        run("rebalance", "--recording", str(RECORDING), "--lake", place, "--all")
    ours, theirs = (read_attempts(place) for place in (lake, folder))
    assert [one.plan_id for one in ours] == [one.plan_id for one in theirs]
    digests = [
        [sorted((w.table, w.rows, rows_digest(place, w)) for w in one.writes) for one in found]
        for place, found in ((lake, ours), (folder, theirs))
    ]
    assert digests[0] == digests[1]

    proved = run("verify", "--lake", lake)
    assert "0 looked at by row" in proved, "files prove themselves in a store, too"
    assert "all is as it was written" in proved
    decisions = rows(lake, "unload_decisions")
    subject = next(row["subject"] for row in decisions if row["subject_kind"] == "bundle")
    assert subject in run("explain", subject, "--lake", lake)
    assert run("trace", subject, "--lake", lake)
    assert run("report", "--lake", lake, "--out", str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert json.loads(run("storage", "--lake", lake, "--json").splitlines()[0])

    run("pause", "lab", "--lake", lake, "--reason", "a test", "--by", "tester")
    run("resume", "lab", "--lake", lake, "--by", "tester")
    assert sorted(row["kind"] for row in rows(lake, "controls")) == ["pause", "resume"]
    run("wish", "drain", "127.0.0.1:19080", "--lake", lake, "--cluster", "lab", "--by", "tester")
    assert [row["kind"] for row in rows(lake, "wishes")] == ["drain"]

    run("export", "--lake", lake, "--out", str(tmp_path / "taken"), "--from", "2026-11-01", "--to", "2026-12-01")
    assert "all is as it was written" in run("verify", "--lake", str(tmp_path / "taken"))
    assert run("upkeep", "--lake", lake)
    assert "all is as it was written" in run("verify", "--lake", lake)
