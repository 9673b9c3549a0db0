"""The log of a lake: begun over what lies there, grown by what is handed on, killed anywhere, by two at once."""

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel.errors import DamagedLog, LogError
from evenkeel.handover import Commit
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.lake_log import (
    STATE,
    LogState,
    Numbers,
    append_commits,
    begin,
    keys_beside,
    open_log,
    read_state,
    storage_of,
)
from evenkeel.transparency.leaves import BEFORE_THE_LOG, BegunLeaf, parse_leaf
from evenkeel.transparency.overview import read_overview
from evenkeel.transparency.storage import FolderStorage
from tests.transparency.killing import killed_at
from tests.transparency.lakes import (
    NOON,
    approve,
    commit_file,
    copied,
    forge_approval,
    forge_outcome,
    grow,
    leaves,
    newest_commits,
    publish_more,
    published,
    rewrite,
    set_back,
    size_of,
)
from tests.transparency.logs import LOG_KEY, OTHER_KEY

pytestmark = pytest.mark.slow

Names = list[tuple[str, int]]


@pytest.fixture
def lake(begun: Path, tmp_path: Path) -> Path:
    """A lake with a log of 12 leaves."""
    return copied(begun, tmp_path / "lake")


def logged(lake: Path) -> Names:
    """Table and number of the commits that have leaves, in their order."""
    return [(leaf.table, leaf.commit) for leaf in leaves(lake)]


def there(lake: Path) -> Names:
    """Table and number of all commits of a lake, in order."""
    files = lake.glob("[a-z]*/_delta_log/*.json")
    return sorted((file.parents[1].name, int(file.stem)) for file in files)


def test_a_log_begins_with_all_commits_that_are_there(unlogged: Path, tmp_path: Path) -> None:
    lake = copied(unlogged, tmp_path / "lake")
    found = begin(str(lake), [LOG_KEY], clock=NOON.timestamp)
    assert (found.leaves, found.commits, found.problems) == (12, 11, ())
    tree = open_log(storage_of(str(lake))).tree()
    tables = {"unload_decisions": 5, "cycles": 5, "approvals": 1}
    assert parse_leaf(tree.entry(0)) == BegunLeaf(tables, "2026-11-26T12:00:00.000Z")
    assert sorted(logged(lake)) == there(lake)
    assert {leaf.by for leaf in leaves(lake)} == {BEFORE_THE_LOG}
    (newest,) = newest_commits(lake, "cycles")
    (leaf,) = [leaf for leaf in leaves(lake) if (leaf.table, leaf.commit) == ("cycles", 4)]
    assert (leaf.digest, leaf.files) == (newest.digest, len(newest.files) == 1)


def test_commits_that_are_handed_on_are_appended_by_table_and_number(lake: Path) -> None:
    before = logged(lake)
    commits = [*publish_more(lake, "lab"), *publish_more(lake, "modular")]
    assert grow(lake, commits[::-1]).leaves == 4
    assert logged(lake) == [*before, ("cycles", 5), ("cycles", 6), ("unload_decisions", 5), ("unload_decisions", 6)]
    assert {leaf.by for leaf in leaves(lake)[len(before) :]} == {""}
    again = grow(lake, commits)
    assert (again.leaves, again.commits, again.problems, size_of(lake)) == (0, 0, (), 16)


@pytest.mark.parametrize("forge", [forge_approval, forge_outcome])
def test_nothing_is_logged_because_it_merely_lies_there(lake: Path, forge: Callable[[Path], list[Commit]]) -> None:
    (forged,) = forge(lake)
    published(lake)
    assert (forged.table, forged.version) not in logged(lake)
    assert read_overview(str(lake)).unlogged == {forged.table: 1}
    found = append_commits(str(lake), [LOG_KEY], adopt_by="alice")
    assert found.commits == 1
    assert [(leaf.table, leaf.by) for leaf in leaves(lake) if leaf.by == "alice"] == [(forged.table, "alice")]
    assert sorted(logged(lake)) == there(lake)
    assert append_commits(str(lake), [LOG_KEY], adopt_by="alice").leaves == 0


def test_a_log_is_begun_once_and_never_by_itself(lake: Path) -> None:
    with pytest.raises(LogError, match="was begun before"):
        begin(str(lake), [LOG_KEY])
    (lake / "_log" / "checkpoint").unlink()
    with pytest.raises(LogError, match="restore the folder _log from a copy"):
        grow(lake, [])
    with pytest.raises(LogError, match="cannot begin in this place"):
        begin(str(lake), [LOG_KEY])
    shutil.rmtree(lake / "_log")
    with pytest.raises(LogError, match="evenkeel log begin"):
        grow(lake, [])


def test_a_lake_without_tables_has_a_log_too(tmp_path: Path) -> None:
    assert begin(str(tmp_path / "new"), [LOG_KEY]).leaves == 1
    assert published(tmp_path / "new").leaves == 2


def test_files_that_are_gone_when_a_log_begins_are_left_out(unlogged: Path, tmp_path: Path) -> None:
    lake = copied(unlogged, tmp_path / "lake")
    (commit,) = newest_commits(lake, "approvals")
    (lake / "approvals" / commit.files[0].path).unlink()
    begin(str(lake), [LOG_KEY])
    assert [leaf.files for leaf in leaves(lake) if leaf.table == "approvals"] == [0]


@pytest.mark.parametrize(
    "change", [n if n in (0, 4, 9) else pytest.param(n, marks=pytest.mark.exhaustive) for n in range(10)]
)
def test_killed_at_any_write_the_next_try_of_the_task_mends_it(lake: Path, change: int) -> None:
    commits = publish_more(lake, "modular", 2)
    with killed_at(change):
        grow(lake, commits)
    published(lake, "silent")
    assert grow(lake, commits).problems == ()
    assert sorted(logged(lake)) == there(lake)


def test_a_beginning_that_was_killed_is_begun_again(unlogged: Path, tmp_path: Path) -> None:
    lake = copied(unlogged, tmp_path / "lake")
    with killed_at(3):
        begin(str(lake), [LOG_KEY])
    assert size_of(lake) == 0
    published(lake)  # a publish does as well
    assert (size_of(lake), sorted(logged(lake))) == (14, there(lake))


TEN_TIMES = """
import pickle, sys
from evenkeel.transparency.lake_log import append_commits
from tests.transparency.logs import LOG_KEY
for _ in range(10):
    append_commits(sys.argv[1], [LOG_KEY], pickle.load(open(sys.argv[2], "rb")))
"""


def test_two_processes_at_once_log_each_commit_once(lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "commits"
    file.write_bytes(pickle.dumps(publish_more(lake, "lab", 5)))
    others = [subprocess.Popen([sys.executable, "-c", TEN_TIMES, str(lake), str(file)]) for _ in range(2)]
    for number in range(6):
        published(lake, ("modular", "extensible")[number % 2])
    assert [one.wait() for one in others] == [0, 0]
    assert sorted(logged(lake)) == there(lake)


def test_the_state_file_is_believed_only_as_far_as_the_tree_bears_it_out(lake: Path) -> None:
    kept = json.loads((lake / "_log" / STATE).read_text())
    wrong = [
        None,
        b"",
        b"[]",
        b"\xff",
        json.dumps({**kept, "root": "A" * 43 + "="}).encode(),
        json.dumps({**kept, "size": 10**6}).encode(),
        json.dumps({**kept, "size": -1}).encode(),
        json.dumps({**kept, "tables": {"cycles": [[0, 10**6]], "unload_decisions": [[0, 10**6]]}}).encode(),
        json.dumps({**kept, "tables": 7}).encode(),
        json.dumps({**kept, "tables": {"cycles": [2]}}).encode(),
        json.dumps({**kept, "keys": 3}).encode(),
    ]
    for data in wrong:
        (lake / "_log" / STATE).unlink() if data is None else (lake / "_log" / STATE).write_bytes(data)
        assert published(lake, "silent").problems == ()
        assert sorted(logged(lake)) == there(lake)


def test_few_files_are_read_with_many_leaves_behind(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(lake, [Commit("settings", number, "ab" * 32) for number in range(2_000)])
    commits = publish_more(lake, "lab")
    reads = []
    get = FolderStorage.get

    def counted(self: FolderStorage, name: str) -> bytes | None:
        reads.append(name)
        return get(self, name)

    monkeypatch.setattr(FolderStorage, "get", counted)
    assert grow(lake, commits).leaves == 2
    assert len([name for name in reads if name.startswith("tile/entries")]) <= 4
    assert len(reads) < 40


def test_a_number_that_is_logged_with_another_digest_is_told_and_the_others_go_on(lake: Path) -> None:
    published(lake)
    set_back(lake)
    set_back(lake, "unload_decisions")
    found = grow(lake, [*publish_more(lake, "lab", reason="another past"), *approve(lake)])
    assert (found.leaves, len(found.problems)) == (1, 2)
    assert found.problems[0].startswith("cycles: version 5 is in the log with the digest ")
    assert "the table was set back or replaced" in found.problems[0]
    assert found.problems[1].startswith("unload_decisions: version 5 ")
    assert logged(lake)[-1] == ("approvals", 1)


def test_a_table_that_was_set_back_is_lost(lake: Path) -> None:
    published(lake)
    set_back(lake, versions=2)
    found = read_overview(str(lake))
    assert (found.lost, found.is_wrong) == ({"cycles": 2}, True)
    assert "cycles: 2 commits lost: `evenkeel verify`" in found.table_words()


def test_a_log_whose_files_do_not_hold_takes_nothing_more(lake: Path) -> None:
    commits = publish_more(lake, "lab")
    (tile,) = (lake / "_log" / "tile" / "0" / "000.p").iterdir()
    tile.write_bytes(bytes(32) + tile.read_bytes()[32:])
    with pytest.raises(DamagedLog, match="restore it from a copy"):
        grow(lake, commits)


def test_two_keys_sign_and_both_are_named_beside_the_log(lake: Path) -> None:
    grow(lake, [], OTHER_KEY, LOG_KEY)
    newest = grow(lake, publish_more(lake, "lab"), OTHER_KEY, LOG_KEY).checkpoint
    assert [one.key_id for one in newest.note.signatures] == [OTHER_KEY.verifier.key_id, LOG_KEY.verifier.key_id]
    assert keys_beside(storage_of(str(lake))) == (LOG_KEY.verifier, OTHER_KEY.verifier)
    grow(lake, publish_more(lake, "lab"), OTHER_KEY)
    assert open_log(storage_of(str(lake)), log_keys=[OTHER_KEY.verifier]).checkpoint().checkpoint.size == 18
    with pytest.raises(DamagedLog, match="and not of"):
        grow(lake, [], SignerKey.make("example.com/stranger"))


def test_a_rewritten_table_is_logged_like_any_other_commit(lake: Path) -> None:
    rewrite(lake, "approvals", lambda rows: rows)
    assert grow(lake, newest_commits(lake, "approvals")).leaves == 1
    assert commit_file(lake, "approvals", 1).is_file()


def test_numbers_are_a_set() -> None:
    numbers, known = Numbers([(3, 5), (9, 9)]), {3, 4, 5, 9}
    for one in (4, 0, 8, 7, 2, 6, 12, 1):
        numbers.add(one)
        known.add(one)
        assert [n for n in range(20) if n in numbers] == sorted(known)
    assert (numbers.ranges, numbers.last, Numbers().last) == ([(0, 9), (12, 12)], 12, -1)


def test_what_is_logged_is_the_same_by_the_file_and_by_the_leaves(lake: Path) -> None:
    published(lake)
    storage = storage_of(str(lake))
    tree = open_log(storage).tree()
    by_file, by_leaves = (read_state(storage, tree, from_leaves=one) for one in (False, True))
    assert (by_file.is_read, by_leaves.is_read) == (False, True)

    def ranges(state: LogState) -> dict[str, list[tuple[int, int]]]:
        return {table: numbers.ranges for table, numbers in state.commits.items()}

    assert ranges(by_file) == ranges(by_leaves)
    assert ranges(by_file)["cycles"] == [(0, 5)]
