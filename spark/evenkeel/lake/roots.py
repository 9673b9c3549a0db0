"""Merkle roots of rows, over their digests, sorted.

A write's digest adds up parts of its rows' digests, which is cheap where rows are written, and finds what changed by
accident: who may choose some thousand rows can make others with the same sums. No two sets of rows have one root.

Spark makes the digests of the rows. Of a cycle, and of a window of small ones, they are fetched and their trees are
made here, in some 2 µs a row. Of more rows Spark sorts the digests and makes one hash of each `PART` that lie side by
side; what comes here then is some hashes a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.lake.digest import (
    ROW_DIGEST,
    contents,
    lane_sums,
    lanes_of,
    nothing,
    read_lanes,
    text_of_lanes,
    with_row_digest,
)
from evenkeel.lake.merkle import EMPTY, LEAF, NODE, root_above, root_of
from evenkeel.spark.sql import arrow_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

PART = 4096
"""Rows whose digests Spark makes one hash of: a power of two, so that the tree is the one that a single list has."""
_LEVELS = PART.bit_length() - 1
MOST_FETCHED = 1_500_000
"""The most rows whose digests are fetched, so that their trees are made here: some 300 MB while they are."""
NO_ROWS = EMPTY.hex()
"""The root of no rows."""
Rooted = tuple[int, str, str]
"""Rows, their digest (a sum) and their root, both 64 hex digits."""
NOTHING: Rooted = (*nothing(), NO_ROWS)
"""What there is of a write without rows."""
_PART, _PLACE, _HASH = "part", "_place", "hash"
_LANE = "lane"


def fits(found: Rooted, listed: Rooted) -> bool:
    """Whether rows are those that are listed; of what is listed the root may be empty, where none is known."""
    return found[:2] == listed[:2] and listed[2] in ("", found[2])


def rooted(
    frame: DataFrame, table: str, version: int, by: Sequence[str], *, roots: bool = True
) -> dict[tuple[str, ...], Rooted]:
    """Rows, digest and root of each value of the `by` columns, over the columns that the table had in a schema version.

    Two rows that are alike are two leaves. With `roots` unset each root is empty, which costs less.
    """
    if roots:
        return digests_rooted(with_row_digest(frame, table, version), by)
    return {key: (*content, "") for key, content in contents(frame, table, version, by).items()}


def rooted_here(frame: DataFrame, table: str, version: int, by: Sequence[str]) -> dict[tuple[str, ...], Rooted]:
    """What `rooted` gives, of `MOST_FETCHED` rows at most."""
    return digests_rooted_here(with_row_digest(frame, table, version), by)


def digests_rooted_here(digested: DataFrame, by: Sequence[str]) -> dict[tuple[str, ...], Rooted]:
    """What `rooted` gives, of `MOST_FETCHED` rows with `ROW_DIGEST` at most: Spark has but to read them."""
    import numpy as np
    from pyspark.sql import functions as F

    rows = arrow_of(digested.select(*by, F.unhex(ROW_DIGEST).alias(ROW_DIGEST)))
    if not rows.num_rows:
        return {}
    keys, numbers = _numbered([rows.column(name) for name in by])
    digests = np.frombuffer(b"".join(rows.column(ROW_DIGEST).to_pylist()), np.uint8).reshape(-1, len(EMPTY))
    # By key, then by digest: its eight bytes at a time are compared as numbers.
    order = np.lexsort([*digests.view(">u8").T[::-1], numbers])
    digests, ends = digests[order], np.cumsum(np.bincount(numbers)).tolist()
    begins = [0, *ends[:-1]]
    found = {}
    for key, begin, end, lanes in zip(keys, begins, ends, lanes_of(digests, begins), strict=True):
        root = root_of(map(bytes, digests[begin:end]))
        found[key] = (end - begin, text_of_lanes(end - begin, lanes), root.hex())
    return found


def _numbered(columns: Sequence[pa.ChunkedArray]) -> tuple[list[tuple[str, ...]], Any]:
    """The distinct values that the columns have together, and which of them each row has, by its place."""
    import numpy as np

    numbers: Any = 0
    values: list[list[str]] = []
    for column in columns:
        own = column.combine_chunks().dictionary_encode()
        values.append(own.dictionary.to_pylist())
        numbers = numbers * len(values[-1]) + own.indices.to_numpy().astype(np.int64)
    distinct, places = np.unique(numbers, return_inverse=True)
    each = np.unravel_index(distinct, [len(own) for own in values])
    return [*zip(*([own[at] for at in place] for own, place in zip(values, each, strict=True)), strict=True)], places


def digests_rooted(digested: DataFrame, by: Sequence[str]) -> dict[tuple[str, ...], Rooted]:
    """What `rooted` gives, of rows with `ROW_DIGEST`; a window sorts them, so that no table has to fit into memory."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = F.row_number().over(Window.partitionBy(*by).orderBy(ROW_DIGEST)) - 1
    placed = digested.select(*by, ROW_DIGEST, place.alias(_PLACE))
    root = _folded(F.sort_array(F.collect_list(ROW_DIGEST)))
    parts = placed.groupBy(*by, F.floor(F.col(_PLACE) / PART).alias(_PART)).agg(
        F.count("*").alias("rows"), *lane_sums(_LANE), root.alias(_HASH)
    )
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in parts.collect():
        figures = row.asDict()
        found.setdefault(tuple(figures[name] for name in by), []).append(figures)
    return {key: _together(own) for key, own in found.items()}


def _together(parts: Sequence[Mapping[str, Any]]) -> Rooted:
    ordered = sorted(parts, key=lambda one: int(one[_PART]))
    rows = sum(int(one["rows"]) for one in ordered)
    sums = [sum(lanes) for lanes in zip(*(read_lanes(one, _LANE) for one in ordered), strict=True)]
    return rows, text_of_lanes(rows, sums), root_above([bytes.fromhex(one[_HASH]) for one in ordered]).hex()


def _folded(digests: Column) -> Column:
    """The root of a list of digests (hex) that is as long as `PART` at most, in SQL; as `merkle.root_of` makes it."""
    from pyspark.sql import functions as F

    leaves = F.transform(digests, lambda one: F.sha2(F.concat(F.lit(LEAF), F.unhex(one)), 256))
    levels = F.sequence(F.lit(1), F.lit(_LEVELS))
    return F.aggregate(levels, leaves, lambda level, _: _above(level))[0]


def _above(level: Column) -> Column:
    from pyspark.sql import functions as F

    def node(number: Column) -> Column:
        left, right = F.get(level, number * 2), F.get(level, number * 2 + 1)
        return F.when(right.isNull(), left).otherwise(F.sha2(F.concat(F.lit(NODE), F.unhex(left), F.unhex(right)), 256))

    return F.transform(F.sequence(F.lit(0), F.shiftright(F.size(level) - 1, 1)), node)
