"""A Connect server that others share: after many short sessions of ours nothing of them is left on it."""

import os
import time
from collections.abc import Callable

import pytest

from benchmarks.short_sessions import LEVEL_WITHIN, heap_contents, short_session
from evenkeel.doctor import spark_endpoint
from evenkeel.spark.session import close, connect
from tests.spark_cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]

SESSIONS = int(os.environ.get("EVENKEEL_SESSIONS", "100"))
WITH_CODE = 10
PATIENCE_SECONDS = 300.0
SESSION = "org.apache.spark.sql.internal.SessionState"
KEPT_ROWS = "org.apache.spark.storage.RDDBlockId"


def demand_soon(left: Callable[[], object], what: str) -> None:
    """Waits until nothing is left."""
    until = time.monotonic() + PATIENCE_SECONDS
    while found := left():
        assert time.monotonic() < until, f"not within {PATIENCE_SECONDS:.0f} s: {what}; left: {found}"
        time.sleep(1)


def test_what_short_sessions_send_and_name_goes_with_them(cluster: StandaloneCluster) -> None:
    """Sessions that decide in Python: the package on the driver, and Python workers. Their daemons are Spark's to end.
    In the server's log, which its operators read, none of them was asked for anything once it was closed."""
    logged = len(cluster.server.log.read_bytes())
    for _ in range(WITH_CODE):
        spark = connect(cluster.url, "tests")
        spark.range(3).createOrReplaceTempView("mine")
        assert spark_endpoint._workers(spark) == ""
        assert cluster.pythons()
        close(spark)
    other = connect(cluster.url, "a neighbour")
    assert [table.name for table in other.catalog.listTables()] == []
    close(other)
    assert b"SESSION_CLOSED" not in cluster.server.log.read_bytes()[logged:]
    assert [*(cluster.folder / "temporary").rglob("evenkeel-*.zip")] == []
    demand_soon(lambda: [one for one in cluster.pythons() if one.parent().name() != "java"], "workers end when idle")
    assert cluster.pythons(), "nobody ended Spark's daemons"


def test_nothing_of_short_sessions_is_left_once_the_server_has_rested(cluster: StandaloneCluster) -> None:
    """Threads of Spark's own keep the sessions that started them until they have idled for a minute, so the heap is
    asked after a rest. `EVENKEEL_SESSIONS` says how many; `benchmarks short_sessions` runs 10,000."""
    server, before = cluster.server.process.pid, cluster.live(SESSION)
    executors = [executor.pid for executor in cluster.executors()]
    assert executors

    def sessions_left() -> int:
        return max(0, cluster.live(SESSION) - before)

    def anything_left() -> dict[str, int]:
        """Sessions, and blocks of rows on executors, once Spark has collected and so learnt what nobody refers to."""
        found = {"sessions": sessions_left()}
        found |= {f"blocks of {pid}": heap_contents(pid).objects.get(KEPT_ROWS, 0) for pid in executors}
        return {what: number for what, number in found.items() if number}

    def heap_at_rest() -> int:
        for number in range(1, SESSIONS + 1):
            short_session(cluster.url, number)
        demand_soon(sessions_left, "sessions that are closed are forgotten")
        demand_soon(anything_left, "rows that sessions kept are freed on the workers")
        return heap_contents(server).bytes

    first, second = heap_at_rest(), heap_at_rest()
    assert second <= (1 + LEVEL_WITHIN) * first
