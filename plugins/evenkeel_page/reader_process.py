"""The process that reads tables for the desk: takes jobs from a pipe, and gives back finished pages."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib import import_module
from multiprocessing.connection import Connection

import psutil

from evenkeel_page.reader import OUT_OF_MEMORY

_LOOKS_EVERY_S = 0.5
_NICENESS = 5
"""The API server comes first where processors are short."""
_THREADS = 2


def main() -> None:
    """Work until the pipe is closed. Arguments: the pipe, the process that it belongs to, bytes of memory, pages."""
    number, parent, memory, pages = sys.argv[1:5]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the API server, and the reader with it
    threading.Thread(target=_watch, args=(int(parent), int(memory)), daemon=True).start()
    os.nice(_NICENESS)
    answer = import_module(pages).answer
    channel = Connection(int(number))
    channel.send("ready")
    while True:
        try:
            job = channel.recv()
        except (EOFError, OSError):
            break
        page = answer(job)
        # Memory of a page stays with the process: one that has grown to half of its limit is restarted.
        leaves = _held() > int(memory) // 2
        try:
            channel.send((page, leaves))
        except OSError:
            break
    os._exit(0)  # reading threads of Arrow's may still be at work


def _watch(parent: int, memory: int) -> None:
    """End the process with its parent, and if it uses too much memory; also in the middle of a long read."""
    while True:
        if os.getppid() != parent:
            os._exit(1)
        if _held() > memory:
            sys.stderr.write(f"evenkeel: the reader held more than {memory >> 20} MiB and ends\n")
            os._exit(OUT_OF_MEMORY)
        time.sleep(_LOOKS_EVERY_S)


def _held() -> int:
    """Bytes in memory."""
    held: int = psutil.Process().memory_info().rss
    return held


def limit_threads() -> None:
    """Few threads for Arrow: the machine is the API server's."""
    import pyarrow as pa

    pa.set_cpu_count(_THREADS)
    pa.set_io_thread_count(2 * _THREADS)
