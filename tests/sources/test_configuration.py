"""What a configuration file may say of clusters, recorded and running, and what is refused by name."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin import AdminConnection
from evenkeel.pulsar.admin.authentication import Authentication, token
from evenkeel.pulsar.admin.connection import Credentials
from evenkeel.secret import Secret
from evenkeel.sources.collecting import connection_of
from evenkeel.sources.configuration import ClusterSource, LiveSource, read_configuration


def read(folder: Path, text: str) -> tuple[ClusterSource, ...]:
    file = folder / "clusters.toml"
    file.write_text(text, encoding="utf-8")
    return read_configuration(file)


def test_a_running_cluster_beside_a_recorded_one(tmp_path: Path) -> None:
    east, west = read(
        tmp_path,
        """
        [clusters.east]
        recording = "recordings/east"
        [clusters.west]
        admin = ["https://b1:8443", "https://b2:8443"]
        connection = "pulsar_west"
        ca_file = "ca.pem"
        check_hostname = false
        broker_url = "https://{host}:8443"
        landing = "/data/west"
        landing_days = 2.5
        full_every = 4
        silent_seconds = 30
        settings.loadBalancerNamespaceBundleMaxTopics = 500
        """,
    )
    assert (east.live, east.recording) == (None, tmp_path / "recordings/east")
    assert west.recording == Path("/data/west")
    assert west.overrides == {"loadBalancerNamespaceBundleMaxTopics": 500}
    assert west.live == LiveSource(
        ("https://b1:8443", "https://b2:8443"),
        "pulsar_west",
        str(tmp_path / "ca.pem"),
        False,
        "https://{host}:8443",
        2.5,
        4,
        30.0,
    )


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    (only,) = read(tmp_path, '[clusters.west]\nadmin = "http://b1:8080"')
    assert only.recording == tmp_path / "landing/west"
    assert only.live == LiveSource(("http://b1:8080",))


def test_two_running_clusters_do_not_land_in_one_folder(tmp_path: Path) -> None:
    text = '[clusters.a]\nadmin = "http://a"\nlanding = "x"\n[clusters.b]\nadmin = "http://b"\nlanding = "y/../x"'
    (tmp_path / "y").mkdir()
    with pytest.raises(SettingsError, match="a and b land in the same folder"):
        read(tmp_path, text)


def queues(name: str) -> str:
    urls = f'queue = "http://q/{name}.fifo"\nreports = "http://q/{name}-reports.fifo"'
    return f'[clusters."{name}"]\ns3 = "s3://b/{name}"\n{urls}'


@pytest.mark.parametrize(("one", "other"), [("eu-1", "eu_1"), ("EU", "eu"), ("上海", "北京")])
def test_two_clusters_whose_secrets_would_stand_in_one_variable_are_refused(
    tmp_path: Path, one: str, other: str
) -> None:
    text = f"{queues(one)}\n{queues(other)}"
    with pytest.raises(SettingsError, match=r"queue_keys: .* one environment variable would stand for both"):
        read(tmp_path, text)
    assert len(read(tmp_path, f'{text}\nqueue_keys = "another"')) == 2
    text = "\n".join(f'[clusters."{name}"]\nadmin = "http://b"\nconnection = "{name}"' for name in (one, other))
    with pytest.raises(SettingsError, match=r"connection: .* one environment variable would stand for both"):
        read(tmp_path, text)
    assert len(read(tmp_path, text.replace(f'connection = "{other}"', f'connection = "{one}"'))) == 2


def test_two_clusters_share_no_queue(tmp_path: Path) -> None:
    text = f"{queues('east')}\n{queues('west').replace('west.fifo', 'east.fifo')}"
    with pytest.raises(SettingsError, match=r"clusters\.west\.queue: east and west share the queue"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ('"file:///run/secrets/token"', "file:///run/secrets/token"),
        (
            '{ issuerUrl = "https://login", privateKey = "file:///run/secrets/key.json", audience = "urn:pulsar" }',
            '{"issuerUrl": "https://login", "privateKey": "file:///run/secrets/key.json", "audience": "urn:pulsar"}',
        ),
        ('{ tlsCertFile = "/c.pem", tlsKeyFile = "/c.key" }', '{"tlsCertFile": "/c.pem", "tlsKeyFile": "/c.key"}'),
    ],
)
def test_authentication_is_that_of_a_client_conf(tmp_path: Path, params: str, text: str) -> None:
    plugin = {"f": "token", "i": "oauth2", "t": "tls"}[params.strip('{ "')[0]]
    entries = f'auth_plugin = "{plugin}"\nauth_params = {params}'
    (only,) = read(tmp_path, f'[clusters.west]\nadmin = "https://b1:8443"\n{entries}')
    assert only.live == LiveSource(("https://b1:8443",), auth_plugin=plugin, auth_params=text)
    assert json.loads(json.dumps(asdict(only.live)))["auth_params"] == text, "it is handed over between tasks"


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ('auth_plugin = "token"', r"west.auth_plugin: This goes with `auth_params`"),
        ('auth_params = "file:///x"', r"west.auth_params: This goes with `auth_plugin`"),
        (
            'auth_plugin = "token"\nauth_params = "SECRET-IN-IT"',
            "holds no secrets, and this is one .the token.: name a",
        ),
        ('auth_plugin = "basic"\nauth_params = {userId = "a", password = "SECRET-IN-IT"}', "this is one .password."),
        ('auth_plugin = "oauth2"\nauth_params = {private_key = "data:,SECRET-IN-IT"}', "this is one .private_key."),
        ('auth_plugin = "athenz"\nauth_params = "x"', "Athenz is not supported: use `token`, `oauth2`, `tls`"),
        ('auth_plugin = "SECRET-IN-IT"\nauth_params = "x"', "`auth_plugin` is unknown"),
        ('auth_plugin = "tls"\nauth_params = {tlsCertFile = "c.pem", tlsKeyFile = "/k"}', "is not an absolute path"),
        (
            'auth_plugin = "tls"\nauth_params = {tlsCertFile = "/c.pem", tlsKeyFile = "/c.key"}',
            "west.admin: A client certificate needs https:// addresses",
        ),
        ('connection = "x"\nauth_plugin = "token"\nauth_params = "file:///x"', "This replaces `connection`"),
    ],
)
def test_authentication_in_the_file_is_whole_and_holds_no_secret(tmp_path: Path, entries: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        read(tmp_path, f'[clusters.west]\nadmin = "http://b1:8080"\n{entries}')
    assert "SECRET-IN-IT" not in str(refused.value)


def test_a_connection_brings_the_token_and_addresses_where_none_are_configured() -> None:
    brought = Credentials(token(Secret("t")), ("http://from-airflow:8080",))
    own = connection_of(LiveSource(("http://own:8080",), "west"), lambda _: brought)
    assert own == AdminConnection(("http://own:8080",), brought.authentication)
    theirs = connection_of(LiveSource((), "west"), lambda _: brought)
    assert theirs.urls == ("http://from-airflow:8080",)
    with pytest.raises(SettingsError, match="no admin address"):
        connection_of(LiveSource((), "west"), lambda _: Credentials(Authentication()))
    with pytest.raises(SettingsError, match="connection 'west' is unknown"):
        connection_of(LiveSource((), "west"), lambda _: None)
