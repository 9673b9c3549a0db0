"""Rounds decided in this process: the same code, given the same rows in the same order as in a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.errors import DecideFailed
from evenkeel.rounds.reading import Row
from evenkeel.spark.column_types import columns_of, type_of
from evenkeel.spark.grouped import import_path
from evenkeel.spark.packing import plain_columns
from evenkeel.spark.rows import arrow_column, plain_column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TIMES = ("cycle_at", "snapshot_at", "predecessor_cycle_at")


def cycles(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Cycle rows as workers get them."""
    found = [dict(row) for row in rows]
    for name in _TIMES:
        times = plain_column([row[name] for row in found], type_of("timestamp"), f"cycle.{name}")
        for row, time in zip(found, times, strict=True):
            row[name] = time
    return found


def decided(
    rows: Mapping[str, Sequence[Row]],
    decide: Callable[..., Mapping[str, list[dict[str, Any]]]],
    outputs: Mapping[str, StructType],
    parameters: Mapping[str, Any],
) -> dict[str, pa.Table]:
    """What `decide` gives for each cluster of `rows`, one after the other; DecideFailed as `grouped_map` raises it."""
    made: dict[str, list[Mapping[str, Any]]] = {table: [] for table in outputs}
    for cluster in sorted({row["cluster"] for found in rows.values() for row in found}):
        key = {"cluster": cluster}
        own = {kind: [row for row in found if row["cluster"] == cluster] for kind, found in rows.items()}
        try:
            found = decide(key, own, parameters=dict(parameters))
        except Exception as error:
            where = f"{import_path(decide)} on {json.dumps(key, ensure_ascii=False, separators=(',', ':'))}"
            line = (str(error).strip().splitlines() or [""])[0]
            raise DecideFailed(f"{where}: {type(error).__name__}: {line}") from error
        for table, its_rows in found.items():
            made[table] += [row if "cluster" in row else {**key, **row} for row in its_rows]
    return {table: _as_arrow(table, made[table], schema) for table, schema in outputs.items()}


def _as_arrow(table: str, rows: Sequence[Mapping[str, Any]], schema: StructType) -> pa.Table:
    import pyarrow as pa

    columns = columns_of(schema, f"output {table}")
    plain = plain_columns(table, columns, rows, {})
    return pa.table({name: arrow_column(plain[name], kind) for name, kind in columns.items()})


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows as a frame of one partition."""
    return spark.createDataFrame(rows, schema).coalesce(1)
