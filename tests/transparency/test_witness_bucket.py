"""A bucket as a witness: the requests that are made of it, and what its answers come to.

The answers are those of S3's documentation. `test_locked_bucket.py` asks a store that knows Object Lock.
"""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from evenkeel.errors import InconsistentLog, WitnessError
from evenkeel.object_store import StoreAccess
from evenkeel.secret import Secret
from evenkeel.transparency import kept_checkpoints
from evenkeel.transparency.kept_checkpoints import BucketPlace, WitnessBucket
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import SignedCheckpoint
from evenkeel.transparency.witness_client import origin_hash
from tests.transparency.logs import LOG_KEY, NOON, ORIGIN, OTHER_KEY, MemoryStorage, entries_of, log_of

PLACE = BucketPlace("s3://witnesses/lab", retain_days=30)
FOLDER = f"lab/{origin_hash(ORIGIN)}/"
KEYS = (LOG_KEY.verifier,)
LOCKED = {"ObjectLockMode": "COMPLIANCE"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    monkeypatch.setattr(kept_checkpoints, "_AT_ONCE", 1)
    client = StoreAccess("key", Secret("secret"), None, "us-east-1", None).for_boto(timeout_seconds=1.0, tries=2)
    with Stubber(client) as found:
        yield found
        found.assert_no_pending_responses()


def bucket_in(store: Stubber) -> WitnessBucket:
    return WitnessBucket(store.client, PLACE, ORIGIN, KEYS, clock=lambda: NOON)


def key_of(size: int) -> str:
    return f"{FOLDER}{size:020}"


def log_and(size: int) -> tuple[TransparencyLog, SignedCheckpoint]:
    log = log_of(entries_of(size))
    return log, log.checkpoint()


def body(data: bytes) -> dict[str, Any]:
    return {"Body": StreamingBody(io.BytesIO(data), len(data))}


def expect_list(store: Stubber, size: int, *keys: str) -> None:
    asked = {"Bucket": "witnesses", "Prefix": FOLDER, "StartAfter": key_of(size), "MaxKeys": 1}
    store.add_response("list_objects_v2", {"Contents": [{"Key": key} for key in keys]}, asked)


def expect_put(store: Stubber, checkpoint: SignedCheckpoint, **refused: Any) -> None:
    """The put of a checkpoint; `refused`: with which error it is answered."""
    asked = {
        "Bucket": "witnesses",
        "Key": key_of(checkpoint.checkpoint.size),
        "Body": checkpoint.note.data,
        "ContentType": "text/plain; charset=utf-8",
        "IfNoneMatch": "*",
        "ObjectLockMode": "COMPLIANCE",
        "ObjectLockRetainUntilDate": datetime.fromtimestamp(NOON, UTC) + timedelta(days=30),
    }
    if refused:
        store.add_client_error("put_object", expected_params=asked, **refused)
    else:
        store.add_response("put_object", {}, asked)


def expect_get(store: Stubber, size: int, data: bytes, version: str | None = None) -> None:
    which = {} if version is None else {"VersionId": version}
    store.add_response("get_object", body(data), {"Bucket": "witnesses", "Key": key_of(size), **which})


def expect_lock(store: Stubber, size: int, answer: dict[str, Any]) -> None:
    store.add_response("head_object", answer, {"Bucket": "witnesses", "Key": key_of(size)})


def test_a_checkpoint_is_put_once_and_locked(store: Stubber) -> None:
    log, newest = log_and(7)
    expect_list(store, 7)
    expect_put(store, newest)
    expect_lock(store, 7, LOCKED)
    assert bucket_in(store).put(newest, log.tree().consistency)
    expect_list(store, 7)
    expect_put(store, newest, service_error_code="PreconditionFailed", http_status_code=412)
    expect_get(store, 7, newest.note.data)
    expect_lock(store, 7, LOCKED)
    assert not bucket_in(store).put(newest, log.tree().consistency)


def test_two_at_the_same_time_try_again(store: Stubber) -> None:
    log, newest = log_and(7)
    expect_list(store, 7)
    expect_put(store, newest, service_error_code="ConditionalRequestConflict", http_status_code=409)
    expect_put(store, newest)
    expect_lock(store, 7, LOCKED)
    assert bucket_in(store).put(newest, log.tree().consistency)
    expect_list(store, 7)
    for _ in range(3):
        expect_put(store, newest, service_error_code="ConditionalRequestConflict", http_status_code=409)
    with pytest.raises(WitnessError, match="try again"):
        bucket_in(store).put(newest, log.tree().consistency)


def test_another_root_of_the_same_size_is_a_split_view(store: Stubber) -> None:
    log, newest = log_and(7)
    other = log_of(entries_of(7, begin=90)).checkpoint()
    expect_list(store, 7)
    expect_put(store, newest, service_error_code="PreconditionFailed", http_status_code=412)
    expect_get(store, 7, other.note.data)
    with pytest.raises(InconsistentLog, match=r"split view: s3://witnesses/lab has the log .* at size 7, root"):
        bucket_in(store).put(newest, log.tree().consistency)


def test_a_larger_tree_means_that_the_log_was_set_back(store: Stubber) -> None:
    log, newest = log_and(7)
    later = log_of(entries_of(9)).checkpoint()
    expect_list(store, 7, key_of(9))
    expect_get(store, 9, later.note.data)
    with pytest.raises(InconsistentLog, match=r"at size 9, root .* the log was set back"):
        bucket_in(store).put(newest, log.tree().consistency)


def test_what_was_put_before_has_to_have_grown(store: Stubber) -> None:
    log, newest = log_and(2)
    expect_list(store, 2)
    expect_get(store, 1, log_of(entries_of(1, begin=90)).checkpoint().note.data)
    with pytest.raises(InconsistentLog, match=r"size 2, root .* has not grown from that"):
        bucket_in(store).put(newest, log.tree().consistency, known=1)
    log, newest = log_and(7)
    expect_list(store, 7)
    expect_get(store, 5, log_of(entries_of(5, begin=90)).checkpoint().note.data)
    with pytest.raises(InconsistentLog, match=r"size 7, root .* has not grown from that"):
        bucket_in(store).put(newest, log.tree().consistency, known=5)
    expect_list(store, 7)
    expect_get(store, 5, log_of(entries_of(5)).checkpoint().note.data)
    expect_put(store, newest)
    expect_lock(store, 7, LOCKED)
    assert bucket_in(store).put(newest, log.tree().consistency, known=5)
    expect_list(store, 7)
    store.add_client_error("get_object", service_error_code="NoSuchKey", http_status_code=404)
    expect_put(store, newest)
    expect_lock(store, 7, LOCKED)
    assert bucket_in(store).put(newest, log.tree().consistency, known=5)


def test_strangers_objects_are_no_word_of_the_log(store: Stubber) -> None:
    log, newest = log_and(7)
    expect_list(store, 7, f"{FOLDER}zzz")
    expect_put(store, newest)
    expect_lock(store, 7, LOCKED)
    assert bucket_in(store).put(newest, log.tree().consistency)
    storage = MemoryStorage()
    by_stranger = TransparencyLog(storage, ORIGIN, [OTHER_KEY])
    by_stranger.create()
    by_stranger.append(entries_of(9))
    for data in (by_stranger.checkpoint().note.data, b"garbage", b"", bytes(200_000), newest.note.data):
        expect_list(store, 7, key_of(9))
        expect_get(store, 9, data)
        with pytest.raises(WitnessError, match="is not a checkpoint of this log"):
            bucket_in(store).put(newest, log.tree().consistency)


def test_a_bucket_without_object_lock_says_so(store: Stubber) -> None:
    log, newest = log_and(7)
    for message in ("Bucket is missing Object Lock Configuration", "Bucket is missing ObjectLockConfiguration"):
        expect_list(store, 7)
        refused = {"service_error_code": "InvalidRequest", "service_message": message, "http_status_code": 400}
        expect_put(store, newest, **refused)
        with pytest.raises(WitnessError, match=r"the bucket of s3://witnesses/lab has no Object Lock"):
            bucket_in(store).put(newest, log.tree().consistency)
    for answer in ({}, {"ObjectLockMode": "GOVERNANCE"}):
        expect_list(store, 7)
        expect_put(store, newest)
        expect_lock(store, 7, answer)
        with pytest.raises(WitnessError, match="does not say that the checkpoint is locked"):
            bucket_in(store).put(newest, log.tree().consistency)


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchBucket", "SlowDown", "Odd"])
def test_a_store_that_refuses_is_a_witness_that_fails(store: Stubber, code: str) -> None:
    log, newest = log_and(7)
    store.add_client_error("list_objects_v2", service_error_code=code, http_status_code=403)
    with pytest.raises(WitnessError, match=r"the witness s3://witnesses/lab cannot be listed: "):
        bucket_in(store).put(newest, log.tree().consistency)
    expect_list(store, 7)
    expect_put(store, newest, service_error_code=code, http_status_code=403)
    with pytest.raises(WitnessError, match=r"does not take a checkpoint: "):
        bucket_in(store).put(newest, log.tree().consistency)
    store.add_client_error("list_object_versions", service_error_code=code, http_status_code=403)
    with pytest.raises(WitnessError, match="cannot be listed"):
        [*bucket_in(store).kept()]


def test_missing_rights_are_named(store: Stubber) -> None:
    log, newest = log_and(7)
    store.add_client_error("list_objects_v2", service_error_code="AccessDenied", http_status_code=403)
    with pytest.raises(WitnessError, match=r"access is denied\. Putting needs s3:PutObject, s3:PutObjectRetention"):
        bucket_in(store).put(newest, log.tree().consistency)


def test_all_versions_are_read_page_by_page(store: Stubber) -> None:
    five, seven = log_of(entries_of(5)).checkpoint(), log_of(entries_of(7)).checkpoint()
    other = log_of(entries_of(7, begin=90)).checkpoint()
    asked = {"Bucket": "witnesses", "Prefix": FOLDER}
    page = {
        "Versions": [{"Key": key_of(5), "VersionId": "a"}, {"Key": key_of(7), "VersionId": "b"}],
        "DeleteMarkers": [{"Key": key_of(5), "VersionId": "m"}],
        "IsTruncated": True,
        "NextKeyMarker": key_of(7),
        "NextVersionIdMarker": "b",
    }
    store.add_response("list_object_versions", page, asked)
    expect_get(store, 5, five.note.data, "a")
    expect_get(store, 7, seven.note.data, "b")
    last = {"Versions": [{"Key": key_of(7), "VersionId": "c"}, {"Key": f"{FOLDER}x", "VersionId": "d"}]}
    store.add_response("list_object_versions", last, {**asked, "KeyMarker": key_of(7), "VersionIdMarker": "b"})
    expect_get(store, 7, other.note.data, "c")
    store.add_response("get_object", body(seven.note.data), {"Bucket": "witnesses", "Key": ANY, "VersionId": "d"})
    one, two, mark, three, odd = bucket_in(store).kept()
    found = [kept.checkpoint for kept in (one, two, three) if not isinstance(kept, str)]
    assert found == [five.checkpoint, seven.checkpoint, other.checkpoint]
    assert isinstance(mark, str)
    assert isinstance(odd, str)
    assert "was marked as deleted" in mark
    assert "is of another size than its key says" in odd


def test_no_more_is_listed_than_a_limit(store: Stubber, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_checkpoints, "MOST_VERSIONS", 1)
    marks = [{"Key": key_of(size), "VersionId": "m"} for size in (1, 2)]
    store.add_response("list_object_versions", {"DeleteMarkers": marks, "IsTruncated": True, "NextKeyMarker": "x"})
    with pytest.raises(WitnessError, match="holds more than 1 objects"):
        [*bucket_in(store).kept()]


def test_the_keys_of_two_logs_do_not_meet() -> None:
    assert BucketPlace("s3://bucket").folder("a") == f"{origin_hash('a')}/"
    assert BucketPlace("s3://bucket/x//y/").folder("a/../b") == f"x/y/{origin_hash('a/../b')}/"
