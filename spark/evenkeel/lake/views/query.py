"""One SQL query over the views of a lake, run by DuckDB in this process.

The tables are read as all readers without a JVM read them. DuckDB itself reads and writes no file, opens no connection
and loads no extension; only its sorting may spill, into a folder that is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.lake.record.tables import damaged, dataset
from evenkeel.lake.views.declarations import RAW, RAW_TABLES, VIEWS
from evenkeel.lake.views.scripts import DUCKDB, duckdb_module, first_sentence, view_statement

BATCH_ROWS = 1_000


@dataclass(frozen=True)
class QueryAnswer:
    """The answer to a query: the names of its columns, and its rows, which are read as they are asked for."""

    columns: Sequence[str]
    rows: Iterator[Sequence[Any]]


@contextmanager
def ask(lake: str, sql: str) -> Iterator[QueryAnswer]:
    """Yield the answer to one SELECT over the views and the `raw_` tables of a lake.

    Moments are in UTC. Raises BadInput for other statements and for errors of the SQL, LakeError for tables that cannot
    be read; rows that are read inside the block may raise both.
    """
    duckdb = duckdb_module()
    with TemporaryDirectory(prefix="evenkeel-sql-") as spill, duckdb.connect() as connection:
        try:
            _demand_one_query(duckdb, connection, sql)
            names = _names_in(sql)
            for table in RAW_TABLES:
                if RAW + table in names:
                    connection.register(RAW + table, dataset(lake, table))
            for view in VIEWS.values():
                if view.name in names:
                    connection.execute(view_statement(DUCKDB, view))
            for setting in (f"temp_directory = '{spill}'", *_CONFINED):
                connection.execute(f"SET {setting}")
            reader = connection.sql(sql).to_arrow_reader(BATCH_ROWS)
        except duckdb.Error as error:
            raise _explained(lake, error) from error
        yield QueryAnswer(reader.schema.names, _rows(lake, reader))


_CONFINED = (
    "TimeZone = 'UTC'",
    "python_enable_replacements = false",
    "autoload_known_extensions = false",
    "autoinstall_known_extensions = false",
    "enable_external_access = false",
    "lock_configuration = true",
)


def _demand_one_query(duckdb: Any, connection: Any, sql: str) -> None:
    types = [statement.type for statement in connection.extract_statements(sql)]
    if len(types) != 1 or types[0] not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise BadInput("give one query: a SELECT, SHOW TABLES, or DESCRIBE with a view; nothing else is run")


def _names_in(sql: str) -> set[str]:
    """Return the views and tables that a query may read: all of them if it names none, as SHOW TABLES does."""
    every = {*VIEWS, *(RAW + table for table in RAW_TABLES)}
    names = every & set(re.findall(r"\w+", sql.lower()))
    for view in reversed(VIEWS.values()):
        if view.name in names:
            names |= every & set(re.findall(r"\w+", view.source))
    return names or every


def _rows(lake: str, reader: Any) -> Iterator[Sequence[Any]]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (OSError, ValueError) as error:  # as Arrow gives errors of DuckDB
            raise _explained(lake, error) from error
        yield from zip(*(column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns), strict=True)


_READING = re.compile(rf"reading the stream registered as '{RAW}(\w+)' failed: (.*)", re.DOTALL)


def _explained(lake: str, error: Exception) -> EvenkeelError:
    """Return the error of a table that cannot be read, else that of the query."""
    reading = _READING.search(str(error))
    if reading:
        return damaged(lake, reading[1], OSError(reading[2]))
    return BadInput(
        f'{first_sentence(error)}. `evenkeel sql "SHOW TABLES"` lists the views, and DESCRIBE their columns'
    )
