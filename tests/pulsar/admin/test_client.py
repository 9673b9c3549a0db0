"""The admin client against servers that misbehave: what it sends, what it never sends, and what it puts on record."""

import copy
import json
import logging
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin import AdminClient, AdminConnection, Hop, admin_path, trouble
from evenkeel.pulsar.admin.authentication import token
from evenkeel.pulsar.admin.http_exchange import without_secrets
from evenkeel.pulsar.answers import AnswerSubject, Kind, subject_of
from evenkeel.secret import Secret
from evenkeel.settings.keys import registry
from tests.pulsar.admin.simulated import Answer, Asked, SimulatedCluster, listing, redirecting

pytestmark = pytest.mark.slow

TOKEN = "eyJhbGciOiJIUzI1NiJ9.c3VwZXI.t0k3n-0f-the-t3st"
BROKERS = "/admin/v2/brokers"
UNLOAD = "/admin/v2/namespaces/acme/ns0/0x00000000_0x40000000/unload"
ODD_NAMES = ["it's", 'say "hi"', "a/b", "a%2Fb", "50%", "日本語", "ü b", "x?y#z", "..", "a+b", "\n", "😀&="]


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(listing, token=TOKEN) as running:
        yield running


@pytest.fixture
def client(cluster: SimulatedCluster) -> Iterator[AdminClient]:
    with AdminClient(AdminConnection((cluster.url,), authentication=token(Secret(TOKEN)))) as one:
        yield one


def refused_address() -> str:
    """An address of loopback at which nobody listens."""
    with SimulatedCluster(listing, brokers=1) as gone:
        return gone.url


def shown(hops: tuple[Hop, ...]) -> list[tuple[str, int]]:
    return [(hop.broker, hop.status) for hop in hops]


def test_an_answer_is_one_hop_in_the_shape_of_a_recorded_request(
    cluster: SimulatedCluster, client: AdminClient
) -> None:
    (hop,) = client.ask(BROKERS)
    assert (hop.broker, hop.method, hop.path, hop.status) == (cluster.ids[0], "GET", BROKERS, 200)
    assert json.loads(hop.body) == cluster.ids
    assert (hop.location, hop.sent, hop.at[-1]) == (None, None, "Z")
    recorded = {"broker", "method", "path", "status", "at", "elapsed_ms", "location", "body"}
    assert set(hop.as_request()) == recorded
    assert trouble(hop) is None


def test_a_redirect_takes_method_body_and_token_along_and_every_hop_is_on_record(
    cluster: SimulatedCluster, client: AdminClient
) -> None:
    leader, owner = cluster.ids[1], cluster.ids[2]
    client.ask(BROKERS)
    cluster.fault("/unload", redirecting(cluster.url_of(leader)), broker=cluster.ids[0])
    cluster.fault("/unload", redirecting(cluster.url_of(owner), UNLOAD), broker=leader)
    cluster.fault("/unload", Answer(204), broker=owner)
    hops = client.ask(f"{UNLOAD}?destinationBroker={cluster.ids[0]}", method="PUT", body="[1, 2]")
    assert shown(hops) == [(cluster.ids[0], 307), (leader, 307), (owner, 204)]
    assert hops[2].path == UNLOAD, "the leader leaves the destination out"
    sent = cluster.asked("/unload")
    assert {(asked.method, asked.body, asked.authorization) for asked in sent} == {("PUT", "[1, 2]", f"Bearer {TOKEN}")}
    assert {hop.sent for hop in hops} == {"[1, 2]"}


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_every_kind_of_redirect_keeps_the_method(cluster: SimulatedCluster, client: AdminClient, status: int) -> None:
    target = f"{cluster.url_of(cluster.ids[1])}{UNLOAD}"
    cluster.fault("/unload", Answer(status, location=target), broker=cluster.ids[0])
    assert client.ask(UNLOAD, method="PUT")[-1].status == 200
    assert [asked.method for asked in cluster.asked("/unload")] == ["PUT", "PUT"]


def test_a_relative_redirect_stays_at_the_broker(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/elsewhere", Answer(307, location="/admin/v2/brokers"))
    assert [hop.path for hop in client.ask("/admin/v2/elsewhere")] == ["/admin/v2/elsewhere", BROKERS]


def test_a_redirect_to_a_dead_broker_says_that_the_owner_is_unknown_and_is_not_repeated(
    cluster: SimulatedCluster, client: AdminClient
) -> None:
    dead = cluster.ids[2]
    cluster.kill(dead)
    cluster.fault("ownedNamespaces", redirecting(cluster.url_of(dead)))
    hops = client.ask(admin_path("brokers", "lab", dead, "ownedNamespaces"))
    assert shown(hops) == [(cluster.ids[0], 307), (dead, 0)]
    assert hops[-1].body.startswith("connection refused")


def test_a_token_does_not_go_where_a_proxy_sends_us(cluster: SimulatedCluster) -> None:
    with (
        SimulatedCluster(lambda _: lambda asked: None, brokers=1) as foreign,
        SimulatedCluster(lambda _: listing(cluster.ids), brokers=4) as proxy,
    ):
        login = f"http://localhost:{foreign.port}"
        cluster_of_proxy = proxy.ids[3]
        proxy.fault("/unload", redirecting(login))
        connection = AdminConnection((proxy.url_of(cluster_of_proxy),), authentication=token(Secret(TOKEN)))
        with AdminClient(connection) as client:
            hops = client.ask(UNLOAD, method="PUT", body="x")
        assert shown(hops) == [(cluster_of_proxy, 307), (f"localhost:{foreign.port}", 0)]
        assert "redirect not followed" in hops[-1].body
        assert "neither configured nor a broker that the cluster lists" in hops[-1].body
        assert foreign.seen == []


def test_a_proxy_may_send_us_to_a_broker_that_the_cluster_lists(cluster: SimulatedCluster) -> None:
    with SimulatedCluster(lambda _: listing(cluster.ids), brokers=4) as proxy:
        entry = proxy.ids[3]
        proxy.fault("/unload", redirecting(cluster.url_of(cluster.ids[1])))
        with AdminClient(AdminConnection((proxy.url_of(entry),), authentication=token(Secret(TOKEN)))) as client:
            hops = client.ask(UNLOAD, method="PUT")
        assert shown(hops) == [(entry, 307), (cluster.ids[1], 200)]


def test_a_listed_broker_sends_the_token_to_no_broker_that_is_not_listed(
    cluster: SimulatedCluster, client: AdminClient
) -> None:
    with SimulatedCluster(lambda _: listing(()), brokers=5) as newer:
        client.ask(BROKERS)
        new = newer.ids[4]
        cluster.fault("/unload", redirecting(newer.url_of(new)))
        hops = client.ask(UNLOAD, method="PUT")
        assert shown(hops) == [(cluster.ids[0], 307), (new, 0)]
        assert "neither configured nor a broker that the cluster lists: the token is not sent to it" in hops[-1].body
        assert newer.seen == []
        cluster.fault(f"{BROKERS}$", Answer(200, json.dumps([*cluster.ids, new])))
        assert shown(client.ask(UNLOAD, method="PUT")) == [(cluster.ids[0], 307), (new, 200)], "it is listed now"


def test_redirects_end(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/unload", redirecting(cluster.url_of(cluster.ids[1])), broker=cluster.ids[0])
    cluster.fault("/unload", redirecting(cluster.url), broker=cluster.ids[1])
    hops = client.ask(UNLOAD, method="PUT")
    assert len(hops) == 7
    assert hops[-1].status == 0
    assert hops[-1].body.startswith("redirect not followed: 6 redirects")


@pytest.mark.parametrize("location", [None, "", "ftp://127.0.0.1/x", "http://[oops", "http://127.0.0.1:99999"])
def test_a_redirect_to_nowhere_is_a_row(cluster: SimulatedCluster, client: AdminClient, location: str | None) -> None:
    cluster.fault("/unload", Answer(307, location=location))
    hops = client.ask(UNLOAD, method="PUT")
    assert [hop.status for hop in hops] == [307, 0]
    assert "redirect not followed" in hops[-1].body


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_reading_is_asked_again_where_that_may_help(
    cluster: SimulatedCluster, client: AdminClient, status: int
) -> None:
    cluster.fault("/tenants", Answer(status), times=2)
    assert [hop.status for hop in client.ask("/admin/v2/tenants")] == [status, status, 200]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 500])
def test_pulsars_word_is_not_asked_for_again(cluster: SimulatedCluster, client: AdminClient, status: int) -> None:
    cluster.fault("/tenants", Answer(status))
    assert [hop.status for hop in client.ask("/admin/v2/tenants")] == [status]


def test_a_command_is_sent_once_whatever_comes_back(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/unload", Answer(503), times=1)
    cluster.fault("/unload", Answer(drop=True), times=1)
    assert [hop.status for hop in client.ask(UNLOAD, method="PUT")] == [503]
    (lost,) = client.ask(UNLOAD, method="PUT")
    assert lost.body.startswith("connection broken off")
    assert len(cluster.asked("/unload")) == 2


def test_tries_end_and_the_last_answer_stands(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/tenants", Answer(503, "busy"))
    assert [hop.status for hop in client.ask("/admin/v2/tenants")] == [503, 503, 503]


def test_a_server_is_left_alone_for_as_long_as_it_asks(cluster: SimulatedCluster, client: AdminClient) -> None:
    until: list[float] = []

    def busy(_: Asked) -> Answer:
        """A server that is busy for the second that it asks for, and counts none of the tries in between."""
        until[:] = until or [time.monotonic() + 0.99]
        return Answer(429, headers={"Retry-After": "1"}) if time.monotonic() < until[0] else Answer(200, '"ok"')

    cluster.fault("/tenants", busy)
    assert [hop.status for hop in client.ask("/admin/v2/tenants")] == [429, 200]
    cluster.fault("/clusters", Answer(429, headers={"Retry-After": "3600"}))
    assert [hop.status for hop in client.ask("/admin/v2/clusters")] == [429], (
        "no use to wait for longer than it may take"
    )


def test_a_slow_answer_ends_in_time_and_is_not_asked_for_again(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/tenants", Answer(delay_s=5))
    (hop,) = client.ask("/admin/v2/tenants", timeout_s=0.3)
    assert (hop.status, hop.body) == (0, "no answer in time")
    assert "overloaded or hangs" in str(trouble(hop))


def test_a_command_may_take_longer_than_a_reading(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/unload", Answer(204, delay_s=0.5))
    assert client.ask(UNLOAD, method="PUT", timeout_s=65)[-1].status == 204
    assert client.ask(UNLOAD, method="PUT", timeout_s=0.2)[-1].status == 0


def test_an_answer_cut_short_is_none_and_is_asked_for_again(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/tenants", Answer(200, "x" * 100_000, cut=True), times=1)
    first, second = client.ask("/admin/v2/tenants")
    assert (first.status, second.status) == (0, 200)
    assert first.body.startswith("connection broken off")


def test_a_dead_address_moves_on_to_the_next_and_the_one_that_answered_comes_first(cluster: SimulatedCluster) -> None:
    dead = refused_address()
    with AdminClient(AdminConnection((dead, cluster.url), authentication=token(Secret(TOKEN)))) as client:
        assert [hop.status for hop in client.ask(BROKERS)] == [0, 200]
        assert [hop.status for hop in client.ask(BROKERS)] == [200]
    with AdminClient(AdminConnection((dead, cluster.url), authentication=token(Secret(TOKEN)))) as client:
        assert [hop.status for hop in client.ask(UNLOAD, method="PUT")] == [0, 200], "nothing was sent to the first"


def test_a_command_that_may_have_arrived_is_not_sent_to_another_address(cluster: SimulatedCluster) -> None:
    second = cluster.url_of(cluster.ids[1])
    cluster.fault("", Answer(drop=True), broker=cluster.ids[0])
    with AdminClient(AdminConnection((cluster.url, second), authentication=token(Secret(TOKEN)))) as client:
        assert [hop.status for hop in client.ask(UNLOAD, method="PUT")] == [0]
        assert [hop.status for hop in client.ask(BROKERS)] == [0, 200]


def test_a_broker_is_asked_at_the_address_that_the_template_gives(cluster: SimulatedCluster) -> None:
    template = f"http://{{host}}:{cluster.port}"
    connection = AdminConnection((cluster.url,), authentication=token(Secret(TOKEN)), broker_url=template)
    cluster.fault(f"{BROKERS}$", Answer(200, '["127.0.0.2:6650"]'))
    with AdminClient(connection) as client:
        (hop,) = client.ask(BROKERS, broker="127.0.0.2:6650")
    assert (hop.broker, hop.status) == ("127.0.0.2:6650", 200)
    assert cluster.seen[-1].broker == cluster.ids[1]


def test_a_broker_that_the_cluster_does_not_list_is_sent_nothing(cluster: SimulatedCluster) -> None:
    with (
        SimulatedCluster(listing, token=TOKEN) as foreign,
        AdminClient(AdminConnection((cluster.url,), authentication=token(Secret(TOKEN)))) as client,
    ):
        for name in (foreign.ids[0], f"127.0.0.1:{foreign.port}"):
            (hop,) = client.ask(UNLOAD, broker=name, method="PUT")
            assert (hop.status, name in hop.body, "the cluster lists" in hop.body) == (0, True, True)
        assert [hop.status for hop in client.ask(BROKERS, broker=cluster.ids[2])] == [200]
        assert foreign.seen == []
        assert [asked.path for asked in cluster.seen] == [BROKERS, BROKERS], "the list is asked for once"


def test_a_broker_that_joins_is_asked_once_the_cluster_lists_it(
    cluster: SimulatedCluster, client: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.pulsar.admin.client.LIST_AGAIN_AFTER_S", 0.0)
    cluster.fault(f"{BROKERS}$", Answer(200, json.dumps(cluster.ids[:1])), times=1)
    assert client.ask(BROKERS, broker=cluster.ids[1])[-1].status == 0
    assert client.ask(BROKERS, broker=cluster.ids[1])[-1].status == 200


@pytest.mark.parametrize("broker", ["", ":8080", "a b:80", "host:port", "host:99999", "a/b:80", "http://"])
def test_a_broker_id_that_is_none_is_a_row_and_no_exception(client: AdminClient, broker: str) -> None:
    (hop,) = client.ask(BROKERS, broker=broker)
    assert hop.status == 0
    assert hop.body.startswith(("no usable address", "host name not known"))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_quoted_once_and_arrive(cluster: SimulatedCluster, client: AdminClient, name: str) -> None:
    path = admin_path("namespaces", "acme", name)
    cluster.fault("/namespaces/acme/", redirecting(cluster.url_of(cluster.ids[1])), broker=cluster.ids[0])
    hops = client.ask(path)
    assert hops[-1].status == 200
    arrived = [asked.path for asked in cluster.asked("/namespaces/acme/")]
    assert arrived == [path, path], "neither the library nor a redirect alters it"
    assert subject_of(path) == AnswerSubject(Kind.POLICIES, f"acme/{name}")


def test_a_path_that_nobody_quoted_is_sent_quoted(cluster: SimulatedCluster, client: AdminClient) -> None:
    client.ask("/admin/v2/namespaces/acme/ü b")
    assert cluster.seen[-1].path == "/admin/v2/namespaces/acme/%C3%BC%20b"


def test_connections_are_kept_and_bounded(cluster: SimulatedCluster) -> None:
    open_at_once: list[int] = []
    cluster.fault("/tenants", lambda _: (open_at_once.append(len(cluster._connections)), Answer(delay_s=0.02))[1])
    with (
        AdminClient(AdminConnection((cluster.url,), authentication=token(Secret(TOKEN))), most_connections=3) as client,
        ThreadPoolExecutor(12) as pool,
    ):
        hops = list(pool.map(lambda _: client.ask("/admin/v2/tenants")[-1], range(40)))
    assert {hop.status for hop in hops} == {200}
    assert max(open_at_once) <= 3


def test_a_closed_client_sends_nothing(cluster: SimulatedCluster, client: AdminClient) -> None:
    client.close()
    assert client.ask(BROKERS)[-1].body == "not sent: the client was closed"
    assert cluster.seen == []


def test_closing_ends_the_waiting_for_another_try(cluster: SimulatedCluster, client: AdminClient) -> None:
    cluster.fault("/tenants", Answer(429, headers={"Retry-After": "15"}))
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.ask, "/admin/v2/tenants")
        while not cluster.asked("/tenants"):
            time.sleep(0.01)
        client.close()
        # 0: the answer was still on its way.
        assert next(hop.status for hop in asking.result(timeout=10)) in (0, 429)


def test_the_token_shows_nowhere(
    cluster: SimulatedCluster, client: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    secret = Secret(f"  {TOKEN}\n")
    connection = AdminConnection((cluster.url,), authentication=token(secret))
    texts = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", repr(connection), str([secret])]
    texts.append(repr(asdict(connection)))
    cluster.fault("/echo", Answer(500, f"you sent Bearer {TOKEN}", headers={"X": TOKEN}))
    cluster.fault("/onward", Answer(307, TOKEN, location=f"http://127.0.0.9:1/?token={TOKEN}"))
    with caplog.at_level(logging.DEBUG):
        for path in ("/admin/v2/echo", "/admin/v2/onward", BROKERS, "/admin/v2/\x00"):
            hops = client.ask(path)
            texts += [repr(hops), *(str(trouble(hop)) for hop in hops)]
    texts.append(caplog.text)
    assert TOKEN not in "".join(texts)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)
    assert copy.deepcopy(secret) == secret == Secret(TOKEN) != Secret("other")


def test_secrets_that_a_broker_tells_are_hidden_and_nothing_else_is(
    cluster: SimulatedCluster, client: AdminClient
) -> None:
    told = {
        "brokerClientAuthenticationParameters": 'token:ey"J.x',
        "tlsKeyStorePassword": "hunter2",
        "managedLedgerPassword": "",
        "loadBalancerEnabled": "true",
        "authenticationEnabled": "true",
    }
    policies = {"offload_policies": {"s3ManagedLedgerOffloadCredentialSecret": "AKIA/x"}, "bundles": {"numBundles": 4}}
    cluster.fault("/configuration/runtime", Answer(200, json.dumps(told)))
    cluster.fault("/namespaces/acme/secret-ns$", Answer(200, json.dumps(policies)))
    cluster.fault("/namespaces/acme$", Answer(200, '["acme/secret-ns"]'))
    (hop,) = client.ask(admin_path("brokers", "configuration", "runtime"))
    hidden = {"brokerClientAuthenticationParameters": "[secret]", "tlsKeyStorePassword": "[secret]"}
    assert json.loads(hop.body) == {**told, **hidden}
    (hop,) = client.ask(admin_path("namespaces", "acme", "secret-ns"))
    assert "AKIA" not in hop.body
    assert json.loads(hop.body)["bundles"] == {"numBundles": 4}
    assert client.ask(admin_path("namespaces", "acme"))[0].body == '["acme/secret-ns"]'
    needed = json.dumps(dict.fromkeys(registry(), "told"))
    assert without_secrets(admin_path("brokers", "configuration", "runtime"), needed) == needed, "what decisions need"


@pytest.mark.parametrize("text", ["", "  \n", "two tokens", "line\nfeed", "tökén", "a\x00b"])
def test_a_token_that_no_header_can_carry_is_refused_unshown(text: str) -> None:
    with pytest.raises(SettingsError, match="the token") as refused:
        Secret(text)
    assert not text.strip() or text not in str(refused.value)


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ((), "no admin address"),
        (("broker-1:8080",), "not an http:// or https:// address"),
        (("http://:8080",), "names no host"),
        (("http://b:http",), "no usable port"),
        (("http://b:8080/admin/v2",), "leave out /admin/v2"),
        (("http://b:8080", "https://c:8443"), "mix http and https"),
        (("http://admin:hunter2@b:8080",), "holds credentials"),
    ],
)
def test_an_address_that_cannot_work_is_refused_at_once(urls: tuple[str, ...], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        AdminConnection(urls)
    assert "hunter2" not in str(refused.value)


def test_a_gateways_path_stands_before_the_apis(cluster: SimulatedCluster) -> None:
    with AdminClient(AdminConnection((f"{cluster.url}/pulsar/",), authentication=token(Secret(TOKEN)))) as client:
        client.ask(BROKERS)
    assert cluster.seen[-1].path == f"/pulsar{BROKERS}"


@pytest.mark.parametrize("template", ["https://{hos}:1", "{}", "https://{host}:x", "host"])
def test_a_broker_url_that_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(SettingsError):
        AdminConnection(("http://b:8080",), broker_url=template)
