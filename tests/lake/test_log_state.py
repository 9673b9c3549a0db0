"""A table whose log is not whole is refused with what is missing, what still is there, and what to do."""

import hashlib
import os
import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.errors import LakeError
from evenkeel.lake.controls import control_row
from evenkeel.lake.delta_log import is_as_made, read_commit
from evenkeel.lake.record import read_attempts, read_table
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, append_row
from evenkeel.lake.table_log import damage_behind, is_committed
from evenkeel.lake.table_metadata import demand_as_declared
from evenkeel.verify.table_logs import replay
from tests.lakes.small_lake import SmallLake, moment
from tests.system_calls import are_in_order, needs_strace, system_calls

AT = moment("2026-11-21T08:00:00")
CYCLES = 4
"""Two commits each; the checkpoint is that of the last one, number 7."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lake = SmallLake(tmp_path / "lake")
    for number in range(CYCLES):
        lake.add("lab", AT + timedelta(minutes=number), {})
    DeltaTable(str(tmp_path / "lake" / "cycles")).create_checkpoint()
    return tmp_path / "lake" / "cycles" / "_delta_log"


def refusal(log: Path) -> str:
    with pytest.raises(LakeError) as refused:
        read_attempts(log.parent.parent)
    return str(refused.value)


def remove(log: Path, *versions: int, checkpoint: bool = False) -> None:
    for version in versions:
        (log / f"{version:020}.json").unlink()
    if checkpoint:
        (log / f"{7:020}.checkpoint.parquet").unlink()


def test_a_checkpoint_that_is_not_needed_is_mended_as_the_message_says(log: Path) -> None:
    remove(log, checkpoint=True)
    named = re.search(r"The checkpoint 7 is missing, though (\S+) names it\..* remove that one file", refusal(log))
    assert named is not None
    Path(named[1]).unlink()
    assert len(read_attempts(log.parent.parent)) == CYCLES


def test_a_checkpoint_without_the_commits_before_it_is_named_as_lost(log: Path) -> None:
    remove(log, 0, 1, checkpoint=True)
    told = refusal(log)
    assert "commits 2 to 7, and neither what came before 2 nor a checkpoint since: no version can be read" in told
    assert told.endswith("Restore the folder `_delta_log` from a copy.")


def test_a_gap_names_the_newest_version_that_can_be_read(log: Path) -> None:
    remove(log, 3, checkpoint=True)
    (log / "_last_checkpoint").unlink()
    assert "the newest version that still can be read is 2." in refusal(log)
    assert DeltaTable(str(log.parent), version=2).version() == 2


def test_a_log_without_commits_says_so(log: Path) -> None:
    remove(log, *range(8), checkpoint=True)
    assert "no commit any more" in refusal(log)


def test_commits_before_a_checkpoint_may_go(log: Path) -> None:
    remove(log, 0, 1)
    assert len(read_attempts(log.parent.parent)) == CYCLES


# What a power cut leaves of files that no disk had: cut at every length that readers take differently.

SHARES = ("nothing", "half", "all but one", "zeros")


def cut(file: Path, share: str) -> None:
    """Leaves nothing of a file, half of it, all but its last byte, or as many bytes with zeros from the middle on."""
    data = file.read_bytes()
    half = data[: len(data) // 2]
    left = {"nothing": b"", "half": half, "all but one": data[:-1], "zeros": half.ljust(len(data), b"\0")}
    file.write_bytes(left[share])


@pytest.mark.parametrize("share", SHARES)
def test_a_checkpoint_that_is_cut_is_taken_away_as_the_message_says(log: Path, share: str) -> None:
    cut(log / f"{7:020}.checkpoint.parquet", share)
    told = refusal(log)
    named = re.search(r"The checkpoint (\S+) is empty, .* remove that file and (\S+), and the table can be read", told)
    assert named is not None, told
    assert str(named[1]).endswith(f"{7:020}.checkpoint.parquet")
    assert "\n" not in told
    with pytest.raises(LakeError, match=r"table cycles of .* is not read: The checkpoint \S+ is empty"):
        demand_as_declared(TABLES["cycles"], str(log.parent))
    for file in named.groups():
        Path(file).unlink()
    assert len(read_attempts(log.parent.parent)) == CYCLES
    demand_as_declared(TABLES["cycles"], str(log.parent))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("version", [8, 9])
def test_a_commit_that_is_cut_is_mended_as_the_message_says_and_loses_no_other(
    log: Path, version: int, share: str
) -> None:
    lake = log.parent.parent
    SmallLake(lake).add("lab", AT + timedelta(minutes=CYCLES), {})
    cut(log / f"{version:020}.json", share)
    if version == 9 or share != "nothing":  # readers take an empty commit for one without rows; verify names it
        told = refusal(log)
        assert re.search(rf"commit {version} \(\S+\) is (empty|cut short)", told), told
        assert "\n" not in told
    (fault,) = (one for one in replay(str(lake), "cycles", {}).faults if one.place == f"commit {version}")
    assert 'remove it if it is the newest commit, else write `{"commitInfo": {}}` into it' in fault.words
    if version == 9:
        (log / f"{9:020}.json").unlink()
    else:
        (log / f"{version:020}.json").write_text('{"commitInfo": {}}')
    assert len(read_table(lake, "cycles")) == 2 * CYCLES + 1
    assert replay(str(lake), "cycles", {}).faults == []


@pytest.mark.parametrize("share", SHARES)
def test_the_first_commit_is_not_replaced_by_one_without_a_schema(log: Path, share: str) -> None:
    for name in (f"{7:020}.checkpoint.parquet", "_last_checkpoint"):
        (log / name).unlink()
    first = log / f"{0:020}.json"
    whole = first.read_bytes()
    cut(first, share)
    told = refusal(log)
    assert re.search(r"commit 0 \(\S+\) is (empty|cut short)", told), told
    (fault,) = (one for one in replay(str(log.parent.parent), "cycles", {}).faults if one.place == "commit 0")
    for words in (told, fault.words):
        assert "Restore that file from a copy: it holds the table's schema" in words
        assert "commitInfo" not in words
    first.write_bytes(whole)
    assert len(read_attempts(log.parent.parent)) == CYCLES


def test_a_commit_is_there_until_the_log_ends_before_it_or_has_another_one(log: Path) -> None:
    digests = [hashlib.sha256((log / f"{version:020}.json").read_bytes()).hexdigest() for version in range(8)]

    def lost() -> list[int]:
        return [version for version in range(8) if not is_committed(str(log.parent), version, digests[version])]

    assert lost() == []
    ended = log / f"{3:020}.json"
    ended.write_bytes(ended.read_bytes().rstrip(b"\n"))
    remove(log, 0, 1)  # as upkeep does
    assert lost() == []
    (log / f"{5:020}.json").write_text('{"commitInfo": {}}')
    assert lost() == [5]
    remove(log, 7, checkpoint=True)
    (log / "_last_checkpoint").unlink()
    assert lost() == [5, 7]


def test_a_commit_that_is_cut_between_two_lines_is_named_by_the_files_that_it_says_to_add(log: Path) -> None:
    newest = log / f"{7:020}.json"
    lines = newest.read_text().splitlines()
    newest.write_text("".join(f"{line}\n" for line in lines if '"add"' not in line))
    (log / f"{7:020}.checkpoint.parquet").unlink()
    (log / "_last_checkpoint").unlink()
    assert "is cut short: it says that it adds 1 files, and names 0." in refusal(log)


def test_a_table_with_a_cut_commit_takes_no_row(log: Path) -> None:
    """deltalake takes an empty commit for one without rows, and would write the next one."""
    lake = log.parent.parent
    for _ in range(2):
        SmallLake(lake).append("controls", [{"cluster": "lab", "kind": "resume", "at": AT, "by": "ann"}])
    cut(lake / "controls" / "_delta_log" / f"{1:020}.json", "nothing")
    with pytest.raises(LakeError, match=r"commit 1 \(\S+\) is empty"):
        append_row(Lake(str(lake)), "controls", control_row("lab", "pause", "ann", None))
    assert not (lake / "controls" / "_delta_log" / f"{2:020}.json").exists()


def test_a_library_that_fails_by_a_cut_file_is_told_by_the_file(log: Path) -> None:
    lake, (data, *_) = str(log.parent.parent), log.parent.rglob("*/part-*.parquet")
    stack = "An error occurred.\n\tat org.apache.spark.sql.delta.DELTA_LOG(DeltaLog.scala:1)"
    assert damage_behind(RuntimeError(f"{stack} {data}"), lake) is None
    cut(data, "half")
    assert f"{data} is empty, cut short" in str(damage_behind(RuntimeError(f"{stack} file:{data}"), lake))
    cut(log / f"{7:020}.checkpoint.parquet", "half")
    assert "table cycles of the lake" in str(damage_behind(RuntimeError(stack), lake))
    assert damage_behind(RuntimeError("another"), lake) is None, "a fault elsewhere is not told by it"


@needs_strace
def test_a_row_that_an_operator_writes_is_on_disk_once_the_command_ends(tmp_path: Path) -> None:
    SmallLake(tmp_path / "lake").append("controls", [{"cluster": "lab", "kind": "resume", "at": AT, "by": "ann"}])
    with system_calls(os.getpid(), tmp_path / "calls") as calls:
        append_row(Lake(str(tmp_path / "lake")), "controls", control_row("lab", "pause", "ann", None))
    table = tmp_path / "lake" / "controls"
    (added,) = (added.file.path for added in read_commit(str(table), "controls", 1)[1])
    files = (table / added, (table / added).parent, table / "_delta_log" / f"{1:020}.json", table / "_delta_log")
    assert are_in_order(calls, [("sync", str(file)) for file in files]), calls


def test_a_table_is_as_it_was_made_until_it_has_rows(tmp_path: Path) -> None:
    rows = pa.table({"cluster": ["lab"]})
    made, filled = str(tmp_path / "made"), str(tmp_path / "filled")
    DeltaTable.create(made, rows.schema)
    assert is_as_made(made)
    write_deltalake(made, rows, mode="append")
    assert not is_as_made(made)
    write_deltalake(filled, rows)
    assert not is_as_made(filled), "its first commit brought rows"
