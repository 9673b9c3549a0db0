"""The log of a lake: begun over what is there, caught up after each publish, killed anywhere, by two at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.errors import DamagedLog, LogError
from evenkeel.lake.store import Lake
from evenkeel.lake_log.catch_up import _Behind, begin, catch_up, keys_beside, open_log, storage_of
from evenkeel.lake_log.chains import Chains
from evenkeel.lake_log.heads import HEADS
from evenkeel.lake_log.leaves import begun_leaf, parse_leaf, parse_manifest_leaf
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.storage import FolderStorage
from tests.lake_log.killing import killed_at
from tests.lake_log.lakes import (
    LOG_KEY,
    OTHER_KEY,
    append_rows,
    kept_lake,
    leaf_rows,
    linked,
    publish_more,
    rewrite,
    rows_of,
    set_back,
)

pytestmark = pytest.mark.slow

CLUSTERS = ("extensible", "lab", "modular", "silent")


@pytest.fixture(scope="module")
def schema_5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept_lake(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def lake(schema_5: Path, tmp_path: Path) -> Path:
    """A lake of schema version 5 without a log; eleven manifests of four clusters."""
    shutil.copytree(schema_5, tmp_path / "lake")
    return tmp_path / "lake"


def logged(lake: Path) -> list[tuple[str, int]]:
    """Cluster and sequence of the leaves of manifests, in their order."""
    tree = open_log(storage_of(str(lake))).tree()
    found = [parse_manifest_leaf(entry) for entry in tree.entries(0, tree.size)]
    return [(leaf.cluster, leaf.sequence) for leaf in found if leaf is not None]


def every_row(lake: Path) -> list[tuple[str, int]]:
    return leaf_rows({name: rows_of(lake, name) for name in CLUSTERS})


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_log_begins_with_all_manifests_that_are_there(version: int, tmp_path: Path) -> None:
    lake = kept_lake(tmp_path, version)
    found = begin(str(lake), [LOG_KEY])
    assert (found.leaves, found.problems) == (len(every_row(lake)) + 1, ())
    assert logged(lake) == every_row(lake)
    tree = open_log(storage_of(str(lake))).tree()
    first = parse_leaf(tree.entry(0))
    assert (first["kind"], first["clusters"], first["manifests"]) == ("begun", 4, len(every_row(lake)))
    chains = Chains(Lake(str(lake)))
    assert tree.entry(0) == begun_leaf({name: chains.end(name) for name in CLUSTERS}).text
    digests = [row["manifest_digest"] for name in CLUSTERS for row in rows_of(lake, name)]
    assert [json.loads(entry)["digest"] for entry in tree.entries(1, tree.size)] == digests


def test_manifests_that_join_are_appended_in_the_order_of_clusters_and_chains(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    before = logged(lake)
    publish_more(lake, "modular", 2)
    publish_more(lake, "lab")
    assert catch_up(str(lake), [LOG_KEY]).leaves == 6
    assert logged(lake) == [*before, ("lab", 3), ("lab", 4), *(("modular", number) for number in (5, 6, 7, 8))]
    again = catch_up(str(lake), [LOG_KEY])
    assert (again.leaves, again.checkpoint.checkpoint.size) == (0, len(before) + 7)


def test_a_log_is_begun_once_and_never_by_itself(lake: Path) -> None:
    with pytest.raises(LogError, match="evenkeel log begin"):
        catch_up(str(lake), [LOG_KEY])
    begin(str(lake), [LOG_KEY])
    with pytest.raises(LogError, match="was begun before"):
        begin(str(lake), [LOG_KEY])
    (lake / "_log" / "checkpoint").unlink()
    with pytest.raises(LogError, match="restore the folder _log from a copy"):
        catch_up(str(lake), [LOG_KEY])
    with pytest.raises(LogError, match="cannot begin here"):
        begin(str(lake), [LOG_KEY])


def test_a_lake_without_cycles_has_a_log_too(tmp_path: Path) -> None:
    assert begin(str(tmp_path / "new"), [LOG_KEY]).leaves == 1
    assert catch_up(str(tmp_path / "new"), [LOG_KEY]).leaves == 0


def test_rows_come_in_portions_from_large_files(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_more(lake, "lab", 20)
    monkeypatch.setattr("evenkeel.lake_log.chains._AT_ONCE", 3)
    begin(str(lake), [LOG_KEY])
    assert logged(lake) == every_row(lake)


@pytest.mark.parametrize(
    "change", [n if n in (0, 6, 13) else pytest.param(n, marks=pytest.mark.exhaustive) for n in range(14)]
)
def test_killed_at_any_write_the_next_catch_up_mends_it(lake: Path, change: int) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "modular", 2)
    with killed_at(change):
        catch_up(str(lake), [LOG_KEY])
    publish_more(lake, "silent")
    catch_up(str(lake), [LOG_KEY])
    assert sorted(logged(lake)) == sorted(every_row(lake))


def test_killed_between_manifest_and_leaf_is_mended_by_the_next(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab")  # its publisher never came to the log
    publish_more(lake, "lab")
    assert catch_up(str(lake), [LOG_KEY]).leaves == 4
    assert sorted(logged(lake)) == sorted(every_row(lake))


TEN_TIMES = """
import sys
from evenkeel.lake_log.catch_up import catch_up
from tests.lake_log.lakes import LOG_KEY
for _ in range(10):
    catch_up(sys.argv[1], [LOG_KEY])
"""


def test_two_processes_at_once_log_each_manifest_once(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab", 30)
    others = [subprocess.Popen([sys.executable, "-c", TEN_TIMES, str(lake)]) for _ in range(2)]
    for number in range(6):
        publish_more(lake, ("modular", "extensible")[number % 2])
        catch_up(str(lake), [LOG_KEY])
    assert [one.wait() for one in others] == [0, 0]
    catch_up(str(lake), [LOG_KEY])
    assert sorted(logged(lake)) == sorted(every_row(lake))


def test_the_file_of_ends_is_believed_only_as_far_as_the_tree_bears_it_out(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab")
    catch_up(str(lake), [LOG_KEY])
    kept = json.loads((lake / "_log" / HEADS).read_text())
    wrong = [
        None,
        b"",
        b"[]",
        b"\xff",
        json.dumps({**kept, "root": "A" * 43 + "="}).encode(),
        json.dumps({**kept, "size": 10**6}).encode(),
        json.dumps({**kept, "size": -1}).encode(),
        json.dumps({**kept, "clusters": {"lab": [2, "ab" * 32, 3], "silent": [5, "ab" * 32, 10**9]}}).encode(),
        json.dumps({**kept, "clusters": {name: [1, "ab" * 32, 0] for name in CLUSTERS}}).encode(),
        json.dumps({**kept, "clusters": 7}).encode(),
        json.dumps({**kept, "clusters": {"lab": [2]}}).encode(),
    ]
    for data in wrong:
        (lake / "_log" / HEADS).unlink() if data is None else (lake / "_log" / HEADS).write_bytes(data)
        publish_more(lake, "silent")
        publish_more(lake, "lab")
        assert catch_up(str(lake), [LOG_KEY]).problems == ()
        assert sorted(logged(lake)) == sorted(every_row(lake))


def test_few_files_are_read_with_many_leaves_behind(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab", 700)
    publish_more(lake, "silent", 300)
    catch_up(str(lake), [LOG_KEY])
    publish_more(lake, "lab")
    reads = []
    get = FolderStorage.get

    def counted(self: FolderStorage, name: str) -> bytes | None:
        reads.append(name)
        return get(self, name)

    monkeypatch.setattr(FolderStorage, "get", counted)
    assert catch_up(str(lake), [LOG_KEY]).leaves == 2
    assert len([name for name in reads if name.startswith("tile/entries")]) <= 8
    assert len(reads) < 40


def test_a_cluster_that_joins_later_is_logged_from_its_first_row(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(str(lake), [LOG_KEY])
    own = [{**row, "cluster": "new"} for row in rows_of(lake, "lab")]
    append_rows(lake, linked(own, "", 0))
    with monkeypatch.context() as patch:
        patch.setattr(_Behind, "_read_anew", lambda *given: pytest.fail("all leaves are read for a new cluster"))
        assert catch_up(str(lake), [LOG_KEY]).leaves == 2
    assert logged(lake)[-2:] == [("new", 1), ("new", 2)]


def test_a_chain_that_was_cut_is_left_as_it_is_and_the_others_go_on(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab")
    catch_up(str(lake), [LOG_KEY])
    set_back(lake)
    publish_more(lake, "silent")
    found = catch_up(str(lake), [LOG_KEY])
    assert found.leaves == 1
    (problem,) = found.problems
    assert problem.startswith("lab: the log has row 4 of its chain, and `cycles` ends at row 2: manifests were removed")


def test_another_past_is_not_logged(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])

    def other(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        own = [{**row, "reason": "another past"} for row in rows if row["cluster"] == "lab"]
        return [*(row for row in rows if row["cluster"] != "lab"), *linked(own, "", 0)]

    rewrite(lake, other)
    publish_more(lake, "lab")
    found = catch_up(str(lake), [LOG_KEY])
    assert (found.leaves, len(found.problems)) == (0, 1)
    assert "row 3 of its chain does not go on from row 2 as it was logged: the past was rewritten" in found.problems[0]


def test_a_log_whose_files_do_not_hold_takes_nothing_more(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab")
    (tile,) = (lake / "_log" / "tile" / "0" / "000.p").iterdir()
    tile.write_bytes(bytes(32) + tile.read_bytes()[32:])
    with pytest.raises(DamagedLog, match="restore it from a copy"):
        catch_up(str(lake), [LOG_KEY])


def test_two_keys_sign_and_both_are_named_beside_the_log(lake: Path) -> None:
    begin(str(lake), [LOG_KEY])
    catch_up(str(lake), [OTHER_KEY, LOG_KEY])
    publish_more(lake, "lab")
    newest = catch_up(str(lake), [OTHER_KEY, LOG_KEY]).checkpoint
    assert [one.key_id for one in newest.note.signatures] == [OTHER_KEY.verifier.key_id, LOG_KEY.verifier.key_id]
    assert keys_beside(storage_of(str(lake))) == (LOG_KEY.verifier, OTHER_KEY.verifier)
    publish_more(lake, "lab")
    catch_up(str(lake), [OTHER_KEY])
    assert open_log(storage_of(str(lake)), log_keys=[OTHER_KEY.verifier]).checkpoint().checkpoint.size == 18
    stranger = SignerKey.make("example.com/stranger")
    with pytest.raises(DamagedLog, match="and not of"):
        catch_up(str(lake), [stranger])


def test_a_lake_in_a_store_that_does_not_speak_s3_has_no_log() -> None:
    with pytest.raises(LogError, match="in folders, and in stores that speak S3"):
        begin("gs://bucket/lake", [LOG_KEY])
