"""Delta tables as Arrow datasets, without a JVM: rows by a condition, and what is wrong where they cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.errors import LakeError, NoLake
from evenkeel.lake.outbox import with_outcomes
from evenkeel.record.read.attempts import Attempt

Row = dict[str, Any]
_TOLD = 200
# Logs keep moments to the millisecond, rounded either way; rows keep microseconds.
ROUNDING = timedelta(milliseconds=2)
FileFilter = tuple[str, str, Any]
"""A condition on files as deltalake takes it: column, operator, text or texts; by partition or the log's figures."""


def rows_where(
    lake: str | Path,
    table: str,
    condition: Any = None,
    columns: Sequence[str] | None = None,
    files: Sequence[FileFilter] | None = None,
) -> list[Row]:
    """The rows that meet a condition, all of them without one; of such files only where these are told."""
    try:
        return as_rows(dataset(lake, table, files).to_table(columns=columns, filter=condition))
    except (OSError, ValueError, KeyError) as error:
        raise damaged(lake, table, error) from error


def as_rows(found: Any) -> list[Row]:
    """Arrow's rows as dicts; a map column comes as a dict."""
    rows: list[Row] = found.to_pylist(maps_as_pydicts="lossy")
    return rows


def count(lake: str | Path, table: str, condition: Any, files: Sequence[FileFilter] | None = None) -> int:
    """How many rows meet a condition."""
    try:
        return int(dataset(lake, table, files).count_rows(filter=condition))
    except (OSError, ValueError) as error:
        raise damaged(lake, table, error) from error


def dataset(lake: str | Path, table: str, files: Sequence[FileFilter] | None = None) -> Any:
    """The files of a table as one dataset."""
    return dataset_of(open_table(lake, table), lake, table, files)


def open_table(lake: str | Path, table: str) -> Any:
    """The table as its log tells it; no file of it is read yet. LakeError where it is missing or its log is damaged."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(_path(lake, table))
    except TableNotFoundError as error:
        if table == "cycles" or not DeltaTable.is_deltatable(_path(lake, "cycles")):
            raise NoLake(
                f"there is no lake at {lake}: its `cycles` table is missing. Name the folder that cycles were "
                "written to (--lake, or EVENKEEL_LAKE), or run a first cycle with it."
            ) from error
        raise LakeError(
            f"table {table} of the lake {lake} is missing, although a manifest lists rows of it. Restore the folder."
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(lake, table, error) from error


def is_table(lake: str | Path, table: str) -> bool:
    """Whether the lake has the table."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(_path(lake, table)))


def dataset_of(opened: Any, lake: str | Path, table: str, files: Sequence[FileFilter] | None = None) -> Any:
    """The files of an open table, those only that may meet the conditions: others are not even looked for."""
    from deltalake.exceptions import DeltaError

    try:
        return opened.to_pyarrow_dataset(
            file_pruning_predicate=list(files) if files else None,
            filesystem=_own_files(_path(lake, table)),
        )
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(lake, table, error) from error


def files_between(
    clusters: Sequence[str], first: datetime, last: datetime, dates: Iterable[date] = ()
) -> list[FileFilter]:
    """The files that may hold rows of these clusters' cycles from one moment to another, of these dates if any."""
    chosen: list[FileFilter] = [
        ("cluster", "in", [*clusters]),
        ("cycle_at", ">=", (first - ROUNDING).isoformat()),
        ("cycle_at", "<=", (last + ROUNDING).isoformat()),
    ]
    own = [day.isoformat() for day in dates]
    return [*chosen, ("cycle_date", "in", own)] if own else chosen


def _path(lake: str | Path, table: str) -> str:
    return f"{str(lake).rstrip('/')}/{table}"


def _own_files(path: str) -> Any:
    """The table's folder as Arrow's own file system; None, hence deltalake's, for an object store.

    deltalake's is written in Python, and Arrow's reading threads call it even while the process ends: every other
    process that had read a lake was aborted then.
    """
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    from evenkeel.lake.delta_log import local_log

    log = local_log(path)
    return None if log is None else SubTreeFileSystem(str(log.parent.resolve()), LocalFileSystem())


def damaged(lake: str | Path, table: str, error: Exception) -> LakeError:
    """The error for a table that is there and cannot be read."""
    from evenkeel.lake.delta_log import log_state

    known = log_state(_path(lake, table)) or (
        "Its files are damaged or incomplete; restore them from a copy, or decide the cycle anew."
    )
    return LakeError(f"table {table} of the lake {lake} cannot be read: {str(error)[:_TOLD].rstrip('.')}. {known}")


def equals(column: str, value: object | None) -> Any:
    """Rows with that value; no condition for None."""
    return None if value is None else is_in(column, [value])


def is_in(column: str, values: Sequence[object]) -> Any:
    """Rows with one of these values; with none of any kind, no rows of a column of texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if all(isinstance(value, str) for value in values):
        return text(column).isin(pa.array(list(values), pa.string()))
    return pc.field(column).isin(list(values))


def text(column: str) -> Any:
    """A column of texts, to be compared with texts.

    Files that deltalake has written anew hold another kind of text, which Arrow does not compare with its own; a cast
    settles that. Of `cluster` no file holds anything: it is a partition, and is compared before a file is opened.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.field(column) if column == "cluster" else pc.field(column).cast(pa.string())


def between(column: str, first: object, last: object) -> Any:
    """Rows from one value to another, both included."""
    import pyarrow.compute as pc

    return (pc.field(column) >= first) & (pc.field(column) <= last)


def all_of(*conditions: Any) -> Any:
    """Rows that meet every condition."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


# Exactly the rows that manifests list, and the rows of the outbox, which count without one.


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
