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


def digest_metrics(columns: Sequence[str]) -> list[Column]:
    """Aggregates to observe over rows with these columns: `rows` and the lanes of their digest."""
    row = F.sha2(F.to_json(F.struct(*sorted(columns)), {"ignoreNullFields": "false"}), 256)
    lanes = [
        F.sum(F.conv(F.substring(row, 1 + lane * _HEX_PER_LANE, _HEX_PER_LANE), 16, 10).cast("decimal(38,0)"))
        for lane in range(_LANES)
    ]
    return [F.count(F.lit(1)).alias("rows"), *(lane.alias(f"lane_{n}") for n, lane in enumerate(lanes))]


def digest_of(metrics: Mapping[str, Any]) -> str:
    """The digest, 64 hex digits, from the observed aggregates; no rows have a digest too."""
    lanes = [str(metrics[f"lane_{n}"] or 0) for n in range(_LANES)]
    return hashlib.sha256(":".join([str(metrics["rows"]), *lanes]).encode()).hexdigest()
