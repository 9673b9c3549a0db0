"""What goes wrong between here and the store: a message that says what, where, and what to do, and no secret."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, SettingsError
from evenkeel.object_store import S3Connection
from evenkeel.secret import Secret
from evenkeel.sources.landing_zone import s3 as client
from evenkeel.sources.landing_zone.s3 import S3Error, connect, place_of
from evenkeel.sources.landing_zone.search import S3Landing
from evenkeel.sources.landing_zone.spool import upload_snapshot
from tests.sources.landing_zone.conftest import Bucket, client_of
from tests.sources.landing_zone.faults import Action, Hold, page, refuse
from tests.sources.landing_zone.snapshots import snapshot
from tests.sources.landing_zone.stand_in import ACCESS_KEY, SECRET_KEY, free_port

pytestmark = pytest.mark.slow

SKEWED = refuse(403, "RequestTimeTooSkewed", RequestTime="20260301T120000Z", ServerTime="2026-03-01T12:20:00Z")


@pytest.fixture(autouse=True)
def hardly_any_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TRIES", 2)


def test_a_wrong_secret_is_named_and_not_shown(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="evenkeel")
    store = client_of(bucket.faults.url, secret="another-secret")
    with pytest.raises(
        S3Error, match=r"the secret key does not belong to the access key id. Check AWS_ACCESS_KEY_ID"
    ) as up:
        upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=store)
    with pytest.raises(S3Error, match=rf"cannot read snapshots of lab at {bucket.url}: the secret key") as down:
        S3Landing(bucket.url, tmp_path, "lab", store).snapshot_at()
    for text in (str(up.value), str(down.value), caplog.text, repr(up.value)):
        assert "another-secret" not in text
        assert "StringToSign" not in text


def test_an_unknown_key_is_named(bucket: Bucket, tmp_path: Path) -> None:
    given = S3Connection(
        access_key="nobody", secret_key=Secret(SECRET_KEY), region="us-east-1", endpoint=bucket.faults.url
    )
    with pytest.raises(S3Error, match="does not know the access key id"):
        upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=connect("x", lambda _: given))
    assert SECRET_KEY not in repr(given)


def test_a_connection_that_nobody_knows() -> None:
    for resolve in (None, lambda name: None):
        with pytest.raises(SettingsError, match="connection 'aws_landing' is unknown: make it, or leave it out"):
            connect("aws_landing", resolve)


def test_a_bucket_that_is_not_there(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(S3Error, match=r"there is no such bucket at this store. Create it, or correct the address"):
        upload_snapshot(snapshot(tmp_path), "s3://nobodys-bucket/land", "lab", client=bucket.client)
    with pytest.raises(
        S3Error, match="cannot read snapshots of lab at s3://nobodys-bucket/land: there is no such bucket"
    ):
        S3Landing("s3://nobodys-bucket/land", tmp_path, "lab", bucket.client).snapshot_at()
    with pytest.raises(S3Error, match="Invalid bucket name"):
        S3Landing("s3://no bucket/land", tmp_path, "lab", bucket.client).snapshot_at()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (refuse(403, "AccessDenied"), "access is denied. Uploading needs s3:ListBucket"),
        (refuse(400, "ExpiredToken"), "session token has expired. Log in again"),
        (refuse(400, "AuthorizationHeaderMalformed"), "signed for another region. Set AWS_REGION"),
        (
            SKEWED,
            r"clock .* too far apart \(this machine 20260301T120000Z, the store 2026-03-01T12:20:00Z\). "
            "Set the clock by NTP",
        ),
        (refuse(501, "NotImplemented"), "It must know conditional writes"),
        (refuse(418, "Teapot"), "the store answered Teapot, HTTP status 418: told to"),
        (page(200), r"is not one of S3.*Is a proxy in between"),
        (page(404), r"is not one of S3 \(HTTP status 404\)"),
        (page(407), r"is not one of S3 \(HTTP status 407\). Is a proxy in between"),
    ],
)
def test_refusals_say_what_to_do(bucket: Bucket, tmp_path: Path, action: Action, expected: str) -> None:
    bucket.faults.on("GET", "list-type=2", action, 100)
    with pytest.raises((S3Error, BadInput), match=expected):
        S3Landing(bucket.url, tmp_path, "lab", bucket.client).snapshot_at()


def test_an_endpoint_where_nobody_listens(tmp_path: Path) -> None:
    port = free_port()
    store = client_of(f"http://user:password@127.0.0.1:{port}")
    with pytest.raises(S3Error, match=rf"no whole answer from http://127\.0\.0\.1:{port} \(EndpointConn") as caught:
        S3Landing("s3://bucket/land", tmp_path, "lab", store).snapshot_at()
    assert "Check AWS_ENDPOINT_URL_S3" in str(caught.value)
    assert "password" not in str(caught.value)


def test_a_store_that_never_answers(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "READ_SECONDS", 0.2)
    hold = Hold()
    bucket.faults.on("GET", "list-type=2", hold, times=2)
    with pytest.raises(S3Error, match=r"no whole answer from http://127\.0\.0\.1:\d+ \(ReadTimeoutError\)"):
        S3Landing(bucket.url, tmp_path, "lab", client_of(bucket.faults.url)).snapshot_at()
    hold.release.set()
    assert bucket.faults.count() == 2


def test_an_endpoint_that_is_no_url() -> None:
    with pytest.raises(S3Error, match="the endpoint is not a URL like https"):
        client_of("store.example")


def test_a_store_that_speaks_no_tls(bucket: Bucket, tmp_path: Path) -> None:
    store = client_of(bucket.faults.url.replace("http:", "https:"))
    with pytest.raises(S3Error, match=r"TLS to https://127.0.0.1:.*AWS_CA_BUNDLE"):
        S3Landing(bucket.url, tmp_path, "lab", store).snapshot_at()


def test_no_credentials_at_all(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.faults.url)
    with pytest.raises(S3Error, match=r"no credentials were found. Check AWS_ACCESS_KEY_ID"):
        S3Landing(bucket.url, tmp_path, "lab", connect()).snapshot_at()


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    with pytest.raises(S3Error, match=r"cannot connect to S3: .*nobodys.*Check AWS_PROFILE"):
        connect()


def test_the_environment_alone_is_enough(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.faults.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=connect()).outcome == "uploaded"
    assert bucket.faults.count("PUT", f"^/{bucket.name}/land") > 0, "the bucket stands in the path"


def test_amazons_own_endpoint_keeps_the_bucket_in_the_hosts_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    url = connect().generate_presigned_url("get_object", Params={"Bucket": "landing", "Key": "x"})
    assert url.startswith("https://landing.s3.")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("bucket/prefix", "is not an S3 address: write s3://BUCKET/PREFIX"),
        ("s3://", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("s3://key:secret@store/bucket", "holds neither credentials nor a host"),
        ("s3://store:9000/bucket", "AWS_ENDPOINT_URL_S3"),
        ("https://key:secret@store/bucket", "'https://store/bucket' is not an S3 address"),
    ],
)
def test_an_address_that_is_none(url: str, expected: str) -> None:
    with pytest.raises(BadInput, match=expected) as caught:
        place_of(url)
    assert "secret" not in str(caught.value)


def test_a_name_that_no_key_can_hold(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="its name is empty"):
        upload_snapshot(snapshot(tmp_path), bucket.url, "", client=bucket.client)
    with pytest.raises(BadInput, match="not valid Unicode"):
        upload_snapshot(snapshot(tmp_path), bucket.url, "\udc80", client=bucket.client)


def test_times_are_told_in_utc(bucket: Bucket, tmp_path: Path) -> None:
    upload_snapshot(snapshot(tmp_path), bucket.url, "lab", client=bucket.client)
    found = S3Landing(bucket.url, tmp_path / "l", "lab", bucket.client).snapshot_at("2026-03-01T14:00:05+02:00")
    assert datetime.fromisoformat(found.snapshot.cycle_at) == datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
