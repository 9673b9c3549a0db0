"""A bucket among the witnesses of a lake: how it is named, told and asked, by the requests that are made of it."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from evenkeel.cli import main
from evenkeel.errors import SettingsError
from evenkeel.object_store import StoreAccess
from evenkeel.secret import Secret
from evenkeel.transparency import kept_checkpoints
from evenkeel.transparency.lake_log import begin, open_log, storage_of
from evenkeel.transparency.witness_client import origin_hash
from evenkeel.transparency.witnesses import tell_witnesses, witnesses_of
from tests.object_store.stores import Store
from tests.sources.landing_zone import stand_in
from tests.transparency.lakes import publish_more, published, small_lake
from tests.transparency.logs import LOG_KEY, ORIGIN

pytestmark = pytest.mark.slow

BUCKET = "s3://witnesses/lab"
FOLDER = f"lab/{origin_hash(ORIGIN)}/"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log of 12 leaves."""
    for name in ("EVENKEEL_WITNESSES", "EVENKEEL_LOG_KEY", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    return lake


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """The one client of a store, whose answers are given."""
    monkeypatch.setattr(kept_checkpoints, "_AT_ONCE", 1)
    made = StoreAccess("key", Secret("secret"), None, "us-east-1", None).for_boto(timeout_seconds=1.0, tries=2)
    monkeypatch.setattr(StoreAccess, "for_boto", lambda self, **given: made)
    with Stubber(made) as found:
        yield found
        found.assert_no_pending_responses()


def kept(store: Stubber, *notes: bytes) -> None:
    """A bucket with these objects."""
    sizes = [int(note.split(b"\n")[1]) for note in notes]
    page = {"Versions": [{"Key": f"{FOLDER}{size:020}", "VersionId": "v"} for size in sizes]}
    store.add_response("list_object_versions", page, {"Bucket": "witnesses", "Prefix": FOLDER})
    for note in notes:
        store.add_response("get_object", {"Body": StreamingBody(io.BytesIO(note), len(note))}, None)


def verified(lake: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["verify", "--lake", str(lake), "--depth", "chain", "--json", "--against", BUCKET])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def note_of(lake: Path) -> bytes:
    return (lake / "_log" / "checkpoint").read_bytes()


def test_a_checkpoint_is_put_there(lake: Path, store: Stubber) -> None:
    asked = {"Bucket": "witnesses", "Key": f"{FOLDER}{12:020}"}
    store.add_response(
        "list_objects_v2", {}, {"Bucket": "witnesses", "Prefix": FOLDER, "StartAfter": ANY, "MaxKeys": 1}
    )
    store.add_response("put_object", {}, None)
    store.add_response("head_object", {"ObjectLockMode": "COMPLIANCE"}, asked)
    storage = storage_of(str(lake))
    (state,) = tell_witnesses(storage, open_log(storage, [LOG_KEY]), witnesses_of(BUCKET, "here"))
    assert (state.size, state.fault) == (12, "")


def test_a_bucket_that_refuses_stops_nothing(lake: Path, store: Stubber) -> None:
    store.add_client_error("list_objects_v2", service_error_code="AccessDenied", http_status_code=403)
    storage = storage_of(str(lake))
    (state,) = tell_witnesses(storage, open_log(storage, [LOG_KEY]), witnesses_of(BUCKET, "here"))
    assert "access is denied" in state.fault


def test_a_store_that_knows_no_object_lock_says_so(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with stand_in.running(tmp_path / "store") as running:
        own = Store(running.port, running.folder)
        own.client().create_bucket(Bucket="witnesses")
        for name, value in own.variables().items():
            monkeypatch.setenv(name, value)
        storage = storage_of(str(lake))
        (state,) = tell_witnesses(storage, open_log(storage, [LOG_KEY]), witnesses_of(BUCKET, "here"))
        assert "does not know what a witness needs: Object Lock" in state.fault
        (fault,) = verified(lake, capsys)["faults"]
        assert "does not know what a witness needs: Object Lock" in fault["words"]


def test_the_log_is_held_against_every_checkpoint(
    lake: Path, store: Stubber, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = note_of(lake)
    published(lake, "lab")
    kept(store, first, note_of(lake))
    found = verified(lake, capsys)
    assert found["faults"] == []
    assert found["log"]["agreed"] == [f"the witness {BUCKET} (2 checkpoints, up to 14 leaves)"]
    other = small_lake(tmp_path / "other")
    publish_more(other, "silent")
    begin(str(other), [LOG_KEY])
    kept(store, first, note_of(other), b"garbage\n1\n")
    words = [fault["words"] for fault in verified(lake, capsys)["faults"]]
    assert len(words) == 2
    assert "shows another past" in words[0]
    assert "is not a checkpoint of this log" in words[1]


def test_an_empty_bucket_has_seen_nothing(lake: Path, store: Stubber, capsys: pytest.CaptureFixture[str]) -> None:
    kept(store)
    (fault,) = verified(lake, capsys)["faults"]
    assert fault["words"] == f"the witness {BUCKET} has seen no checkpoint of it"


def test_without_keys_it_is_told_what_is_missing(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    (fault,) = verified(lake, capsys)["faults"]
    assert f"the witness {BUCKET} is in an object store, and no credentials for it were found" in fault["words"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("s3://", "names no bucket"),
        ("s3://key:secret@bucket/lab", "holds credentials"),
        ("s3://Bucket", "names no bucket"),
        ("s3://bucket/../lab", "no parts"),
        ("rfc3161 https://me:secret@stamps.example ca_file=/ca", "without user"),
        ("s3://bucket/lab retain_days=0", "retain_days=NUMBER"),
        ("s3://bucket/lab retain_days=36501", "1 to 36,500 days"),
        ("s3://bucket/lab retain_days=1 retain_days=2", "retain_days=NUMBER"),
        ("s3://bucket/lab forever", "retain_days=NUMBER"),
        ("s3://bucket/lab\ns3://bucket/lab retain_days=9", "twice"),
    ],
)
def test_a_line_that_names_no_bucket_is_refused(line: str, fault: str) -> None:
    with pytest.raises(SettingsError, match=fault) as told:
        witnesses_of(line, "EVENKEEL_WITNESSES")
    assert "secret" not in str(told.value)


def test_a_bucket_is_named_by_its_address() -> None:
    (one,) = witnesses_of("s3://bucket/lab retain_days=36500", "here")
    assert one.bucket is not None
    assert (one.name, one.bucket.retain_days, one.bucket.bucket) == ("s3://bucket/lab", 36_500, "bucket")
