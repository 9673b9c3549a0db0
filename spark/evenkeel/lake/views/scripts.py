"""Scripts that make the views in DuckDB, Spark or Trino, and their registration in Spark or in a DuckDB file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, LakeError
from evenkeel.lake.record.tables import open_table
from evenkeel.lake.schema import Column, sql_text
from evenkeel.lake.store import Lake
from evenkeel.lake.views.declarations import RAW, RAW_TABLES, VIEWS, LakeView
from evenkeel.object_store import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"([A-Za-z_]\w*)(\.[A-Za-z_]\w*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of an engine where it differs from that of others.

    `schema` is where the views are by default, if the engine has schemas. `opening` is run first; `table` makes a table
    of the lake known; `marks` fill in the queries of views. `has_comments`: CREATE VIEW takes comments; else COMMENT ON
    does.
    """

    name: str
    schema: str
    opening: tuple[str, ...]
    table: str
    marks: Mapping[str, str]
    has_comments: bool = False
    scheme: str = "s3://"

    def text(self, text: str) -> str:
        """Return a literal."""
        return sql_text(text) if self.name == "spark" else "'" + text.replace("'", "''") + "'"


DUCKDB = Dialect(
    "duckdb",
    "main",
    ("INSTALL delta", "LOAD delta", "SET TimeZone = 'UTC'"),
    f"CREATE OR REPLACE VIEW {RAW}$table AS SELECT * FROM delta_scan($location)",
    {"unnest": "CROSS JOIN UNNEST(m.writes) AS u (w)", "table": 'w."table"', "id": "w.write_id"},
)
SPARK = Dialect(
    "spark",
    "evenkeel",
    ("SET TIME ZONE 'UTC'", "CREATE SCHEMA IF NOT EXISTS $schema", "USE $schema"),
    f"CREATE TABLE IF NOT EXISTS {RAW}$table USING delta LOCATION $location",
    {"unnest": "LATERAL VIEW explode(m.writes) u AS w", "table": "w.`table`", "id": "w.write_id"},
    has_comments=True,
    scheme=SCHEME,
)
TRINO = Dialect(
    "trino",
    "delta.evenkeel",
    ("CREATE SCHEMA IF NOT EXISTS $schema", "USE $schema"),
    f"CALL system.register_table(schema_name => $own_schema, table_name => '{RAW}$table', table_location => $location)",
    {
        "unnest": 'CROSS JOIN UNNEST(m.writes) AS w (table_name, write_id, version, row_count, "commit")',
        "table": "w.table_name",
        "id": "w.write_id",
    },
)
DIALECTS = {dialect.name: dialect for dialect in (DUCKDB, SPARK, TRINO)}


def statements(dialect: Dialect, lake: str, schema: str = "") -> Iterator[str]:
    """Yield the statements that make all views over a lake, in order.

    `schema`: where the views are, in Trino as `catalog.schema`. Raises BadInput if it is not a plain name.
    """
    schema = schema or dialect.schema
    if not _NAME.fullmatch(schema):
        raise BadInput(f"--schema {schema}: give a name of letters, digits and _, or two of them with a dot between")
    names = {"schema": schema, "own_schema": dialect.text(schema.rpartition(".")[2])}
    yield from (Template(text).substitute(names) for text in dialect.opening)
    for table in RAW_TABLES:
        location = Lake(lake).path(table).replace(SCHEME, dialect.scheme)
        yield Template(dialect.table).substitute(names, table=table, location=dialect.text(location))
    for view in VIEWS.values():
        yield from _view_statements(dialect, view)


def view_statement(dialect: Dialect, view: LakeView) -> str:
    """Return the statement that makes a view."""
    columns = ",\n  ".join(
        f"{view.expressions.get(column.name, f'r.{column.name}')} AS {column.name}" for column in view.columns
    )
    query = Template(f"SELECT\n  {columns}\n{view.source}").safe_substitute(dialect.marks)
    if not dialect.has_comments:
        return f"CREATE OR REPLACE VIEW {view.name} AS\n{query}"
    comments = ",\n  ".join(f"{column.name} COMMENT {dialect.text(comment_of(column))}" for column in view.columns)
    return f"CREATE OR REPLACE VIEW {view.name} (\n  {comments}\n) COMMENT {dialect.text(view.comment)} AS\n{query}"


def comment_of(column: Column) -> str:
    """Return the meaning of a column, with its unit."""
    return f"{column.comment} [{column.unit}]" if column.unit else column.comment


def _view_statements(dialect: Dialect, view: LakeView) -> Iterator[str]:
    yield view_statement(dialect, view)
    if not dialect.has_comments:
        yield f"COMMENT ON VIEW {view.name} IS {dialect.text(view.comment)}"
        for column in view.columns:
            yield f"COMMENT ON COLUMN {view.name}.{column.name} IS {dialect.text(comment_of(column))}"


def register_in_spark(spark: SparkSession, lake: str, schema: str = "") -> None:
    """Make the lake's tables and the views in a schema of Spark's catalog.

    Raises LakeError if the lake lacks a table, or the schema has the tables of another lake.
    """
    root, schema = Lake(lake), schema or SPARK.schema
    for table in RAW_TABLES:
        open_table(lake, table)
    if spark.catalog.tableExists(f"{schema}.{RAW}cycles"):
        (detail,) = spark.sql(f"DESCRIBE DETAIL {schema}.{RAW}cycles").select("location").collect()
        if detail["location"].removeprefix("file:").replace("//", "/") != root.path("cycles").replace("//", "/"):
            raise LakeError(
                f"the schema {schema} has the tables of another lake, at {detail['location']}: name another --schema, "
                "or drop it. Nothing was changed"
            )
    for statement in statements(SPARK, lake, schema):
        spark.sql(statement).collect()


def duckdb_module() -> Any:
    """Return the module duckdb; raises BadInput if it is not installed."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise BadInput("the package duckdb is not installed: pip install 'evenkeel[sql]'") from error
    return duckdb


def first_sentence(error: Exception) -> str:
    """Return what DuckDB says is wrong, without the lines of the query that it shows."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split()).rstrip(".!")


def register_in_duckdb(lake: str, file: Path) -> None:
    """Make the views in a DuckDB file, which read the lake as it is then.

    Raises BadInput if the file is not one of views of a lake, or DuckDB has no extension `delta`.
    """
    duckdb = duckdb_module()
    is_new = not file.exists()
    try:
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH {DUCKDB.text(str(file))} AS views")
            names = connection.execute("SELECT view_name FROM duckdb_views() WHERE database_name = 'views'").fetchall()
            if not is_new and (f"{RAW}cycles",) not in names:
                raise BadInput(f"{file} has no views of a lake: name another --file, so that nothing in it is replaced")
            for statement in ("USE views", *statements(DUCKDB, lake)):
                connection.execute(statement)
    except duckdb.Error as error:
        if is_new:
            file.unlink(missing_ok=True)
        raise BadInput(
            f"{file}: {first_sentence(error)}. Its views need DuckDB's extension delta: run this where DuckDB can "
            "fetch it, or give the printed script to a DuckDB that has it"
        ) from error
