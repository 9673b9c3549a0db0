"""What `cycles.roots` holds: the Merkle root of each table that an attempt wrote rows of.

A window's roots are made where its rows are written (`Write.root`). Rows whose root nobody has made yet are looked at
here: few of them in this process, all others of a run in one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.errors import LakeError
from evenkeel.handover import Write
from evenkeel.lake.data_files import Commits, found_rows
from evenkeel.lake.digest import ROW_DIGEST, with_row_digest
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.roots import MOST_FETCHED, NOTHING, Rooted, digests_rooted, digests_rooted_here
from evenkeel.lake.roots_here import digest_of, row_digests
from evenkeel.lake.schema import SCHEMA_VERSION, STAMP_NAMES
from evenkeel.lake.store import Lake
from evenkeel.spark.sql import compile_queries, united
from evenkeel.transparency.merkle import root_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

SET = "_set"
"""The column that `set_column` fills."""
_TABLE = "table"
_FEW = 20_000
"""So many rows at most are looked at in this process, or else in one task, by a query that is interpreted."""


def table_roots(
    spark: SparkSession, lake: Lake, attempts: Sequence[Sequence[Write]], made: Iterable[Write] = ()
) -> list[list[dict[str, Any]]]:
    """Of each attempt, whose writes are given, what `cycles.roots` holds: the root of each table that has rows of it.

    `made` are writes, some of them perhaps with their roots. The rows of all others are looked at; they are of today's
    schema version. Raises LakeError where they are not those that were written.
    """
    sets = [_by_table(writes) for writes in attempts]
    roots = {write: write.root for write in made if write.root}
    found = {_key(own): roots[own[0]] for one in sets for own in one if len(own) == 1 and own[0] in roots}
    asked = [own for one in sets for own in one if _key(own) not in found]
    if sum(write.rows for own in asked for write in own) <= _FEW:
        commits: Commits = {}
        found |= {_key(own): root for own in asked if (root := root_here(lake, own, commits)) is not None}
        asked = [own for own in asked if _key(own) not in found]
    there = _looked_at(spark, lake, asked) if asked else {}
    for own in asked:
        _demand_written(own, there.get(_key(own), NOTHING))
        found[_key(own)] = there[_key(own)][2]
    return [
        [{"table": own[0].table, "rows": sum(w.rows for w in own), "root": found[_key(own)]} for own in one]
        for one in sets
    ]


def root_here(lake: Lake, writes: Sequence[Write], commits: Commits | None = None) -> str | None:
    """The root of the rows of these writes, which are of one table and of today's schema version, made in this process;
    None where a file cannot be read from here, or does not hold rows of which the writes' digests are made."""
    digests: list[bytes] = []
    for write in writes:
        rows = found_rows(lake, write, [name for name in types_of(write.table) if name not in STAMP_NAMES], commits)
        own = None if rows is None else row_digests(write.table, rows)
        if own is None or digest_of(own) != write.digest:
            return None
        digests += own
    return root_of(sorted(digests)).hex()


def _by_table(writes: Iterable[Write]) -> list[list[Write]]:
    """The writes with rows, those of one table together, by its name."""
    found: dict[str, list[Write]] = {}
    for write in writes:
        if write.rows:
            found.setdefault(write.table, []).append(write)
    return [own for _, own in sorted(found.items())]


_Key = tuple[str, str, str]


def _key(own: Sequence[Write]) -> _Key:
    """What names an attempt's rows of a table; an id is used once, and by one attempt of each cluster."""
    return own[0].table, own[0].cluster, own[0].write_id


def _looked_at(spark: SparkSession, lake: Lake, asked: Iterable[Sequence[Write]]) -> dict[_Key, Rooted]:
    from pyspark.sql import functions as F

    by_table: dict[str, list[Sequence[Write]]] = {}
    for own in asked:
        by_table.setdefault(own[0].table, []).append(own)
    frames = []
    for table, sets in sorted(by_table.items()):
        rows = lake.read(spark, table, [write for own in sets for write in own])
        named = rows.withColumn(SET, set_column(sets))
        digested = with_row_digest(named, table, SCHEMA_VERSION)
        frames.append(digested.select(F.lit(table).alias(_TABLE), "cluster", SET, ROW_DIGEST))
    every = united(frames)
    listed = {_key(own): sum(write.rows for write in own) for sets in by_table.values() for own in sets}
    count, by = sum(listed.values()), (_TABLE, "cluster", SET)
    if count <= _FEW:
        found = digests_rooted_here(every.coalesce(1), by)
    else:
        compile_queries(spark, compiled=True)
        found = digests_rooted_here(every, by) if count <= MOST_FETCHED else digests_rooted(every, by, listed)
        compile_queries(spark, compiled=False)
    return {(table, cluster, name): one for (table, cluster, name), one in found.items()}


def set_column(sets: Iterable[Sequence[Write]]) -> Column:
    """The id of the first write of the set that a row's write is in; its own where it is in none, or alone."""
    from pyspark.sql import functions as F

    first = {f"{write.cluster}/{write.write_id}": own[0].write_id for own in sets for write in own[1:]}
    if not first:
        return F.col("write_id")
    named = F.create_map(*(F.lit(text) for pair in sorted(first.items()) for text in pair))
    return F.coalesce(named[F.concat_ws("/", "cluster", "write_id")], F.col("write_id"))


def _demand_written(own: Sequence[Write], found: Rooted) -> None:
    rows = sum(write.rows for write in own)
    # Of several writes the digests do not add up.
    if found[0] != rows or (len(own) == 1 and found[1] != own[0].digest):
        ids = ", ".join(write.write_id for write in own)
        raise LakeError(
            f"{own[0].table} of {own[0].cluster}, write {ids}: {found[0]} rows are there, and not the {rows} that were "
            "written a moment ago; somebody changes the lake beside Evenkeel. Nothing lists them: run the task again"
        )
