"""A proxy in front of a store that does what networks and stores do at their worst, to the requests that it is told.

    faults.on("PUT", r"manifest\\.json$", refuse(409, "ConditionalRequestConflict"), times=2)

It notes every request that it sees. Signatures stay valid, since everything is passed on as it came.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote
from xml.sax.saxutils import escape

Action = Callable[["Exchange"], None]
WAIT_SECONDS = 30.0
_OURS = {"transfer-encoding", "content-length", "expect", "connection", "date", "server", "keep-alive"}


@dataclass
class Rule:
    method: str
    path: re.Pattern[str]
    action: Action
    left: int


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Faults(ThreadingHTTPServer):
    """The proxy, serving from a thread of its own between `with` and its end. `seen`: (method, decoded path?query)."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.target = target
        self.seen: list[tuple[str, str]] = []
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def on(self, method: str, path: str, action: Action, times: int = 1) -> Self:
        """Does `action` to the next `times` requests whose decoded path and query the pattern is found in."""
        self._rules.append(Rule(method, re.compile(path), action, times))
        return self

    def forget(self) -> None:
        """As if it had just been started."""
        self.seen, self._rules = [], []

    def count(self, method: str = "", path: str = "") -> int:
        return sum(1 for seen in self.seen if seen[0].startswith(method) and re.search(path, seen[1]))

    def action_for(self, method: str, path: str) -> Action:
        with self._lock:
            self.seen.append((method, path))
            for rule in self._rules:
                if rule.left > 0 and rule.method == method and rule.path.search(path):
                    rule.left -= 1
                    return rule.action
        return pass_on

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed or give up are what this is for."""

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Exchange(BaseHTTPRequestHandler):
    """One request under way."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Faults

    def handle_request(self) -> None:
        self.server.action_for(self.command, unquote(self.path))(self)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def handle_expect_100(self) -> bool:
        self.send_response_only(100)
        self.end_headers()
        return True

    def read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return b"".join(iter(self._chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
        self.rfile.readline()
        return data

    def ask_store(self) -> Answer:
        body = self.read_body()
        connection = HTTPConnection("127.0.0.1", self.server.target, timeout=WAIT_SECONDS)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _OURS - {"date"}:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = Answer(answer.status, answer.getheaders(), answer.read())
        connection.close()
        return found

    def send_answer(self, answer: Answer, cut: float = 1.0) -> None:
        """Sends it whole, or that share of its body and then nothing more."""
        self.send_response_only(answer.status)
        length = str(len(answer.body))
        for name, value in answer.headers:
            if name.lower() == "content-length":
                length = value  # HEAD tells the length of what it does not send
            elif name.lower() not in _OURS:
                self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: int(len(answer.body) * cut)])
        if cut < 1.0:
            self.close_connection = True


def pass_on(exchange: Exchange) -> None:
    exchange.send_answer(exchange.ask_store())


def refuse(status: int, code: str, **members: str) -> Action:
    """The store's own error document, without the store."""

    def act(exchange: Exchange) -> None:
        exchange.read_body()
        more = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in members.items())
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told to</Message>{more}</Error>"
        exchange.send_answer(Answer(status, [("Content-Type", "application/xml")], body.encode()))

    return act


def page(status: int) -> Action:
    """A page of a proxy or portal where the store's answer should be."""

    def act(exchange: Exchange) -> None:
        exchange.read_body()
        body = b"<html><body><h1>Please log in<br></h1></body></html>"
        exchange.send_answer(Answer(status, [("Content-Type", "text/html")], body))

    return act


def cut_request(exchange: Exchange) -> None:
    """Half of what the client sends is read; then the connection is gone."""
    exchange.rfile.read(int(exchange.headers.get("Content-Length", 2)) // 2)
    exchange.close_connection = True
    exchange.connection.close()


def cut_answer(exchange: Exchange) -> None:
    """The answer's body breaks off in its middle."""
    exchange.send_answer(exchange.ask_store(), cut=0.5)


def lose_answer(exchange: Exchange) -> None:
    """The store did it, and nobody hears of it."""
    exchange.ask_store()
    exchange.close_connection = True


@dataclass
class Hold:
    """Holds a request until `release`; `after`: the store has done it already, only its answer is held back."""

    after: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask_store() if self.after else None
        self.arrived.set()
        self.release.wait(WAIT_SECONDS)
        if answer is None:
            exchange.close_connection = True  # the client is dead by now: what it sent must not arrive
        else:
            exchange.send_answer(answer)


@dataclass
class Together:
    """Holds requests until `parties` of them have arrived, then passes all on at once."""

    parties: int
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.parties)

    def __call__(self, exchange: Exchange) -> None:
        self.barrier.wait(WAIT_SECONDS)
        pass_on(exchange)
