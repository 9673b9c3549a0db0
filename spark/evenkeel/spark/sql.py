"""Expressions that several rooms use: conditions over many clusters, exact sums, moments as text.

A plan reaches the Connect server as a message that may be nested a hundred levels deep. A chain of `or` or of unions
nests one or two levels with every link, so that a run over some forty clusters could not be sent; here it nests with
the logarithm of their number.
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
    """Whether one of the conditions holds; false if there is none."""
    from pyspark.sql import functions as F

    return _folded(list(conditions), or_, F.lit(False))


def first_of(cases: Iterable[tuple[Column, str | int]], otherwise: Column) -> Column:
    """The text, or number, of the first case whose condition holds."""
    from pyspark.sql import functions as F

    return F.coalesce(*(F.when(condition, F.lit(text)) for condition, text in cases), otherwise)


def united(frames: Iterable[DataFrame], *, with_missing: bool = False) -> DataFrame:
    """The rows of all frames, one at least, by column name; `with_missing`: NULL where a frame lacks a column."""
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


# Whether Spark compiles queries and plans them anew while they run: worth it for a million rows, not for a thousand.
#
# Spark turns each query into Java source and compiles it. Over the tables of a small cluster that costs more than the
# queries themselves: a cycle of 300 topics took 67 CPU seconds of a busy machine with it and 29 without. Planning anew
# after each stage (adaptive execution) took another tenth. Sessions decide for themselves: tasks of one run may differ.


def compile_queries(spark: SparkSession, *, compiled: bool) -> None:
    """From here on this session compiles its queries and adapts their plans, or does neither."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.adaptive.enabled", str(compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")


# Sums of doubles that do not depend on the order, the files or the partitions of the rows.

_EXACT = "decimal(38,18)"


def exact_sum(figure: str | Column) -> Column:
    """Sum of a double column: each value as an exact decimal, added without rounding, made a double once.

    NULLs are passed over; a sum of nothing is NULL. A value that is not a number or is beyond 1e20 makes the sum NULL
    rather than wrong. Against `sum` of doubles it costs about 0.3 s per million values and column.
    """

    from pyspark.sql import functions as F

    given = F.col(figure) if isinstance(figure, str) else figure
    exact = given.try_cast(_EXACT)
    return F.when(F.count(exact) == F.count(given), F.try_sum(exact)).cast("double")


# Moments as text and as timestamps of Spark. A datetime literal would ask the thread's first session for its rules.


def moment(text: str) -> Column:
    """A timestamp given as ISO-8601 text, such as a hand-over's `cycle_at`."""
    from pyspark.sql import functions as F

    return F.to_timestamp(F.lit(text))


def iso(column: str) -> Column:
    """A timestamp column as ISO-8601 UTC text with microseconds, the form that hand-overs use."""
    from pyspark.sql import functions as F

    return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'")


def arrow_of(frame: DataFrame) -> pa.Table:
    """The frame's rows, collected, as an Arrow table. pyspark's `toArrow` first asks the server for the schema, which
    comes with the rows anyway: for a small query as long a question as the query itself."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    if isinstance(frame, ConnectFrame):
        return frame._to_table()[0]
    # `toArrow` of a classic master casts to a schema of its own, which Arrow refuses for structs in arrays in which
    # something is never NULL. The batches have their types with them.
    import pyarrow as pa

    classic: Any = frame
    return pa.Table.from_batches(classic._collect_as_arrow(empty_list_if_zero_records=False))


def with_moments(frame: DataFrame, times: Sequence[str]) -> list[dict[str, Any]]:
    """The frame's rows, collected, as dicts; the columns in `times` as aware datetimes, whatever this process' zone."""
    rows = frame.withColumns({name: iso(name) for name in times}).collect()
    return [_timed(row.asDict(recursive=True), times) for row in rows]


def _timed(row: dict[str, Any], times: Sequence[str]) -> dict[str, Any]:
    return {**row, **{name: datetime.fromisoformat(row[name]) for name in times if row[name] is not None}}


def is_one_of(cycles: Iterable[tuple[str, str]]) -> Column:
    """Whether a row belongs to one of these cycles, each a cluster and its `cycle_at` as text."""
    from pyspark.sql import functions as F

    return any_of((F.col("cluster") == cluster) & (F.col("cycle_at") == moment(at)) for cluster, at in cycles)
