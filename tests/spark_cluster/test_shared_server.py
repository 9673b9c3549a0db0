"""A Connect server that others share: after many short sessions of ours nothing of them is left on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from benchmarks.short_sessions import LEVEL_WITHIN, course, growth, heap_contents
from evenkeel.doctor import spark_side
from evenkeel.spark.session import close, connect
from tests.spark_cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]

SESSIONS = int(os.environ.get("EVENKEEL_SESSIONS", "200"))
WITH_CODE = 10
PATIENCE_SECONDS = 300.0
KEPT_ROWS = "org.apache.spark.storage.RDDBlockId"


def demand_soon(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, f"not within {PATIENCE_SECONDS:.0f} s: {what}"
        time.sleep(1)


def test_what_short_sessions_send_and_name_goes_with_them(cluster: StandaloneCluster) -> None:
    """Sessions that decide in Python: the package on the driver, and Python workers with their daemons."""
    for _ in range(WITH_CODE):
        spark = connect(cluster.url, "tests")
        spark.range(3).createOrReplaceTempView("mine")
        assert spark_side._workers(spark) == ""
        assert cluster.pythons()
        close(spark)
    other = connect(cluster.url, "a neighbour")
    assert [table.name for table in other.catalog.listTables()] == []
    close(other)
    assert [*(cluster.folder / "temporary").rglob("evenkeel-*.zip")] == []
    demand_soon(lambda: not cluster.pythons(), "the daemons of closed sessions end with their workers")


def test_the_heap_after_collection_stays_level_over_many_short_sessions(cluster: StandaloneCluster) -> None:
    """`EVENKEEL_SESSIONS` says how many; `benchmarks short_sessions` runs 10,000."""
    server = cluster.server.process.pid
    left_by_killed_clients = cluster.open_sessions()
    seen = [*course(cluster.url, server, SESSIONS)]
    assert cluster.open_sessions() == left_by_killed_clients
    executors = [executor.pid for executor in cluster.executors()]
    assert executors
    demand_soon(
        lambda: (
            heap_contents(server).bytes > 0  # collects, so that Spark learns what nobody refers to any more
            and not any(heap_contents(pid).objects.get(KEPT_ROWS) for pid in executors)
        ),
        "rows that sessions kept are freed on the workers",
    )
    assert growth(seen) <= LEVEL_WITHIN, [(number, found.bytes) for number, found in seen]
