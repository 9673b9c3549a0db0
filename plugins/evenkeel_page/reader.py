"""The one process that reads tables for the desk, beside the API server, and the short queue in front of it.

Reading takes memory and processor time, and a damaged file can end a process. So the API server reads nothing of the
lake: a request waits for its turn, goes to the reader through a pipe, and comes back as a finished page. A request to a
full queue is refused at once. One that takes too long is ended with its reader. A reader that died is restarted for the
next request. The reader ends with the API server, however that ends: then its pipe is closed, and its parent is another
one (`reader_process`).
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from evenkeel.settings.lakes import LakeMap

log = logging.getLogger(__name__)

MOST = 24
"""Requests in all that wait or are worked on; the API server lends a thread to each of them, of some forty."""
LONGEST_S = 30.0
"""After so long a request is ended."""
TURN_S = LONGEST_S
"""After so long a request in the queue is refused: it waits for one that takes as long as it may."""
START_S = 60.0
"""After so long a reader that has not begun counts as failed; on a quiet machine it takes about a second."""
MEMORY_BYTES = 2 << 30
"""A reader that holds more ends itself."""
RETRY_AFTER_S = 3
HTML, JSON = "text/html; charset=utf-8", "application/json"
OUT_OF_MEMORY = 77
"""Exit code of a reader that held more than it may."""

_CODE = "from evenkeel_page.reader_process import main; main()"


class ReaderBusy(Exception):
    """The queue in front of the reader is full."""


class ReaderTooSlow(Exception):
    """A request took longer than it may; its reader was ended."""


class ReaderLost(Exception):
    """The reader ended while it worked on a request, or did not begin; the text gives the reason, as far as known."""


@dataclass(frozen=True)
class Answer:
    """A finished page: HTTP status, body, address of a redirect (303), content type. `file`: its name if saved.

    `missing`: why there is no lake to read, empty if there is one.
    """

    status: int
    body: str = ""
    location: str = ""
    kind: str = HTML
    file: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Job:
    """The reader's job: a page by its name, of a lake, with its arguments.

    `store`: the content of an Airflow connection to an object store, in plain words (`airflow_side.store`); None if the
    environment has the keys. It goes through the pipe to the reader, and is never shown. `lakes`: all lakes, if there
    are several; the reader takes that of the requested subject; `named`: the one to show.
    """

    page: str
    lake: str
    arguments: dict[str, Any] = field(default_factory=dict)
    store: Mapping[str, str | None] | None = field(default=None, repr=False)
    lakes: LakeMap | None = None
    named: str = ""


class Reader:
    """The queue and the process behind it. Threads of the API server call `ask`; `close` ends the process."""

    def __init__(
        self,
        *,
        most: int = MOST,
        longest: float = LONGEST_S,
        turn: float = TURN_S,
        memory: int = MEMORY_BYTES,
        pages: str = "evenkeel_page.pages",
    ) -> None:
        self._room = threading.BoundedSemaphore(most)
        self._turn = threading.Lock()
        self._longest, self._turn_s, self._memory, self._pages = longest, turn, memory, pages
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._ready = self._closed = False
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """Return the id of the process that reads now, None without one."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def ask(self, job: Job) -> Answer:
        """Return the page. Raises ReaderBusy, ReaderTooSlow or ReaderLost without one."""
        if not self._room.acquire(blocking=False):
            raise ReaderBusy
        try:
            if not self._turn.acquire(timeout=self._turn_s):
                raise ReaderBusy
            try:
                return self._exchange(job)
            finally:
                self._turn.release()
        finally:
            self._room.release()

    def start(self) -> None:
        """Start the process, so that the first request need not wait for it; an error shows with a request."""
        with self._turn:
            self._closed = False
            self._begin_if_possible()

    def close(self) -> None:
        """End the process, also one at work, and start no other."""
        self._closed = True
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
        with self._turn:
            self._end()

    def _exchange(self, job: Job) -> Answer:
        channel = self._living()
        try:
            channel.send(job)
        except OSError:  # it died after it had been looked at
            self._end()
            channel = self._living()
            channel.send(job)
        try:
            if not channel.poll(self._longest):
                self._replace()
                raise ReaderTooSlow
            answer, leaves = channel.recv()
        except (EOFError, OSError) as error:
            raise ReaderLost(self._why_ended()) from error
        if leaves:
            self._replace()
        reply: Answer = answer
        return reply

    def _living(self) -> Connection:
        if self._process is not None and (self._owner != os.getpid() or self._process.poll() is not None):
            self._end()
        if self._channel is None:
            try:
                self._begin()
            except OSError as error:
                raise ReaderLost(f"it cannot be started: {error}") from error
        assert self._channel is not None
        if not self._ready:
            try:
                if not self._channel.poll(START_S):
                    self._end()
                    raise ReaderLost(f"it did not begin within {START_S:.0f} s")
                self._channel.recv()
            except (EOFError, OSError) as error:
                raise ReaderLost(self._why_ended()) from error
            self._ready = True
        return self._channel

    def _begin(self) -> None:
        if self._channel is not None:
            return
        if self._closed:
            raise OSError("the API server ends")
        ours, theirs = Pipe()
        path = os.pathsep.join(dict.fromkeys((str(Path(__file__).resolve().parent.parent), *filter(None, sys.path))))
        arguments = [str(theirs.fileno()), str(os.getpid()), str(self._memory), self._pages]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel, self._ready, self._owner = ours, False, os.getpid()

    def _replace(self) -> None:
        """A new reader, which gets ready while no one waits for it."""
        self._end()
        if not self._closed:
            self._begin_if_possible()

    def _begin_if_possible(self) -> None:
        try:
            self._begin()
        except OSError as error:
            log.error("Evenkeel's reader cannot be started: %s", error)

    def _why_ended(self) -> str:
        process = self._process
        code = None
        if process is not None:
            try:
                code = process.wait(2)
            except subprocess.TimeoutExpired:
                code = None
        self._replace()
        if code == OUT_OF_MEMORY:
            return f"it needed more than {self._memory >> 20:,} MiB of memory"
        return (
            "it ended" if code is None else f"it ended by signal {-code}" if code < 0 else f"it ended with code {code}"
        )

    def _end(self) -> None:
        channel, process, self._channel, self._process, self._ready = self._channel, self._process, None, None, False
        if channel is not None:
            channel.close()
        if process is None or self._owner != os.getpid():  # a fork's: not ours to end
            return
        if process.poll() is None:
            process.kill()
        ends = time.monotonic() + 5
        while process.poll() is None and time.monotonic() < ends:
            time.sleep(0.01)
