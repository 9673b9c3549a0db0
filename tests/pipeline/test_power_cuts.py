"""A power cut on a disk that kept less than it had said: each command names the file, and the advice mends the lake."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.pipeline import run_cycle
from evenkeel.spark.server import Engine
from tests.planned import RECORDING, SNAPSHOTS, request

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CHECKPOINT = "checkpoint"
QUICK = (("cycles", -1, "nothing"), ("bundle_load", -1, "half"), ("cycles", CHECKPOINT, "half"))
SHARES = ("nothing", "half", "all but one")
TABLES = ("cycles", "bundle_load", "broker_load", "settings", "unload_decisions", "strategy_state")
_STACK = re.compile(r"Traceback|^\s+at [\w.$]+\(|JVM stacktrace|<unknown>", re.MULTILINE)


@pytest.fixture(scope="module")
def recorded(spark: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two cycles; nobody writes to it."""
    lake = empty_lake(tmp_path_factory.mktemp("recorded") / "lake")
    for number in (0, 1):
        run_cycle(spark, request(lake, number), lambda *_: None)
    return lake


def rows_of(table: Path) -> Counter[str]:
    """Write id -> rows."""
    ids = DeltaTable(str(table)).to_pyarrow_table(columns=["write_id"]).column(0).to_pylist()
    return Counter(map(str, ids))


def rows_in(commit: Path) -> int:
    adds = [action["add"] for line in commit.read_text().splitlines() if "add" in (action := json.loads(line))]
    return sum(json.loads(add["stats"])["numRecords"] for add in adds)


def cut(file: Path, share: str) -> None:
    data = file.read_bytes()
    file.write_bytes({"nothing": b"", "half": data[: len(data) // 2], "all but one": data[:-1]}[share])


def every_cut() -> list[Any]:
    whole = [
        *((table, place, share) for table in TABLES for place in (-2, -1) for share in SHARES),
        *(("cycles", CHECKPOINT, share) for share in SHARES),
    ]
    others = [case for case in whole if case not in QUICK]
    return [*QUICK, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in others)]


@pytest.mark.parametrize(("table", "place", "share"), every_cut())
def test_each_command_names_the_file_that_is_cut_and_the_advice_loses_nothing_else(
    table: str, place: Any, share: str, recorded: Path, engine: Engine, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    lake = Path(shutil.copytree(recorded, tmp_path / "lake"))
    log = lake / table / "_delta_log"
    commits = sorted(log.glob("*.json"))
    before = rows_of(lake / table)
    if place == CHECKPOINT:
        DeltaTable(str(lake / table)).create_checkpoint()
        (file,), lost = log.glob("*.checkpoint.parquet"), 0
    else:
        file, lost = commits[place], rows_in(commits[place])
    cut(file, share)
    is_read = share == "all but one" and place != CHECKPOINT  # Spark ends a commit with a line feed

    def said(*words: str) -> tuple[int, str]:
        code = main([*words])
        shown = "".join(capsys.readouterr())
        assert not _STACK.search(shown), shown
        return code, shown

    next_cycle = ("rebalance", "--recording", str(RECORDING), "--lake", str(lake), "--at", SNAPSHOTS[2].cycle_at)
    code, shown = said("verify", "--lake", str(lake), "--depth", "chain", "--unrecorded")
    assert code != 0 or (is_read and table == "cycles"), "no manifest lists the commits of cycles"
    assert code == 0 or re.search(
        rf"commit {int(file.name[:20])}\b|checkpoint {int(file.name[:20])}\b|{file.name}", shown
    ), shown
    said("status", "--lake", str(lake))
    said("doctor", "--lake", str(lake), "--only", "lake")
    if not is_read:
        code, shown = said(*next_cycle)
        assert code != 0 or place == -2, "Spark appends to a table without reading its older commits"
        assert code == 0 or re.search(rf"{file}\S* is (empty|cut short)", shown), shown
    if is_read:
        assert code == 0 or f"Put it back: echo >> {file}" in shown
        file.write_bytes(file.read_bytes() + b"\n")
        lost = 0
    elif place == CHECKPOINT:
        file.unlink()
        (log / "_last_checkpoint").unlink()
    elif place == -1:
        file.unlink()
        file.with_suffix(".crc").unlink(missing_ok=True)
    else:
        file.write_text('{"commitInfo": {}}')
        file.with_suffix(".crc").unlink(missing_ok=True)
    code, shown = said(*next_cycle)
    assert code == 0, shown
    after = rows_of(lake / table)
    kept = {write_id: rows for write_id, rows in after.items() if write_id in before}
    assert sum(before.values()) - sum(kept.values()) == lost
    assert after.keys() - before.keys(), "the next cycle wrote rows"
    assert said("status", "--lake", str(lake))[0] in (0, 1)
