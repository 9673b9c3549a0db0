"""All kinds of authentication against one real broker, which takes tokens, client certificates and Basic."""

import json
import socket
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from devtools.lab.cluster import cluster_for
from devtools.lab.settings import LabSettings
from evenkeel.pulsar.admin import AdminClient, AdminConnection, trouble
from evenkeel.pulsar.admin.auth_params import authentication_of
from evenkeel.pulsar.admin.authentication import Authentication
from tests.pulsar.admin.authority import make_tls
from tests.pulsar.admin.issuer import CLIENT_ID, CLIENT_SECRET, Issuer

pytestmark = [pytest.mark.pulsar, pytest.mark.exhaustive]
RUNTIME = "/admin/v2/brokers/configuration/runtime"
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
# crypt(3), SHA-512, of the password below.
HASHED = "$6$evenkeeltests$08TCS7BSJwwzbpKsQ2yIDyxw3Iy0p7FS1.2DoBdTWFYAjG8oTr9BRvZx3VnIviCcUHJEdXoJZk11AJBgvuAsc."
PASSWORD = "an-open-sesame"


def test_a_real_broker_takes_each_of_them(tmp_path: Path) -> None:
    ca, _ = make_tls(tmp_path, "127.0.0.1")
    foreign, _ = make_tls(tmp_path / "foreign", "127.0.0.1")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"ann:{HASHED}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    broker = {
        "webServicePortTls": str(port),
        "tlsCertificateFilePath": str(tmp_path / "broker.pem"),
        "tlsKeyFilePath": str(tmp_path / "broker.key"),
        "tlsTrustCertsFilePath": str(ca),
        "authenticationProviders": ",".join(f"{PROVIDER}{kind}" for kind in ("Token", "Tls", "Basic")),
        "basicAuthConf": f"file://{passwords}",
        "superUserRoles": "admin,client,ann",
    }

    def tls(folder: Path) -> dict[str, str]:
        return {"tlsCertFile": str(folder / "client.pem"), "tlsKeyFile": str(folder / "client.key")}

    with cluster_for(LabSettings(brokers=1, auth=True, broker=broker)) as cluster:
        token, url = str(cluster.token()), f"https://127.0.0.1:{port}"
        file = tmp_path / "token"
        file.write_text(f"{token}\n")

        def answered(plugin: str, params: Any, at: str = url) -> str:
            of = Authentication() if not plugin else authentication_of(plugin, params, "auth_params")
            connection = AdminConnection((at,), authentication=of, ca_file=str(ca))
            with AdminClient(connection) as client:
                hop = client.ask(RUNTIME, timeout_s=60)[-1]
            assert token not in hop.body
            assert PASSWORD not in hop.body
            return str(trouble(hop))

        assert answered("token", f"file://{file}") == "None"
        assert answered("token", f"file://{file}", at=cluster.urls[0]) == "None"
        assert answered("tls", tls(tmp_path)) == "None"
        assert answered("basic", {"userId": "ann", "password": PASSWORD}) == "None"
        assert "401 (an HTML page); the token (or password) is missing" in answered("", "")
        assert "401 (an HTML page)" in answered("basic", {"userId": "ann", "password": "another"})
        assert "not a super user" in answered("token", str(cluster.token("stranger")))
        assert "set `auth_plugin` to `tls`, and `auth_params` to" in answered("tls", tls(foreign.parent))
        with Issuer(access_token=token) as issuer:
            client = {"issuer_url": issuer.url, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
            assert answered("oauth2", json.dumps(client)) == "None"
        with Issuer(access_token=token) as issuer:
            of = authentication_of("oauth2", {**client, "issuer_url": issuer.url}, "auth_params")
            issuer.said["access_token"] = jwt.encode({"sub": "admin"}, "k" * 32, algorithm="HS256")
            of.authorization(time.monotonic() + 60)
            issuer.said["access_token"] = token  # its key was rotated
            with AdminClient(AdminConnection((url,), authentication=of, ca_file=str(ca))) as one:
                assert one.ask(RUNTIME)[-1].status == 200
                assert len(issuer.issued) == 2
