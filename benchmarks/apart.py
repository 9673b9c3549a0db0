"""A server in a process of its own, so that what is measured shares neither a lock nor memory with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any


@contextmanager
def apart(serve: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """Runs `serve(*arguments, end)` and gives what it sends first; it is to end when the other end is (`until_closed`).

    Spawned and not forked: the peak of a child process counts what its parent held when it was forked.
    """
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=serve, args=(*arguments, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here.recv()
    finally:
        here.close()
        process.join()


def until_closed(end: Connection) -> None:
    """Returns when nobody holds the other end any more."""
    with suppress(EOFError):
        end.recv()
