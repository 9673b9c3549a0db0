"""Expressions that several rooms use: conditions over many clusters, exact sums, moments as text.

A plan reaches the Connect server as a message that may be nested a hundred levels deep. A chain of `or` or of unions
nests one or two levels with every link, so a run over some forty clusters could not be sent. The functions of this
module nest with the logarithm of the number of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession


_T = TypeVar("_T")


def any_of(conditions: Iterable[Column]) -> Column:
    """Return a condition that is true if any of the conditions is; false without conditions."""
    from pyspark.sql import functions as F

    return _folded(list(conditions), or_, F.lit(False))


def first_of(cases: Iterable[tuple[Column, str | int]], otherwise: Column) -> Column:
    """Return the text, or number, of the first case whose condition is true."""
    from pyspark.sql import functions as F

    return F.coalesce(*(F.when(condition, F.lit(text)) for condition, text in cases), otherwise)


def united(frames: Iterable[DataFrame], *, with_missing: bool = False) -> DataFrame:
    """Return the rows of all frames, one at least, by column name; `with_missing`: NULL if a frame lacks a column."""
    return _folded(list(frames), lambda left, right: left.unionByName(right, allowMissingColumns=with_missing))


def _folded(items: list[_T], combine: Callable[[_T, _T], _T], nothing: _T | None = None) -> _T:
    if not items:
        if nothing is None:
            raise ValueError("nothing to put together")
        return nothing
    while len(items) > 1:
        pairs = [combine(*items[at : at + 2]) for at in range(0, len(items) - 1, 2)]
        items = pairs + items[len(pairs) * 2 :]
    return items[0]


# Compiling queries and adapting their plans while they run: worth it for a million rows, not for a thousand.
#
# Spark turns each query into Java source and compiles it. Over the tables of a small cluster that costs more than the
# queries themselves: a cycle of 300 topics took 67 CPU seconds of a busy machine with it and 29 without. Planning again
# after each stage (adaptive execution) took another tenth. Sessions decide for themselves: tasks of one run may differ.
#
# If plans are adapted, rows go into many small partitions, which Spark then merges. With only two partitions, one that
# held the names of five million topics would not fit into the memory of a small server, and be sorted on disk.

_PARTITIONS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_MANY = 32

# Groups by one number are in a separate map, which compiled queries search about one and a half times as fast. The map
# has this many bits of groups: the default is 65,536 groups, too few for 100,000 bundles.
_QUICK_GROUPS = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"
_GROUP_BITS = 17


def compile_queries(spark: SparkSession, *, compiled: bool) -> None:
    """Switch compiled queries and adaptive plans of this session on or off."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.adaptive.enabled", str(compiled).lower())
    if compiled:
        spark.conf.set(_PARTITIONS, str(_MANY))
        spark.conf.set(_QUICK_GROUPS, str(_GROUP_BITS))
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")


_EXACT = "decimal(38,18)"


def exact_sum(figure: str | Column) -> Column:
    """Return the sum of a double column: each value as an exact decimal, added without rounding, made a double once.

    NULLs are passed over; a sum of no values is NULL. A NaN, an infinity or a value beyond 1e20 makes the sum NULL
    rather than wrong. It costs about 0.3 s more than `sum` of doubles per million values and column.
    """

    from pyspark.sql import functions as F

    given = F.col(figure) if isinstance(figure, str) else figure
    exact = given.try_cast(_EXACT)
    return F.when(F.count(exact) == F.count(given), F.try_sum(exact)).cast("double")


MOST_THOUSANDTHS = 2**38
"""Bound of thousandths, from which a figure is NULL: 2^25 smaller figures sum up within 63 bits."""

_WHOLE = 2**53


def thousandths(figure: str | Column) -> Column:
    """Return a double column as whole thousandths, which a bigint sum adds exactly and many times as fast.

    The result is NULL for a figure with more than three decimals, for a NaN or infinity, and from `MOST_THOUSANDTHS`
    on. Java writes any other figure as exactly that many thousandths, since doubles tell numbers of so few digits
    apart. So sums of thousandths, made doubles by `of_thousandths`, equal those of `exact_sum` to the bit.
    """
    from pyspark.sql import functions as F

    given = F.col(figure) if isinstance(figure, str) else figure
    whole = F.floor(given * F.lit(1000.0) + F.lit(0.5))  # a bigint without the checks of a cast
    is_next_to = (F.abs(given) < F.lit(MOST_THOUSANDTHS / 1000)) & (whole.cast("double") / F.lit(1000.0) == given)
    return F.when(is_next_to, whole)


def of_thousandths(total: Column) -> Column:
    """Return the double nearest to a sum of thousandths; NULL for NULL. Up to 2^53 one division gives it."""
    from pyspark.sql import functions as F

    exact = (total.cast("decimal(19,0)") * F.expr("0.001BD")).cast(_EXACT).cast("double")
    return F.when(F.abs(total) <= F.lit(_WHOLE), total.cast("double") / F.lit(1000.0)).otherwise(exact)


# Moments as text and as Spark timestamps. A datetime literal would ask the thread's first session for its rules.


def moment(text: str) -> Column:
    """Return a timestamp from ISO-8601 text, such as a hand-over's `cycle_at`."""
    from pyspark.sql import functions as F

    return F.to_timestamp(F.lit(text))


def iso(column: str) -> Column:
    """Return a timestamp column as ISO-8601 UTC text with microseconds, the form that hand-overs use."""
    from pyspark.sql import functions as F

    return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'")


def arrow_of(frame: DataFrame) -> pa.Table:
    """Collect the frame's rows as an Arrow table.

    pyspark's `toArrow` first asks the server for the schema, which comes with the rows anyway. For a small query that
    takes as long as the query itself.
    """
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    if isinstance(frame, ConnectFrame):
        return frame._to_table()[0]
    # `toArrow` of a classic master casts to a schema of its own, which Arrow refuses for structs in arrays with a field
    # that is never NULL. The batches have their types with them.
    import pyarrow as pa

    classic: Any = frame
    return pa.Table.from_batches(classic._collect_as_arrow(empty_list_if_zero_records=False))


def with_moments(frame: DataFrame, times: Sequence[str]) -> list[dict[str, Any]]:
    """Collect the frame's rows as dicts; the columns in `times` are aware datetimes, whatever this process's zone."""
    rows = frame.withColumns({name: iso(name) for name in times}).collect()
    found = [row.asDict(recursive=True) for row in rows]
    return [
        {**row, **{name: datetime.fromisoformat(row[name]) for name in times if row[name] is not None}} for row in found
    ]


def is_one_of(cycles: Iterable[tuple[str, str]]) -> Column:
    """Return a condition that a row belongs to one of these cycles, each a cluster and its `cycle_at` as text."""
    return in_spans((cluster, at, at) for cluster, at in cycles)


def in_spans(spans: Iterable[tuple[str, str | None, str]]) -> Column:
    """Return a condition that the cycle of a row is in a span of its cluster.

    A span is cluster, first and last `cycle_at` (as text, both included); without a first one, all up to the last.
    Clusters with the same span share a condition: in a run they nearly always have one span.
    """
    from pyspark.sql import functions as F

    clusters: dict[tuple[str | None, str], list[str]] = {}
    for cluster, first, last in spans:
        clusters.setdefault((first, last), []).append(cluster)
    at = F.col("cycle_at")

    def holds(first: str | None, last: str) -> Column:
        if first is None:
            return at < moment(last)
        return at == moment(last) if first == last else at.between(moment(first), moment(last))

    return any_of(F.col("cluster").isin(sorted(set(names))) & holds(*span) for span, names in clusters.items())
