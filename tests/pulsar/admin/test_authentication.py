"""Tokens in files, Basic, client certificates, and the `auth_params` that are refused."""

import json
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin import AdminClient, AdminConnection, trouble
from evenkeel.pulsar.admin.auth_params import authentication_by, authentication_of, secret_in
from evenkeel.pulsar.admin.authentication import Authentication
from evenkeel.pulsar.admin.connection import from_environment
from evenkeel.pulsar.admin.failures import failure_of, tls_advice
from tests.pulsar.admin.authority import encrypt, make_tls
from tests.pulsar.admin.simulated import Answer, SimulatedCluster, listing

BROKERS = "/admin/v2/brokers"
SECRET = "t0k3n-of-the-test"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(listing, 1) as running:
        yield running


def headers(cluster: SimulatedCluster) -> list[str | None]:
    return [asked.authorization for asked in cluster.seen]


@pytest.mark.parametrize("by", ["auth_params", "variable"])
def test_a_token_is_read_again_when_its_file_changes(
    by: str, cluster: SimulatedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("first-token\n")
    of = authentication_of("token", f"file://{file}", "auth_params")
    if by == "variable":
        found = from_environment("east", {"EVENKEEL_TOKEN_EAST_FILE": str(file)})
        assert found is not None
        of = found.authentication
    with AdminClient(AdminConnection((cluster.url,), authentication=of)) as client, caplog.at_level(logging.WARNING):
        client.ask(BROKERS)
        for text in ("second-token", "not a token"):
            new = tmp_path / "new"
            new.write_text(text)
            new.replace(file)
            client.ask(BROKERS)
            client.ask(BROKERS)
        file.unlink()
        client.ask(BROKERS)
        file.write_text("third-token")
        client.ask(BROKERS)
    expected = ["first", *["second"] * 5, "third"]
    assert headers(cluster) == [f"Bearer {name}-token" for name in expected]
    assert caplog.text.count("The former content is used") == 2, "once for each state of the file"
    assert "not a token" not in caplog.text


def test_a_token_whose_file_is_missing_is_told(tmp_path: Path) -> None:
    of = authentication_of("token", f"file:{tmp_path / 'absent'}", "auth_params")
    for use in (of.check, lambda: AdminClient(AdminConnection(("http://b1:8080",), authentication=of))):
        with pytest.raises(SettingsError, match="auth_params names a file that cannot be read: No such file or dir"):
            use()


@pytest.mark.parametrize(
    ("params", "secrets"),
    [
        ({"userId": "ann", "password": "open-sesame"}, ["open-sesame", "YW5uOm9wZW4tc2VzYW1l"]),
        ('{"username": "ann", "password": "an open sesame"}', ["YW5uOmFuIG9wZW4gc2VzYW1l"]),
        ("userId:ann,password:open:sesame", ["open:sesame", "YW5uOm9wZW46c2VzYW1l"]),
    ],
)
def test_basic_is_sent_and_hidden(params: Any, secrets: list[str], cluster: SimulatedCluster) -> None:
    cluster.fault("", Answer(500, f"you are {' '.join(secrets)}"))
    of = authentication_of("org.apache.pulsar.client.impl.auth.AuthenticationBasic", params, "auth_params")
    with AdminClient(AdminConnection((cluster.url,), authentication=of)) as client:
        (hop,) = client.ask(BROKERS)
    assert headers(cluster) == [f"Basic {secrets[-1]}"]
    assert hop.body == "you are " + " ".join(["[secret]"] * len(secrets))


def test_a_client_certificate_is_shown_and_read_again_when_it_is_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca, context = make_tls(tmp_path, "127.0.0.1")
    make_tls(tmp_path / "foreign", "127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # the refusal comes with the handshake
    here = tmp_path / "in use"
    here.mkdir()

    def use(folder: Path, *suffixes: str) -> None:
        for suffix in suffixes or ("pem", "key"):
            new = tmp_path / "new"
            new.write_bytes((folder / f"client.{suffix}").read_bytes())
            new.replace(here / f"client.{suffix}")

    params = {"tlsCertFile": str(here / "client.pem"), "tlsKeyFile": str(here / "client.key")}
    with SimulatedCluster(listing, 1, tls=context) as cluster:
        bare = AdminConnection((cluster.url,), ca_file=str(ca))
        with AdminClient(bare) as client:
            assert "if the broker demands client certificates, set `auth_plugin` to `tls`" in said(client)
        use(tmp_path / "foreign")
        of = authentication_of("tls", params, "auth_params")
        connection = AdminConnection((cluster.url,), authentication=of, ca_file=str(ca))
        with AdminClient(connection) as client, caplog.at_level(logging.WARNING):
            assert "alert unknown ca; set `auth_plugin` to `tls`, and `auth_params` to a certificate that" in said(
                client
            )
            use(tmp_path, "pem")  # in the middle of a renewal: certificate and key do not fit
            assert "alert unknown ca" in said(client)
            assert "cannot be used (KEY_VALUES_MISMATCH)" in caplog.text
            use(tmp_path, "key")
            assert said(client) == "None"
        with pytest.raises(SettingsError, match="a client certificate needs https:// addresses"):
            AdminConnection((cluster.url.replace("https", "http"),), authentication=of)
        encrypt(here / "client.key")
        with pytest.raises(SettingsError, match="tlsKeyFile is encrypted: give a key without a passphrase"):
            AdminClient(connection)
        (here / "client.key").unlink()
        with pytest.raises(SettingsError, match=r"tlsCertFile and tlsKeyFile cannot be used \(No such file"):
            of.check()


def said(client: AdminClient) -> str:
    return str(trouble(client.ask(BROKERS, timeout_s=5)[-1]))


def test_certificates_that_newer_pythons_refuse_are_told(tmp_path: Path) -> None:
    ca, context = make_tls(tmp_path, "127.0.0.1", is_strict=False)
    client = ssl.create_default_context(cafile=str(ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13 sets it
    with SimulatedCluster(listing, 1, tls=context) as cluster:
        connection = socket.create_connection(("127.0.0.1", cluster.port))
        with pytest.raises(ssl.SSLError) as refused:
            client.wrap_socket(connection, server_hostname="127.0.0.1")
    _, detail = failure_of(refused.value)
    assert detail == "the certificate is refused: Missing Authority Key Identifier"
    assert tls_advice(detail).startswith(
        "Python 3.13 and newer accept only certificates that follow RFC 5280. Have the"
    )


@pytest.mark.parametrize(
    ("plugin", "params", "words"),
    [
        ("athenz", SECRET, "Athenz is not supported: use `token`, `oauth2`, `tls` or `basic`"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationSasl", SECRET, "Kerberos .SASL. is not supported"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationKeyStoreTls", SECRET, "Java key stores .* PEM files"),
        ("com.example.Own", SECRET, "`auth_plugin` is unknown: use `token`"),
        ("token", f"two words {SECRET}", "the token holds blanks"),
        ("token", f"file:{SECRET}", "`auth_params` is not an absolute path"),
        ("token", f"file://host/{SECRET}", "`auth_params` names a file of another machine"),
        ("token", {"token": [SECRET]}, "`token` is not text"),
        ("tls", {"tlsCertFile": "/x"}, "`tlsKeyFile` is missing"),
        ("tls", f"tlsCertFile:{SECRET},tlsKeyFile:/y", "`tlsCertFile` is not an absolute path"),
        ("basic", {"userId": "ann"}, "`password` is missing"),
        ("basic", {"userId": "a:b", "password": SECRET}, "a user name of Basic authentication has no colon"),
        ("oauth2", f"{{{SECRET}", "begins like JSON and is not JSON"),
        ("oauth2", {"client_id": "x", "client_secret": SECRET}, "`issuer_url` is missing"),
        ("oauth2", {"issuer_url": "http://x", "client_secret": SECRET}, "`client_id` is missing"),
        ("oauth2", {"issuer_url": f"http://{SECRET}@x", "private_key": "/k"}, "`issuer_url` holds credentials"),
        ("oauth2", {"issuer_url": SECRET, "private_key": "/k"}, "`issuer_url` is not an http:// or https:// address"),
        ("oauth2", {"issuer_url": "http://[", "private_key": "/k"}, "`issuer_url` is not an address"),
        ("oauth2", {"issuer_url": "http://x"}, "give `private_key`, or `client_id` with `client_secret`"),
        ("oauth2", {"issuer_url": "http://x", "private_key": SECRET}, "`private_key` is not an absolute path"),
        ("oauth2", {"issuerUrl": "http://x", "issuer_url": "http://y", "private_key": "/k"}, "is given twice"),
        ("oauth2", {"issuerUrl": "http://x", "type": "sn_service", "private_key": "/k"}, "`type` is not client_cred"),
        ("oauth2", {"issuerUrl": "http://x", "privat_key": SECRET}, "`privat_key` would be ignored"),
    ],
)
def test_what_cannot_be_used_is_refused_unshown(plugin: str, params: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=f"^here: .*{words}") as refused:
        authentication_of(plugin, params, "here")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"auth_plugin": "athenz"}, "Athenz"),
        ({"auth_plugin": 7}, "`auth_plugin` is not text"),
        ({"auth_plugin": "token", "auth_params": SECRET, "token": SECRET}, "`token` would be ignored"),
        ({"token": SECRET, "userId": "ann"}, "it has no authentication: give `auth_plugin`"),
        ({"audience": "x"}, "`audience` would be ignored"),
    ],
)
def test_json_of_a_connection_names_one_plugin(members: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=f"here: {words}"):
        authentication_by(members, "here")


def test_json_of_a_connection_is_that_of_the_clients(tmp_path: Path) -> None:
    tls = {"tlsCertFile": "/x", "tlsKeyFile": "/y"}
    oauth2 = {"issuerUrl": "https://x", "privateKey": "/k", "audience": "y"}
    for plugin, params in (("tls", tls), ("oauth2token", oauth2), ("token", {"token": SECRET})):
        named = {"auth_plugin": plugin, "auth_params": json.dumps(params) if plugin != "token" else params["token"]}
        kinds = {type(authentication_by(members, "here")) for members in (params, named)}
        assert len(kinds) == 1
        assert kinds != {Authentication}


@pytest.mark.parametrize(
    ("plugin", "params", "secret"),
    [
        ("token", SECRET, "the token"),
        ("token", f"token:{SECRET}", "the token"),
        ("token", "file:///x", None),
        ("token", "env:X", None),
        ("basic", {"userId": "ann", "password": SECRET}, "password"),
        ("oauth2", {"client_secret": SECRET}, "client_secret"),
        ("oauth2", {"privateKey": f"data:,{SECRET}"}, "privateKey"),
        ("oauth2", {"private_key": "file:///x"}, None),
        ("tls", "tlsCertFile:/x,tlsKeyFile:/y", None),
    ],
)
def test_a_secret_among_the_parameters_is_found(plugin: str, params: Any, secret: str | None) -> None:
    assert secret_in(plugin, params, "here") == secret
