"""A witness by HTTP (C2SP tlog-witness), on the standard library: for a second host, or another port of this one.

It listens on plain HTTP; whoever shows it beyond a trusted network puts a proxy with TLS before it. There is no login:
a checkpoint counts by its signature. What a stranger can cost is bounded: bytes of a request, seconds of a connection,
connections at a time.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from evenkeel.bounded_server import CONNECTION_SECONDS, BoundedHandler, BoundedServer
from evenkeel.transparency.keys import shown
from evenkeel.transparency.witness import MOST_REQUEST_BYTES, Witness, WitnessAnswer

log = logging.getLogger(__name__)

_LENGTH = re.compile(r"[0-9]{1,9}")


class WitnessServer(BoundedServer):
    """Serves a witness at an address `(host, port)`, port 0 for a free one."""

    def __init__(
        self, address: tuple[str, int], witness: Witness, *, connection_seconds: float = CONNECTION_SECONDS
    ) -> None:
        self.witness = witness
        super().__init__(address, _Handler, connection_seconds=connection_seconds)


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    server_version = "evenkeel-witness"
    server: WitnessServer

    def do_POST(self) -> None:
        if self.path != "/add-checkpoint":
            self._send(WitnessAnswer(404, b"POST /add-checkpoint is served here\n"), close=True)
            return
        lengths = self.headers.get_all("Content-Length", [])
        length = int(lengths[0]) if len(lengths) == 1 and _LENGTH.fullmatch(lengths[0]) else -1
        if not 0 <= length <= MOST_REQUEST_BYTES or "Transfer-Encoding" in self.headers:
            text = f"a request has one Content-Length, of {MOST_REQUEST_BYTES} bytes at most\n"
            self._send(WitnessAnswer(400, text.encode()), close=True)
            return
        body = self.rfile.read(length)
        if len(body) == length:
            self._send(self.server.witness.add_checkpoint(body))
        else:
            self.close_connection = True

    def do_GET(self) -> None:
        name, _, rest = self.path.removeprefix("/").partition("/")
        if rest != "checkpoint":
            self._send(WitnessAnswer(404, b"GET /<origin hash>/checkpoint is served here\n"))
        else:
            self._send(self.server.witness.latest(name))

    def log_message(self, format: str, *args: Any) -> None:
        log.info("%s: %s", self.client_address[0], shown(format % args))

    def _send(self, answer: WitnessAnswer, *, close: bool = False) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if close:  # what follows of the request is not read
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
