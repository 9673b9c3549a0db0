"""The end of the Python workers of a session that a Connect server keeps apart.

Such a server starts, on each executor, a daemon for each session, forks the session's Python workers from it, and keeps
the daemon until the executor ends: 40 MB for every session that ever ran a grouped map, on a server that others share.
The workers themselves end after an idle minute; here the last of them takes its daemon along. If the session goes on
after that, Spark finds no daemon and starts one.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_DAEMON = "pyspark.daemon"
_SESSION, _NO_SESSION = "SPARK_JOB_ARTIFACT_UUID", "default"
_REUSED = "SPARK_REUSE_WORKER"


@cache
def end_with_the_last() -> None:
    """Called in a worker: notes that the daemon is to end with its last worker; nothing happens where the daemon serves
    other sessions, or where workers end with each task."""
    if not _has_daemon_of_its_own():
        return
    daemon, leave = os.getppid(), os._exit

    def leave_last(code: int) -> None:
        if _only_child_of(daemon):
            with suppress(OSError):
                os.kill(daemon, signal.SIGTERM)
        leave(code)

    vars(os)["_exit"] = leave_last  # what a worker ends with


def _has_daemon_of_its_own() -> bool:
    """Whether this process was forked by pyspark's daemon, for one session."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    own = os.environ.get(_SESSION, _NO_SESSION) != _NO_SESSION
    return own and _REUSED in os.environ and started is not None and started.name == _DAEMON


def _only_child_of(pid: int) -> bool:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:  # no such file: not Linux, or the daemon is gone
        return False
    return children == [str(os.getpid())]
