"""Attempts at cycles, by the manifests in `cycles`, and the attempt of each cycle that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.handover import Write
from evenkeel.lake.manifest import writes_of
from evenkeel.lake.outbox import SENT, with_outcomes
from evenkeel.lake.record.tables import (
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


@dataclass(frozen=True)
class Attempt:
    """One attempt at a cluster's cycle: its `planned` row of `cycles`, and its `closed` row, once that exists."""

    planned: Mapping[str, Any]
    closed: Mapping[str, Any] | None = None

    @property
    def cluster(self) -> str:
        """The cluster that the attempt decided for."""
        return str(self.planned["cluster"])

    @property
    def cycle_at(self) -> datetime:
        """The time of the cycle (UTC)."""
        at: datetime = self.planned["cycle_at"]
        return at

    @property
    def attempt_id(self) -> str:
        """The id of the attempt, unique in the lake."""
        return str(self.planned["attempt_id"])

    @property
    def number(self) -> int:
        """The attempt's number at its cycle, from 1."""
        return int(self.planned["attempt"])

    @property
    def kind(self) -> str:
        """live, backfill or rerun."""
        return str(self.planned["kind"])

    @property
    def mode(self) -> str:
        """dry_run, approve or auto."""
        return str(self.planned["mode"])

    @property
    def plan_id(self) -> str | None:
        """The id of the plan; None if the attempt came to no plan."""
        plan: str | None = self.planned["plan_id"]
        return plan

    @property
    def status(self) -> str:
        """Final status so far: planned, closed, skipped, failed or withheld."""
        return str((self.closed or self.planned)["status"])

    @property
    def reason(self) -> str | None:
        """Reason of the attempt's end, by its last manifest that has one; None if none has."""
        closed = self.closed["reason"] if self.closed is not None else None
        reason: str | None = closed or self.planned["reason"]
        return reason

    @property
    def decided(self) -> bool:
        """True if it came to decisions; a skipped or failed attempt did not."""
        return self.status not in ("skipped", "failed")

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        """Its writes until its plan was recorded, each with its files if the manifest lists them."""
        return writes_of(self.cluster, self.planned["writes"], self.planned.get("files") or ())

    @cached_property
    def reads(self) -> tuple[Write, ...]:
        """The writes of earlier cycles that it read."""
        return writes_of(self.cluster, self.planned["reads"], self.planned.get("files") or ())

    @property
    def schema_version(self) -> int:
        """The version of the tables when it was written."""
        return int(self.planned.get("schema_version") or 1)

    def writes_of(self, table: str) -> tuple[Write, ...]:
        """Return its writes to one table."""
        return self._writes_by_table.get(table, ())

    def reads_of(self, table: str) -> tuple[Write, ...]:
        """Return the writes to one table that it read."""
        return self._reads_by_table.get(table, ())

    @cached_property
    def _writes_by_table(self) -> dict[str, tuple[Write, ...]]:
        return _by_table(self.writes)

    @cached_property
    def _reads_by_table(self) -> dict[str, tuple[Write, ...]]:
        return _by_table(self.reads)


def _by_table(writes: Iterable[Write]) -> dict[str, tuple[Write, ...]]:
    by_table: dict[str, list[Write]] = {}
    for write in writes:
        by_table.setdefault(write.table, []).append(write)
    return {table: tuple(table_writes) for table, table_writes in by_table.items()}


def read_attempts(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """Return all attempts on record, oldest cycle first; the order within a cycle is that of the chain.

    Raises LakeError if there is no lake, or its `cycles` table cannot be read.
    """
    return attempts_of(rows_where(lake, "cycles", equals("cluster", cluster)))


def attempts_of(rows: Iterable[Row]) -> list[Attempt]:
    """Return the attempts of rows of `cycles`, by cluster, cycle and number."""
    attempts: dict[tuple[str, datetime, str], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: (row["cluster"], row["sequence"])):
        kinds = attempts.setdefault((row["cluster"], row["cycle_at"], row["attempt_id"]), {})
        kinds.setdefault(row["row_kind"], row)
    complete = [Attempt(kinds["planned"], kinds.get("closed")) for kinds in attempts.values() if "planned" in kinds]
    return sorted(complete, key=lambda a: (a.cluster, a.cycle_at, a.number))


def chunked(
    attempts: Iterable[Attempt], rows_of: Callable[[Attempt], int], most_rows: int, most_cycles: int
) -> Iterator[list[Attempt]]:
    """Yield the attempts in their order, cut so that no chunk exceeds these limits of rows or cycles, one cycle at
    least."""
    chunk: list[Attempt] = []
    rows = 0
    for attempt in attempts:
        row_count = rows_of(attempt)
        if chunk and (rows + row_count > most_rows or len(chunk) >= most_cycles):
            yield chunk
            chunk, rows = [], 0
        chunk.append(attempt)
        rows += row_count
    if chunk:
        yield chunk


def read_cycles(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """Return the attempt that counts for each cluster and cycle, by cluster and time; see `trusted`."""
    attempts = read_attempts(lake, cluster=cluster)
    return trusted(attempts, _plans_sent(lake, attempts))


def trusted(attempts: Iterable[Attempt], plans_sent: frozenset[str] = frozenset()) -> list[Attempt]:
    """Return one attempt per cluster and cycle: the one that sent commands, else the newest live one, else the
    newest."""
    chosen: dict[tuple[str, datetime], Attempt] = {}
    for attempt in attempts:
        key = (attempt.cluster, attempt.cycle_at)
        if key not in chosen or _rank(attempt, plans_sent) > _rank(chosen[key], plans_sent):
            chosen[key] = attempt
    return [chosen[key] for key in sorted(chosen)]


def _rank(attempt: Attempt, plans_sent: frozenset[str]) -> tuple[bool, bool, int]:
    return (attempt.plan_id in plans_sent, attempt.kind != "backfill", attempt.number)


def _plans_sent(lake: str | Path, attempts: Sequence[Attempt]) -> frozenset[str]:
    """Return the plans of which a command went out; a dry run sends none, so nothing is read for it."""
    if all(attempt.mode == "dry_run" for attempt in attempts):
        return frozenset()
    return plans_of(rows_where(lake, "commands"), rows_where(lake, "outcomes"))


def are_told_apart_by_commands(attempts: Sequence[Attempt]) -> bool:
    """Return True if only sent commands can show which attempts count: a cycle has several, and not all are dry
    runs."""
    several = len({attempt.cycle_at for attempt in attempts}) < len(attempts)
    return several and any(attempt.mode != "dry_run" for attempt in attempts)


def plans_of(commands: Iterable[Row], outcomes: Iterable[Row]) -> frozenset[str]:
    """Return the plans of which a command went out, or may have."""
    sent = {row["command_id"] for row in outcomes if row["outcome"] in SENT}
    return frozenset(row["plan_id"] for row in commands if row["command_id"] in sent)


def read_table(lake: str | Path, table: str, *, cluster: str | None = None) -> list[Row]:
    """Return all rows of a table that no manifest lists."""
    return rows_where(lake, table, equals("cluster", cluster))


def read_table_if_any(lake: str | Path, table: str) -> list[Row]:
    """Return the rows of `read_table` for a table that a lake may lack; then there are no rows."""
    return read_table(lake, table) if is_table(lake, table) else []


def read_where(lake: str | Path, table: str, where: Mapping[str, Sequence[object]]) -> list[Row]:
    """Return the rows of a table that no manifest lists, whose columns have one of the values given."""
    return rows_where(lake, table, all_of(*(is_in(column, values) for column, values in where.items())))


def read_commands(lake: str | Path, manifest: Attempt) -> list[Row]:
    """Return the commands of an attempt's plan, each once, with their last `outcome`, `seen_at` and `detail`, if any.

    They are read by command id, whatever manifest lists the rows: a later cycle's observation of a command counts too.
    """
    if manifest.plan_id is None or manifest.mode == "dry_run":
        return []
    condition = all_of(is_in("cluster", [manifest.cluster]), is_in("cycle_at", [manifest.cycle_at]))
    files = _files_of([manifest])
    commands = [
        row for row in rows_where(lake, "commands", condition, files=files) if row["plan_id"] == manifest.plan_id
    ]
    sent = {row["command_id"]: row for row in commands if row["mode"] != "dry_run"}
    return with_outcomes(sent.values(), rows_where(lake, "outcomes", condition, files=files)) if sent else []


def read_rows(
    lake: str | Path, manifest: Attempt, table: str, *, columns: Sequence[str] | None = None, check: bool = True
) -> list[Row]:
    """Return the rows of `table` that this attempt wrote for its cluster, as dicts, in the order of the table's key.

    A map column comes as a dict, a timestamp as an aware datetime in UTC. With `check`, raises LakeError for fewer rows
    than the manifest lists: they expired, or the table is damaged.
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
    """Return `read_rows` for several attempts in one pass: attempt_id -> rows. `where` is column -> allowed values."""
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
    for attempt_rows in rows.values():
        attempt_rows.sort(key=lambda row: tuple(str(row[column]) for column in key))
    return rows


def _files_of(manifests: Sequence[Attempt]) -> list[FileFilter]:
    """Return filters of the files that may have rows of these attempts; the log knows the span of a file's moments."""
    moments = [manifest.cycle_at for manifest in manifests]
    clusters = sorted({manifest.cluster for manifest in manifests})
    return files_between(clusters, min(moments), max(moments), sorted({moment.date() for moment in moments}))


def _check_complete(lake: str | Path, table: str, manifest: Attempt) -> None:
    writes = manifest.writes_of(table)
    expected = sum(write.rows for write in writes)
    ids = sorted(write.write_id for write in writes)
    at = manifest.cycle_at
    conditions = (is_in("cluster", [manifest.cluster]), is_in("cycle_date", [at.date()]), between("cycle_at", at, at))
    existing = count(lake, table, all_of(*conditions, is_in("write_id", ids)), _files_of([manifest]))
    if existing < expected:
        raise LakeError(
            f"table {table} of {lake} holds {existing} of the {expected} rows that the manifest of {manifest.cluster} "
            f"at {manifest.cycle_at.isoformat()} lists (writes {', '.join(ids)}): they are past their retention, or "
            "the table is damaged. Restore the table, or decide the cycle again."
        )
