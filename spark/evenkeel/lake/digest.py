"""A digest of rows that does not depend on their order, their files or their partitions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame


_LANES = 4
_HEX_PER_LANE = 15
_LOW_BITS = 30
_HALVES = ("high", "low")


ROW_DIGEST = "_row_digest"
_ALL = "rows"


def row_digest(columns: Sequence[str]) -> Column:
    """SHA-256 of a row's canonical JSON.

    Give it a column (`ROW_DIGEST`) before the metrics use it: inside them it was computed anew for each lane, twice.
    """

    from pyspark.sql import functions as F

    return F.sha2(F.to_json(F.struct(*sorted(columns)), {"ignoreNullFields": "false"}), 256)


def lane_sums(prefix: str, only: Column | None = None) -> list[Column]:
    """The sums of the lanes of `ROW_DIGEST`, over the rows that a condition holds for; `read_lanes` reads them.

    Each as two sums of half a lane: two long numbers add up faster than an exact decimal (a digest of many rows took
    a third longer with those), and are exact for eight thousand million rows.
    """

    from pyspark.sql import functions as F

    sums = []
    for lane in range(_LANES):
        digits = F.substring(ROW_DIGEST, 1 + lane * _HEX_PER_LANE, _HEX_PER_LANE)
        value = F.conv(digits, 16, 10).cast("bigint")
        halves = (F.shiftright(value, _LOW_BITS), value.bitwiseAND(F.lit((1 << _LOW_BITS) - 1)))
        for name, half in zip(_HALVES, halves, strict=True):
            counted = half if only is None else F.when(only, half)
            sums.append(F.sum(counted).alias(f"{prefix}_{lane}_{name}"))
    return sums


def order_of(numbers: NDArray[np.int64], digests: NDArray[np.uint8]) -> NDArray[np.intp]:
    """What sorts rows by their group's number, then by digest (rows × 32 bytes)."""
    import numpy as np

    eights = digests.view(">u8").astype(np.uint64).T
    order = np.lexsort([eights[0], numbers])
    first, number = eights[0][order], numbers[order]
    # Two digests seldom have the same first eight bytes, but may.
    if np.any((first[1:] == first[:-1]) & (number[1:] == number[:-1])):
        order = np.lexsort([*eights[::-1], numbers])
    return order


def lanes_of(digests: NDArray[np.uint8], begins: Sequence[int]) -> list[list[int]]:
    """The sums of the lanes of rows' digests (rows × 32 bytes), as `lane_sums` has them added up by Spark: of each of
    the groups that begin at these rows, in ascending order."""
    import numpy as np

    halves = []
    for lane in range(_LANES):
        # A lane is seven bytes and a half, and every other one begins in the middle of a byte.
        first, is_late = divmod(lane * _HEX_PER_LANE, 2)
        eight = np.ascontiguousarray(digests[:, first : first + 8]).view(">u8").ravel().astype(np.uint64)
        value = eight & np.uint64((1 << 4 * _HEX_PER_LANE) - 1) if is_late else eight >> np.uint64(4)
        for half in (value >> np.uint64(_LOW_BITS), value & np.uint64((1 << _LOW_BITS) - 1)):
            halves.append(np.add.reduceat(half, begins).tolist())
    return [
        [(own[2 * lane] << _LOW_BITS) + own[2 * lane + 1] for lane in range(_LANES)]
        for own in zip(*halves, strict=True)
    ]


def read_lanes(found: Mapping[str, Any], prefix: str) -> list[int]:
    """The lanes' sums, out of a row with what `lane_sums` computed."""
    sums = []
    for lane in range(_LANES):
        high, low = (int(found[f"{prefix}_{lane}_{name}"] or 0) for name in _HALVES)
        sums.append((high << _LOW_BITS) + low)
    return sums


def digest_metrics(shares: Sequence[Column]) -> list[Column]:
    """Aggregates to observe over rows with `ROW_DIGEST`: how many they are, and of the rows of each share (the
    condition that they meet) the number and the lanes of their digest.

    Shares are named by their position, since a metric's name cannot hold every name.
    """

    from pyspark.sql import functions as F

    metrics = [F.count("*").alias(_ALL)]
    for n, its_own in enumerate(shares):
        metrics.append(F.count_if(its_own).alias(f"rows_{n}"))
        # Of the only share are all rows, or what is written is refused.
        metrics += lane_sums(f"lane_{n}", its_own if len(shares) > 1 else None)
    return metrics


def rows_and_digest(metrics: Mapping[str, Any], n: int) -> tuple[int, str]:
    """Number of rows of the n-th share and their digest, 64 hex digits; no rows have a digest too."""
    rows = int(metrics[f"rows_{n}"] or 0)
    return rows, text_of_lanes(rows, read_lanes(metrics, f"lane_{n}"))


def all_rows(metrics: Mapping[str, Any]) -> int:
    """Number of rows of all shares, and of none."""
    return int(metrics[_ALL] or 0)


def text_of_lanes(rows: int, sums: Sequence[int] = (0,) * _LANES) -> str:
    """The digest of a number of rows whose lanes have these sums, 64 hex digits."""
    return hashlib.sha256(":".join(map(str, (rows, *sums))).encode()).hexdigest()


# Digests of rows, as they are listed in manifests, computed anew for many writes or attempts at once.

Content = tuple[int, str]
"""Rows, and their digest."""


def with_row_digest(frame: DataFrame, table: str, version: int) -> DataFrame:
    """The rows with `ROW_DIGEST`, over the columns that the table had in a schema version."""
    from pyspark.sql import functions as F

    columns = {column.name: column for column in TABLES[table].columns}
    covered = [name for name in TABLES[table].names_at(version) if name not in STAMP_NAMES]
    # A column named through its frame has the server asked for the frame's schema first.
    typed = frame.withColumns({name: F.col(name).cast(columns[name].type) for name in covered})
    return typed.withColumn(ROW_DIGEST, row_digest(covered))


def contents(frame: DataFrame, table: str, version: int, by: Sequence[str]) -> dict[tuple[str, ...], Content]:
    """Rows and digest of each value of the `by` columns."""
    from pyspark.sql import functions as F

    grouped = with_row_digest(frame, table, version).groupBy(*by).agg(F.count("*").alias("rows"), *lane_sums("lane"))
    found = {}
    for row in grouped.collect():
        figures = row.asDict()
        rows = int(figures["rows"])
        found[tuple(figures[name] for name in by)] = (rows, text_of_lanes(rows, read_lanes(figures, "lane")))
    return found


def nothing() -> Content:
    """The content of a write without rows."""
    return 0, text_of_lanes(0)


# Metrics of the rows that a write writes, taken in the very job that writes them.


def observed(
    frame: DataFrame, metrics: Sequence[Column], name: str
) -> tuple[DataFrame, Callable[[DataFrame], Mapping[str, Any]]]:
    """The frame with its metrics observed, and what gives their values once a frame made of it was written; none where
    the server has lost them, as one that has too much to do may.

    Spark Connect's `Observation` asks the server first whether the frame is a stream, which means analysing it once
    more; a name instead of an object asks nothing.
    """
    from pyspark.sql import Observation
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    if isinstance(frame, ConnectFrame):
        return frame.observe(name, *metrics), lambda written: _told(written, name)
    observation = Observation(name)
    return frame.observe(observation, *metrics), lambda _written: observation.get


def _told(written: DataFrame, name: str) -> Mapping[str, Any]:
    info = written.executionInfo
    return dict(info.flows).get(name, {}) if info is not None else {}
