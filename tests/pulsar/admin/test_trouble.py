"""What an operator is told of a bad answer: what is wrong, where, and what to do."""

import json
from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin import AdminClient, AdminConnection, Hop, trouble
from evenkeel.pulsar.admin.authentication import token
from evenkeel.secret import Secret
from tests.pulsar.admin.authority import make_tls
from tests.pulsar.admin.simulated import Answer, SimulatedCluster, listing, redirecting

BROKERS = "/admin/v2/brokers"
LOGIN = "<!DOCTYPE html><html><title>Sign in</title></html>"
NO_SUPER_USER = json.dumps({"reason": "This operation requires super-user access"})
STACK = json.dumps(
    {"reason": "\n --- An unexpected error ---\n\nMessage: it broke\n\nStacktrace:\n\njava.lang.X\n\tat y"}
)


def told(connection: AdminConnection, path: str = BROKERS) -> str:
    with AdminClient(connection) as client:
        return str(trouble(client.ask(path, timeout_s=5)[-1]))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            Answer(200, LOGIN),
            ["200 with an HTML page in place of JSON", "a proxy or a login page", "own web addresses"],
        ),
        (Answer(401, LOGIN), ["401 (an HTML page)", "missing, wrong or expired", "connection's token"]),
        (Answer(401, NO_SUPER_USER), ["requires super-user access", "not a super user", "superUserRoles"]),
        (Answer(401, '{"reason":"Unauthorized to validate"}'), ["Unauthorized to validate", "not a super user"]),
        (Answer(403, "{}"), ["403", "take the token of a super user"]),
        (Answer(404, '{"reason":"HTTP 404 Not Found"}'), ["404", "the Pulsar version lacks it"]),
        (Answer(404, "<html>not here</html>"), ["404", "or this is not Pulsar"]),
        (Answer(404, '{"reason":"Namespace not found"}'), ["404 (Namespace not found)", "check what was asked"]),
        (Answer(500, STACK), ["500 (it broke)", "look at the broker's log"]),
        (Answer(503, LOGIN), ["503", "not ready or overloaded", "try again later"]),
    ],
)
def test_an_answer_that_is_none(answer: Answer, words: list[str]) -> None:
    with SimulatedCluster(listing, brokers=1) as cluster:
        cluster.fault("", answer)
        sentence = told(AdminConnection((cluster.url,)))
    assert [word for word in [cluster.ids[0], f"GET {BROKERS}", *words] if word not in sentence] == [], sentence


def test_a_text_need_not_be_json() -> None:
    hop = Hop("b:1", "GET", "/admin/v2/brokers/version", 200, "", 1.0, None, "4.2.4")
    assert trouble(hop) is None
    assert trouble(hop, is_text=True) is None


def test_a_name_that_nobody_knows_and_a_port_at_which_nobody_listens() -> None:
    assert "check the host's name in the admin address" in told(AdminConnection(("http://nowhere.invalid:8080",)))
    with SimulatedCluster(listing, brokers=1) as gone:
        url = gone.url
    assert "check host and port" in told(AdminConnection((url,)))


def test_tls_with_the_authority_that_signed_it_carries_the_token_and_redirects(tmp_path: Path) -> None:
    ca, context = make_tls(tmp_path, "127.0.0.1", "127.0.0.2")
    with SimulatedCluster(listing, brokers=2, token="t0k3n", tls=context) as cluster:
        connection = AdminConnection((cluster.url,), authentication=token(Secret("t0k3n")), ca_file=str(ca))
        cluster.fault("/tenants", redirecting(cluster.url_of(cluster.ids[1])), broker=cluster.ids[0])
        with AdminClient(connection) as client:
            hops = client.ask("/admin/v2/tenants")
        assert [(hop.broker, hop.status) for hop in hops] == [(cluster.ids[0], 307), (cluster.ids[1], 200)]


def test_a_token_never_goes_from_https_to_http(tmp_path: Path) -> None:
    ca, context = make_tls(tmp_path, "127.0.0.1")
    with SimulatedCluster(listing, brokers=1, tls=context) as cluster, SimulatedCluster(listing, brokers=1) as plain:
        cluster.fault("/tenants", redirecting(plain.url))
        connection = AdminConnection((cluster.url,), authentication=token(Secret("t0k3n")), ca_file=str(ca))
        with AdminClient(connection) as client:
            hops = client.ask("/admin/v2/tenants")
        assert [hop.status for hop in hops] == [307, 0]
        assert "is not encrypted" in hops[-1].body
        assert plain.seen == []


def test_tls_failures_say_which(tmp_path: Path) -> None:
    ca, context = make_tls(tmp_path, "127.0.0.2")
    other, _ = make_tls(tmp_path / "other", "127.0.0.1")
    with SimulatedCluster(listing, brokers=2, tls=context) as cluster, SimulatedCluster(listing, brokers=1) as plain:
        second = cluster.url_of(cluster.ids[1])
        assert "set ca_file" in told(AdminConnection((second,)))
        assert "set ca_file" in told(AdminConnection((second,), ca_file=str(other)))
        assert "check_hostname = false" in told(AdminConnection((cluster.url,), ca_file=str(ca)))
        assert told(AdminConnection((cluster.url,), ca_file=str(ca), check_hostname=False)) == "None"
        assert "this port speaks no TLS" in told(AdminConnection((plain.url.replace("http", "https"),)))
        assert "the broker ended, or something between" in told(AdminConnection((second.replace("https", "http"),)))


def test_a_ca_file_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("no certificate")
    for file in ("missing.pem", "empty.pem"):
        with pytest.raises(SettingsError, match=rf"ca_file .*{file} cannot be used"):
            AdminClient(AdminConnection(("https://127.0.0.1:1",), ca_file=str(tmp_path / file)))


def test_an_answer_recorded_by_another_tool_is_told_too() -> None:
    hop = Hop("b:1", "GET", BROKERS, 0, "", 1.0, None, "ConnectionRefusedError: [Errno 111] Connection refused\nx")
    assert "ConnectionRefusedError: [Errno 111] Connection refused; check the address" in str(trouble(hop))
