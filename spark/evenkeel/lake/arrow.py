"""Columns as Arrow has them, for rows that are made or written without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evenkeel.lake.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of columns with plain types, or with lists of them as far as tables have such."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}
    kinds |= {"double": pa.float64(), "timestamp": pa.timestamp("us", tz="UTC"), "array<bigint>": pa.list_(pa.int64())}
    return pa.schema([pa.field(one.name, kinds[one.type], nullable=one.nullable) for one in columns])
