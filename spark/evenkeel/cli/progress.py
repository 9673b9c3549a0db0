"""The progress of long work on standard error: one line that is written anew, or a line now and then into a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_EVERY_S = 10.0
"""How often a plain line comes, where lines stay."""
_CLEARED = "\r\x1b[K"


class ProgressLine:
    """One line on a stream. On a terminal it is written anew with every step; elsewhere a line comes every ten seconds
    at most, and the last one always."""

    def __init__(self, stream: TextIO, *, every: float = _EVERY_S) -> None:
        self._stream, self._every = stream, every
        self._rewrites = stream.isatty()
        self._shown, self._pending, self._at = "", "", -every

    def show(self, text: str) -> None:
        """The line as it is from now on."""
        if self._rewrites:
            self._stream.write(f"{_CLEARED}{text}")
            self._shown = text
        elif time.monotonic() - self._at >= self._every:
            self._stream.write(f"{text}\n")
            self._at, text = time.monotonic(), ""
        self._pending = "" if self._rewrites else text
        self._stream.flush()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Makes room for other output, on this stream or another one; the line comes back below it."""
        if self._shown:
            self._stream.write(_CLEARED)
            self._stream.flush()
        yield
        if self._shown:
            sys.stdout.flush()
            self._stream.write(self._shown)
            self._stream.flush()

    def end(self) -> None:
        """Leaves the last text standing."""
        if self._shown:
            self._stream.write("\n")
        elif self._pending:
            self._stream.write(f"{self._pending}\n")
        self._shown = self._pending = ""
        self._stream.flush()


def course_text(done: int, of: int, share: float, seconds: float) -> str:
    """`288 of 8,640 cycles, 3 %, 15.2 cycles/s, 9 min 10 s to go`; what cannot be known yet is left out.

    `share` is the part of the work that is done (0 to 1), `seconds` what it took.
    """
    parts = [f"{done:,} of {of:,} cycles", f"{100 * share:.0f} %"]
    if done and seconds > 0:
        parts.append(f"{done / seconds:.1f} cycles/s")
    if 0 < share < 1 and seconds > 0:
        parts.append(f"{duration(seconds * (1 - share) / share)} to go")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min"
