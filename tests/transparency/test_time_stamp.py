"""Time stamps: what a real authority answers is taken, and nothing that only looks like it."""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, BadStamp, WitnessError
from evenkeel.transparency.time_stamp import (
    MOST_RESPONSE_BYTES,
    StampAuthority,
    TimeStamp,
    authorities_in,
    demand_stamp,
    query_for,
    read_stamp,
    request_stamp,
)
from tests.transparency.authorities import Authority, listening, made_authority, sent

TEXT = b"example.com/evenkeel\n7\nroot\n"
Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return made_authority(tmp_path_factory.mktemp("authority") / "own")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return made_authority(tmp_path_factory.mktemp("authority") / "other")


def asked(authority: Authority, answer: Answer, seconds: float = 5.0) -> bytes:
    """What a client keeps of an answer, which trusts this authority."""
    certificates = authorities_in(authority.ca.read_bytes(), "here")
    with listening(answer) as url:
        return request_stamp(url, TEXT, certificates, timeout_seconds=seconds)


def test_an_authority_stamps_a_text(authority: Authority, tmp_path: Path) -> None:
    kept = asked(authority, lambda handler, query: sent(handler, authority.reply(query)))
    stamp = read_stamp(kept)
    assert abs(stamp.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert stamp.by == "CN=Authority,O=Tests"
    assert stamp.digest == hashlib.sha256(TEXT).digest()
    demand_stamp(stamp, TEXT, authorities_in(authority.ca.read_bytes(), "here"))
    with pytest.raises(BadStamp, match="over another text"):
        demand_stamp(stamp, TEXT + b"\n", ())


def reply_to(authority: Authority, text: bytes) -> Answer:
    return lambda handler, query: sent(handler, authority.reply(query_for(text).as_bytes()))


def hang(handler: BaseHTTPRequestHandler, query: bytes) -> None:
    with suppress(OSError):
        for _ in range(100):  # a byte at a time, so that no single wait is long
            handler.wfile.write(b"H")
            time.sleep(0.05)


def too_long(handler: BaseHTTPRequestHandler, query: bytes) -> None:
    with suppress(OSError):
        sent(handler, bytes(10_000_000))


def redirect(handler: BaseHTTPRequestHandler, query: bytes) -> None:
    handler.send_response(307)
    handler.send_header("Location", "http://127.0.0.1:9/")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


REJECTED = bytes.fromhex("30053003020102")
"""A `TimeStampResp` with the status 2, and no token."""


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (lambda handler, query: sent(handler, REJECTED), "not granted: status 2"),
        (lambda handler, query: sent(handler, b"garbage"), "no answer of a time stamp authority"),
        (lambda handler, query: sent(handler, b""), "no answer of a time stamp authority"),
        (lambda handler, query: sent(handler, b"0\x80" * 30_000), "no answer of a time stamp authority"),
        (lambda handler, query: sent(handler, b"no", 503), "answers with status 503"),
        (redirect, "answers with status 307"),
        (too_long, f"more than {MOST_RESPONSE_BYTES:,} bytes"),
        (hang, "cannot be reached, or does not answer"),
    ],
)
def test_what_is_no_stamp_is_refused_in_time(authority: Authority, answer: Answer, fault: str) -> None:
    with pytest.raises(WitnessError, match=fault):
        asked(authority, answer, seconds=1.0)


def test_a_stamp_that_is_not_for_this_request_is_refused(authority: Authority, stranger: Authority) -> None:
    with pytest.raises(WitnessError, match="its nonce is another"):
        asked(authority, reply_to(authority, TEXT))
    with pytest.raises(WitnessError, match="over another text"):
        asked(authority, reply_to(authority, b"another"))
    with pytest.raises(WitnessError, match="not signed under the given certificates"):
        asked(authority, lambda handler, query: sent(handler, stranger.reply(query)))


def test_no_changed_byte_gives_another_time_or_signer(authority: Authority) -> None:
    """A few bytes are covered by no signature, such as the version; none of them says anything."""
    data = authority.reply(query_for(TEXT).as_bytes())
    certificates = authorities_in(authority.ca.read_bytes(), "here")
    whole = read_stamp(data)
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]
        try:
            stamp = read_stamp(changed)
            demand_stamp(stamp, TEXT, certificates)
        except BadStamp:
            continue
        assert said(stamp) == said(whole)
    for end in range(0, len(data), 7):
        with pytest.raises(BadStamp):
            read_stamp(data[:end])


def test_a_reader_that_fails_altogether_is_an_answer_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def panics(data: bytes) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("rfc3161_client.decode_timestamp_response", panics)
    with pytest.raises(BadStamp, match="index out of bounds"):
        read_stamp(b"0")


def said(stamp: TimeStamp) -> tuple[object, ...]:
    return stamp.at, stamp.by, stamp.digest, stamp.nonce


@pytest.mark.parametrize(
    ("url", "plain", "is_fit"),
    [
        ("https://stamps.example/tsr", False, True),
        ("http://stamps.example/tsr", False, False),
        ("http://stamps.example/tsr", True, True),
        ("http://localhost:8080", False, True),
        ("ftp://stamps.example", True, False),
        ("https://alice:secret@stamps.example", False, False),
        ("https://", False, False),
    ],
)
def test_an_authority_is_asked_by_https(url: str, plain: bool, is_fit: bool) -> None:
    if is_fit:
        assert StampAuthority(url, Path("ca.pem"), plain_http=plain).url == url
    else:
        with pytest.raises(BadInput, match="time stamp authority"):
            StampAuthority(url, Path("ca.pem"), plain_http=plain)


def test_a_file_without_certificates_is_refused() -> None:
    for data in (b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(BadInput, match="holds no certificates in PEM"):
            authorities_in(data, "here")
