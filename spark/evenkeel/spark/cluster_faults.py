"""Faults of a Spark cluster while it works for a task, each as one line with what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evenkeel.errors import EngineError

_EXECUTOR = re.compile(r"\((?P<host>[^()\s]+) executor (?P<number>[^\s)]+)\)")
_DRIVER = "driver"
_AGAIN = "This try writes nothing, and the next one decides the same again"

_SIGNS: Sequence[tuple[re.Pattern[str], str]] = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        f"No space left on device{{where}}: make room in that machine's scratch folder (SPARK_LOCAL_DIRS), or on the "
        f"lake's disk. {_AGAIN}",
    ),
    (
        re.compile(r"Checkpoint block rdd_\d+_\d+ not found"),
        f"a worker of the cluster has gone, and with it rows that it kept for this task. {_AGAIN}",
    ),
    (
        re.compile(r"ExecutorLostFailure|Lost executor|ExecutorDeadException|FetchFailed"),
        f"a worker of the cluster has gone while it worked{{where}}. {_AGAIN}",
    ),
    (
        re.compile(r"Cannot call methods on a stopped SparkContext|SparkContext was shut down|Master removed our app"),
        f"the cluster's master has ended the Spark server's application: restart that server. {_AGAIN}",
    ),
    (
        re.compile(r"INVALID_HANDLE\.SESSION_(NOT_FOUND|CLOSED|CHANGED)"),
        f"the Spark server was restarted, or has closed this session. {_AGAIN}",
    ),
)


def cluster_fault(text: str) -> EngineError | None:
    """Read the fault of the cluster from Spark's text of a failed query; return None for other failures.

    A full disk under a local master is not a fault of a cluster.
    """
    executor = _EXECUTOR.search(text)
    if executor is not None and executor["number"] == _DRIVER:
        return None
    where = f" on the worker {executor['host']} (executor {executor['number']})" if executor is not None else ""
    for sign, words in _SIGNS:
        if sign.search(text):
            return EngineError(words.format(where=where))
    return None
