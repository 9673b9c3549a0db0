"""Results on standard output, for a person in lines, with `--json` as one JSON object a result; and progress of long
work on standard error, which a program that reads the result does not see.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, TextIO, cast

from evenkeel.errors import visible

VERSION = 1
"""Rises when a member of a result changes its meaning or goes; docs/reference/json.md has the schemas."""


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str, epilog: str
) -> argparse.ArgumentParser:
    """Add a command, whose epilog is printed with its own line breaks."""
    layout = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=words, epilog=epilog, formatter_class=layout)


def add_json(parser: argparse._ActionsContainer, of: str = "one JSON object") -> None:
    """The option `--json`."""
    parser.add_argument("--json", action="store_true", help=f"{of} on standard output, for a program")


def print_result(given: argparse.Namespace, text: str, result: Mapping[str, Any]) -> None:
    """Print the text, or with `--json` the result, as an object in one line."""
    print(as_line(result) if given.json else text, flush=True)


def as_line(result: Mapping[str, Any]) -> str:
    """The result with its version as JSON in one line; moments in ISO 8601."""
    return json.dumps({"version": VERSION, **result}, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def log_to_stderr(name: str) -> None:
    """Send a logger's lines to standard error, with or without --verbose: a server shows nothing else."""
    log = logging.getLogger(name)
    log.handlers[:] = [handler_to_stderr("%(asctime)sZ %(levelname)s %(message)s")]
    log.setLevel(logging.INFO)
    log.propagate = False


class _OneLine(logging.Formatter):
    """A line for each record: a name in its message begins no other line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))


def handler_to_stderr(layout: str) -> logging.Handler:
    """Return a handler that writes a record to standard error, in one line of this layout."""
    handler, formatter = logging.StreamHandler(sys.stderr), _OneLine(layout, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    return handler


class VisibleStream:
    """A stream of lines for a terminal, which gets no control character but the line feed from a name in them.

    `bare`: the stream itself, for colours and for lines that are written again.
    """

    def __init__(self, bare: TextIO) -> None:
        self.bare = bare

    @classmethod
    def of(cls, stream: TextIO) -> TextIO:
        """Return a stream that writes to another one."""
        return cast(TextIO, cls(stream))

    def write(self, text: str) -> int:
        """Write lines."""
        return self.bare.write("\n".join(map(visible, text.split("\n"))))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


def bare(stream: TextIO) -> TextIO:
    """Return the stream behind a `VisibleStream`: only texts whose names are `visible` may be written to it."""
    return getattr(stream, "bare", stream)


_EVERY_S = 10.0
"""Interval of plain lines, where lines stay (seconds)."""
_TELLS_EVERY_S = 1.0
QUIET_S = 5.0
"""Minimum duration of work that is shown (seconds)."""
HANGING = "evenkeel check "
"""Begins the name of a thread that may not end: a process with such a one ends without it."""
_CLEARED = "\r\x1b[K"


class ProgressLine:
    """One line on a stream.

    On a terminal it is written again with every step; in a file a line comes every ten seconds at most, and the last
    one always. `quiet`: nothing is shown for so many seconds.
    """

    def __init__(self, stream: TextIO, *, every: float = _EVERY_S, quiet: float = 0.0) -> None:
        self._stream, self._every = bare(stream), every
        self._rewrites = is_screen(stream)
        self._from = time.monotonic() + quiet
        self._shown, self._pending, self._at = "", "", -every

    def show(self, text: str) -> None:
        """Show this line in place of the last one."""
        text = visible(text)
        if time.monotonic() < self._from:
            return
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
        """Make room for other output, on this stream or another one; the line comes back below it."""
        if self._shown:
            self._stream.write(_CLEARED)
            self._stream.flush()
        yield
        if self._shown:
            sys.stdout.flush()
            self._stream.write(self._shown)
            self._stream.flush()

    def end(self) -> None:
        """End the line and keep its last text."""
        if self._shown:
            self._stream.write("\n")
        elif self._pending:
            self._stream.write(f"{self._pending}\n")
        self._shown = self._pending = ""
        self._stream.flush()


class WorkProgress:
    """Progress of long work, on a line; called with the amount done and the whole amount."""

    def __init__(self, line: ProgressLine, noun: str) -> None:
        self._line, self._noun, self._begin = line, noun, time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        share = done / max(of, 1)
        self._line.show(course_text(done, of, share, time.monotonic() - self._begin, self._noun))

    def say(self, text: str) -> None:
        """Print a separate line on standard error, above the progress line."""
        with self._line.aside():
            print(text, file=sys.stderr, flush=True)


@contextmanager
def course_of(noun: str) -> Iterator[WorkProgress]:
    """Yield a progress line on standard error for work counted in `noun` (plural); it appears after five seconds."""
    line = ProgressLine(sys.stderr, quiet=QUIET_S)
    try:
        yield WorkProgress(line, noun)
    finally:
        line.end()


@contextmanager
def busy_with(work: str) -> Iterator[None]:
    """Show on a terminal how long `work` (of unknown duration) has taken, from the fifth second to its end."""
    stream, begin, is_over = bare(sys.stderr), time.monotonic(), threading.Event()
    if not is_screen(stream):
        yield
        return

    def tell() -> None:
        is_over.wait(QUIET_S)
        while not is_over.wait(_TELLS_EVERY_S):
            stream.write(f"{_CLEARED}{work}, {duration(time.monotonic() - begin)} so far")
            stream.flush()

    telling = threading.Thread(target=tell, name="busy", daemon=True)
    telling.start()
    try:
        yield
    finally:
        is_over.set()
        telling.join()
        if time.monotonic() - begin > QUIET_S:
            stream.write(_CLEARED)
            stream.flush()


def is_screen(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if a line can be written again: on a terminal that is not a dumb one."""
    return stream.isatty() and environment.get("TERM") != "dumb"


def is_coloured(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if to write in colours: on such a terminal, unless NO_COLOR is set to anything (no-color.org)."""
    return is_screen(stream, environment) and not environment.get("NO_COLOR")


def course_text(done: int, of: int, share: float, seconds: float, noun: str = "cycles") -> str:
    """Return `288 of 8,640 cycles, 3 %, 15.2 cycles/s, 9 min 10 s to go`; unknown parts are left out.

    `share` is the part of the work that is done (0 to 1), `seconds` its duration so far.
    """
    parts = [f"{done:,} of {of:,} {noun}", f"{100 * share:.0f} %"]
    if done and seconds > 0:
        parts.append(f"{done / seconds:.1f} {noun}/s")
    if 0 < share < 1 and seconds > 0:
        parts.append(f"{duration(seconds * (1 - share) / share)} to go")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a duration in words: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, remainder = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {remainder} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min"
