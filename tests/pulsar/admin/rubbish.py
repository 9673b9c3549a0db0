"""Brokers that answer with anything, of any size, in any pace: raw bytes over real sockets on loopback.

    with RubbishServer({"/admin/v2/brokers": body(b"[]")}) as server:
        AdminClient(AdminConnection((server.url,))).ask("/admin/v2/brokers")

An answer is an iterator of pieces, headers included, made anew for each request; it ends when the client hangs up.
"""

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

Pieces = Callable[[], Iterable[bytes]]


def body(data: bytes, *, status: str = "200 OK", headers: str = "") -> Pieces:
    """An answer with these bytes."""
    return lambda: (f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode(), data)


def of_json(value: Any) -> Pieces:
    return body(json.dumps(value).encode())


def chunked(pieces: Callable[[], Iterable[bytes]], *, status: str = "200 OK") -> Pieces:
    """An answer whose length nobody tells."""

    def answer() -> Iterator[bytes]:
        yield f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        for piece in pieces():
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"

    return answer


def repeated(piece: bytes, total: int, begin: bytes = b"") -> Pieces:
    """`total` bytes, the same piece over and over behind a beginning; what a server makes of it costs no memory."""
    block = piece * max(1, (1 << 16) // len(piece))

    def pieces() -> Iterator[bytes]:
        if begin:
            yield begin
        for _ in range(total // len(block) + 1):
            yield block

    return chunked(pieces)


def trickling(begin: bytes, piece: bytes, every_s: float) -> Pieces:
    """Never ends: a piece now and then."""

    def pieces() -> Iterator[bytes]:
        yield begin
        while True:
            time.sleep(every_s)
            yield piece

    return pieces


class RubbishServer:
    """A broker. `answers` by path; what is not there is answered by `otherwise`."""

    def __init__(self, answers: dict[str, Pieces] | None = None, otherwise: Pieces | None = None) -> None:
        self.answers, self.otherwise = dict(answers or {}), otherwise or body(b"{}", status="404 Not Found")
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    while (line := self.rfile.readline(65_536)).strip():
                        while self.rfile.readline(65_536).strip():
                            pass
                        path = line.split()[1].decode()
                        for piece in server.answers.get(path, server.otherwise)():
                            self.wfile.write(piece)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.id = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.id}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def listing(server: RubbishServer, cluster: str = "rubbish") -> dict[str, Pieces]:
    """What a cluster of this one broker answers where it is asked what there is."""
    return {
        "/admin/v2/brokers": of_json([server.id]),
        "/admin/v2/brokers/leaderBroker": of_json({"brokerId": server.id}),
        "/admin/v2/clusters": of_json([cluster]),
        "/admin/v2/tenants": of_json(["t"]),
        "/admin/v2/namespaces/t": of_json(["t/n"]),
    }
