"""Merkle roots of rows, over their digests, sorted.

A write's digest adds up parts of its rows' digests, which is cheap where rows are written, and finds what changed by
accident: who may choose some thousand rows can make others with the same sums. No two sets of rows have one root.

Spark makes the digests of the rows. Of a cycle, and of a window of small ones, they are fetched and their trees are
made here, in some 2 µs a row. Of more rows Spark deals the digests out by group and brings them into a rough order, and
Python workers sort them and make the trees (`root_worker`); what comes here then is one root a group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, Any

from evenkeel.lake.digest import ROW_DIGEST, contents, lanes_of, nothing, order_of, text_of_lanes, with_row_digest
from evenkeel.spark.code import runtime_of
from evenkeel.spark.sql import arrow_of
from evenkeel.transparency.merkle import EMPTY, root_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_FETCHED = 1_500_000
"""The most rows whose digests are fetched, so that their trees are made here: some 300 MB while they are."""
MOST_BESIDE = 500_000
"""The same where others do so at the same time."""
NO_ROWS = EMPTY.hex()
"""The root of no rows."""
Rooted = tuple[int, str, str]
"""Rows, their digest (a sum) and their root, both 64 hex digits."""
NOTHING: Rooted = (*nothing(), NO_ROWS)
"""What there is of a write without rows."""
_NUMBER = "number"
_DIGIT_BITS = 6
"""The low bits of a place that stand for a hex digit of a row's digest."""
_ROOT_WORKER = "evenkeel.lake.root_worker"


def fits(found: Rooted, listed: Rooted) -> bool:
    """Whether rows are those that are listed; of what is listed the root may be empty, where none is known."""
    return found[:2] == listed[:2] and listed[2] in ("", found[2])


def rooted(
    frame: DataFrame, table: str, version: int, by: Sequence[str], listed: Mapping[tuple[Any, ...], int]
) -> dict[tuple[str, ...], Rooted]:
    """Rows, digest and root of values of the `by` columns, over the columns that the table had in a schema version.

    `listed` has the values that are asked for, and how many rows each has where nothing is wrong; of other values there
    may be answers, too. Two rows that are alike are two leaves.
    """
    digested = with_row_digest(frame, table, version)
    if sum(listed.values()) <= MOST_BESIDE:
        return digests_rooted_here(digested, by)
    return digests_rooted(digested, by, listed)


def summed(frame: DataFrame, table: str, version: int, by: Sequence[str]) -> dict[tuple[str, ...], Rooted]:
    """What `rooted` gives, of all values of the `by` columns and with no roots, which costs less."""
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
    order = order_of(numbers, digests)
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


def digests_rooted(
    digested: DataFrame, by: Sequence[str], keys: Collection[tuple[Any, ...]]
) -> dict[tuple[str, ...], Rooted]:
    """What `rooted` gives, of any number of rows with `ROW_DIGEST`.

    `keys`, one at least, are the values of the `by` columns that are asked for; of others there is no answer.
    Raises StaleCode where a worker has other code than this process.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    from evenkeel.lake.root_worker import DIGEST, PLACE, ROOTED_DDL, SLICE_BITS, root_function
    from evenkeel.spark.grouped import marked_error
    from evenkeel.spark.session import ship_code

    seed, numbered = _numbered_keys(digested.sparkSession, by, keys)
    # A digit's code less that of 0 fits into six bits, and the letters come after the digits, as their values do.
    digits = (F.ascii(F.substring(ROW_DIGEST, at + 1, 1)) - ord("0") for at in range(SLICE_BITS // _DIGIT_BITS))
    place = reduce(lambda above, digit: F.shiftleft(above, _DIGIT_BITS).bitwiseOR(digit), digits, _number(seed, by))
    placed = digested.select(place.alias(PLACE), F.unhex(ROW_DIGEST).alias(DIGEST))
    dealt = placed.repartition(F.shiftright(PLACE, SLICE_BITS)).sortWithinPartitions(PLACE)
    runtime = runtime_of(_ROOT_WORKER)
    ship_code(digested.sparkSession)
    try:
        found = arrow_of(dealt.mapInArrow(root_function(runtime.digest, runtime.files), ROOTED_DDL)).to_pylist()
    except PySparkException as error:
        raise marked_error(str(error)) or error from None
    known = (one for one in found if one[_NUMBER] in numbered)
    return {numbered[one[_NUMBER]]: (one["rows"], one["digest"], one["root"]) for one in known}


def _numbered_keys(
    spark: SparkSession, by: Sequence[str], keys: Collection[tuple[Any, ...]]
) -> tuple[int, dict[int, tuple[str, ...]]]:
    """A seed with which no two keys have one number, and the keys by number.

    Rows of a key that is none of these may have the number of one that is, though hardly ever: a root that is compared
    with a listed one then differs from it, as it does where rows are too many.
    """
    frame = spark.createDataFrame([*keys], [*by])
    for seed in count():
        found = arrow_of(frame.select(_number(seed, by).alias(_NUMBER), *by))
        values = zip(*(found[name].to_pylist() for name in by), strict=True)
        numbered = dict(zip(found[_NUMBER].to_pylist(), values, strict=True))
        if len(numbered) == len(keys):
            return seed, numbered
    raise AssertionError("the seeds have no end")


def _number(seed: int, by: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    from evenkeel.lake.root_worker import SLICE_BITS

    return F.shiftright(F.xxhash64(F.lit(seed), *by), SLICE_BITS)
