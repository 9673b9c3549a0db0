"""Statements by which upkeep changes a table, each repeated if another writer came first."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.lake.delta_log import newest_version, until_committed
from evenkeel.lake.schema import sql_text
from evenkeel.lake.store import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_SAID = "spark.databricks.delta.commitInfo.userMetadata"


def change(spark: SparkSession, lake: Lake, table: str, statement: str) -> list[Any]:
    """Run a statement on a table, and note its commits (`Lake.note`); return the rows of its metrics, if any.

    For a block of `speaking`, by whose `userMetadata` the commits are known.
    """
    before = newest_version(lake.path(table))
    rows = until_committed(lambda: list(spark.sql(statement).collect()), log, "a writer came first; trying again")
    lake.note(table, json.loads(spark.conf.get(_SAID) or "{}")["upkeep"], after=before)
    return rows


def delete(spark: SparkSession, lake: Lake, table: str, condition: str) -> int:
    """Delete the rows; return how many, if Delta reports it (whole partitions may be dropped uncounted: 0)."""
    rows = change(spark, lake, table, f"DELETE FROM delta.`{lake.path(table)}` WHERE {condition}")
    return max(0, int(rows[0][0])) if rows and rows[0][0] is not None else 0


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """Set other settings of the session for a block."""
    before = {key: spark.conf.get(key, None) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def speaking(spark: SparkSession, said: str) -> Any:
    """Set this `userMetadata` for every commit of the block.

    VACUUM leaves no commits: `upkeeps` records what was done, and a table that was never written to is known by its
    first version.
    """
    return settings(spark, {_SAID: said, "spark.databricks.delta.vacuum.logging.enabled": "false"})


def in_days(days: Iterable[tuple[str, date]]) -> str:
    """Return the condition of being in one of these partitions."""
    by_cluster: dict[str, list[date]] = {}
    for cluster, day in sorted(days):
        by_cluster.setdefault(cluster, []).append(day)
    return " OR ".join(
        f"(cluster = {sql_text(cluster)} AND cycle_date IN ({', '.join(f'DATE{sql_text(str(d))}' for d in dates)}))"
        for cluster, dates in by_cluster.items()
    )


def one_of(column: str, values: Sequence[str]) -> str:
    """Return a condition in SQL: the column has one of the values (at least one), quoted as text."""
    return f"{column} IN ({', '.join(map(sql_text, values))})"


def at(moment: datetime) -> str:
    """Return a moment as SQL."""
    return f"to_timestamp({sql_text(moment.isoformat())})"
