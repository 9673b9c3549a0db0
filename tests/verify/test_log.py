"""`evenkeel verify` of a lake with a log: what was cut, set back, changed or added is named with table and version."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.handover import Commit
from evenkeel.lake.record import Record
from evenkeel.lake.schemas import TABLES
from evenkeel.transparency.lake_log import append_commits, begin
from evenkeel.transparency.leaves import BegunLeaf, CommitLeaf
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.publishing import log_commits
from evenkeel.transparency.storage import FolderStorage
from evenkeel.verify.log_check import LogSources, open_check
from tests.lakes.small_lake import completed
from tests.transparency.http_witness import Seen, line_of, witness
from tests.transparency.lakes import (
    age,
    append,
    approve,
    commit_file,
    copied,
    forge_approval,
    forge_outcome,
    grow,
    handed_on,
    newest_commits,
    publish_more,
    published,
    rewrite,
    rows_of,
    set_back,
    size_of,
    small_lake,
)
from tests.transparency.logs import LOG_KEY, ORIGIN, OTHER_KEY
from tests.transparency.telling import Told, teller

pytestmark = pytest.mark.slow

VKEY = LOG_KEY.verifier.text
LATE = 7.0
"""Hours after which a commit without a leaf is not under way any more."""


@pytest.fixture(scope="module")
def with_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a log over 11 old commits, and two further cycles of `lab`; 16 leaves."""
    lake = small_lake(tmp_path_factory.mktemp("kept"))
    begin(str(lake), [LOG_KEY])
    published(lake, "lab", 2)
    return lake


@pytest.fixture
def lake(with_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(with_log, tmp_path / "lake")


@pytest.fixture
def told(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    return teller(lake, capsys)


def of_the_log(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Table and place of the faults that the log shows."""
    return [(fault["table"], fault["place"]) for fault in found["faults"] if fault["kind"] == "log"]


def words_of(found: dict[str, Any]) -> str:
    return "\n".join(fault["words"] for fault in found["faults"])


def opened(lake: Path) -> TransparencyLog:
    return TransparencyLog(FolderStorage(lake / "_log"), ORIGIN, [LOG_KEY])


def test_a_record_that_is_as_it_was_has_the_log_beside_it(lake: Path, told: Told) -> None:
    found = told()
    assert found["sound"]
    log = found["log"]
    assert (log["signed"], log["leaves"], log["commits_before"], log["keys"]) == (True, 16, 11, [VKEY])
    assert log["checkpoint"] == (lake / "_log" / "checkpoint").read_text()
    assert log["keys_as_the_log_names_them"]
    assert not told("--log-key", VKEY)["log"]["keys_as_the_log_names_them"]
    assert told("--cluster", "modular")["sound"]
    assert told("--from", "2026-11-26T12:02:00Z")["sound"]


def test_the_text_shows_heads_and_the_checkpoint_whole(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge_approval(lake)
    append_commits(str(lake), [LOG_KEY], adopt_by="alice")
    assert main(["verify", "--lake", str(lake), "--depth", "chain"]) == 0
    text = capsys.readouterr().out
    for cluster in ("lab", "modular", "silent"):
        assert f"head {rows_of(lake, cluster)[-1]['manifest_digest']}\n" in text
    for line in (lake / "_log" / "checkpoint").read_text().splitlines():
        assert f"    {line}\n" in text
    assert f"key {VKEY} (as the log itself names it" in text
    assert "11 commits from before the log began, without any witness at that time" in text
    assert "adopted though no task had handed them on: 1 commit by alice" in text


def test_a_lake_without_a_log_is_unsigned_and_sound(lake: Path, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(lake / "_log")
    found = told()
    assert (found["sound"], found["log"]["signed"]) == (True, False)
    assert main(["verify", "--lake", str(lake), "--depth", "chain"]) == 0
    assert "\nunsigned: the lake has no transparency log" in capsys.readouterr().out
    found = told("--log-key", VKEY)
    assert "has no checkpoint: it was never begun, or the file was removed" in words_of(found)


def test_a_table_that_was_set_back_is_named_though_its_own_log_shows_nothing(lake: Path, told: Told) -> None:
    set_back(lake, versions=2)
    found = told()
    assert of_the_log(found) == [("cycles", "version 5"), ("cycles", "version 6")]
    (other,) = [fault for fault in found["faults"] if fault["kind"] != "log"]
    assert (other["table"], other["place"]) == ("cycles", "commits 5 to 6")
    assert "on record, but the log ends at 4" in other["words"], "by the leaves alone it is known that there were more"
    assert "leaf 12 of the log holds it: the end was cut off, or the table was set back" in words_of(found)
    assert of_the_log(told("--cluster", "lab")) == of_the_log(found)


def test_a_commit_that_was_removed_from_the_middle_is_named(lake: Path, told: Told) -> None:
    commit_file(lake, "unload_decisions", 3).unlink()
    assert of_the_log(told()) == [("unload_decisions", "version 3")]
    assert "removed from the middle of the table's log" in words_of(told())


def test_a_table_that_is_gone_is_named(lake: Path, told: Told) -> None:
    shutil.rmtree(lake / "approvals")
    assert of_the_log(told()) == [("approvals", "version 0")]
    assert "the table was removed" in words_of(told())


def test_a_record_that_is_empty_is_named(lake: Path, told: Told) -> None:
    DeltaTable(str(lake / "cycles")).delete()
    age(lake, "cycles", LATE)
    assert ("cycles", "version 7") in of_the_log(told())


def test_a_commit_that_was_replaced_is_named(lake: Path, told: Told) -> None:
    file = commit_file(lake, "cycles", 5)
    file.write_text(file.read_text() + "\n")
    assert of_the_log(told()) == [("cycles", "version 5")]
    assert "it is not the commit that leaf 12 of the log holds: it was replaced" in words_of(told())


@pytest.mark.parametrize("table", ["approvals", "cycles", "unload_decisions"])
def test_a_data_file_that_was_changed_or_removed_is_named(lake: Path, told: Told, table: str) -> None:
    (commit,) = newest_commits(lake, table)
    file = lake / table / commit.files[0].path
    data = file.read_bytes()
    file.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    if table != "cycles":  # of which no row can be read any more
        named = of_the_log(told())
        assert named == ([(table, f"version {commit.version}")] if table == "approvals" else [])
    file.unlink()
    check = open_check(str(lake), LogSources())
    check.check_commits(is_whole=True)
    assert [(fault.table, fault.place) for fault in check.faults] == [(table, f"version {commit.version}")]
    assert "is gone, and no later commit removed it" in check.faults[0].words


def test_rows_that_no_task_handed_on_are_named_once_no_publish_can_be_under_way(lake: Path, told: Told) -> None:
    commits = publish_more(lake, "lab")
    found = told()
    assert found["faults"] == []
    assert found["log"]["not_logged_yet"] == [
        "unload_decisions: 1 commit of the last hours, not logged yet",
        "cycles: 1 commit of the last hours, not logged yet",
    ]
    for commit in commits:
        age(lake, commit.table, LATE)
        handed_on(lake, newest_commits(lake, commit.table))
        assert (commit.table, f"version {commit.version}") in of_the_log(told())
    assert "no task of ours handed it on, or the log was set back" in words_of(told())
    append_commits(str(lake), [LOG_KEY], adopt_by="alice")
    assert told()["log"]["commits_adopted"] == ["2 commits by alice"]


@pytest.mark.parametrize("forge", [forge_approval, forge_outcome])
def test_rows_outside_manifests_that_no_writer_handed_on_are_named_at_once(
    lake: Path, told: Told, forge: Callable[[Path], list[Commit]]
) -> None:
    commits = forge(lake)
    table, version = commits[0].table, f"version {commits[0].version}"
    found = told()
    assert of_the_log(found) == [(table, version)]
    assert "no task of ours handed it on, or the log was set back" in words_of(found)
    handed_on(lake, [replace(commit, digest=digit * 64) for commit in commits for digit in "0f"])
    assert of_the_log(told()) == [(table, version)], "other commits of that version were handed on"
    handed_on(lake, commits)
    found = told()
    assert found["faults"] == []
    assert found["log"]["not_logged_yet"] == [f"{table}: 1 commit of the last hours, not logged yet"]


def test_a_table_that_is_rewritten_is_named_at_once(lake: Path, told: Told) -> None:
    rewrite(lake, "unload_decisions", lambda rows: rows[1:])
    (fault,) = told()["faults"]
    assert (fault["table"], fault["place"]) == ("unload_decisions", "commit 7")
    assert "removes or changes rows, and no upkeep on record" in fault["words"]


def test_a_commit_of_the_future_is_not_under_way(lake: Path, told: Told) -> None:
    approve(lake)
    age(lake, "approvals", -1.0)
    handed_on(lake, newest_commits(lake, "approvals"))
    assert of_the_log(told()) == [("approvals", "version 1")]


def test_more_faults_than_a_few_are_counted(lake: Path, told: Told) -> None:
    grow(lake, [one for _ in range(25) for one in approve(lake)])
    set_back(lake, "approvals", versions=25)
    found = told()
    assert len(of_the_log(found)) == 21
    assert of_the_log(found)[-1] == ("approvals", "its commits")
    assert "5 further faults" in words_of(found)


def test_commits_past_the_log_retention_are_counted_and_earlier_ones_missed(lake: Path) -> None:
    published(lake, "lab")
    for number in range(6):
        commit_file(lake, "cycles", number).unlink()

    def checked(days: float) -> tuple[list[str], int]:
        check = open_check(str(lake), LogSources())
        assert check.commits is not None
        check.commits.check_all(is_whole=False, now=datetime.now(UTC) + timedelta(days=days))
        return [fault.place for fault in check.commits.faults if fault.table == "cycles"], check.commits.expired

    assert checked(91)[1] == 6
    assert checked(80) == (["version 5"], 5), "those from before the log began are not its word"
    periods = {"version_days": 30, "topic_version_days": 7, "audit_days": 400}
    row = {"upkeep_id": "u", "state": "begun", "begun_at": datetime.now(UTC), "periods": [*periods.items()]}
    grow(lake, append(lake, "upkeeps", [completed(TABLES["upkeeps"], row)]))
    assert checked(80)[1] == 6


def test_files_that_upkeep_put_together_and_vacuumed_are_no_fault(lake: Path, told: Told) -> None:
    table = DeltaTable(str(lake / "approvals"))
    approve(lake)
    published_commits = newest_commits(lake, "approvals")
    table.update_incremental()
    table.optimize.compact()
    grow(lake, [*published_commits, *newest_commits(lake, "approvals")])
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    there = DeltaTable(str(lake / "approvals")).version()
    grow(lake, [*newest_commits(lake, "approvals", there - 2)])
    assert len([*(lake / "approvals").rglob("part-*.parquet")]) == 1
    assert told()["faults"] == []


def test_a_log_that_begins_after_an_upkeep_has_the_files_that_still_lie_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = small_lake(tmp_path)
    table = DeltaTable(str(lake / "unload_decisions"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    begin(str(lake), [LOG_KEY])
    assert teller(lake, capsys)()["faults"] == [], "the manifests list files that are gone"


def test_files_that_a_manifest_lists_otherwise_than_the_leaf_are_named(lake: Path, told: Told) -> None:
    """Somebody who has the key has logged other files than those of the commit."""
    commits = publish_more(lake, "lab")
    (leaf,) = [CommitLeaf.of(one, datetime.now(UTC)) for one in commits if one.table == "unload_decisions"]
    log = opened(lake)
    log.append([CommitLeaf(**{**_fields(leaf), "files_digest": "ab" * 32}).text])
    (lake / "_log" / "commits").unlink()
    grow(lake, commits)
    assert of_the_log(told()) == [("unload_decisions", f"version {leaf.commit}")]
    assert "the files that manifests list of it are not those that leaf 16 of the log holds" in words_of(told())


def _fields(leaf: CommitLeaf) -> dict[str, Any]:
    return {name: getattr(leaf, name) for name in CommitLeaf.__slots__}


def test_a_log_that_was_set_back_lacks_leaves(lake: Path, told: Told, tmp_path: Path) -> None:
    before = copied(lake / "_log", tmp_path / "before")
    published(lake, "modular")
    late = (lake / "_log" / "checkpoint").read_bytes()
    shutil.rmtree(lake / "_log")
    copied(before, lake / "_log")
    assert told()["log"]["not_logged_yet"]
    for table in ("cycles", "unload_decisions"):
        age(lake, table, LATE)
    assert of_the_log(told()) == [("unload_decisions", "version 7"), ("cycles", "version 7")]
    kept = tmp_path / "late"
    kept.write_bytes(late)
    assert "was set back: it has size 16" in words_of(told("--checkpoint", str(kept)))


def test_a_log_begun_anew_over_another_past_is_shown_by_any_checkpoint_of_the_first(
    lake: Path, told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who has the key, too: nothing in the lake can show it."""
    kept = tmp_path / "kept"
    shutil.copy(lake / "_log" / "checkpoint", kept)
    proof = tmp_path / "proof"
    assert main(["prove", "lab", "latest", "--lake", str(lake), "--out", str(proof)]) == 0
    capsys.readouterr()
    found = told("--checkpoint", str(kept), "--checkpoint", str(proof))
    assert found["sound"]
    assert len(found["log"]["agreed"]) == 2
    set_back(lake)
    publish_more(lake, "lab", 2, reason="another past")
    shutil.rmtree(lake / "_log")
    begin(str(lake), [LOG_KEY])
    assert told()["sound"]
    for one in (kept, proof):
        found = told("--checkpoint", str(one))
        assert not found["sound"]
        assert "shows another past: a kept checkpoint has size 16" in words_of(found)


def test_a_witness_is_asked_what_it_has_seen(
    lake: Path, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = str(tmp_path / "kept.jsonl")
    seen: Seen = {}
    with witness(seen) as url:
        line = line_of(url)
        own = {"EVENKEEL_LOG_KEY": LOG_KEY.secret().reveal(), "EVENKEEL_WITNESSES": f"{line}\n{kept}"}
        log_commits(str(lake), [], environment=own)
        given = f"{url}/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint"
        found = told("--against", line, "--against", kept, "--checkpoint", kept, "--checkpoint", given)
        assert found["sound"]
        assert len(found["log"]["agreed"]) == 4
        assert len(found["log"]["witnesses"]) == 2
        with monkeypatch.context() as patch:
            patch.setenv("EVENKEEL_WITNESSES", line)
            assert told("--against", url)["sound"]
        words = ["verify", "--lake", str(lake), "--depth", "chain", "--checkpoint", f"{url}/elsewhere"]
        assert main(words) == 2
        published(lake, "modular")
        assert told("--against", line, "--against", kept)["sound"], "it has grown from what they have seen"
        shutil.rmtree(lake / "_log")
        begin(str(lake), [LOG_KEY])
        assert told()["sound"], "nothing in the lake shows that the log was begun anew"
        assert len(of_the_log(told("--against", line, "--against", kept))) == 2
        log_commits(str(lake), [], environment=own)
        assert "a witness has seen another tree: split view" in words_of(told())
    assert "does not say what it has seen" in words_of(told("--against", line))


def test_a_head_that_was_noted_is_looked_for(lake: Path, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(lake, "lab")
    newest, older = rows[-1]["manifest_digest"], rows[1]["manifest_digest"]
    assert told("--expect-head", newest, "--expect-head", f"lab={older}")["sound"]
    assert not told("--expect-head", f"modular={newest}")["sound"]
    shutil.rmtree(lake / "_log")
    assert told("--expect-head", newest)["sound"]
    set_back(lake)
    found = told("--expect-head", newest)
    assert [fault["place"] for fault in found["faults"]] == ["--expect-head"]
    assert main(["verify", "--lake", str(lake), "--expect-head", newest[:16]]) == 2
    assert "a head is 64 hex digits" in capsys.readouterr().err


def test_a_commit_that_was_logged_twice_is_named(lake: Path, told: Told) -> None:
    opened(lake).append([CommitLeaf.of(one, datetime.now(UTC)).text for one in newest_commits(lake, "cycles")])
    assert of_the_log(told()) == [("cycles", "version 6")]
    assert "leaf 16 and leaf 15 of the log are both of this commit" in words_of(told()) or size_of(lake) == 17


@pytest.mark.parametrize("first", [b"{}", BegunLeaf({}, "2026-11-26T12:00:00.000Z").text, None])
def test_a_log_that_does_not_say_how_it_began_is_named(lake: Path, told: Told, first: bytes | None) -> None:
    shutil.rmtree(lake / "_log")
    log = opened(lake)
    log.create()
    commits = [CommitLeaf.of(one, datetime.now(UTC)).text for one in newest_commits(lake, "approvals")]
    log.append([*([first] if first else []), *commits, *([] if first else [BegunLeaf({}, "2026-11-26T12:00Z").text])])
    (lake / "_log" / "keys").write_text(VKEY)
    faults = {
        b"{}": "is not a leaf that this version knows",
        None: "its first leaf does not say how it began",
    }
    assert faults.get(first, "no leaf in the log") in words_of(told()) or told()["log"]["not_logged_yet"]


def test_a_first_leaf_that_counts_otherwise_is_named(lake: Path, told: Told) -> None:
    shutil.rmtree(lake / "_log")
    log = opened(lake)
    log.create()
    leaves = [CommitLeaf.of(one, datetime.now(UTC)).text for one in newest_commits(lake, "approvals")]
    log.append([BegunLeaf({"cycles": 1}, "2026-11-26T12:00:00.000Z").text, *leaves])
    (lake / "_log" / "keys").write_text(VKEY)
    assert "its first leaf counts other commits than the leaves that follow it" in words_of(told())


def test_a_log_that_somebody_else_signs_or_that_was_damaged_is_told(lake: Path, told: Told) -> None:
    assert "no known key has signed" in words_of(told("--log-key", OTHER_KEY.verifier.text))
    (bundle,) = (lake / "_log" / "tile" / "entries" / "000.p").glob("16")
    bundle.write_bytes(bundle.read_bytes().replace(b'"table":"cycles"', b'"table":"circle"', 1))
    found = told()
    assert "was changed; restore the file; without it nothing shows a cut end or another past" in words_of(found)


def test_what_is_published_while_it_is_read_is_no_fault(
    lake: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = Record.links

    def late(self: Record, cluster: str) -> Any:
        if cluster == "lab":
            published(lake, "lab")
            self._opened.clear()
            self._datasets.clear()
        return links(self, cluster)

    monkeypatch.setattr(Record, "links", late)
    assert told()["faults"] == []


def test_a_log_that_is_set_back_while_the_tables_are_read_is_named(
    lake: Path, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copied(lake / "_log", tmp_path / "before")
    published(lake, "modular")
    approve(lake)
    links = Record.links

    def late(self: Record, cluster: str) -> Any:
        shutil.rmtree(lake / "_log")
        copied(before, lake / "_log")
        return links(self, cluster)

    monkeypatch.setattr(Record, "links", late)
    assert "was set back: it has size 16" in words_of(told())


def test_a_verify_of_a_cluster_that_is_gone_is_answered_by_the_log(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_back(lake, versions=2)
    words = ["verify", "--lake", str(lake), "--depth", "chain", "--cluster", "gone", "--json"]
    assert main(words) == 1
    assert len(of_the_log(json.loads(capsys.readouterr().out))) == 2
