"""A bucket with Object Lock as the witness of a lake's log, in a store that knows it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from evenkeel.transparency import LOG_KEY as VARIABLE
from evenkeel.transparency.lake_log import begin, storage_of
from evenkeel.transparency.publishing import log_commits
from evenkeel.transparency.witnesses import witness_states
from tests.left_out import VERSITYGW, lacking
from tests.object_store.stores import Store, running_locking_store, versitygw
from tests.transparency.lakes import copied, publish_more
from tests.transparency.logs import LOG_KEY, OTHER_KEY
from tests.transparency.telling import Told, teller

pytestmark = [pytest.mark.exhaustive]

LOCKED, PLAIN = "s3://locked/lab", "s3://plain/lab"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with a bucket that locks and one that does not."""
    program = versitygw(build=True)
    if program is None:
        pytest.skip(lacking(VERSITYGW))
    with running_locking_store(tmp_path_factory.mktemp("store"), program) as running:
        client = running.client()
        client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        client.create_bucket(Bucket="plain")
        yield running


@pytest.fixture
def lake(begun: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log of 12 leaves, whose witness is a folder of its own in the bucket that locks."""
    for name, value in store.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv(VARIABLE, LOG_KEY.secret().reveal())
    monkeypatch.setenv("EVENKEEL_WITNESSES", f"{LOCKED}/{tmp_path.name} retain_days=2")
    return copied(begun, tmp_path / "lake")


@pytest.fixture
def bucket(lake: Path, tmp_path: Path) -> str:
    return f"{LOCKED}/{tmp_path.name}"


@pytest.fixture
def told(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    return teller(lake, capsys)


def published(lake: Path) -> None:
    log_commits(str(lake), publish_more(lake, "lab"))


def words_of(found: dict[str, Any]) -> str:
    return "\n".join(fault["words"] for fault in found["faults"])


def objects(store: Store, bucket: str) -> list[dict[str, Any]]:
    """The versions that the bucket has of the log's objects, by key."""
    name, _, prefix = bucket.removeprefix("s3://").partition("/")
    found = store.client().list_object_versions(Bucket=name, Prefix=f"{prefix}/")
    return sorted(found.get("Versions", []), key=lambda one: one["Key"])


def test_each_checkpoint_is_locked_and_the_log_is_held_against_all(
    lake: Path, store: Store, bucket: str, told: Told
) -> None:
    published(lake)
    published(lake)
    assert witness_states(storage_of(str(lake)))[bucket].fault == ""
    one, two = objects(store, bucket)
    assert [key["Key"][-4:] for key in (one, two)] == ["0014", "0016"]
    client = store.client()
    head = client.head_object(Bucket="locked", Key=one["Key"])
    assert head["ObjectLockMode"] == "COMPLIANCE"
    with pytest.raises(ClientError):
        client.delete_object(Bucket="locked", Key=one["Key"], VersionId=one["VersionId"])
    found = told("--against", bucket)
    assert found["faults"] == []
    assert f"the witness {bucket} (2 checkpoints, up to 16 leaves)" in found["log"]["agreed"]


def test_a_log_that_was_begun_anew_contradicts_the_bucket(lake: Path, bucket: str, told: Told) -> None:
    published(lake)
    shutil.rmtree(lake / "_log")
    begin(str(lake), [LOG_KEY])
    log_commits(str(lake), [])
    state = witness_states(storage_of(str(lake)))[bucket]
    assert state.is_inconsistent
    assert "split view" in state.fault
    assert "shows another past" in words_of(told("--against", bucket))


def test_a_log_that_was_set_back_contradicts_the_bucket(lake: Path, bucket: str, told: Told, tmp_path: Path) -> None:
    before = copied(lake / "_log", tmp_path / "before")
    published(lake)
    shutil.rmtree(lake / "_log")
    copied(before, lake / "_log")
    assert "was set back: it has size 12" in words_of(told("--against", bucket))


def test_what_is_put_on_top_or_hidden_is_seen(lake: Path, store: Store, bucket: str, told: Told) -> None:
    published(lake)
    (one,) = objects(store, bucket)
    client = store.client()
    client.put_object(Bucket="locked", Key=one["Key"], Body=b"garbage")
    client.delete_object(Bucket="locked", Key=one["Key"])
    found = told("--against", bucket)
    assert "is not a checkpoint of this log" in words_of(found)
    assert "was marked as deleted" in words_of(found)
    assert f"the witness {bucket} (1 checkpoint, up to 14 leaves)" in found["log"]["agreed"]


def test_keys_that_were_rotated_still_read_the_bucket(
    lake: Path, bucket: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(lake)
    for keys in ((OTHER_KEY, LOG_KEY), (OTHER_KEY,)):
        monkeypatch.setenv(VARIABLE, "\n".join(key.secret().reveal() for key in keys))
        published(lake)
    assert told("--against", bucket)["faults"] == []


def test_a_bucket_that_does_not_lock_says_so(lake: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_WITNESSES", PLAIN)
    published(lake)
    fault = witness_states(storage_of(str(lake)))[PLAIN].fault
    assert "has no Object Lock" in fault or "does not say that the checkpoint is locked" in fault


def test_a_store_that_is_gone_stops_nothing(
    lake: Path, bucket: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    published(lake)
    assert "cannot be listed" in witness_states(storage_of(str(lake)))[bucket].fault
    assert "does not say what it has seen" in words_of(told("--against", bucket))
