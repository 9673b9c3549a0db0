"""A few rows put on record, in tables that are written outside cycles.

Where the lake is a folder a row needs no Spark: an operator who pauses a cluster waits for no server. On an object
store two kinds of writers could overwrite each other's commits, so there Spark writes, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from evenkeel.errors import NoLake
from evenkeel.lake.delta_log import local_log
from evenkeel.lake.schema import Column
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    Session = Callable[[], AbstractContextManager[SparkSession]]


def append_row(lake: Lake, table: str, row: Mapping[str, Any], session: Session) -> None:
    """Appends one row; `session` is asked for Spark only where it is needed."""
    path = lake.path(table)
    if local_log(path) is None:
        with session() as spark:
            lake.ensure_tables(spark, [table])
            append_values(spark, lake, table, [tuple(row[column.name] for column in TABLES[table].columns)])
        return
    from deltalake import DeltaTable, write_deltalake

    if not DeltaTable.is_deltatable(path):
        raise NoLake(f"there is no table {table} in {lake.root}: name the lake that cycles are written to (--lake)")
    write_deltalake(path, as_arrow(table, [row]), mode="append")


def append_values(spark: SparkSession, lake: Lake, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Appends a few rows as one file; each has the values of all the table's columns, in their order."""
    frame = spark.createDataFrame(list(rows), TABLES[table].struct_type())
    frame.coalesce(1).write.format("delta").mode("append").save(lake.path(table))


def as_arrow(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table that has plain columns only."""
    import pyarrow as pa

    columns = TABLES[table].columns
    return pa.Table.from_pylist([{c.name: row[c.name] for c in columns} for row in rows], schema=arrow_schema(columns))


# Columns as Arrow has them, for rows that are made or written without Spark.


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of columns with plain types, or with lists of them as far as tables have such."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}
    kinds |= {"double": pa.float64(), "timestamp": pa.timestamp("us", tz="UTC"), "array<bigint>": pa.list_(pa.int64())}
    return pa.schema([pa.field(one.name, kinds[one.type], nullable=one.nullable) for one in columns])
