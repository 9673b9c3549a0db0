"""Rounds decided in this process: the same code, given the same rows in the same order as in a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.errors import DecideFailed, EngineError
from evenkeel.lake.schemas import TABLES
from evenkeel.rounds.reading import Row
from evenkeel.spark.column_types import Columns, columns_of
from evenkeel.spark.grouped import import_path
from evenkeel.spark.packing import plain_columns
from evenkeel.spark.rows import arrow_column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def decided(
    rows: Mapping[str, Sequence[Row]],
    decide: Callable[..., Mapping[str, list[dict[str, Any]]]],
    outputs: Mapping[str, StructType],
    parameters: Mapping[str, Any],
) -> dict[str, pa.Table]:
    """What `decide` gives for each cluster of `rows`, one after the other; DecideFailed as `grouped_map` raises it."""
    import pyarrow as pa

    columns = {table: columns_of(schema, table) for table, schema in outputs.items()}
    made = {table: [as_arrow(table, kinds, [], {})] for table, kinds in columns.items()}
    for cluster, own in by_cluster(rows):
        key = {"cluster": cluster}
        try:
            answer = decide(key, own, parameters=dict(parameters))
            unknown = ", ".join(sorted(answer.keys() - columns.keys()))
            if unknown:
                path = import_path(decide)
                raise EngineError(f"{path} returned rows for {unknown}, which is not an output of this call.")
            for table, kinds in columns.items():
                made[table].append(as_arrow(table, kinds, list(answer.get(table, ())), key))
        except Exception as error:
            where = f"{import_path(decide)} on {json.dumps(key, ensure_ascii=False, separators=(',', ':'))}"
            line = (str(error).strip().splitlines() or [""])[0]
            raise DecideFailed(f"{where}: {type(error).__name__}: {line}") from error
    return {table: pa.concat_tables(parts) for table, parts in made.items()}


def by_cluster(rows: Mapping[str, Sequence[Row]]) -> list[tuple[str, dict[str, list[Row]]]]:
    """Each cluster of which there are rows, by name, with its rows of every kind."""
    found: dict[str, dict[str, list[Row]]] = {}
    for kind, its_rows in rows.items():
        for row in its_rows:
            found.setdefault(row["cluster"], {name: [] for name in rows})[kind].append(row)
    return sorted(found.items())


def as_arrow(table: str, columns: Columns, rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> pa.Table:
    """Rows as rules returned them; `given`: what columns hold where a row does not say."""
    import pyarrow as pa

    plain = plain_columns(table, columns, rows, given)
    return pa.table({name: arrow_column(plain[name], kind) for name, kind in columns.items()})


def frame_of_rows(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows of a table as a frame of one partition; a column that a row lacks is NULL."""
    schema = TABLES[table].body_type()
    return frame_of(spark, as_arrow(table, columns_of(schema, table), rows, {}), schema)


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows as a frame of one partition, hence one file per cluster."""
    return spark.createDataFrame(rows, schema).coalesce(1)
