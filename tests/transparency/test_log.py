"""The log: whatever is killed, cut, exchanged or set back, a signed tree only grows, or somebody is told."""

import errno
import multiprocessing
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput, BadSignature, DamagedLog, InconsistentLog, LogBusy, LogError
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.log import CHECKPOINT, COSIGNED, TransparencyLog
from evenkeel.transparency.merkle import EMPTY, is_consistent
from evenkeel.transparency.storage import MOST_FILE_BYTES, FolderStorage
from tests.transparency.logs import (
    LOG_KEY,
    NOON,
    ORIGIN,
    OTHER_KEY,
    SECOND_WITNESS_KEY,
    WITNESS_KEY,
    CosigningKey,
    KilledWriter,
    MemoryStorage,
    entries_of,
    log_of,
    opened,
)
from tests.transparency.reference_tree import root_of

pytestmark = pytest.mark.slow


def test_a_log_begins_empty_and_only_once() -> None:
    storage = MemoryStorage()
    log = opened(storage)
    with pytest.raises(DamagedLog, match="has no checkpoint"):
        log.append([b"entry"])
    made = log.create()
    assert (made.checkpoint.size, made.checkpoint.root) == (0, EMPTY)
    assert log.checkpoint().checkpoint == made.checkpoint
    with pytest.raises(LogError, match="checkpoint exists already"):
        log.create()


@given(st.lists(st.sampled_from([0, 1, 1, 2, 7, 254, 255, 256, 257, 300]), max_size=8))
def test_any_appends_come_to_the_tree_of_all_entries(numbers: list[int]) -> None:
    log, size = log_of([]), 0
    for number in numbers:
        made = log.append(entries_of(number, size))
        assert made.first == size
        size += number
        assert made.checkpoint.checkpoint.root == root_of(entries_of(size))
    assert log.checkpoint().checkpoint.size == size
    assert [*log.tree().entries(0, size)] == entries_of(size)


def test_an_append_reads_and_writes_few_files() -> None:
    storage = MemoryStorage()
    log = log_of(entries_of(66_000), storage)
    storage.reads.clear()
    storage.changes.clear()
    log.append([b"another"])
    assert storage.changes == ["tile/entries/257.p/209", "tile/0/257.p/209", "checkpoint"]
    assert len(storage.reads) <= 8


def test_partial_files_go_once_the_full_ones_are_there() -> None:
    storage = MemoryStorage()
    log = log_of([], storage)
    for number in range(260):
        log.append(entries_of(1, number))
    assert sorted(one for one in storage.files if ".p/" in one and "/0/000" in one) == []
    assert "tile/0/000" in storage.files
    assert sorted(one for one in storage.files if ".p/" in one and "/0/001" in one) == [
        f"tile/0/001.p/{width}" for width in range(1, 5)
    ]
    assert [*log.tree().entries(0, 260)] == entries_of(260)


@cache
def files_of(size: int) -> dict[str, bytes]:
    storage = MemoryStorage()
    log_of(entries_of(size), storage)
    return storage.files


@pytest.mark.parametrize(
    ("before", "more"),
    [
        *((0, 1), (5, 1), (254, 1), (255, 1), (256, 1), (250, 600)),
        pytest.param(65_535, 1, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("again", ["another", "more"])
def test_killed_before_any_change_the_log_is_as_it_was_and_the_next_append_repairs(
    before: int, more: int, again: str
) -> None:
    first = MemoryStorage(files_of(before))
    plan = MemoryStorage(dict(first.files))
    opened(plan).append(entries_of(more, before))
    assert plan.changes.index(CHECKPOINT) == len(plan.changes) - 1 - sum(one.endswith(".p") for one in plan.changes)
    for dies_at in range(len(plan.changes)):
        storage = MemoryStorage(dict(first.files), dies_at)
        with pytest.raises(KilledWriter):
            opened(storage).append(entries_of(more, before))
        storage.dies_at = None
        log = opened(storage)
        size = before if dies_at <= plan.changes.index(CHECKPOINT) else before + more
        assert log.checkpoint().checkpoint.size == size
        assert log.checkpoint().checkpoint.root == root_of(entries_of(size))
        log.tree().root_at(size // 2)
        entries = {"another": [b"x"], "more": entries_of(more + 3, size)}[again]
        made = log.append(entries)
        expected = [*entries_of(size), *entries]
        assert made.checkpoint.checkpoint.root == root_of(expected)
        assert log.tree().entry(len(expected) - 1) == expected[-1]


@pytest.mark.parametrize("name", ["tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44"])
@pytest.mark.parametrize("what", ["cut", "emptied", "of equal size", "gone"])
def test_nothing_is_appended_to_files_that_were_changed(name: str, what: str) -> None:
    storage = MemoryStorage()
    log = log_of(entries_of(300), storage)
    data = storage.files.pop(name)
    changed = {"cut": data[:-1], "emptied": b"", "of equal size": data[:-1] + bytes([data[-1] ^ 1])}
    if what in changed:
        storage.files[name] = changed[what]
    before = dict(storage.files)
    with pytest.raises(DamagedLog, match=name.replace(".", r"\.")):
        log.append([b"entry"])
    assert storage.files == before


@pytest.mark.parametrize("data", [b"", b"x", b"example.com/evenkeel\n0\n"])
def test_a_checkpoint_that_was_cut_is_told_and_not_begun_anew(data: bytes) -> None:
    storage = MemoryStorage()
    log = log_of(entries_of(3), storage)
    storage.files[CHECKPOINT] = data
    with pytest.raises(DamagedLog, match="restore it from a copy"):
        log.append([b"entry"])
    del storage.files[CHECKPOINT]
    with pytest.raises(DamagedLog, match="has no checkpoint"):
        log.append([b"entry"])
    with pytest.raises(LogError, match="cannot begin in this place"):
        log.create()


def test_a_checkpoint_of_a_stranger_is_not_continued() -> None:
    storage = MemoryStorage()
    opened(storage, [OTHER_KEY]).create()
    with pytest.raises(DamagedLog, match="no known key has signed"):
        opened(storage).append([b"entry"])


def test_a_log_that_was_set_back_is_seen_by_whoever_kept_a_later_checkpoint() -> None:
    storage = MemoryStorage()
    log = log_of(entries_of(300), storage)
    old = dict(storage.files)
    kept = [log.append(entries_of(1, size)).checkpoint.checkpoint for size in range(300, 304)]
    for one in kept:
        log.demand_continues(one)
    storage.files = old
    with pytest.raises(InconsistentLog, match=r"was set back: it has size 300, root .*=, and .* has size 304, root "):
        log.demand_continues(kept[-1])
    log.append([b"another past %d" % number for number in range(10)])
    with pytest.raises(InconsistentLog, match=r"shows another past: .* size 304, .* size 304, .* \(size 310, root"):
        log.demand_continues(kept[-1])
    log.demand_continues(log.checkpoint().checkpoint)


@pytest.mark.parametrize("more", [1, 5, 300])
def test_files_that_were_set_back_beside_a_cosigned_checkpoint_are_told_before_anything_is_appended(more: int) -> None:
    storage = MemoryStorage()
    log = log_of(entries_of(300), storage)
    old = dict(storage.files)
    log.append(entries_of(more, 300))
    text = log.checkpoint().note.text.encode()
    log.add_cosignatures(log.checkpoint(), [WITNESS_KEY.sign(text, NOON)], [WITNESS_KEY.verifier])
    storage.files = {**old, COSIGNED: storage.files[COSIGNED]}
    before = dict(storage.files)
    with pytest.raises(InconsistentLog, match="was set back"):
        log.append([b"another past"])
    assert storage.files == before
    fork = MemoryStorage()
    log_of([b"another past %d" % number for number in range(800)], fork)
    storage.files = {**fork.files, COSIGNED: storage.files[COSIGNED]}
    with pytest.raises(InconsistentLog, match="shows another past"):
        log.append([b"more"])


def test_a_log_without_its_private_key_is_read_only() -> None:
    storage = MemoryStorage()
    log_of(entries_of(3), storage)
    reader = TransparencyLog(storage, ORIGIN, log_keys=[LOG_KEY.verifier])
    assert reader.tree().entry(2) == b"entry 2"
    with pytest.raises(LogError, match="without a private key"):
        reader.append([b"entry"])


def test_a_key_of_another_name_or_kind_does_not_sign_a_log() -> None:
    for key in (SignerKey.make("example.com/other").verifier, WITNESS_KEY.verifier):
        with pytest.raises(BadInput, match="not for checkpoints of the log"):
            TransparencyLog(MemoryStorage(), ORIGIN, log_keys=[key])


def test_keys_rotate_with_an_overlap() -> None:
    storage = MemoryStorage()
    log_of(entries_of(3), storage)
    both = opened(storage, [LOG_KEY, OTHER_KEY])
    note = both.append([b"entry"]).checkpoint.note
    assert {one.key_id for one in note.signatures} == {LOG_KEY.verifier.key_id, OTHER_KEY.verifier.key_id}
    assert opened(storage, [OTHER_KEY]).append([b"later"]).checkpoint.checkpoint.size == 5
    with pytest.raises(DamagedLog, match="no known key has signed"):
        opened(storage).append([b"entry"])


def test_cosignatures_are_kept_with_their_checkpoint() -> None:
    storage = MemoryStorage()
    log = log_of(entries_of(3), storage)
    keys = [WITNESS_KEY.verifier, SECOND_WITNESS_KEY.verifier]
    assert log.cosigned(keys) is None
    first = log.checkpoint()
    text = first.note.text.encode()
    log.add_cosignatures(first, [WITNESS_KEY.sign(text, NOON)], keys)
    log.append([b"entry"])
    log.add_cosignatures(first, [SECOND_WITNESS_KEY.sign(text, NOON + 1)], keys)
    found = log.cosigned(keys)
    assert found is not None
    assert (found.checkpoint.size, found.cosigned) == (3, {keys[0]: NOON, keys[1]: NOON + 1})
    assert len(log.checkpoint().note.signatures) == 1
    second = log.checkpoint()
    log.add_cosignatures(second, [WITNESS_KEY.sign(second.note.text.encode(), NOON + 2)], keys)
    assert storage.files[CHECKPOINT] == storage.files[COSIGNED]
    log.add_cosignatures(first, [WITNESS_KEY.sign(text, NOON + 3)], keys)  # late: the later one stays
    assert log.cosigned(keys).checkpoint.size == 4
    stranger = CosigningKey("stranger.example/1", bytes(32))
    before = dict(storage.files)
    log.add_cosignatures(second, [stranger.sign(second.note.text.encode(), NOON)], keys)
    assert storage.files == before
    with pytest.raises(BadSignature, match="is wrong"):
        log.add_cosignatures(second, [WITNESS_KEY.sign(text, NOON)], keys)


def test_an_entry_that_is_too_long_changes_nothing() -> None:
    storage = MemoryStorage()
    log = log_of([], storage)
    before = dict(storage.files)
    with pytest.raises(BadInput, match="at most 65,535 bytes"):
        log.append([b"fits", bytes(65_536)])
    assert storage.files == before


# A folder.


def in_folder(folder: Path, wait_seconds: float = 60.0) -> TransparencyLog:
    return TransparencyLog(FolderStorage(folder, wait_seconds=wait_seconds), ORIGIN, [LOG_KEY])


def append_often(folder: Path, name: str, times: int) -> None:
    log = in_folder(folder)
    for number in range(times):
        log.append([f"{name} {number}".encode()])


def test_two_processes_that_append_lose_nothing(tmp_path: Path) -> None:
    in_folder(tmp_path).create()
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=append_often, args=(tmp_path, name, 40)) for name in ("a", "b")]
    for one in writers:
        one.start()
    seen = []
    while any(one.is_alive() for one in writers):
        seen.append(in_folder(tmp_path).checkpoint().checkpoint)
        in_folder(tmp_path).tree(seen[-1])  # a reader beside them finds every checkpoint's tree whole
    for one in writers:
        one.join()
    log = in_folder(tmp_path)
    tree = log.tree()
    assert sorted(tree.entries(0, tree.size)) == sorted(f"{name} {n}".encode() for name in "ab" for n in range(40))
    for was in seen:
        assert is_consistent(was.size, tree.size, was.root, tree.root, tree.consistency(was.size))


def die_within_an_append(folder: Path, at: int) -> None:
    """Kills its own process where a file is about to get its name."""
    renames, replace = [], Path.replace

    def dying(part: Path, path: Path) -> Path:
        renames.append(path)
        if len(renames) == at:
            os.kill(os.getpid(), 9)
        return replace(part, path)

    Path.replace = dying
    in_folder(folder).append(entries_of(3, 254))


@pytest.mark.parametrize("at", [1, 2, 3, 6])
def test_a_process_that_is_killed_leaves_lock_and_log_behind_in_order(tmp_path: Path, at: int) -> None:
    log = in_folder(tmp_path)
    log.create()
    log.append(entries_of(254))
    process = multiprocessing.get_context("spawn").Process(target=die_within_an_append, args=(tmp_path, at))
    process.start()
    process.join()
    assert process.exitcode == -9
    assert log.checkpoint().checkpoint.size == 254
    assert log.append(entries_of(3, 254)).checkpoint.checkpoint.root == root_of(entries_of(257))
    assert [*(tmp_path / ".parts").iterdir()] == []


def test_a_lock_that_is_held_is_told(tmp_path: Path) -> None:
    log = in_folder(tmp_path, wait_seconds=0)
    log.create()
    with FolderStorage(tmp_path).appending(), pytest.raises(LogBusy, match="held by another process for 0 s"):
        log.append([b"entry"])


def test_files_are_kept_by_the_disk_before_they_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def kept(descriptor: int) -> None:
        steps.append("kept " + os.readlink(f"/proc/self/fd/{descriptor}").rpartition("/")[2][:11])
        fsync(descriptor)

    def named(part: Path, path: Path) -> Path:
        steps.append(f"named {path.name}")
        return replace(part, path)

    storage = FolderStorage(tmp_path)
    storage.put("tile/0/000", b"first")
    monkeypatch.setattr(os, "fsync", kept)
    monkeypatch.setattr(Path, "replace", named)
    storage.put("tile/0/000", b"second")
    assert [one[:5] for one in steps] == ["kept ", "named", "kept "]
    assert steps[1:] == ["named 000", "kept 0"]
    assert storage.get("tile/0/000") == b"second"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_takes_no_more_is_told_and_the_log_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    log = in_folder(tmp_path)
    log.create()

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os if call == "fsync" else Path, call, full)
        with pytest.raises(LogError, match=r"entries/000\.p/1 cannot be written: No space left"):
            log.append([b"entry"])
    assert log.checkpoint().checkpoint.size == 0
    assert log.append([b"entry"]).checkpoint.checkpoint.size == 1


@pytest.mark.parametrize("step", ["open", "replace"])
def test_a_file_is_put_though_somebody_begins_to_append_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    storage, other, do, times = FolderStorage(tmp_path), FolderStorage(tmp_path), getattr(Path, step), []

    def beside(path: Path, *more: object) -> object:
        if ".parts" in path.parts and len(times) < 3:
            times.append(path)
            with other.appending():
                pass
        return do(path, *more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, step, beside)
        storage.put("keys", b"one")
    assert len(times) == 3
    assert storage.get("keys") == b"one"


def test_a_place_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LogError, match=r"the lock in .*/file cannot be had"):
        in_folder(tmp_path / "file").create()
    with pytest.raises(LogError, match=r"the lock in .*/file/below cannot be had"):
        in_folder(tmp_path / "file" / "below").create()


def test_a_file_that_is_no_file_of_a_log_is_refused(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    assert storage.get("tile/0/000") is None
    with (tmp_path / "checkpoint").open("wb") as file:
        file.truncate(MOST_FILE_BYTES + 1)
    with pytest.raises(DamagedLog, match="larger than any file of a log"):
        storage.get("checkpoint")
    (tmp_path / "tile").mkdir()
    with pytest.raises(DamagedLog, match="cannot be read"):
        storage.get("tile")
    storage.remove("tile")
    storage.remove("tile")
    assert not (tmp_path / "tile").exists()
