"""OAuth2 client credentials against an issuer on loopback: its answers, its faults, and the life of its tokens."""

import base64
import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest

from evenkeel.errors import EvenkeelError
from evenkeel.pulsar.admin import AdminClient, AdminConnection, oauth2, trouble
from evenkeel.pulsar.admin.auth_params import authentication_of
from evenkeel.pulsar.admin.authentication import Authentication
from evenkeel.pulsar.admin.oauth2 import AGAIN_AFTER_S, REFUSED_AGAIN_S, UNKNOWN_LIFE_S, OAuth2
from tests.pulsar.admin.authority import make_tls
from tests.pulsar.admin.issuer import CLIENT_ID, CLIENT_SECRET, WELL_KNOWN, Issuer, accepting
from tests.pulsar.admin.simulated import Answer, SimulatedCluster, listing

BROKERS = "/admin/v2/brokers"
KEY = {"type": "client_credentials", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not taken for a slow issuer."""
    monkeypatch.setattr(oauth2, "ISSUER_SECONDS", 100.0)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(listing, 2) as running:
        yield running


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def params(issuer: Issuer, **more: Any) -> dict[str, Any]:
    given = {"issuer_url": issuer.url, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, **more}
    return {name: value for name, value in given.items() if value is not None}


def authentication(issuer: Issuer, **more: Any) -> Authentication:
    return authentication_of("oauth2", params(issuer, **more), "auth_params")


def timed(issuer: Issuer, clock: Clock) -> OAuth2:
    shared = authentication(issuer)
    assert isinstance(shared, OAuth2)
    return OAuth2(shared._flow, clock)


def header(of: Authentication, seconds: float = 120.0) -> str:
    found = of.authorization(time.monotonic() + seconds)
    assert found is not None
    return found.header()


def asked_of(cluster: SimulatedCluster, of: Authentication, times: int = 1) -> list[int]:
    with AdminClient(AdminConnection((cluster.url,), authentication=of)) as client:
        return [client.ask(BROKERS, timeout_s=120)[-1].status for _ in range(times)]


@pytest.mark.parametrize("form", ["inline", "path", "file:", "file://", "data:base64", "data:plain"])
def test_each_form_of_the_key_gets_a_token_that_all_requests_use(
    form: str, issuer: Issuer, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    file = tmp_path / "key file.json"
    file.write_text(json.dumps(KEY))
    packed = base64.b64encode(json.dumps(KEY).encode()).decode()
    keys = {
        "path": str(file),
        "file:": f"file:{file}",
        "file://": f"file://{str(file).replace(' ', '%20')}",
        "data:base64": f"data:application/json;base64,{packed}",
        "data:plain": f"data:,{json.dumps(KEY, separators=(',', ':'))}",
    }
    java = {"issuerUrl": f"{issuer.url}/", "privateKey": keys.get(form), "audience": "urn:pulsar", "scope": "a b"}
    given = params(issuer, audience="urn:pulsar", scope="a b") if form == "inline" else java
    accepting(cluster, "access-token-1")
    plugin = "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2"
    assert asked_of(cluster, authentication_of(plugin, given, "auth_params"), times=3) == [200] * 3
    again = authentication_of("oauth2", json.dumps(given), "elsewhere")
    assert asked_of(cluster, again) == [200], "another client of this process with the same parameters"
    (request,) = issuer.asked("/oauth/token")
    assert parse_qs(request.body) == {
        "grant_type": ["client_credentials"],
        "client_id": [CLIENT_ID],
        "client_secret": [CLIENT_SECRET],
        "audience": ["urn:pulsar"],
        "scope": ["a b"],
    }
    assert (request.method, len(issuer.asked(WELL_KNOWN))) == ("POST", 1)


def test_a_token_is_renewed_after_nine_tenths_and_used_to_its_end_if_the_issuer_fails(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock, begin = Clock(), Clock.now
    of = timed(issuer, clock)
    assert header(of) == "Bearer access-token-1"
    clock.now = begin + 3_239
    assert header(of) == "Bearer access-token-1"
    issuer.fault("/oauth/token", Answer(503, "<html>"), times=2)
    clock.now = begin + 3_241
    with caplog.at_level(logging.WARNING):
        assert [header(of) for _ in range(5)] == ["Bearer access-token-1"] * 5
    assert len(issuer.asked("/oauth/token")) == 2, "a failing issuer is left alone for a while"
    assert "The access token is used for 359 s more" in caplog.text
    clock.now = begin + 3_601
    with pytest.raises(EvenkeelError, match="the issuer answered 503"):
        header(of)
    clock.now += AGAIN_AFTER_S
    assert header(of) == "Bearer access-token-2"


def test_a_refused_token_is_renewed_once(issuer: Issuer, cluster: SimulatedCluster) -> None:
    accept, clock = accepting(cluster, "access-token-1"), Clock()
    of = timed(issuer, clock)
    assert asked_of(cluster, of) == [200]
    accept("access-token-2")  # the issuer's key was rotated
    assert asked_of(cluster, of, times=2) == [200, 200]
    assert issuer.issued == ["access-token-1", "access-token-2"]
    accept("of another client")
    assert asked_of(cluster, of, times=3) == [401] * 3
    assert len(issuer.issued) == 2, "a token that was just renewed is refused for its role"
    clock.now += REFUSED_AGAIN_S
    assert asked_of(cluster, of, times=3) == [401] * 3
    assert len(issuer.issued) == 3


def test_a_command_is_sent_again_after_the_401_and_only_then(issuer: Issuer, cluster: SimulatedCluster) -> None:
    accepting(cluster, "access-token-2")
    with AdminClient(AdminConnection((cluster.url,), authentication=timed(issuer, Clock()))) as client:
        (hop,) = client.ask("/admin/v2/namespaces/a/b/unload", method="PUT", body="{}")
    assert (hop.status, [asked.body for asked in cluster.asked("unload")]) == (200, ["{}", "{}"])


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        ({}, 3_600.0),
        ({"expires_in": "120"}, 120.0),
        ({"expires_in": None}, UNKNOWN_LIFE_S),
        ({"expires_in": -5}, UNKNOWN_LIFE_S),
        ({"expires_in": [1]}, UNKNOWN_LIFE_S),
        ({"expires_in": None, "access_token": "a.jwt"}, 900.0),
        ({"expires_in": None, "access_token": "an.old.jwt"}, 0.0),
        ({"expires_in": None, "access_token": "a.b.c"}, UNKNOWN_LIFE_S),
    ],
)
def test_the_life_of_a_token_is_the_issuers_word_or_its_claim(life: dict[str, Any], expected: float) -> None:
    claims = {"a.jwt": time.time() + 900, "an.old.jwt": time.time() - 900}
    if life.get("access_token") in claims:
        claim = {"exp": claims[life["access_token"]]}
        life = {**life, "access_token": jwt.encode(claim, "k" * 32, algorithm="HS256")}
    with Issuer(**life) as issuer:
        of = timed(issuer, Clock())
        header(of)
        assert of._token is not None
        assert of._token.expires_at - of._token.got_at == pytest.approx(expected, abs=30)
        assert of._token.renew_at - of._token.got_at >= min(expected * 0.9, 10)


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        (WELL_KNOWN, Answer(404, "<html>"), "the issuer answered 404 (no JSON object). Check client_id"),
        (WELL_KNOWN, Answer(200, "{}"), "token_endpoint is missing. Check that `issuer_url` is the issuer's own"),
        (WELL_KNOWN, Answer(200, '{"token_endpoint": 7}'), "token_endpoint is missing"),
        (WELL_KNOWN, Answer(200, '{"token_endpoint": "ftp://x"}'), "token_endpoint is not an http:// or https://"),
        (WELL_KNOWN, Answer(200, '{"token_endpoint": "http://a:b@x"}'), "token_endpoint holds credentials"),
        (WELL_KNOWN, Answer(302, "", location="http://127.0.0.9:1/x?y=z"), "redirects to http://127.0.0.9, and is not"),
        ("/token", Answer(307, "", location="//127.0.0.9/x"), "redirects to ://127.0.0.9, and is not followed"),
        ("/token", Answer(200, "{}"), "access_token of its answer is missing"),
        (
            "/token",
            Answer(200, '{"access_token": "two words"}'),
            "access_token of its answer is empty, or holds blanks",
        ),
        ("/token", Answer(200, "[1]"), "the issuer answered 200 (no JSON object)"),
        ("/token", Answer(400, json.dumps({"error": "invalid_scope"})), "answered 400 (invalid_scope)"),
        ("/token", Answer(200, "x" * (1 << 19)), "the answer is too large for an issuer's"),
        ("/token", Answer(drop=True), "connection broken off"),
        (WELL_KNOWN, Answer(200, "{}", delay_s=3.0), "in time; check `issuer_url`, and that the issuer can be reached"),
    ],
)
def test_an_issuer_that_gives_no_token_is_told_and_nothing_goes_to_the_broker(
    path: str, answer: Answer, words: str, issuer: Issuer, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth2, "AGAIN_AFTER_S", 1_000.0)
    if answer.delay_s:
        monkeypatch.setattr(oauth2, "ISSUER_SECONDS", 1.0)
    issuer.fault(path, answer)
    with AdminClient(AdminConnection((cluster.url,), authentication=authentication(issuer))) as client:
        hops = [client.ask(BROKERS, timeout_s=120)[-1] for _ in range(2)]
    told = str(trouble(hops[0]))
    assert words in told
    assert told.startswith(f"{cluster.ids[0]}, GET {BROKERS}: no credentials: ")
    assert told.endswith("; nothing was sent to the broker")
    assert CLIENT_SECRET not in repr(hops)
    assert cluster.seen == []
    assert len(issuer.asked(path)) <= 1, "the second request does not ask the issuer again"


def test_a_wrong_secret_is_told_without_it(issuer: Issuer) -> None:
    of = authentication(issuer, client_secret="a-wrong-s3cr3t")
    with pytest.raises(EvenkeelError, match=r"answered 401 \(invalid_client: no client has \[secret\]\)") as refused:
        header(of)
    assert "a-wrong" not in str(refused.value)
    assert "s3cr3t" not in repr(of) + repr(vars(of))


def test_a_key_file_is_read_for_each_token(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    of = authentication(issuer, client_id=None, client_secret=None, private_key=str(file))
    for text, words in (("", "JSON object with the texts"), ('{"client_id": "x"}', "JSON object with the texts")):
        file.write_text(text)
        with pytest.raises(EvenkeelError, match=words):
            of.check()
    file.write_text(json.dumps(KEY))
    of.check()
    assert header(of) == "Bearer access-token-1"


def test_the_issuers_certificate_is_checked(tmp_path: Path) -> None:
    ca, context = make_tls(tmp_path, "127.0.0.1")
    with Issuer(tls=context) as issuer:
        with pytest.raises(EvenkeelError, match="set trustCertsFilePath to the certificates that signed the issuer's"):
            header(authentication(issuer))
        trusting = authentication(issuer, trustCertsFilePath=str(ca))
        issuer.fault(WELL_KNOWN, Answer(200, '{"token_endpoint": "http://127.0.0.1:1/token"}'), times=1)
        with pytest.raises(EvenkeelError, match="token_endpoint is not encrypted, and the issuer is"):
            header(trusting)
        assert issuer.asked("/oauth/token") == []
        again = authentication(issuer, trustCertsFilePath=str(ca), audience="another")
        assert header(again) == "Bearer access-token-1"


def test_many_requests_at_once_ask_the_issuer_once(issuer: Issuer) -> None:
    issuer.fault(WELL_KNOWN, Answer(200, json.dumps({"token_endpoint": f"{issuer.url}/oauth/token"}), delay_s=0.2))
    of = authentication(issuer)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: header(of), range(8))) == {"Bearer access-token-1"}
