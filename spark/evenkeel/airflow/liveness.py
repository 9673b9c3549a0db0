"""Ends a task whose Spark server is gone.

A client whose server dies goes on trying for minutes without a word. So a thread knocks at the server's port while a
task works, and when no one opens for a while the task's process ends: Airflow then tries the task again.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)

KNOCK_SECONDS = 2.0
# A server that is busy collecting garbage may miss a knock or two.
SILENT_KNOCKS = 5


@contextmanager
def server_watched(
    host: str, port: int, tell: Callable[[str], None], *, knock_seconds: float = KNOCK_SECONDS
) -> Iterator[None]:
    """Watch the server while the block runs: if it accepts no connections, `tell` the reason and end this process.

    The process ends by force, since the block may wait on threads that wait on the server. Only the main thread can use
    this; in other threads the block runs unwatched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        reason = (
            f"The Spark server at {host}:{port} takes no connections any more. It was stopped or has died: see its "
            "log. "
            "The task is tried again; start the server unless a supervisor does."
        )
        log.error(reason)
        try:
            tell(reason)
        finally:
            os._exit(1)

    before = signal.signal(signal.SIGUSR1, leave)
    over = threading.Event()
    threading.Thread(target=_knock, args=(host, port, over, knock_seconds), name="server-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGUSR1, before)


def _knock(host: str, port: int, over: threading.Event, seconds: float) -> None:
    silent = 0
    while not over.wait(seconds):
        silent = 0 if _opens(host, port, seconds) else silent + 1
        if silent >= SILENT_KNOCKS and not over.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            return


def _opens(host: str, port: int, seconds: float) -> bool:
    try:
        with socket.create_connection((host, port), timeout=seconds):
            return True
    except OSError:
        return False
