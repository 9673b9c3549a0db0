"""Admin servers of a few or a hundred brokers on loopback: real HTTP, answers from a book, faults on request.

    with SimulatedCluster(replayed(folder, "0000"), brokers=3) as cluster:
        cluster.fault("/broker-stats/topics", Answer(500, "oops"), broker=cluster.ids[1], times=1)
        AdminClient(AdminConnection((cluster.url,))).ask("/admin/v2/brokers")

Brokers are 127.0.0.1, 127.0.0.2, … on one port that was free. A book says what a broker answers (`books`).
"""

import contextlib
import re
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

UNAUTHORIZED = "<html><head><title>Error 401</title></head><body>HTTP ERROR 401 Authentication required</body></html>"
UNKNOWN = '{"reason":"HTTP 404 Not Found"}'


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker answers. `delay_s` passes before it; `drop` closes the connection instead, `cut` in the middle."""

    status: int = 200
    body: str | bytes = ""
    location: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    cut: bool = False

    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else self.body.encode()


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in, with its path as it stood on the wire."""

    broker: str
    method: str
    path: str
    body: str
    authorization: str | None


Book = Callable[[Asked], Answer | None]
"""What is answered to a request; None where the path is not known."""


@dataclass(slots=True)
class Fault:
    """An answer other than the book's, for paths that match, `times` times (None: always)."""

    pattern: re.Pattern[str]
    answer: Answer | Callable[[Asked], Answer]
    broker: str | None
    times: int | None


class SimulatedCluster:
    """Brokers that listen from construction on; `seen` is what they were asked, in order.

    `book` makes the answers for the broker ids. With a `token` every request needs it, else it is 401. With `tls`
    the brokers speak TLS only.
    """

    def __init__(
        self,
        book: Callable[[Sequence[str]], Book],
        brokers: int = 3,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        listeners = _listeners(brokers)
        self.port: int = listeners[0].getsockname()[1]
        self.ids = [f"{listener.getsockname()[0]}:{self.port}" for listener in listeners]
        self.seen: list[Asked] = []
        self.tls, self._token = tls, token
        self._book, self._faults = book(self.ids), list[Fault]()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._listeners = dict(zip(self.ids, listeners, strict=True))
        self._connections: dict[socket.socket, str] = {}
        self._selector = selectors.DefaultSelector()
        for broker, listener in self._listeners.items():
            self._selector.register(listener, selectors.EVENT_READ, broker)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the first broker."""
        return self.url_of(self.ids[0])

    def url_of(self, broker: str) -> str:
        return f"{'https' if self.tls else 'http'}://{broker}"

    def fault(
        self,
        pattern: str,
        answer: Answer | Callable[[Asked], Answer],
        *,
        broker: str | None = None,
        times: int | None = None,
    ) -> None:
        """From now on, paths in which `pattern` is found get this answer; of several faults the first counts."""
        with self._lock:
            self._faults.append(Fault(re.compile(pattern), answer, broker, times))

    def kill(self, broker: str) -> None:
        """The broker's process is gone: its connections end, new ones are refused."""
        with self._lock:
            listener = self._listeners.pop(broker)
            self._selector.unregister(listener)
            listener.close()
            gone = [connection for connection, of in self._connections.items() if of == broker]
        for connection in gone:
            _end(connection)

    def asked(self, pattern: str = "") -> list[Asked]:
        """The requests so far whose path holds the pattern."""
        return [asked for asked in list(self.seen) if re.search(pattern, asked.path)]

    def close(self) -> None:
        """Ends all brokers."""
        self._ended.set()
        for broker in list(self._listeners):
            self.kill(broker)
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, asked: Asked) -> Answer:
        """What this request gets: a fault, a refusal for want of the token, or what the book says."""
        with self._lock:
            self.seen.append(asked)
            fault = next((fault for fault in self._faults if _meets(fault, asked)), None)
            if fault is not None and fault.times is not None:
                fault.times -= 1
        if fault is not None:
            return fault.answer if isinstance(fault.answer, Answer) else fault.answer(asked)
        if self._token is not None and asked.authorization != f"Bearer {self._token}":
            return Answer(401, UNAUTHORIZED)
        return self._book(asked) or Answer(404, UNKNOWN)

    def _accept(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(0.05):
                try:
                    connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                except OSError:
                    continue
                threading.Thread(target=self._serve, args=(connection, key.data), daemon=True).start()

    def _serve(self, connection: socket.socket, broker: str) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            served = self.tls.wrap_socket(connection, server_side=True) if self.tls else connection
        except OSError:
            connection.close()
            return
        with self._lock:
            self._connections[served] = broker
            if broker not in self._listeners:
                _end(served)
        try:
            _Handler(served, self, broker)
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.pop(served, None)
            _end(served)
            served.close()


class _Handler(BaseHTTPRequestHandler):
    """One connection; keeps it open between requests, as a broker does."""

    protocol_version = "HTTP/1.1"
    rbufsize = 1 << 16

    def __init__(self, connection: socket.socket, cluster: SimulatedCluster, broker: str) -> None:
        self._cluster, self._broker = cluster, broker
        super().__init__(connection, connection.getpeername(), cluster)  # type: ignore[arg-type]

    def _reply(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        asked = Asked(self._broker, self.command, self.path, body, self.headers.get("Authorization"))
        answer = self._cluster.answer(asked)
        if answer.delay_s:
            time.sleep(answer.delay_s)
        if answer.drop:
            self.close_connection = True
            return
        data = answer.data()
        head = [f"HTTP/1.1 {answer.status} Said", f"Content-Length: {len(data)}"]
        if answer.location is not None:
            head.append(f"Location: {answer.location}")
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.cut:
            data, self.close_connection = data[: len(data) // 2], True
        self.wfile.write("\r\n".join([*head, "", ""]).encode() + data)

    do_GET = do_PUT = do_POST = do_DELETE = _reply

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def listing(ids: Sequence[str]) -> Book:
    """The smallest book: brokers that list themselves, and answer `ok` to everything else."""
    brokers = "[" + ",".join(f'"{broker}"' for broker in ids) + "]"

    def answer(asked: Asked) -> Answer:
        return Answer(200, brokers if asked.path == "/admin/v2/brokers" else '"ok"')

    return answer


def redirecting(url: str, path: str | None = None) -> Callable[[Asked], Answer]:
    """A fault that sends every request on to the same path at `url`."""
    return lambda asked: Answer(307, "", location=url + (path or asked.path))


def _meets(fault: Fault, asked: Asked) -> bool:
    if fault.times == 0 or (fault.broker is not None and fault.broker != asked.broker):
        return False
    return fault.pattern.search(asked.path) is not None


def _listeners(count: int) -> list[socket.socket]:
    """Listening sockets of 127.0.0.1, 127.0.0.2, … on one port that is free on all of them."""
    for _ in range(50):
        first = socket.create_server(("127.0.0.1", 0))
        port, opened = first.getsockname()[1], [first]
        try:
            for number in range(2, count + 1):
                opened.append(socket.create_server((f"127.0.0.{number}", port)))
            return opened
        except OSError:
            for one in opened:
                one.close()
    raise OSError(f"no port is free on {count} loopback addresses")


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
