"""A file elsewhere as a witness: it grows with the log, and takes no other past."""

import errno
import json
import os
from pathlib import Path

import pytest

from evenkeel.errors import BadNote, BadSignature, DamagedLog, InconsistentLog, WitnessError
from evenkeel.locks import held
from evenkeel.transparency import kept_checkpoints
from evenkeel.transparency.kept_checkpoints import WitnessFile
from evenkeel.transparency.log import TransparencyLog
from tests.transparency.logs import LOG_KEY, NOON, ORIGIN, OTHER_KEY, MemoryStorage, entries_of, log_of, opened


def file_at(path: Path) -> WitnessFile:
    return WitnessFile(path, ORIGIN, [LOG_KEY.verifier], clock=lambda: NOON)


def appended(file: WitnessFile, log: TransparencyLog) -> bool:
    return file.append(log.checkpoint(), log.tree().consistency)


def test_every_checkpoint_is_a_line_once(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "checkpoints.jsonl"
    file, log = file_at(path), log_of([])
    assert file.latest() is None
    for number in range(4):
        assert appended(file, log)
        assert not appended(file, log)
        assert file.latest().checkpoint == log.checkpoint().checkpoint
        log.append(entries_of(300, number * 300))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["checkpoint"].split("\n")[1] for line in lines] == ["0", "300", "600", "900"]
    assert lines[0]["at"] == "2026-11-26T12:00:00.000000+00:00"


@pytest.mark.parametrize("second", [3, 5, 8])
def test_another_past_is_refused_with_both_sizes_and_roots(tmp_path: Path, second: int) -> None:
    file, log, other = file_at(tmp_path / "c"), log_of(entries_of(5)), log_of(entries_of(second, 100))
    appended(file, log)
    before = (tmp_path / "c").read_bytes()
    with pytest.raises(InconsistentLog, match="set back" if second < 5 else "split view") as told:
        appended(file, other)
    for one in (log, other):
        assert one.checkpoint().checkpoint.words in str(told.value)
    assert (tmp_path / "c").read_bytes() == before


def test_a_line_that_was_cut_was_never_acknowledged(tmp_path: Path) -> None:
    path, log = tmp_path / "c", log_of(entries_of(5))
    appended(file_at(path), log)
    whole = path.read_bytes()
    log.append([b"more"])
    path.write_bytes(whole + b'{"at": "2026-')
    assert file_at(path).latest().checkpoint.size == 5
    assert appended(file_at(path), log)
    assert path.read_bytes().startswith(whole + b'{"at": "2026-11-26T12')
    assert file_at(path).latest().checkpoint.size == 6
    path.write_bytes(whole[:20])
    assert file_at(path).latest() is None


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"x",
        b"",
        b'{"checkpoint": 1}',
        b'{"checkpoint": "\\ud800"}',
        b"[" * 100,
        b"stranger",
        b"x" * 10**6,
    ],
)
def test_a_last_line_that_is_no_checkpoint_of_the_log_is_told(tmp_path: Path, line: bytes) -> None:
    path, log = tmp_path / "c", log_of(entries_of(5))
    appended(file_at(path), log)
    if line == b"stranger":
        line = json.dumps({"at": "x", "checkpoint": _strangers_note()}).encode()
    path.write_bytes(path.read_bytes() + line + b"\n")
    before = path.read_bytes()
    with pytest.raises(DamagedLog, match="its last line is"):
        appended(file_at(path), log)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("beside", "is_read"), [([1], True), ([[1]], False), ([1] * 94, True), ([1] * 95, False)])
def test_a_line_nested_deeper_than_two_or_of_over_a_hundred_values_is_not_read(
    tmp_path: Path, beside: list[object], is_read: bool
) -> None:
    path, log = tmp_path / "c", log_of(entries_of(5))
    appended(file_at(path), log)
    line = json.loads(path.read_bytes())
    path.write_bytes(json.dumps({**line, "beside": beside}).encode() + b"\n")
    if is_read:
        assert file_at(path).latest().checkpoint.size == 5
        assert [*WitnessFile.notes_in(path.read_bytes())] == [line["checkpoint"].encode()]
        return
    with pytest.raises(DamagedLog, match="its last line is"):
        file_at(path).latest()
    with pytest.raises(BadNote):
        [*WitnessFile.notes_in(path.read_bytes())]


def test_a_checkpoint_of_a_stranger_is_not_taken(tmp_path: Path) -> None:
    log = opened(MemoryStorage(), [OTHER_KEY])
    log.create()
    with pytest.raises(BadSignature, match="no known key has signed"):
        appended(file_at(tmp_path / "c"), log)
    assert not (tmp_path / "c").exists()


def _strangers_note() -> str:
    log = opened(MemoryStorage(), [OTHER_KEY])
    log.create()
    return log.checkpoint().note.data.decode()


def test_a_line_lasts_before_it_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []

    def fails(descriptor: int) -> None:
        kept.append(os.path.samestat(os.fstat(descriptor), (tmp_path / "c").stat()))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(WitnessError, match="cannot be written: No space left"):
        appended(file_at(tmp_path / "c"), log_of(entries_of(5)))
    assert kept == [True]


def test_a_file_that_another_process_writes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_checkpoints, "_WAIT_SECONDS", 0.0)
    log = log_of(entries_of(5))
    with held(tmp_path / "c.lock"), pytest.raises(WitnessError, match="held by another process"):
        appended(file_at(tmp_path / "c"), log)
