"""`bundle_load` and `broker_load` summed up again from the topics on record, by the task's own code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.audit.verify.attempts_as_clusters import AttemptsAsClusters, as_clusters
from evenkeel.audit.verify.recorded import Again
from evenkeel.audit.verify.rows import ATTEMPT, Rows
from evenkeel.lake.tables import TABLES
from evenkeel.tasks.aggregate import aggregated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOADS = ("bundle_load", "broker_load")


def loads_again(rows: Rows, own: Sequence[Again]) -> dict[str, DataFrame]:
    """The rows of `LOADS` that these attempts come to now, with `attempt_id`, without the stamp of a write."""
    from pyspark.sql import functions as F

    clusters = [(one.attempt.attempt_id, one.attempt.cluster) for one in own]
    names = F.broadcast(rows.spark.createDataFrame(clusters, f"{ATTEMPT} string, cluster string"))
    made, _ = aggregated(rows.spark, AttemptsAsClusters(rows, own), as_clusters(rows.lake, own))
    return {
        table: frame.withColumnRenamed("cluster", ATTEMPT).join(names, ATTEMPT).select(ATTEMPT, *_body(table))
        for table, frame in made.items()
    }


def _body(table: str) -> list[str]:
    return [column.name for column in TABLES[table].body_columns()]
