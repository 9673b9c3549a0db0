"""Text of an answer while it arrives: a small one stays in memory, a large one goes to disk piece by piece.

So answers may have any size and come from many brokers at once, while this process stays small. Texts on disk are read
as a whole one at a time (`LargeText.alone`).

A deadline bounds the whole exchange, while a socket's timeout bounds each read. A server that sends a byte now and then
would keep a request alive for ever, in the answer's headers as in its body.
"""

from __future__ import annotations

import codecs
import ssl
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import IO, Any

import httpcore
import httpx

from evenkeel.errors import LandingError

HELD_CHARACTERS = 1 << 18
_PIECE = 1 << 18
_UNPACKED_PIECE = 1 << 16
_BEGINNING = 2_000
# A control character takes six characters in JSON.
_CONTROLS = bytes(sign for sign in range(32) if sign not in b"\t\n\r")
_ONE_AT_A_TIME = RLock()
# Longer than a client pauses between the requests of one snapshot, shorter than Jetty's idle limit (30 s and more).
_KEPT_SECONDS = 15.0


class TooLarge(Exception):
    """The answer is beyond its limit; `size` is the part of it that had arrived."""

    def __init__(self, size: int) -> None:
        super().__init__(f"it breaks off after {size:,} bytes")
        self.size = size


class Unreadable(Exception):
    """The answer has an encoding that was not requested and is not read."""


class LargeText:
    """A text on disk, in a file without a name: it is gone with its last reference, or with the process."""

    def __init__(self, file: IO[str], characters: int) -> None:
        self._file, self.characters = file, characters
        self._lock = RLock()

    def pieces(self) -> Iterator[str]:
        """Return the text, piece by piece."""
        with self._lock:
            self._file.seek(0)
            while piece := self._file.read(_PIECE):
                yield piece

    def beginning(self) -> str:
        """Return the first 2,000 characters."""
        with self._lock:
            self._file.seek(0)
            return self._file.read(_BEGINNING)

    def whole(self) -> str:
        """Return all of the text; call it within `alone`."""
        return "".join(self.pieces())

    def close(self) -> None:
        """Free the space on disk."""
        self._file.close()

    @staticmethod
    @contextmanager
    def alone() -> Iterator[None]:
        """Let one thread at a time read a large text as a whole."""
        with _ONE_AT_A_TIME:
            yield


class AnswerText:
    """Collector of an answer's bytes: `add` raises `TooLarge` beyond `most_bytes`, `end` returns the text.

    Bytes that are not UTF-8 become replacement characters. `hide` removes secrets of at most `longest` characters from
    a text. `folder` holds a large text until it is closed; None for the system's own.
    """

    def __init__(self, most_bytes: int, hide: Callable[[str], str], longest: int, folder: Path | None = None) -> None:
        self._most, self._hide, self._kept, self._folder = most_bytes, hide, max(longest - 1, 0), folder
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = ""
        self._held: list[str] = []
        self._characters = 0
        self._file: IO[str] | None = None
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._take(self._decoder.decode(data))

    def end(self) -> str | LargeText:
        """Return the text: a `str` if it is small."""
        self._take(self._decoder.decode(b"", True))
        self._put(self._tail)
        self._tail = ""
        if self._file is None:
            return "".join(self._held)
        file, self._file = self._file, None
        return LargeText(file, self._characters)

    def drop(self) -> None:
        """Discard the bytes so far."""
        if self._file is not None:
            self._file.close()
        self._file, self._held = None, []

    def _take(self, text: str) -> None:
        encoded = text.encode("utf-8")
        self.size += len(encoded) + 5 * (len(encoded) - len(encoded.translate(None, _CONTROLS)))
        if self.size > self._most:
            raise TooLarge(self.size)
        # A secret may begin at the end of a piece.
        text = self._hide(self._tail + text)
        cut = max(len(text) - self._kept, 0)
        self._tail = text[cut:]
        self._put(text[:cut])

    def _put(self, text: str) -> None:
        self._characters += len(text)
        if self._file is None and self._characters <= HELD_CHARACTERS:
            self._held.append(text)
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115
                    "w+", encoding="utf-8", newline="", dir=self._folder, prefix="evenkeel-"
                )
                self._file.writelines(self._held)
                self._held = []
            self._file.write(text)
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise LandingError(
                f"a large answer cannot be kept in {where} ({error.strerror or error}): make room in that folder"
            ) from None


def of_text(pieces: Iterable[str], folder: Path | None = None) -> str | LargeText:
    """Return a text that comes in pieces: in memory if it is small."""
    kept = AnswerText(1 << 62, lambda text: text, 0, folder)
    for piece in pieces:
        kept.add(piece.encode("utf-8", "replace"))
    return kept.end()


def unpacked(chunks: Iterable[bytes], encoding: str | None) -> Iterator[bytes]:
    """Yield the bytes of a body; of a compressed one at most 64 KiB at a time, however well it is compressed.

    Answers are requested uncompressed. A body compressed twice, or by anything but gzip, raises `Unreadable`.
    """
    how = (encoding or "identity").strip().lower()
    if how in ("identity", ""):
        yield from chunks
        return
    if how not in ("gzip", "x-gzip"):
        raise Unreadable(f"the answer is packed ({how[:60]}), and was asked for unpacked")
    unpack = zlib.decompressobj(31)
    for chunk in chunks:
        left = chunk
        while left and not unpack.eof:
            try:
                yield unpack.decompress(left, _UNPACKED_PIECE)
            except zlib.error as error:
                raise Unreadable(f"the answer cannot be unpacked ({error})") from None
            left = unpack.unconsumed_tail
    if not unpack.eof:
        raise Unreadable("the answer is packed and ends too early")


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


class _BoundedBackend(httpcore.NetworkBackend):
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


class BoundedTransport(httpx.HTTPTransport):
    """The library's transport over connections that end at the deadline."""

    def __init__(self, trust: ssl.SSLContext, most_connections: int, deadline: Deadline) -> None:
        # The base class's initializer is not called: it takes no backend. The rest of its work is done by the pool.
        self._pool = httpcore.ConnectionPool(
            ssl_context=trust,
            max_connections=most_connections,
            max_keepalive_connections=most_connections,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=_BoundedBackend(deadline),
        )
