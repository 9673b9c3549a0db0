"""A small HTTP server on the standard library, for figures, with bounded cost per client.

It listens on plain HTTP; put a proxy with TLS before it outside a trusted network. Bounded are the seconds of a
connection and the number of connections at a time. The handler bounds the size of a request.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONNECTION_SECONDS = 20.0
"""Longest time of a connection, with all its requests (seconds)."""
MOST_CONNECTIONS = 32
"""Connections at a time; further ones are closed at once."""

log = logging.getLogger(__name__)


class BoundedServer(ThreadingHTTPServer):
    """Serves at an address `(host, port)`, port 0 for a free one. `serve_forever`, `shutdown` and `server_close` are
    those of the standard library."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BoundedHandler],
        *,
        connection_seconds: float = CONNECTION_SECONDS,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.connection_seconds = connection_seconds
        self._free = threading.BoundedSemaphore(most_connections)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or close it if too many are open."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong in a connection, in one line; connections that break are nothing unusual."""
        log.info("a connection of %s ended early", client_address, exc_info=log.isEnabledFor(logging.DEBUG))


class BoundedHandler(BaseHTTPRequestHandler):
    """A connection that is cut after the server's `connection_seconds`."""

    sys_version = ""
    server: BoundedServer

    def setup(self) -> None:
        """Begin to count the connection's seconds."""
        super().setup()
        self.connection.settimeout(self.server.connection_seconds)
        self._end = threading.Timer(self.server.connection_seconds, self._cut)
        self._end.daemon = True
        self._end.start()

    def finish(self) -> None:
        """End the connection."""
        self._end.cancel()
        super().finish()

    def _cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
