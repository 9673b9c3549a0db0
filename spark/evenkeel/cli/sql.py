"""`evenkeel sql` and `evenkeel views`: a lake's record in SQL."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.lakes import add_lake_option, only_lake
from evenkeel.cli.output import add_command, add_json, as_line, busy_with
from evenkeel.errors import BadInput, visible

if TYPE_CHECKING:
    from evenkeel.lake.views.query import QueryAnswer

MOST_SHOWN = 1_000
"""Rows that are shown as a table: its columns are as wide as their widest value."""
_DEFAULT = "the one that is configured"
SQL_EPILOG = """Views: cycles, writes, decisions, moves, broker_threshold_daily, broker_load, bundle_load,
data_quality, settings; docs/reference/tables.md says what their columns mean. raw_TABLE is a table
of the lake, with rows that may not count. Moments are in UTC. DuckDB runs the query: it changes
nothing, and reaches no file and no network beside the lake.

  evenkeel sql --lake LAKE "SHOW TABLES"
  evenkeel sql --lake LAKE "DESCRIBE moves"
  evenkeel sql --lake LAKE "SELECT bundle, count(*) FROM moves WHERE outcome = 'done' GROUP BY bundle\""""
VIEWS_EPILOG = """Without --register the script is printed: give it to DuckDB, Spark or Trino. With it, the
lake's tables (raw_TABLE) and the views are made in a schema of the catalog of the Spark server at
$EVENKEEL_SPARK, or of `evenkeel engine start`; for DuckDB the views are made in a file, which needs
DuckDB's extension delta. Trino's script was not tried."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `sql` and of `views`."""
    sql = add_command(commands, "sql", "ask a lake in SQL", SQL_EPILOG)
    sql.add_argument("query", metavar="QUERY", help="one SELECT over the views")
    add_lake_option(sql, _DEFAULT)
    form = sql.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="all rows as CSV with a header; unknown values are empty")
    add_json(form, "a line with one JSON object a row")
    sql.set_defaults(run=run_sql)
    views = add_command(commands, "views", "print or register SQL views over a lake", VIEWS_EPILOG)
    add_lake_option(views, _DEFAULT)
    views.add_argument("--dialect", required=True, choices=("duckdb", "spark", "trino"), help="whose SQL")
    views.add_argument("--register", action="store_true", help="make the views in place of printing their script")
    views.add_argument(
        "--schema", metavar="NAME", default="", help="of spark or trino (default: evenkeel, in trino delta.evenkeel)"
    )
    views.add_argument(
        "--file", metavar="FILE", default="evenkeel.duckdb", help="of duckdb with --register (default: evenkeel.duckdb)"
    )
    views.set_defaults(run=run_views)


def run_sql(given: argparse.Namespace) -> int:
    """Run the query, and print its rows."""
    from evenkeel.lake.views.query import ask

    with ask(only_lake(given), given.query) as answer:
        with busy_with("running the query"):
            rows = _begun(answer.rows)
        if given.csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(answer.columns)
            writer.writerows(["" if value is None else _text(value) for value in row] for row in rows)
        elif given.json:
            _print_json(answer, rows)
        else:
            _print_table(answer.columns, rows)
    return 0


def _begun(rows: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Return the same rows, the first of which has been computed."""
    first = list(islice(rows, 1))
    return (row for part in (first, rows) for row in part)


def _print_json(answer: QueryAnswer, rows: Iterable[Sequence[Any]]) -> None:
    doubled = {name for name in answer.columns if answer.columns.count(name) > 1}
    if doubled:
        raise BadInput(f"several columns are named {', '.join(sorted(doubled))}: name them apart with AS")
    for row in rows:
        values = [None if isinstance(value, float) and not math.isfinite(value) else value for value in row]
        print(as_line({"row": dict(zip(answer.columns, values, strict=True))}))


def _print_table(columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    shown = list(islice(rows, MOST_SHOWN))
    lines = [list(columns), *(["NULL" if value is None else visible(_text(value)) for value in row] for row in shown)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numbers = [any(_is_number(row[place]) for row in shown) for place in range(len(columns))]
    for line in lines:
        cells = zip(line, widths, numbers, strict=True)
        print("  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells).rstrip())
    if next(rows, None) is not None:
        print(f"only the first {MOST_SHOWN:,} rows are shown: --csv or --json prints all of them", file=sys.stderr)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def run_views(given: argparse.Namespace) -> int:
    """Print the script that makes the views, or make them."""
    from evenkeel.lake.views.scripts import DIALECTS, register_in_duckdb, statements

    lake = only_lake(given)
    if not given.register:
        print(f"-- SQL views over the lake {visible(lake)}: evenkeel views --dialect {given.dialect}")
        for statement in statements(DIALECTS[given.dialect], lake, given.schema):
            print(f"{statement};")
    elif given.dialect == "duckdb":
        register_in_duckdb(lake, Path(given.file))
        print(f"{given.file}: the views are made", file=sys.stderr)
    elif given.dialect == "spark":
        _register_in_spark(lake, given.schema)
    else:
        raise BadInput("--register: of duckdb and spark; give the printed script to Trino's own command")
    return 0


def _register_in_spark(lake: str, schema: str) -> None:
    from evenkeel.cli.options import engine_home, session
    from evenkeel.lake.views.scripts import SPARK, register_in_spark
    from evenkeel.spark.server import status

    if not os.environ.get("EVENKEEL_SPARK") and status(engine_home()).state != "running":
        raise BadInput(
            "no Spark server is running whose catalog could keep the views: name one in EVENKEEL_SPARK, or run "
            "`evenkeel engine start`, whose catalog lasts until it is stopped"
        )
    with session("evenkeel views", lake) as spark, busy_with("registering the views"):
        register_in_spark(spark, lake, schema)
    print(f"the views are in the schema {schema or SPARK.schema}", file=sys.stderr)
