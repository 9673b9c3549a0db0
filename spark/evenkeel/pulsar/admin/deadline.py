"""Connections with a deadline: it bounds the whole exchange, while a socket's timeout bounds each read.

A server that sends a byte now and then would keep a request alive for ever, in the answer's headers as in its body.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore


class Deadline:
    """Deadline of this thread's exchange (`time.monotonic`)."""

    def __init__(self) -> None:
        self._own = threading.local()

    @contextmanager
    def until(self, moment: float) -> Iterator[None]:
        """Bound all that this thread sends and receives in the block."""
        self._own.moment = moment
        try:
            yield
        finally:
            del self._own.moment

    def left(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return the seconds left, at most `timeout`; raises `late` if none are left."""
        moment = getattr(self._own, "moment", None)
        if moment is None:
            return timeout
        left: float = moment - time.monotonic()
        if left <= 0:
            raise late()
        return left if timeout is None else min(left, timeout)


class BoundedBackend(httpcore.NetworkBackend):
    """Backend that connects as httpcore does; reads and writes over its connections end at the thread's deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline, self._inner = deadline, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to that host and port."""
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _BoundedStream(self._deadline, self._inner.connect_tcp(host, port, left, local_address, socket_options))


class _BoundedStream(httpcore.NetworkStream):
    def __init__(self, deadline: Deadline, inner: httpcore.NetworkStream) -> None:
        self._deadline, self._inner = deadline, inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _BoundedStream(self._deadline, self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
