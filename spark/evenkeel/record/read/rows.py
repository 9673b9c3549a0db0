"""Exactly the rows that manifests list, and the rows of the outbox, which count without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from evenkeel.errors import LakeError
from evenkeel.lake.outbox import with_outcomes
from evenkeel.record.read.attempts import Attempt
from evenkeel.record.read.tables import (
    FileFilter,
    Row,
    all_of,
    between,
    count,
    equals,
    files_between,
    is_in,
    is_table,
    rows_where,
)


def read_table(lake: str | Path, table: str, *, cluster: str | None = None) -> list[Row]:
    """All rows of a table that no manifest lists."""
    return rows_where(lake, table, equals("cluster", cluster))


def read_table_if_any(lake: str | Path, table: str) -> list[Row]:
    """As `read_table`, of a table that a lake may lack; then there are no rows."""
    return read_table(lake, table) if is_table(lake, table) else []


def read_where(lake: str | Path, table: str, where: Mapping[str, Sequence[object]]) -> list[Row]:
    """Rows of a table that no manifest lists, whose columns have one of the values given."""
    return rows_where(lake, table, all_of(*(is_in(column, values) for column, values in where.items())))


def read_commands(lake: str | Path, manifest: Attempt) -> list[Row]:
    """The commands of an attempt's plan, each once, with the last `outcome`, `seen_at` and `detail` of it, if any.

    By command id, whatever manifest lists the rows: what a later cycle has seen of a command counts too.
    """
    if manifest.plan_id is None or manifest.mode == "dry_run":
        return []
    own = all_of(is_in("cluster", [manifest.cluster]), is_in("cycle_at", [manifest.cycle_at]))
    files = _files_of([manifest])
    commands = [row for row in rows_where(lake, "commands", own, files=files) if row["plan_id"] == manifest.plan_id]
    asked = {row["command_id"]: row for row in commands if row["mode"] != "dry_run"}
    return with_outcomes(asked.values(), rows_where(lake, "outcomes", own, files=files)) if asked else []


def read_rows(
    lake: str | Path, manifest: Attempt, table: str, *, columns: Sequence[str] | None = None, check: bool = True
) -> list[Row]:
    """The rows of `table` that this attempt wrote for its cluster, as dicts, in the order of the table's key.

    A map column comes as a dict, a timestamp as an aware datetime in UTC. With `check`, fewer rows than the manifest
    lists raise LakeError: they expired, or the table is damaged.
    """
    return read_rows_of(lake, [manifest], table, columns=columns, check=check)[manifest.attempt_id]


def read_rows_of(
    lake: str | Path,
    manifests: Sequence[Attempt],
    table: str,
    *,
    columns: Sequence[str] | None = None,
    check: bool = False,
    where: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, list[Row]]:
    """`read_rows` for several attempts in one pass: attempt_id -> rows. `where` is column -> allowed values."""
    from evenkeel.lake.schemas import TABLES

    rows: dict[str, list[Row]] = {manifest.attempt_id: [] for manifest in manifests}
    listed = {w.write_id: w for manifest in manifests for w in manifest.writes_of(table)}
    if not listed:
        return rows
    if check:
        for manifest in manifests:
            _check_complete(lake, table, manifest)
    stamp = ("cluster", "cycle_at", "write_id")
    wanted = None if columns is None else [*stamp, *(c for c in columns if c not in stamp)]
    condition = all_of(
        is_in("cluster", sorted({m.cluster for m in manifests})),
        is_in("cycle_date", sorted({m.cycle_at.date() for m in manifests})),
        between("cycle_at", min(m.cycle_at for m in manifests), max(m.cycle_at for m in manifests)),
        is_in("write_id", sorted(listed)),
        *(is_in(column, list(values)) for column, values in (where or {}).items()),
    )
    owners: dict[tuple[str, datetime, str], list[str]] = {}
    for manifest in manifests:
        for write in manifest.writes_of(table):
            owners.setdefault((manifest.cluster, manifest.cycle_at, write.write_id), []).append(manifest.attempt_id)
    files = _files_of(manifests)
    for row in rows_where(lake, table, condition, wanted, files):
        for attempt_id in owners.get((row["cluster"], row["cycle_at"], row["write_id"]), ()):
            rows[attempt_id].append(row)
    key = [column for column in TABLES[table].key if columns is None or column in columns]
    for found in rows.values():
        found.sort(key=lambda row: tuple(str(row[column]) for column in key))
    return rows


def _files_of(manifests: Sequence[Attempt]) -> list[FileFilter]:
    """Where rows of these attempts may lie; the log knows between which moments a file's rows are."""
    moments = [manifest.cycle_at for manifest in manifests]
    clusters = sorted({manifest.cluster for manifest in manifests})
    return files_between(clusters, min(moments), max(moments), sorted({moment.date() for moment in moments}))


def _check_complete(lake: str | Path, table: str, manifest: Attempt) -> None:
    writes = manifest.writes_of(table)
    expected = sum(write.rows for write in writes)
    ids = sorted(write.write_id for write in writes)
    at = manifest.cycle_at
    own = (is_in("cluster", [manifest.cluster]), is_in("cycle_date", [at.date()]), between("cycle_at", at, at))
    found = count(lake, table, all_of(*own, is_in("write_id", ids)), _files_of([manifest]))
    if found < expected:
        raise LakeError(
            f"table {table} of {lake} holds {found} of the {expected} rows that the manifest of {manifest.cluster} "
            f"at {manifest.cycle_at.isoformat()} lists (writes {', '.join(ids)}): they are past their retention, or "
            "the table is damaged. Restore the table, or decide the cycle anew."
        )
