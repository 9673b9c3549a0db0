"""A new key of a log takes over where the old one signs for it; whoever has the old one can follow, and nobody else is
let in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devtools.tampering import KINDS, verdict_on
from evenkeel.cli import main
from evenkeel.errors import DamagedLog, LogError
from evenkeel.transparency.keys import SignerKey, VerifierKey
from evenkeel.transparency.lake_log import STATE, begin, open_log, storage_of
from evenkeel.transparency.leaves import CommitLeaf, KeysLeaf, parse_leaf
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.rotations import MOST_ROTATIONS, ROTATIONS, follow, rotation_lines
from evenkeel.transparency.storage import FolderStorage
from tests.transparency.killing import killed_at
from tests.transparency.lakes import copied, grow, publish_more, small_lake
from tests.transparency.logs import LOG_KEY, ORIGIN, OTHER_KEY
from tests.transparency.telling import Told, teller

pytestmark = pytest.mark.slow

OLD, NEW = LOG_KEY, OTHER_KEY
THIRD = SignerKey(ORIGIN, bytes(range(3, 35)))
STRANGER = SignerKey(ORIGIN, bytes(32))


@pytest.fixture
def lake(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake whose log of 12 leaves the old key has signed."""
    for name in ("EVENKEEL_WITNESSES", "EVENKEEL_LOG_KEY", "EVENKEEL_LOG_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    return copied(begun, tmp_path / "lake")


@pytest.fixture
def told(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """What `verify --depth chain --json` tells of the lake."""

    ask = teller(lake, capsys)

    def tell(*keys: SignerKey, more: tuple[str, ...] = ()) -> dict[str, Any]:
        return ask(*(word for key in keys for word in ("--log-key", key.verifier.text)), *more)

    return tell


def rotate(lake: Path, *sets: tuple[SignerKey, ...]) -> None:
    """A publish of `lab` and a catch-up with each set of keys."""
    for keys in sets:
        grow(lake, publish_more(lake, "lab"), *keys)


def words_of(found: dict[str, Any]) -> str:
    return "\n".join(fault["words"] for fault in found["faults"])


def keys_leaves(lake: Path) -> list[KeysLeaf]:
    tree = open_log(storage_of(str(lake))).tree()
    return [leaf for entry in tree.entries(0, tree.size) if isinstance(leaf := parse_leaf(entry), KeysLeaf)]


def trusted_by(lake: Path, *keys: SignerKey) -> tuple[VerifierKey, ...]:
    return follow(storage_of(str(lake)), [key.verifier for key in keys]).trusted


def test_the_same_keys_need_no_leaf(lake: Path) -> None:
    rotate(lake, (OLD,), (OLD,))
    assert keys_leaves(lake) == []
    assert not (lake / "_log" / ROTATIONS).exists()


def test_whoever_has_the_old_key_follows_to_the_new_one(lake: Path, told: Told) -> None:
    rotate(lake, (NEW, OLD), (NEW, OLD), (NEW,), (NEW,))
    old, new = OLD.verifier, NEW.verifier
    assert keys_leaves(lake) == [KeysLeaf((new, old), (old,)), KeysLeaf((new,), (new, old))]
    for keys in ((OLD,), (NEW,), (OLD, NEW)):
        found = told(*keys)
        assert found["faults"] == []
        assert found["log"]["keys"] == [new.text]
        assert len(found["log"]["rotations"]) == 2
    assert told()["sound"]
    assert told(STRANGER)["sound"] is False


def test_rotations_are_followed_over_several_keys(lake: Path, told: Told) -> None:
    rotate(lake, (NEW, OLD), (NEW,), (THIRD, NEW), (THIRD,))
    for keys in ((OLD,), (NEW,), (THIRD,)):
        assert trusted_by(lake, *keys) == (THIRD.verifier,)
        assert told(*keys)["sound"]


def test_a_key_that_was_retired_is_not_believed_any_more(lake: Path, told: Told, tmp_path: Path) -> None:
    """Somebody stole it, and puts up another end of the log, without what followed."""
    rotate(lake, (NEW, OLD))
    fork = copied(lake / "_log", tmp_path / "fork")
    rotate(lake, (NEW,))
    assert trusted_by(lake, NEW) == (NEW.verifier,)
    shutil.rmtree(lake / "_log")
    copied(fork, lake / "_log")
    log = TransparencyLog(FolderStorage(lake / "_log"), ORIGIN, [OLD], [NEW.verifier])
    log.append([CommitLeaf("settings", 0, "ab" * 32, 0, "ab" * 32, "2026-11-26T12:00:00.000Z").text])
    assert "no known key has signed" in words_of(told(NEW))
    assert "is not signed by" in words_of(told(OLD)), "the leaf of keys has both in force"


def test_a_signature_that_was_taken_away_is_named(lake: Path, told: Told) -> None:
    rotate(lake, (NEW, OLD))
    file = lake / "_log" / "checkpoint"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    assert f"the newest checkpoint is not signed by {OLD.verifier.key_id.hex()}" in words_of(told(NEW))


def test_a_new_key_alone_is_refused(lake: Path) -> None:
    publish_more(lake, "lab")
    before = (lake / "_log" / "checkpoint").read_bytes()
    with pytest.raises(LogError, match="let both sign once, each on a line of EVENKEEL_LOG_KEY"):
        grow(lake, [], NEW)
    assert (lake / "_log" / "checkpoint").read_bytes() == before
    rotate(lake, (NEW, OLD), (NEW,))
    for keys in ((OLD,), (THIRD,)):
        with pytest.raises(LogError, match="has not taken over"):
            grow(lake, [], *keys)


def test_an_old_key_does_not_come_back_by_itself(lake: Path) -> None:
    rotate(lake, (NEW, OLD), (NEW,), (OLD, NEW), (OLD,))
    assert trusted_by(lake, NEW) == (OLD.verifier,)
    with pytest.raises(LogError, match="has not taken over"):
        grow(lake, [], NEW)


def test_a_lost_key_is_given_up_on_record_and_its_holders_are_told(
    lake: Path, told: Told, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rotate(lake, (OLD,))
    monkeypatch.setenv("EVENKEEL_LOG_KEY", NEW.secret().reveal())
    command = ["log", "catch-up", "--lake", str(lake), "--old-key-is-lost"]
    assert main([*command, STRANGER.verifier.text]) != 0
    assert "has not taken over" in capsys.readouterr().err
    assert main([*command, OLD.verifier.text]) == 0
    assert "which is said to be lost" in capsys.readouterr().out
    assert main([*command, OLD.verifier.text]) != 0
    assert "no key has to be given up" in capsys.readouterr().err
    monkeypatch.delenv("EVENKEEL_LOG_KEY")
    assert keys_leaves(lake)[-1] == KeysLeaf((NEW.verifier,), (OLD.verifier,), is_lost=True)
    rotate(lake, (NEW,))
    assert told(NEW)["faults"] == []
    found = told(OLD)
    assert "not proven: leaf 14 says that the old key" in words_of(found)
    assert "The log has grown from size 14, root" in words_of(found)
    rotate(lake, (THIRD, NEW), (THIRD,))
    assert told(NEW)["sound"]
    assert "not proven: leaf 14" in words_of(told(OLD))


def test_log_show_lists_rotations(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rotate(lake, (NEW, OLD), (NEW,))
    assert main(["log", "show", "--lake", str(lake)]) == 0
    text = capsys.readouterr().out
    old, new = OLD.verifier.key_id.hex(), NEW.verifier.key_id.hex()
    assert f"keys were changed at leaf 14: {new} joins; signed by {new} and {old}\n" in text
    assert f"keys were changed at leaf 17: {old} is no longer in force; signed by {new}\n" in text


def test_a_proof_is_written_for_whoever_has_the_old_key(
    lake: Path, told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rotate(lake, (NEW, OLD), (NEW,))
    for key in (OLD, NEW):
        words = ["prove", "lab", "latest", "--lake", str(lake), "--out", str(tmp_path / "proof")]
        assert main([*words, "--log-key", key.verifier.text]) == 0
        printed = capsys.readouterr().out
        assert NEW.verifier.text in printed
        assert OLD.verifier.text not in printed
        assert told(OLD, more=("--checkpoint", str(tmp_path / "proof")))["log"]["agreed"]


def test_no_proof_is_written_by_a_strangers_log(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kind,) = [kind for kind in KINDS if kind.name == "stranger-rotated-in"]
    kind.apply(lake)
    words = ["prove", "lab", "latest", "--lake", str(lake), "--out", str(tmp_path / "proof")]
    assert main([*words, "--log-key", OLD.verifier.text]) != 0
    assert "a stranger's key was rotated in" in capsys.readouterr().err


def test_what_was_kept_under_a_former_key_still_counts(lake: Path, told: Told, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copy(lake / "_log" / "checkpoint", kept)
    rotate(lake, (NEW, OLD), (NEW,))
    for key in (OLD, NEW):
        assert told(key, more=("--checkpoint", str(kept)))["log"]["agreed"]
    assert told(NEW, more=("--checkpoint", str(lake / "_log" / ROTATIONS)))["log"]["agreed"]


ROTATE = """
import sys
from evenkeel.transparency.lake_log import append_commits
from tests.transparency.logs import LOG_KEY, OTHER_KEY
for _ in range(8):
    append_commits(sys.argv[1], [OTHER_KEY, LOG_KEY] if sys.argv[2] == "both" else [LOG_KEY])
"""


def test_two_processes_with_other_keys_at_once_leave_a_log_that_can_be_followed(lake: Path, told: Told) -> None:
    both = [subprocess.Popen([sys.executable, "-c", ROTATE, str(lake), which]) for which in ("both", "old")]
    assert [one.wait() for one in both] == [0, 0]
    rotate(lake, (NEW, OLD), (NEW,))
    assert trusted_by(lake, OLD) == (NEW.verifier,)
    assert told(OLD)["faults"] == []
    lines = [*rotation_lines(storage_of(str(lake)))]
    assert len(lines) == len(keys_leaves(lake)) == len({line.index for line in lines})


@pytest.mark.parametrize(
    "change", [n if n in (0, 4, 9) else pytest.param(n, marks=pytest.mark.exhaustive) for n in range(10)]
)
def test_a_rotation_that_was_killed_anywhere_is_mended(lake: Path, told: Told, change: int) -> None:
    publish_more(lake, "lab")
    with killed_at(change):
        grow(lake, [], NEW, OLD)
    assert told(OLD)["log"]["signed"]
    if keys_leaves(lake):
        publish_more(lake, "lab")
        grow(lake, [], NEW)  # the old key is gone already, and its signature is not
    else:
        rotate(lake, (NEW, OLD), (NEW,))
    assert told(OLD)["faults"] == []
    assert len(keys_leaves(lake)) == 2


@pytest.mark.parametrize("data", [None, b"{}", b"[]", b'{"size":14}'])
def test_the_leaf_is_found_whatever_the_file_of_ends_says(lake: Path, data: bytes | None) -> None:
    rotate(lake, (NEW, OLD))
    for wrong in ("keys", None):
        file = lake / "_log" / STATE
        if wrong is None:
            file.unlink() if data is None else file.write_bytes(data)
        else:
            file.write_text(json.dumps({**json.loads(file.read_text()), "keys": 3}))
        rotate(lake, (NEW, OLD))
    assert len(keys_leaves(lake)) == 1


def test_a_file_of_rotations_that_is_gone_is_told(lake: Path, told: Told) -> None:
    rotate(lake, (NEW, OLD), (NEW,))
    (lake / "_log" / ROTATIONS).unlink()
    assert "the file was removed or cut; restore it from a copy" in words_of(told(NEW))
    assert not told(OLD)["sound"]
    rotate(lake, (NEW,))
    assert "an earlier line of rotations is gone" in words_of(told(OLD))
    assert f"with which {OLD.verifier.key_id.hex()} handed over at leaf 14" in words_of(told(NEW))


def test_a_handover_that_nothing_shows_any_more_is_a_problem(lake: Path, told: Told) -> None:
    rotate(lake, (NEW, OLD))
    (lake / "_log" / ROTATIONS).unlink()
    file = lake / "_log" / "checkpoint"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    (problem,) = grow(lake, [], NEW).problems
    assert f"lacks the checkpoint with which {OLD.verifier.key_id.hex()} handed over at leaf 14" in problem


def test_a_strangers_key_that_is_rotated_in_is_named(lake: Path, told: Told) -> None:
    (kind,) = [kind for kind in KINDS if kind.name == "stranger-rotated-in"]
    kind.apply(lake)
    found = verdict_on(lake, "--depth", "chain", "--log-key", OLD.verifier.text)
    assert found.names(kind)
    assert "a stranger's key was rotated in" in words_of(told(OLD))
    assert trusted_by(lake, OLD) == (OLD.verifier,)
    with pytest.raises(LogError, match="has not taken over"):
        grow(lake, [], OLD)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "nonsense",
        '{"leaf": 1}',
        '{"leaf": "1", "checkpoint": "x"}',
        json.dumps({"leaf": 99, "checkpoint": "a\n1\nAAAA\n"}),
        "[" * 1000,
    ],
)
def test_a_file_of_rotations_that_is_none_is_damaged(lake: Path, told: Told, line: str) -> None:
    (lake / "_log" / ROTATIONS).write_text(f"{line}\n")
    with pytest.raises(DamagedLog, match="restore the file from a copy"):
        grow(lake, [], OLD)
    assert "rotations" in words_of(told(OLD))


def test_a_file_of_rotations_is_read_up_to_a_limit(lake: Path) -> None:
    rotate(lake, (NEW, OLD))
    file = lake / "_log" / ROTATIONS
    line = file.read_text()
    file.write_text(line * MOST_ROTATIONS)
    with pytest.raises(LogError, match="have changed 1000 times"):
        grow(lake, [], NEW)
    file.write_text(line * (MOST_ROTATIONS + 1))
    with pytest.raises(DamagedLog, match="read at most"):
        [*rotation_lines(storage_of(str(lake)))]


def test_rotations_of_another_log_of_the_same_keys_are_named(lake: Path, told: Told, tmp_path: Path) -> None:
    other = small_lake(tmp_path / "other")
    publish_more(other, "silent")
    begin(str(other), [OLD])
    rotate(other, (NEW, OLD))
    shutil.copy(other / "_log" / ROTATIONS, lake / "_log" / ROTATIONS)
    assert not told(OLD)["sound"]
