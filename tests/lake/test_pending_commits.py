"""Commits that wait for their leaf: handed on by files, only where there is a log, and by nothing else."""

from pathlib import Path

import pytest

from evenkeel.handover import Commit, DataFile
from evenkeel.lake.controls import control_row
from evenkeel.lake.pending_commits import FOLDER, hand_on, pending, take_away
from evenkeel.lake.store import Lake, append_row
from evenkeel.lake.table_files import FolderFiles
from tests.lakes.small_lake import SmallLake

ONE = Commit("approvals", 3, "ab" * 32, (DataFile("cluster=a/part.parquet", 7, "cd" * 32),))
OTHER = Commit("controls", 3, "ef" * 32)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "_log").mkdir()
    (tmp_path / "_log" / "checkpoint").touch()
    return tmp_path


def test_a_commit_waits_with_the_name_of_who_made_it_until_it_is_taken_away(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "jo")
    for commit in (ONE, OTHER, ONE):
        hand_on(str(lake), commit)
    assert pending(str(lake)) == [(ONE, "jo"), (OTHER, "jo")]
    take_away(str(lake), [ONE, Commit("controls", 3, "another")])
    assert pending(str(lake)) == [(OTHER, "jo")]


def test_a_row_that_an_operator_writes_is_handed_on(lake: Path) -> None:
    SmallLake(lake).append("controls", [])
    append_row(Lake(str(lake)), "controls", control_row("lab", "pause", "ann", None))
    ((commit, _),) = pending(str(lake))
    assert (commit.table, commit.version, len(commit.files)) == ("controls", 1, 1)


def test_without_a_log_nothing_is_left(tmp_path: Path) -> None:
    hand_on(str(tmp_path), ONE)
    assert [*tmp_path.iterdir()] == []
    assert pending(str(tmp_path)) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"table": "approvals"}', '{"table": "no_table", "version": 1}', "[" * 5_000]
)
def test_a_file_that_is_none_of_these_is_left_out(lake: Path, text: str) -> None:
    hand_on(str(lake), ONE)
    (lake / FOLDER / "approvals-9.json").write_text(text)
    assert [commit for commit, _ in pending(str(lake))] == [ONE]


def test_a_file_that_is_taken_away_while_they_are_read_is_left_out(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for commit in (ONE, OTHER):
        hand_on(str(lake), commit)
    names = FolderFiles.names

    def then_taken_away(self: FolderFiles, below: str) -> list[str]:
        found = names(self, below)
        monkeypatch.undo()
        take_away(str(lake), [ONE])
        return found

    monkeypatch.setattr(FolderFiles, "names", then_taken_away)
    assert [commit for commit, _ in pending(str(lake))] == [OTHER]
