"""The witness over real HTTP on the loopback: what a client is told, and what a stranger can cost."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenkeel.bounded_server import MOST_CONNECTIONS
from evenkeel.errors import BadInput, InconsistentLog, WitnessError
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import MOST_BYTES
from evenkeel.transparency.storage import FolderStorage
from evenkeel.transparency.witness import MOST_REQUEST_BYTES, Witness, origin_hash
from evenkeel.transparency.witness_client import Submitted, WitnessAddress, latest_checkpoint, submit
from evenkeel.transparency.witness_server import WitnessServer
from tests.serving import serving
from tests.transparency.logs import LOG_KEY, ORIGIN, OTHER_KEY, WITNESS_KEY, MemoryStorage, entries_of, log_of

KEYS = (WITNESS_KEY.verifier,)


@contextmanager
def served(folder: Path, seconds: float = 20.0) -> Iterator[WitnessAddress]:
    witness = Witness(WITNESS_KEY, {ORIGIN: [LOG_KEY.verifier]}, FolderStorage(folder))
    with serving(WitnessServer(("127.0.0.1", 0), witness, connection_seconds=seconds)) as port:
        yield WitnessAddress(f"http://127.0.0.1:{port}", KEYS)


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


def test_a_log_is_cosigned_and_its_proofs_begin_where_the_witness_is(tmp_path: Path) -> None:
    log = log_of(entries_of(3))
    with served(tmp_path) as address:
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
    with served(tmp_path) as address:  # it remembers
        assert given(address, log).old == 304
        assert latest.checkpoint == log.checkpoint().checkpoint
    kept = log.add_cosignatures(log.checkpoint(), third.signatures, KEYS)
    assert kept.cosigned.keys() == set(KEYS)


def test_a_split_view_is_told_with_both_sizes_and_roots(tmp_path: Path) -> None:
    log, other = log_of(entries_of(5)), log_of(entries_of(7, 100))
    with served(tmp_path) as address:
        given(address, log)
        with pytest.raises(InconsistentLog) as told:
            given(address, other)
        assert str(told.value).startswith(f"split view: the witness {address.url} has seen")
        for one in (log, other):
            assert one.checkpoint().checkpoint.words in str(told.value)
        assert "\n" not in str(told.value)
        assert given(address, log).old == 5


def test_a_log_that_was_set_back_is_told(tmp_path: Path) -> None:
    log = log_of(entries_of(5))
    with served(tmp_path) as address:
        given(address, log)
        for known in (0, 5):
            with pytest.raises(InconsistentLog, match=r"at size 5, root .*=, and now it is given size 3, .* set back"):
                given(address, log_of(entries_of(3)), known=known)


def test_a_witness_that_forgot_is_seen(tmp_path: Path) -> None:
    log = log_of(entries_of(5))
    with served(tmp_path / "before") as address:
        given(address, log)
    log.append([b"more"])
    with served(tmp_path / "after") as address:
        assert given(address, log, known=5).old == 0


def test_refusals_are_told_in_one_line(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        with pytest.raises(WitnessError, match="refuses with 403: it does not know the key that signed"):
            given(address, _renamed(log_key=OTHER_KEY))
        with pytest.raises(WitnessError, match="refuses with 404: it does not know this log"):
            given(address, _renamed("example.com/other"))
        stranger = WitnessAddress(address.url, (SignerKey.make("witness.example/1", 4).verifier,))
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


# What a stranger can send.


def raw(address: WitnessAddress, data: bytes, seconds: float = 10.0) -> bytes:
    port = int(address.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: %d" % (MOST_REQUEST_BYTES + 1),
        b"Content-Length: 99999999999999999999",
        b"Content-Length: -1",
        b"Content-Length: 0x10",
        "Content-Length: ٣".encode(),
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked",
        b"X: y",
    ],
)
def test_a_body_is_read_only_where_its_length_is_sure(tmp_path: Path, headers: bytes) -> None:
    with served(tmp_path) as address:
        answer = raw(address, b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\nold 0")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1  # what follows is not taken for another request
    assert not [*tmp_path.rglob("checkpoint")]


def test_only_the_two_paths_are_served(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        connection = HTTPConnection("127.0.0.1", int(address.url.rpartition(":")[2]))
        for path in ("/", "/checkpoint", "/../checkpoint", "/.lock", f"/{origin_hash(ORIGIN)}", "/x/checkpoint"):
            connection.request("GET", path)
            response = connection.getresponse()
            assert (response.status, response.read()[:1] != b"") == (404, True)
        connection.request("POST", "/sign-subtree", b"")
        assert connection.getresponse().read() == b"POST /add-checkpoint is served here\n"
        connection.close()


def send_slowly(connection: socket.socket) -> None:
    for _ in range(500):
        connection.sendall(b"X")
        time.sleep(0.02)


def test_connections_are_kept_for_several_requests_but_not_for_ever(tmp_path: Path) -> None:
    with served(tmp_path, seconds=0.4) as address:
        port = int(address.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(b"POST /add-checkpoint HTTP/1.1\r\n")
            with pytest.raises(OSError, match=r"reset|[Pp]ipe"):
                send_slowly(slow)  # a byte now and then keeps no connection open
        assert given(address, log_of(entries_of(3))).old == 0


def test_connections_beyond_the_most_are_closed_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        port = int(address.url.rpartition(":")[2])
        held = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MOST_CONNECTIONS)]
        for one in held:
            one.sendall(b"P")
        time.sleep(0.3)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as further:
            assert further.recv(1) == b""
        for one in held:
            one.close()


def test_many_at_once_are_judged_one_after_the_other(tmp_path: Path) -> None:
    """Of trees that exclude each other one is cosigned, whatever comes first."""
    logs = [log_of([*entries_of(3), b"%d" % number]) for number in range(8)]
    results: list[object] = []

    def try_it(address: WitnessAddress, log: TransparencyLog) -> None:
        try:
            results.append(given(address, log))
        except InconsistentLog as error:
            results.append(error)

    with served(tmp_path) as address:
        threads = [threading.Thread(target=try_it, args=(address, log)) for log in logs]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert sorted(isinstance(one, Submitted) for one in results) == [False] * 7 + [True]
