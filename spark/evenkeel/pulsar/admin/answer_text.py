"""Text of an answer while it arrives: a small one stays in memory, a large one goes to disk piece by piece.

So answers may have any size and come from many brokers at once, while this process stays small. Texts on disk are read
as a whole one at a time (`LargeText.alone`).
"""

from __future__ import annotations

import codecs
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import IO

from evenkeel.errors import LandingError

HELD_CHARACTERS = 1 << 18
_PIECE = 1 << 18
_UNPACKED_PIECE = 1 << 16
_BEGINNING = 2_000
# A control character takes six characters in JSON.
_CONTROLS = bytes(sign for sign in range(32) if sign not in b"\t\n\r")
_ONE_AT_A_TIME = RLock()


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
