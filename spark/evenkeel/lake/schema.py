"""Declaration of a table: columns with type, unit and meaning, declared once.

The DDL, the reference page, the column checks of `expectations/` and the test builders are derived from these
declarations. Only `StructType`s need Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenkeel.spark.column_types import spark_type, type_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


SCHEMA_VERSION = 1
"""The version of all tables together."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: SQL type, comment, unit ("" if a unit makes no sense), and whether NULL is allowed.

    NULL always means *unknown*; a figure that is known to be nothing is 0.
    """

    name: str
    type: str
    comment: str
    unit: str = ""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table of the lake.

    `key` names a row within one write; `partition` are the partition columns; `producers` the tasks that write it;
    `layer` is observed, checked, derived, wished, decided, acted, replayed or kept.
    """

    name: str
    layer: str
    comment: str
    key: tuple[str, ...]
    producers: tuple[str, ...]
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ("cluster", "cycle_date")
    serializable: bool = False

    def column_names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def struct_type(self) -> StructType:
        """Return the Spark schema, in column order."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(c.name, spark_type(type_of(c.type)), c.nullable) for c in self.columns])

    def body_type(self) -> StructType:
        """Return the Spark schema of the columns that a task fills."""
        from pyspark.sql.types import StructType

        return StructType([field for field in self.struct_type().fields if field.name not in STAMP_NAMES])

    def body_columns(self) -> tuple[Column, ...]:
        """Return columns that a task fills; the stamp of the write is added by the lake."""
        return tuple(column for column in self.columns if column.name not in STAMP_NAMES)


def column_definition(column: Column) -> str:
    """Return the column as DDL names it, with its comment."""
    comment = f"{column.comment} [{column.unit}]" if column.unit else column.comment
    return f"`{column.name}` {column.type}{'' if column.nullable else ' NOT NULL'} COMMENT {sql_text(comment)}"


def sql_text(text: str) -> str:
    """Return a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


CYCLE_COLUMNS = (
    Column("cluster", "string", "Pulsar cluster", nullable=False),
    Column("cycle_at", "timestamp", "moment of the decision, UTC", nullable=False),
    Column("cycle_date", "date", "UTC date of cycle_at; whole dates expire together", nullable=False),
    Column("write_id", "string", "the task try that wrote the row; a manifest in `cycles` lists it", nullable=False),
)
STAMP_NAMES = frozenset({"cycle_date", "write_id"})
"""The stamp of a write: columns that the lake adds to the rows of a task. No round sees them."""


def cycle_table(
    name: str,
    layer: str,
    comment: str,
    key: tuple[str, ...],
    producers: tuple[str, ...],
    *columns: Column,
) -> Table:
    """Return a table with one set of rows per cluster and cycle."""
    return Table(name, layer, comment, key, producers, CYCLE_COLUMNS + columns)
