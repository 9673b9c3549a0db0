"""A digest of rows that does not depend on their order, their files or their partitions.

Each row becomes canonical JSON, its SHA-256 is cut into four lanes of 60 bits, and the lanes are summed as exact
decimals: a multiset hash. It is computed in the very job that writes the rows, so it costs no second pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

_LANES = 4
_HEX_PER_LANE = 15


ROW_DIGEST = "_row_digest"


def row_digest(columns: Sequence[str]) -> Column:
    """SHA-256 of a row's canonical JSON.

    Give it a column (`ROW_DIGEST`) before the metrics use it: inside them it was computed anew for each lane, twice.
    """
    return F.sha2(F.to_json(F.struct(*sorted(columns)), {"ignoreNullFields": "false"}), 256)


def lanes() -> list[Column]:
    """The lanes of `ROW_DIGEST`, to be summed up."""
    return [
        F.conv(F.substring(ROW_DIGEST, 1 + lane * _HEX_PER_LANE, _HEX_PER_LANE), 16, 10).cast("decimal(38,0)")
        for lane in range(_LANES)
    ]


def digest_metrics(clusters: Sequence[str]) -> list[Column]:
    """Aggregates to observe over rows with `ROW_DIGEST`: per cluster, the rows and the lanes of their digest.

    `clusters` may be named by their position only, since a metric's name cannot hold every name.
    """
    summed = lanes()
    metrics = []
    for n, cluster in enumerate(clusters):
        its_own = F.col("cluster") == F.lit(cluster)
        metrics.append(F.count_if(its_own).alias(f"rows_{n}"))
        metrics += [F.sum(F.when(its_own, lane)).alias(f"lane_{n}_{i}") for i, lane in enumerate(summed)]
    return metrics


def rows_and_digest(metrics: Mapping[str, Any], n: int) -> tuple[int, str]:
    """Number of rows of the n-th cluster and their digest, 64 hex digits; no rows have a digest too."""
    rows = int(metrics[f"rows_{n}"] or 0)
    return rows, text_of_lanes(rows, [str(metrics[f"lane_{n}_{i}"] or 0) for i in range(_LANES)])


def text_of_lanes(rows: int, sums: Sequence[str]) -> str:
    """The digest of a number of rows whose lanes have these sums, 64 hex digits."""
    return hashlib.sha256(":".join([str(rows), *sums]).encode()).hexdigest()
