"""Answers that are too large, packed, without end or not in time: a row that says so, and a process that stays small.

Test plan: real sockets, and what a broker, or whatever stands in its place, might send: more than the limit of its
kind, a bomb that unpacks, headers without end, a byte now and then, secrets and tokens in a text that goes to disk.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.errors import LandingError
from evenkeel.pulsar.admin import AdminClient, AdminConnection, Hop, authentication
from evenkeel.pulsar.admin.answer_text import HELD_CHARACTERS, AnswerText, LargeText, TooLarge
from evenkeel.pulsar.admin.authentication import Authentication
from evenkeel.pulsar.admin.http_exchange import without_secrets
from evenkeel.pulsar.limits import MOST_BROKERS, Limits
from evenkeel.secret import Secret
from tests.pulsar.admin.rubbish import RubbishServer, body, chunked, of_json, repeated, trickling

MIB = 1 << 20
TOPICS = "/admin/v2/broker-stats/topics"
LIST = "/admin/v2/persistent/t/n"
REPORT = "/admin/v2/broker-stats/load-report"
SMALL = Limits(answer_mib=2, small_answer_mib=1)


@pytest.fixture
def server() -> Iterator[RubbishServer]:
    with RubbishServer() as running:
        yield running


def asked(server: RubbishServer, path: str, folder: Path | None = None, **more: object) -> Hop:
    limits = more.pop("limits", SMALL)
    connection = AdminConnection((server.url,), authentication=more.pop("authentication", Authentication()))
    with AdminClient(connection, limits=limits, folder=folder) as client:
        return client.ask(path, **more)[-1]


@pytest.mark.parametrize(
    ("path", "limit"), [(TOPICS, "answer_mib"), (LIST, "answer_mib"), (REPORT, "small_answer_mib")]
)
def test_an_answer_beyond_its_limit_is_none_and_says_which(server: RubbishServer, path: str, limit: str) -> None:
    server.answers[path] = repeated(b"x", 64 * MIB)
    hop = asked(server, path)
    assert hop.status == 0
    assert hop.body.startswith("answer too large: it breaks off after")
    assert f"`{limit}`, set in [limits] or [clusters.NAME.limits] of the configuration file" in hop.body


def test_an_answer_within_its_limit_is_whole(server: RubbishServer, tmp_path: Path) -> None:
    text = '"' + "ü\n🙂" * 200_000 + '"'
    server.answers[TOPICS] = body(text.encode())
    hop = asked(server, TOPICS, tmp_path)
    assert hop.large is not None
    assert (hop.status, hop.large.whole(), hop.characters) == (200, text, len(text))
    assert hop.body == text[:2_000]
    assert list(tmp_path.iterdir()) == [], "a large text has no name, so that a kill leaves nothing"


def test_what_is_not_text_counts_as_what_it_becomes(server: RubbishServer) -> None:
    server.answers[TOPICS] = repeated(b"\xff", MIB)  # three bytes each once it is text
    assert asked(server, TOPICS).status == 0
    server.answers[TOPICS] = repeated(b"\x00", MIB)  # six signs each in JSON
    assert asked(server, TOPICS).status == 0


@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_that_was_not_asked_for_is_unpacked_up_to_the_limit(server: RubbishServer, layers: int) -> None:
    bomb = bytes(200 * MIB)
    for _ in range(layers):
        bomb = gzip.compress(bomb, 1)
    encoding = ", ".join(["gzip"] * layers)
    server.answers[TOPICS] = body(bomb, headers=f"Content-Encoding: {encoding}\r\n")
    hop = asked(server, TOPICS)
    assert hop.status == 0
    assert hop.body.startswith(
        "answer too large" if layers == 1 else "answer packed: the answer is packed (gzip, gzip)"
    )


def test_an_answer_that_a_proxy_packed_is_read(server: RubbishServer) -> None:
    server.answers[REPORT] = body(gzip.compress(b'{"a": 1}'), headers="Content-Encoding: gzip\r\n")
    assert asked(server, REPORT).json == {"a": 1}
    server.answers[REPORT] = body(gzip.compress(b'{"a": 1}')[:-6], headers="Content-Encoding: gzip\r\n")
    assert asked(server, REPORT).body.startswith("answer packed: the answer is packed and ends too early")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(trickling(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.05), id="headers"),
        pytest.param(
            trickling(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x", 0.05),
            id="body",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            trickling(b"", b"HTTP/1.1 102 Processing\r\n\r\n", 0.05), id="interim", marks=pytest.mark.exhaustive
        ),
        pytest.param(
            trickling(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.05), id="chunks"
        ),
    ],
)
def test_what_trickles_ends_with_the_questions_own_time(server: RubbishServer, answer: object) -> None:
    server.answers[TOPICS] = answer
    hop = asked(server, TOPICS, timeout_s=1.0)
    assert hop.status == 0
    assert hop.body.startswith("no answer in time")


def test_headers_without_end_are_no_answer(server: RubbishServer) -> None:
    server.answers[TOPICS] = lambda: (
        b"HTTP/1.1 200 OK\r\n",
        *(b"X-%d: %b\r\n" % (n, b"y" * 1_000) for n in range(9_999)),
    )
    hop = asked(server, TOPICS)
    assert (hop.status, hop.body.partition(":")[0]) == (0, "connection broken off")


def test_secrets_are_hidden_in_what_lies_on_disk(server: RubbishServer) -> None:
    token = "a-token-of-some-length"
    pad = "x" * (HELD_CHARACTERS - 7)
    # It lies across pieces wherever those are cut.
    cut = [
        f'{{"pad": "{pad}", "t": "'.encode(),
        token[:9].encode(),
        token[9:].encode(),
        b'", "brokerPassword": "pw-1"}',
    ]
    for path in (REPORT, "/admin/v2/brokers/configuration/runtime"):
        server.answers[path] = chunked(lambda: cut)
        hop = asked(server, path, authentication=authentication.token(Secret(token)))
        assert hop.large is not None
        assert token not in hop.large.whole()
        assert '"t": "[secret]"' in hop.large.whole()
        assert ("pw-1" in hop.large.whole()) == (path == REPORT), "a load report holds no settings"


def test_a_text_made_to_be_slow_is_gone_through_once() -> None:
    """A second time for each of its characters would take days."""
    path = "/admin/v2/brokers/configuration/runtime"
    for text in ('"' + "password" * 500_000, '"password": "' + "\\\\" * 2_000_000, '"a":"' * 1_000_000):
        without_secrets(path, text)


def test_a_list_of_very_many_brokers_teaches_nothing(server: RubbishServer) -> None:
    server.answers["/admin/v2/brokers"] = of_json([f"h{n}:8080" for n in range(MOST_BROKERS + 1)])
    with AdminClient(AdminConnection((server.url,))) as client:
        client.ask("/admin/v2/brokers")
        assert "is not a broker that the cluster lists" in client.ask(REPORT, broker="h1:8080")[-1].body


def test_a_text_is_held_while_it_is_small_and_let_go_of_when_it_is_dropped(tmp_path: Path) -> None:
    text = AnswerText(10 * MIB, str, 0, tmp_path)
    text.add(b"a" * HELD_CHARACTERS)
    assert isinstance(text.end(), str)
    text = AnswerText(MIB, str, 0, tmp_path)
    text.add(b"a" * (HELD_CHARACTERS + 1))
    with pytest.raises(TooLarge, match="breaks off after"):
        text.add(b"a" * MIB)
    text.drop()
    text = AnswerText(10 * MIB, str, 0, tmp_path)
    text.add("ä".encode()[:1])
    text.add("ä".encode()[1:] * (HELD_CHARACTERS + 1))
    found = text.end()
    assert isinstance(found, LargeText)
    assert found.whole() == "ä" + "\ufffd" * HELD_CHARACTERS


def test_no_room_for_a_large_answer_is_an_error_that_says_where(tmp_path: Path) -> None:
    text = AnswerText(10 * MIB, str, 0, tmp_path / "gone")
    with pytest.raises(LandingError, match=r"cannot be kept in .*/gone \(No such file or directory\): make room"):
        text.add(b"a" * (HELD_CHARACTERS + 1))
