"""A round run in this process: where the rows are few, the way to a Python worker and back takes longer than the round.

The round is the one that workers run, and it is given its rows in the same form (see `spark.bodies`); their order is
not sorted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import arrow_schema
from evenkeel.rounds.reading import Decided, Round, Row, Rows
from evenkeel.spark.sql import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fetched(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of all frames, asked for at the same time."""
    if not frames:
        return {}
    with ThreadPoolExecutor(len(frames)) as pool:
        return dict(zip(frames, pool.map(arrow_of, frames.values()), strict=True))


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table of plain columns and lists: moments are ISO-8601 text in UTC."""
    columns = [_values(table.column(name)) for name in table.column_names]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    ticks = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    texts = {tick: None if tick is None else _moment(tick) for tick in set(ticks)}
    return [texts[tick] for tick in ticks]


def _moment(tick: int) -> str:
    return (_EPOCH + timedelta(microseconds=tick)).isoformat(timespec="microseconds")


def decide_here(rows: Rows, decide: Round, outputs: Iterable[str]) -> Decided:
    """Runs the round for every cluster of `rows`, one after the other, and returns its rows per table."""
    by_cluster: dict[str, dict[str, list[Row]]] = {}
    for kind, found in rows.items():
        for row in found:
            by_cluster.setdefault(row["cluster"], {name: [] for name in rows})[kind].append(row)
    made: Decided = {table: [] for table in outputs}
    for cluster, own in sorted(by_cluster.items()):
        for table, found in decide({"cluster": cluster}, own).items():
            made[table] += found
    return made


def frame_of(spark: SparkSession, table: str, rows: Sequence[Row]) -> DataFrame:
    """Rows of a table as a frame of one partition, hence one file per cluster."""
    schema = arrow_schema(TABLES[table].body_columns())
    arrays = [_array([row[field.name] for row in rows], field.type) for field in schema]
    frame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), TABLES[table].body_type())
    return frame.coalesce(1)


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        known: dict[str, datetime] = {}
        values = [_known(known, value) for value in values]
    return pa.array(values, kind)


def _known(known: dict[str, datetime], text: str | None) -> datetime | None:
    if text is None:
        return None
    if text not in known:
        known[text] = datetime.fromisoformat(text)
    return known[text]
