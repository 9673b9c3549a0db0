"""A witness by HTTP, as its client sees it: what is submitted, what is believed, and what an odd answer costs."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evenkeel.errors import BadInput, InconsistentLog, WitnessError
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import MOST_BYTES
from evenkeel.transparency.witness_client import Submitted, WitnessAddress, latest_checkpoint, submit
from tests.serving import serving
from tests.transparency.http_witness import Seen, witness
from tests.transparency.logs import (
    LOG_KEY,
    ORIGIN,
    OTHER_KEY,
    WITNESS_KEY,
    CosigningKey,
    MemoryStorage,
    entries_of,
    log_of,
)

KEYS = (WITNESS_KEY.verifier,)


@contextmanager
def served(seen: Seen) -> Iterator[WitnessAddress]:
    with witness(seen) as url:
        yield WitnessAddress(url, KEYS)


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[WitnessAddress]:
    """A server that is no witness."""

    class _Odd(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        do_GET = BaseHTTPRequestHandler.send_error

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Odd)) as port:
        yield WitnessAddress(f"http://127.0.0.1:{port}/prefix/", KEYS)


def replied(status: int, body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def given(address: WitnessAddress, log: TransparencyLog, known: int = 0, timeout_seconds: float = 10.0) -> Submitted:
    prove = log.tree().consistency
    return submit(address, log.checkpoint(), log.log_keys, prove, known=known, timeout_seconds=timeout_seconds)


def test_a_log_is_cosigned_and_its_proofs_begin_where_the_witness_is() -> None:
    log, seen = log_of(entries_of(3)), Seen()
    with served(seen) as address:
        assert latest_checkpoint(address, ORIGIN, log.log_keys) is None
        first = given(address, log)
        assert first.old == 0
        log.append(entries_of(300, 3))
        assert given(address, log, known=3).old == 3
        log.append(entries_of(1, 303))
        third = given(address, log)  # where it is, it has to say itself
        assert third.old == 303
        assert given(address, log, known=2).old == 304
        latest = latest_checkpoint(address, ORIGIN, log.log_keys)
    with served(seen) as address:  # it remembers
        assert given(address, log).old == 304
        assert latest.checkpoint == log.checkpoint().checkpoint
    kept = log.add_cosignatures(log.checkpoint(), third.signatures, KEYS)
    assert kept.cosigned.keys() == set(KEYS)


def test_a_split_view_is_told_with_both_sizes_and_roots() -> None:
    log, other = log_of(entries_of(5)), log_of(entries_of(7, 100))
    with served({}) as address:
        given(address, log)
        with pytest.raises(InconsistentLog) as told:
            given(address, other)
        assert str(told.value).startswith(f"split view: the witness {address.url} has seen")
        for one in (log, other):
            assert one.checkpoint().checkpoint.words in str(told.value)
        assert "\n" not in str(told.value)
        assert given(address, log).old == 5


def test_a_log_that_was_set_back_is_told() -> None:
    log = log_of(entries_of(5))
    with served({}) as address:
        given(address, log)
        for known in (0, 5):
            with pytest.raises(InconsistentLog, match=r"at size 5, root .*=, and now it is given size 3, .* set back"):
                given(address, log_of(entries_of(3)), known=known)


def test_a_witness_that_forgot_is_seen() -> None:
    log = log_of(entries_of(5))
    with served({}) as address:
        given(address, log)
    log.append([b"more"])
    with served({}) as address:
        assert given(address, log, known=5).old == 0


def test_refusals_are_told_in_one_line() -> None:
    with served({}) as address:
        with pytest.raises(WitnessError, match="refuses with 403: it does not know the key that signed"):
            given(address, _renamed(log_key=OTHER_KEY))
        with pytest.raises(WitnessError, match="refuses with 404: it does not know this log"):
            given(address, _renamed("example.com/other"))
        stranger = WitnessAddress(address.url, (CosigningKey("witness.example/1", bytes(32)).verifier,))
        with pytest.raises(WitnessError, match="no valid cosignature: no signature by its key"):
            given(stranger, log_of(entries_of(3)))
        with pytest.raises(WitnessError, match="that it has not cosigned"):
            latest_checkpoint(stranger, ORIGIN, [LOG_KEY.verifier])


def _renamed(origin: str = ORIGIN, log_key: SignerKey | None = None) -> TransparencyLog:
    log = TransparencyLog(MemoryStorage(), origin, [log_key or SignerKey.make(origin)])
    log.create()
    return log


def test_a_witness_that_is_not_there_is_told() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(WitnessError, match="cannot be reached, or does not answer: 'Connection refused'"):
        given(WitnessAddress(f"http://127.0.0.1:{port}", KEYS), log_of([]))


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.05)
    except OSError:
        pass


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (replied(200, b""), "no valid cosignature"),
        (replied(200, b"nonsense\n"), "no valid cosignature"),
        (replied(200, "— witness.example/1 AAAAAAAA\n".encode()), "no valid cosignature: no signature by its key"),
        (replied(200, b"\xff" * 50), "no valid cosignature"),
        (replied(200, b"x" * (MOST_BYTES + 1)), "more than 131,072 bytes"),
        (replied(409, b"many\n"), "409 without the size"),
        (replied(409, b"1"), "409 without the size"),
        (replied(409, b"2\n"), "sees other checkpoints"),
        (replied(302, b""), "refuses with 302"),
        (replied(503, b"busy \x1b[2J\n"), r"refuses with 503: it cannot answer now \(it says 'busy \\x1b\[2J'\)"),
        (lambda handler: handler.wfile.write(b"garbage\r\n"), "does not answer"),
        (lambda handler: None, "does not answer"),
        (drip, "does not answer|no valid cosignature"),
    ],
)
def test_an_odd_answer_is_told(answer: Callable[[BaseHTTPRequestHandler], None], fault: str) -> None:
    with answering(answer) as address, pytest.raises(WitnessError, match=fault) as told:
        given(address, log_of(entries_of(3)), timeout_seconds=0.5)
    assert "\n" not in str(told.value)


def test_a_wrong_cosignature_is_no_cosignature() -> None:
    log = log_of(entries_of(3))
    line = WITNESS_KEY.sign(b"another text\n", 1).line.encode()
    with answering(replied(200, line)) as address, pytest.raises(WitnessError, match="is wrong"):
        given(address, log)


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http://user:password@host", "http://host?x=1"])
def test_a_url_that_is_none_of_a_witness_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(BadInput) as told:
        WitnessAddress(url, KEYS)
    assert "password" not in str(told.value)
    with pytest.raises(BadInput, match="needs a verifier key of a witness"):
        WitnessAddress("http://host", (LOG_KEY.verifier,))
