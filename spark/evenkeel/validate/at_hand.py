"""What the suites look at, read in this process where rows are few: so Great Expectations need not wait for Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenkeel.handover import Handover
from evenkeel.lake.data_files import Commits, found_rows
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.store import Lake
from evenkeel.spark.rows import arrow_type, each_once, moment_text, ticks
from evenkeel.validate.facts import AT
from evenkeel.validate.suites import Suite

if TYPE_CHECKING:
    import pyarrow as pa


def columns_at_hand(lake: Lake, handover: Handover, suites: Mapping[str, Suite]) -> dict[str, pa.Table]:
    """Table -> its rows of open cycles, with the columns of its suite, `cluster` and `_cycle_at`, in the types that
    Spark gives them; missing are tables that have no rows, or of which a file cannot be read from here."""
    commits: Commits = {}
    found = {table: _columns(lake, handover, suite, commits) for table, suite in suites.items()}
    return {table: rows for table, rows in found.items() if rows is not None}


def _columns(lake: Lake, handover: Handover, suite: Suite, commits: Commits) -> pa.Table | None:
    import pyarrow as pa

    kinds = types_of(suite.table)
    names = sorted({"cluster", "cycle_at", *suite.columns()})
    parts = []
    for write in handover.open_writes(suite.table):
        rows = found_rows(lake, write, names, commits) if write.rows else None
        if write.rows and (rows is None or not {*names} <= {*rows.column_names}):
            return None
        parts += [] if rows is None else [rows]
    if not parts:
        return None
    schema = pa.schema([(name, arrow_type(kinds[name])) for name in names])
    typed = pa.concat_tables([part.select(names).cast(schema) for part in parts])
    moments = [tick for chunk in typed.column("cycle_at").chunks for tick in ticks(chunk)]
    return typed.append_column(AT, pa.array(each_once(moments, moment_text), pa.string()))
