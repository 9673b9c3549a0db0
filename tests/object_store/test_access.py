"""How a store is named and reached: one address per place, keys from where AWS's tools find them, and none shown."""

import stat
from pathlib import Path

import pytest

from evenkeel import object_store
from evenkeel.errors import BadInput, LakeError, SettingsError
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.object_store import S3Connection, access, canonical, explained, hand_over, is_configured
from evenkeel.secret import Secret
from evenkeel.spark.command import ServerSettings, server_command, server_environment

KEYS = {"AWS_ACCESS_KEY_ID": "key-id", "AWS_SECRET_ACCESS_KEY": "the-secret-key"}
STORE = {"AWS_ENDPOINT_URL": "https://store.example:9000"}


@pytest.mark.parametrize("address", ["s3a://b-1/lakes/east", "s3://b-1/lakes/east/", "s3n://b-1//lakes/east"])
def test_all_schemes_of_s3_name_one_place(address: str) -> None:
    assert canonical(address) == "s3a://b-1/lakes/east"
    assert Lake(address).path("cycles") == "s3a://b-1/lakes/east/cycles"


@pytest.mark.parametrize("address", ["s3://", "s3a:///lake", "s3a://b_/x", "s3a://b-1/../lake", "s3a://-b/lake"])
def test_an_address_that_names_no_place_is_refused(address: str) -> None:
    with pytest.raises(BadInput):
        canonical(address)


def test_credentials_in_an_address_are_refused_and_not_shown() -> None:
    for address in (
        "s3a://key:the-secret@b-1/lake",
        "s3a://key:the/the-secret@b-1/lake",
        "s3://b-1/key:the-secret@x/..",
    ):
        with pytest.raises(BadInput) as refused:
            canonical(address)
        assert "the-secret" not in str(refused.value)
    with pytest.raises(LakeError, match="a lake is in a folder") as other:
        files_of("https://key:the-secret@store/lake")
    assert "the-secret" not in str(other.value)


def test_a_folder_and_other_stores_are_left_as_they_are(tmp_path: Path) -> None:
    assert canonical(str(tmp_path)) == str(tmp_path)
    assert files_of(str(tmp_path)).full("part") == f"{tmp_path}/part"
    for other in ("abfss://lakes@store/east", "gs://lakes/east"):
        with pytest.raises(LakeError, match="a lake is in a folder, or in an object store that speaks S3"):
            files_of(other)


def test_keys_region_and_endpoint_come_from_the_environment() -> None:
    more = {"AWS_SESSION_TOKEN": "a-token", "AWS_REGION": "eu-west-1"}
    found = access({**KEYS, **STORE, **more})
    assert (found.access_key, found.region, found.endpoint) == ("key-id", "eu-west-1", "https://store.example:9000")
    options = found.for_deltalake()
    assert options["AWS_SECRET_ACCESS_KEY"] == "the-secret-key"
    assert options["AWS_SESSION_TOKEN"] == "a-token"
    assert "AWS_ALLOW_HTTP" not in options
    assert "the-secret-key" not in repr(found)
    assert "a-token" not in repr(found)


def test_the_endpoint_of_s3_alone_wins_over_that_of_all_services() -> None:
    found = access({**KEYS, **STORE, "AWS_ENDPOINT_URL_S3": "https://s3.example"})
    assert found.endpoint == "https://s3.example"


def test_a_profile_brings_what_it_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile far]\nregion = eu-north-1\nendpoint_url = https://far.example\n")
    (tmp_path / "keys").write_text("[far]\naws_access_key_id = far-id\naws_secret_access_key = far-secret\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_PROFILE", "far")
    found = access()
    assert (found.access_key, found.region, found.endpoint) == ("far-id", "eu-north-1", "https://far.example")
    assert found.secret_key == Secret("far-secret")
    monkeypatch.setenv("AWS_PROFILE", "unheard-of")
    with pytest.raises(SettingsError, match="AWS's configuration does not fit"):
        access()


def test_without_keys_it_says_where_they_may_come_from() -> None:
    with pytest.raises(SettingsError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile"):
        access({})
    with pytest.raises(SettingsError, match="go together: only one of them is set"):
        access({"AWS_ACCESS_KEY_ID": "key-id"})


@pytest.mark.parametrize("endpoint", ["store:9000", "ftp://store", "https://u:p4ss@store", "https://"])
def test_an_endpoint_that_is_no_url_is_refused_and_not_shown(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="is not a URL like") as refused:
        access({**KEYS, "AWS_ENDPOINT_URL": endpoint})
    assert "p4ss" not in str(refused.value)


def test_plain_http_is_for_this_machine_or_for_those_who_ask_for_it() -> None:
    assert access({**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}).for_deltalake()["AWS_ALLOW_HTTP"] == "true"
    far = {**KEYS, "AWS_ENDPOINT_URL": "http://store.example"}
    with pytest.raises(SettingsError, match="is plain http: anyone on the network path can read"):
        access(far)
    assert access({**far, "AWS_ALLOW_HTTP": "true"}).plain


def test_a_connection_of_airflows_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "aws_lake": S3Connection("their-id", Secret("their-secret"), region="eu-west-3", endpoint="https://theirs")
    }
    monkeypatch.setattr(object_store, "_resolve", known.get)
    found = access({**KEYS, **STORE, "EVENKEEL_LAKE_CONNECTION": "aws_lake"})
    assert (found.access_key, found.region, found.endpoint) == ("their-id", "eu-west-3", "https://theirs")
    with pytest.raises(SettingsError, match="names a connection that is unknown"):
        access({**KEYS, "EVENKEEL_LAKE_CONNECTION": "aws_other"})


def test_a_connection_without_keys_is_for_place_and_region(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"aws_place": S3Connection(region="eu-west-3", endpoint="https://theirs")}
    monkeypatch.setattr(object_store, "_resolve", known.get)
    found = access({**KEYS, **STORE, "EVENKEEL_LAKE_CONNECTION": "aws_place"})
    assert (found.access_key, found.region, found.endpoint) == ("key-id", "eu-west-3", "https://theirs")


def test_what_is_handed_to_a_server_is_for_its_user_only(tmp_path: Path) -> None:
    hand_over(tmp_path, str(tmp_path / "lake"), KEYS)
    assert not (tmp_path / object_store.FOLDER).exists(), "a folder needs no keys"
    hand_over(tmp_path, "s3://b-1/lake", {**KEYS, **STORE})
    hand_over(tmp_path, "s3a://b-1/other", {**KEYS, **STORE, "AWS_SESSION_TOKEN": "back\\slash"})
    file = tmp_path / object_store.FOLDER / "b-1.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert file.read_text().splitlines() == [
        *("access.key=key-id", "secret.key=the-secret-key", r"session.token=back\\slash"),
        *("region=us-east-1", "endpoint=https://store.example:9000"),
    ]
    assert [one.name for one in file.parent.iterdir()] == ["b-1.properties"]


def test_no_key_is_on_a_servers_command_line_or_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**KEYS, **STORE, "AWS_SESSION_TOKEN": "a-token"}.items():
        monkeypatch.setenv(name, value)
    texts = [*server_command(15002, tmp_path, ServerSettings()), *server_environment(ServerSettings(), "t").values()]
    assert not any(secret in text for text in texts for secret in ("the-secret-key", "a-token", "key-id"))


def test_whether_an_environment_speaks_of_a_store() -> None:
    assert not is_configured({"PATH": "/bin"})
    assert is_configured(KEYS)
    assert is_configured({"EVENKEEL_LAKE_CONNECTION": "aws_lake"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("S3Exception: The specified bucket does not exist (Status Code: 404)", "there is no such bucket. Create it"),
        ("AWS Error SLOW_DOWN during HeadObject", "the store is not available, or asks to slow down"),
        ("ExpiredToken: The provided token has expired", "the session token has expired. Log in again"),
        ("AccessDeniedException: x: getFileStatus on x: S3Exception: null (Status Code: 403)", "access is denied"),
        ("SignatureDoesNotMatch", "the secret key does not belong to the access key id. Check AWS_ACCESS_KEY_ID"),
        ("Connect to 127.0.0.1:9 failed: Connection refused", "the store does not answer. Check the endpoint"),
        ("evenkeel-other-endpoint: this server", "used this bucket at another endpoint"),
    ],
)
def test_what_goes_wrong_is_one_line(text: str, told: str) -> None:
    found = explained(OSError(text), "s3a://b-1/lake")
    assert found is not None
    assert str(found).startswith("the lake s3a://b-1/lake: ")
    assert told in str(found)
    assert "\n" not in str(found)
    assert explained(OSError(text), "/a/folder") is None


def test_what_the_store_has_not_done_is_left_alone() -> None:
    assert explained(ValueError("x is not a number"), "s3a://b-1/lake") is None
