"""A transparency log beside tables in a store: the same files as in a folder, appended by one process at a time."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import DamagedLog, LogBusy, LogError
from evenkeel.transparency.lake_log import append_commits, begin, open_log, storage_of
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.storage import MOST_FILE_BYTES, BucketStorage, FolderStorage
from evenkeel.verify.log_check import LogSources, open_check
from tests.object_store.conftest import NUMBERS
from tests.object_store.stores import Store
from tests.transparency.lakes import small_lake
from tests.transparency.logs import LOG_KEY, ORIGIN

pytestmark = pytest.mark.slow

NOON = 1_763_985_600.0
Places = Callable[..., BucketStorage]


@pytest.fixture
def place(store: Store, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Opens a place for a log in the store, the same one each time."""
    for name, value in store.variables().items():
        monkeypatch.setenv(name, value)
    address = f"s3a://{store.bucket}/log-{next(NUMBERS)}/_log"
    return lambda **given: BucketStorage(address, **given)


def log_in(storage: Any) -> TransparencyLog:
    return TransparencyLog(storage, ORIGIN, [LOG_KEY])


def test_it_has_the_same_files_as_in_a_folder(place: Places, tmp_path: Path) -> None:
    here, there = FolderStorage(tmp_path), place()
    for storage in (here, there):
        log = log_in(storage)
        log.create()
        for begin_at, end in ((0, 3), (3, 255), (255, 600)):
            log_in(storage).append([b"%d" % number for number in range(begin_at, end)])
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(names) > 5
    for name in names:
        if name != ".lock":
            assert place().get(name) == here.get(name), name
    for folder in ("", "tile", "tile/0", "tile/entries", "nowhere"):
        assert place().names(folder, 1_000) == sorted(name for name in here.names(folder, 1_000) if name[0] != ".")
    with pytest.raises(DamagedLog, match="more than 1 "):
        place().names("tile/0", 1)
    assert log_in(place()).checkpoint().checkpoint.size == 600
    assert [*log_in(place()).tree().entries(254, 258)] == [b"254", b"255", b"256", b"257"]


def test_many_append_at_once_and_nothing_is_lost(place: Places) -> None:
    log_in(place()).create()

    def one(number: int) -> None:
        for time in range(3):
            log_in(place()).append([b"%d of %d" % (time, number)])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tree = log_in(place()).tree()
    assert sorted(tree.entries(0, tree.size)) == sorted(b"%d of %d" % (t, n) for t in range(3) for n in range(4))


def test_a_holder_that_stood_still_overwrites_nothing(place: Places) -> None:
    log_in(place()).create()
    frozen = place(lasts_seconds=-15.0)  # its time is over for others as soon as it begins
    with frozen.appending():
        assert frozen.get("checkpoint") is not None
        assert log_in(place()).append([b"another's"]).first == 0
        with pytest.raises(LogBusy, match="run this again"):
            frozen.put("checkpoint", b"mine")
    assert log_in(place()).checkpoint().checkpoint.size == 1
    with place(wait_seconds=0).appending(), pytest.raises(LogBusy, match="held by another process for 0 s"):
        log_in(place(wait_seconds=0)).append([b"more"])
    assert log_in(place(wait_seconds=0)).append([b"more"]).first == 1


def test_what_nobody_of_ours_puts_is_told(place: Places, store: Store) -> None:
    storage = place()
    storage.put("checkpoint", b"\xff")
    with pytest.raises(DamagedLog, match="checkpoint of the log"):
        log_in(place()).checkpoint()
    client, (bucket, _, key) = store.client(), storage._full("tile/0/000").removeprefix("s3a://").partition("/")
    client.put_object(Bucket=bucket, Key=key, Body=b"x" * (MOST_FILE_BYTES + 1))
    with pytest.raises(DamagedLog, match="larger than any file of a log"):
        place().get("tile/0/000")
    client.put_object(Bucket=bucket, Key=key.replace("tile/0/000", ".lock"), Body=b"for ever")
    with place(wait_seconds=0).appending():
        pass  # what is no lease keeps nobody away
    storage.remove("tile")
    assert place().get("tile/0/000") is None
    with pytest.raises(LogError, match="there is no such bucket"):
        BucketStorage("s3a://no-such-bucket/_log").put("x", b"")


def test_a_lake_in_a_store_is_logged_and_verified(
    place: Places, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, lake = small_lake(tmp_path), store.lake(f"logged-{next(NUMBERS)}")
    client, bucket = store.client(), store.bucket
    for path in local.rglob("*"):
        if path.is_file():
            key = f"{lake.removeprefix(f's3a://{bucket}/')}/{path.relative_to(local).as_posix()}"
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    found = [begin(str(one), [LOG_KEY], clock=lambda: NOON) for one in (local, lake)]
    assert found[0].checkpoint.checkpoint == found[1].checkpoint.checkpoint
    assert append_commits(lake, [LOG_KEY], adopt_by="alice").leaves == 0
    assert open_log(storage_of(lake)).checkpoint().checkpoint.size == found[0].checkpoint.checkpoint.size
    check = open_check(lake, LogSources(log_keys=(LOG_KEY.verifier,)))
    check.check_commits(is_whole=True)
    assert check.faults == []
