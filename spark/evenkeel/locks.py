"""Locks between processes: one process at a time holds a file.

The operating system releases a lock when its holder ends, also when the holder is killed. The file itself stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from filelock import BaseFileLock, LockOptions

TICK_SECONDS = 0.1


def acquired(
    path: Path,
    *,
    wait_seconds: float = 0.0,
    mode: int | None = None,
    on_acquired: Callable[[int], None] | None = None,
) -> BaseFileLock | None:
    """Take the lock at `path`; return None if another holder keeps it for `wait_seconds`.

    The caller holds the lock until `release()`, which any thread may call, and for as long as it keeps the returned
    object. A missing file is made with permissions `mode` (None: those that the umask leaves). `on_acquired` gets the
    open file's descriptor, to write who the holder is. Raises `OSError` if the file cannot be made or opened, or if the
    file system has no locks (a mere file instead of a lock would outlive a holder that is killed).
    """
    options: LockOptions = {"thread_local": False, "fallback_to_soft": False, "on_acquired": on_acquired}
    if mode is not None:
        options["mode"] = mode
    lock = FileLock(path, **options)
    try:
        lock.acquire(timeout=wait_seconds, poll_interval=TICK_SECONDS)
    except Timeout:
        return None
    return lock


@contextmanager
def held(path: Path, *, wait_seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock at `path` for a `with` block; give False if another holder keeps it for `wait_seconds`."""
    lock = acquired(path, wait_seconds=wait_seconds)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()
