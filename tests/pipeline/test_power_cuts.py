"""A power cut on a disk that kept less than it had said: each command names the file, and the advice mends the lake."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.lake.record import read_attempts
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.pipeline import run_cycle
from evenkeel.spark.server import Engine
from tests.planned import FITTED, RECORDING, SNAPSHOTS, request
from tests.shared import made_once

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CHECKPOINT = "checkpoint"
QUICK = (("cycles", -1, "nothing"),)
SHARES = ("nothing", "half", "all but one")
TABLES = ("cycles", "bundle_load", "settings")
SETTINGS = {**FITTED, "evenkeelPlanner": "shadow"}
"""By these a cycle writes the planner's tables, too."""
HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "keeping.md"
_STACK = re.compile(r"Traceback|^\s+at [\w.$]+\(|JVM stacktrace|<unknown>", re.MULTILINE)


@pytest.fixture(scope="module")
def recorded(spark: Any, empty_lake: Callable[[Path], Path]) -> Path:
    """A lake of two cycles; no test writes to it."""

    def make(folder: Path) -> None:
        lake = empty_lake(folder / "lake")
        for number in (0, 1):
            run_cycle(spark, request(lake, number, overrides=SETTINGS), lambda *_: None)

    return made_once("power-cuts", make) / "lake"


def rows_of(table: Path) -> Counter[str]:
    """Write id -> rows; those of a table without write ids are under `None`, and a table that is gone has none."""
    if not table.exists():
        return Counter()
    rows = DeltaTable(str(table)).to_pyarrow_table()
    ids = rows["write_id"].to_pylist() if "write_id" in rows.column_names else [None] * rows.num_rows
    return Counter(map(str, ids))


def rows_in(commit: Path) -> int:
    adds = [action["add"] for line in commit.read_text().splitlines() if "add" in (action := json.loads(line))]
    return sum(json.loads(add["stats"])["numRecords"] for add in adds)


def cut(file: Path, share: str) -> None:
    data = file.read_bytes()
    file.write_bytes({"nothing": b"", "half": data[: len(data) // 2], "all but one": data[:-1]}[share])


def mend_newest(file: Path) -> None:
    if int(file.stem) == 0:
        shutil.rmtree(file.parent.parent)
        return
    file.unlink()
    file.with_suffix(".crc").unlink(missing_ok=True)


def mend_older(file: Path) -> None:
    file.write_text('{"commitInfo": {}}')
    file.with_suffix(".crc").unlink(missing_ok=True)


def mend_first(file: Path) -> None:
    """As the page says it, by the command that it has."""
    (command,) = (line.strip() for line in HOW_TO.read_text("utf-8").splitlines() if line.strip().startswith("python3"))
    oldest = min(file.parent.glob("*.crc"))
    subprocess.run(command.replace("N.crc", oldest.name), shell=True, check=True, cwd=file.parent)


def mend_checkpoint(file: Path) -> None:
    file.unlink()
    file.with_name("_last_checkpoint").unlink()


def every_cut() -> list[Any]:
    whole = [
        *((table, place, share) for table in TABLES for place in (-2, -1) for share in SHARES),
        *(("cycles", CHECKPOINT, share) for share in SHARES),
    ]
    others = [case for case in whole if case not in QUICK]
    return [*QUICK, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in others)]


Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command; gives its exit code and what it printed, in which no library's stack may be."""
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)

    def run(*words: str) -> tuple[int, str]:
        code = main([*words])
        shown = "".join(capsys.readouterr())
        assert not _STACK.search(shown), shown
        return code, shown

    return run


@pytest.mark.parametrize(("table", "place", "share"), every_cut())
def test_each_command_names_the_file_that_is_cut_and_the_advice_loses_nothing_else(
    table: str, place: Any, share: str, recorded: Path, tmp_path: Path, said: Said
) -> None:
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
    else:
        {CHECKPOINT: mend_checkpoint, -1: mend_newest, -2: mend_older}[place](file)
    code, shown = said(*next_cycle)
    assert code == 0, shown
    after = rows_of(lake / table)
    kept = {write_id: rows for write_id, rows in after.items() if write_id in before}
    assert sum(before.values()) - sum(kept.values()) == lost
    assert after.keys() - before.keys(), "the next cycle wrote rows"
    assert said("status", "--lake", str(lake))[0] in (0, 1)


# Every commit of every table: those of a cycle, and the one that made the table.


@pytest.mark.exhaustive
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("table", OF_RECORD)
def test_each_commit_of_each_table_that_is_cut_is_named(
    table: str, share: str, recorded: Path, tmp_path: Path, said: Said
) -> None:
    writes = [write for attempt in read_attempts(recorded) for write in (*attempt.writes, *attempt.reads)]
    on_record = {write.version for write in writes if write.table == table}
    versions = [int(file.stem) for file in sorted((recorded / table / "_delta_log").glob("*.json"))]
    assert versions[0] == 0
    assert on_record <= {*versions}
    for version in versions:
        lake = Path(shutil.copytree(recorded, tmp_path / str(version)))
        cut(lake / table / "_delta_log" / f"{version:020}.json", share)
        code, shown = said("verify", "--lake", str(lake), "--depth", "chain", "--unrecorded")
        if share != "all but one" or version in on_record:  # else nothing is lost, and no digest is on record
            assert code != 0
            assert re.search(rf"commit {version}\b", shown), shown
            assert "docs/how-to/keeping.md" in shown or "echo >>" in shown
        else:
            assert code == 0, shown
        said("status", "--lake", str(lake))
        said("doctor", "--lake", str(lake), "--only", "lake")
        shutil.rmtree(lake)


def newest(log: Path) -> Path | None:
    return max(log.glob("*.json"))


def older(log: Path) -> Path | None:
    commits = sorted(log.glob("*.json"))
    return commits[-2] if len(commits) > 2 else None


def first(log: Path) -> Path | None:
    commits = sorted(log.glob("*.json"))
    return commits[0] if len(commits) > 1 else None


def checkpoint(log: Path) -> Path | None:
    DeltaTable(str(log.parent)).create_checkpoint()
    return next(log.glob("*.checkpoint.parquet"))


def hint(log: Path) -> Path | None:
    DeltaTable(str(log.parent)).create_checkpoint()
    return log / "_last_checkpoint"


def checksum(log: Path) -> Path | None:
    return max(log.glob("*.crc"))


PLACES: Mapping[str, tuple[Callable[[Path], Path | None], Callable[[Path], None]]] = {
    "newest": (newest, mend_newest),
    "older": (older, mend_older),
    "first": (first, mend_first),
    "checkpoint": (checkpoint, mend_checkpoint),
    "_last_checkpoint": (hint, Path.unlink),
    "checksum": (checksum, Path.unlink),
}


def is_named(file: Path, shown: str) -> bool:
    kind = {".json": "commit", ".crc": "checksum", ".parquet": "checkpoint"}.get(file.suffix)
    place = file.name if kind is None else f"{kind} {int(file.name[:20])}"
    return str(file) in shown or f"{file.parent.parent.name} ({place})" in shown


def lost_rows(place: str, files: list[Path]) -> int:
    return sum(map(rows_in, files)) if place in ("newest", "older") else 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("share", ["nothing", "half"])
@pytest.mark.parametrize("place", PLACES)
def test_the_advice_mends_a_lake_of_which_a_file_of_every_table_is_cut(
    place: str, share: str, recorded: Path, tmp_path: Path, said: Said
) -> None:
    lake, (choose, mend) = Path(shutil.copytree(recorded, tmp_path / "lake")), PLACES[place]
    files = [file for name in OF_RECORD if (file := choose(lake / name / "_delta_log")) is not None]
    assert len(files) >= 12, "every table that a cycle writes has such a file"
    before, lost = {name: rows_of(lake / name) for name in OF_RECORD}, lost_rows(place, files)
    for file in files:
        cut(file, share)
    left = {*files}
    while left:
        code, shown = said("verify", "--lake", str(lake), "--depth", "chain", "--unrecorded")
        assert code != 0
        named = [file for file in left if is_named(file, shown)]
        assert named, shown
        for file in named:
            mend(file)
        left -= {*named}
    said("verify", "--lake", str(lake), "--depth", "chain", "--unrecorded")
    code, shown = said("rebalance", "--recording", str(RECORDING), "--lake", str(lake), "--at", SNAPSHOTS[2].cycle_at)
    assert code == 0, shown
    after = {name: rows_of(lake / name) for name in OF_RECORD}
    kept = sum(after[name][write_id] for name in OF_RECORD for write_id in before[name])
    assert sum(sum(rows.values()) for rows in before.values()) - kept == lost
    assert after["cycles"].keys() - before["cycles"].keys(), "the next cycle wrote rows"


@pytest.mark.exhaustive
@pytest.mark.parametrize("table", ["unload_decisions", "bundle_load", "settings"])
def test_a_cycle_that_lost_rows_has_them_again_once_it_is_decided_as_the_page_says(
    table: str, recorded: Path, tmp_path: Path, said: Said
) -> None:
    lake = Path(shutil.copytree(recorded, tmp_path / "lake"))
    mend_newest(max((lake / table / "_delta_log").glob("*.json")))
    at = SNAPSHOTS[1].cycle_at
    settings = [word for pair in SETTINGS.items() for word in ("--set", "{}={}".format(*pair))]
    code, shown = said("rebalance", "--recording", str(RECORDING), "--lake", str(lake), *settings,
                       "--from", at, "--to", at, "--anew")  # fmt: skip
    assert code == 0, shown
    attempt = read_attempts(lake)[-1]
    assert table in {write.table for write in attempt.writes}
    assert [write for write in attempt.writes if rows_of(lake / write.table)[write.write_id] != write.rows] == []
