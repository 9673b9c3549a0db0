"""End of the Python workers of a session whose files a Connect server keeps apart.

Such a server starts a daemon for each session on each executor, and forks the session's Python workers from it. It
keeps the daemon until the executor ends: 40 MB for every session that ever ran a grouped map, on a shared server. The
workers themselves end after an idle minute. With this module the last worker ends its daemon. If the session goes on
later, Spark starts a new daemon.
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
    """Note, in a worker, that the daemon ends with its last worker.

    Does nothing if the daemon serves other sessions, or if workers end with each task.
    """
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
    """Return True if pyspark's daemon forked this process for one session."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_of_one_session = os.environ.get(_SESSION, _NO_SESSION) != _NO_SESSION
    return is_of_one_session and _REUSED in os.environ and started is not None and started.name == _DAEMON


def _only_child_of(pid: int) -> bool:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:  # no such file: not Linux, or the daemon is gone
        return False
    return children == [str(os.getpid())]
