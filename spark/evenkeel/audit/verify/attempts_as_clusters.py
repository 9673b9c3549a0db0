"""Attempts given to the tasks' own code, many at once.

Tasks keep clusters apart by name, and a run has one cycle of each. So every attempt is given to them as a cluster of
its own, named by its id: what they compute in SQL goes by that name alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evenkeel.audit.verify.recorded import Again
from evenkeel.audit.verify.rows import ATTEMPT, Rows
from evenkeel.handover import Handover, Run, Write
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class AttemptsAsClusters(Lake):
    """The lake as tasks read it, with each attempt's id for its cluster's name."""

    def __init__(self, rows: Rows, own: Sequence[Again]) -> None:
        super().__init__(rows.lake.root)
        self._rows = rows
        self._clusters = {one.attempt.attempt_id: one.attempt.cluster for one in own}

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """The rows of these writes, each named for the attempt that asks for it."""
        from pyspark.sql import functions as F

        wanted = [(write.cluster, replace(write, cluster=self._clusters[write.cluster])) for write in writes]
        found = self._rows.of(table, wanted).withColumn("cluster", F.col(ATTEMPT))
        return found.select(*TABLES[table].column_names())


def as_clusters(lake: Lake, own: Sequence[Again]) -> Handover:
    """The hand-over of a run whose clusters are these attempts."""
    cycles = []
    for one in own:
        name = one.attempt.attempt_id
        before = replace(
            one.cycle.predecessor, writes=tuple(replace(write, cluster=name) for write in one.attempt.reads)
        )
        cycles.append(replace(one.cycle, cluster=name, predecessor=before))
    writes = tuple(replace(write, cluster=one.attempt.attempt_id) for one in own for write in one.attempt.writes)
    return Handover(lake.root, Run("verify", "verify"), tuple(cycles), writes)
