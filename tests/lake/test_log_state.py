"""A table whose log is not whole is refused with what is missing, what still is there, and what to do."""

import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.errors import LakeError
from evenkeel.lake.delta_log import is_as_made
from evenkeel.lake.record import read_attempts
from tests.lakes.small_lake import SmallLake, moment

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


def test_a_table_is_as_it_was_made_until_it_has_rows(tmp_path: Path) -> None:
    rows = pa.table({"cluster": ["lab"]})
    made, filled = str(tmp_path / "made"), str(tmp_path / "filled")
    DeltaTable.create(made, rows.schema)
    assert is_as_made(made)
    write_deltalake(made, rows, mode="append")
    assert not is_as_made(made)
    write_deltalake(filled, rows)
    assert not is_as_made(filled), "its first commit brought rows"
