"""Reading the lake without a JVM: which attempts count, and exactly the rows that a manifest lists.

Reports, pages and the command line read through here. Nothing here writes, and nothing trusts a row whose write no
manifest in `cycles` lists.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput, LakeError, NoLake, NoSuchCycle
from evenkeel.handover import Write
from evenkeel.lake.outbox import SENT, with_outcomes

Row = dict[str, Any]

LATEST = "latest"
_WITH_SECONDS = re.compile(r"[T ]\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a cluster's cycle: its `planned` row of `cycles`, and the `closed` one once there is one."""

    planned: Mapping[str, Any]
    closed: Mapping[str, Any] | None = None

    @property
    def cluster(self) -> str:
        return str(self.planned["cluster"])

    @property
    def cycle_at(self) -> datetime:
        at: datetime = self.planned["cycle_at"]
        return at

    @property
    def attempt_id(self) -> str:
        return str(self.planned["attempt_id"])

    @property
    def number(self) -> int:
        return int(self.planned["attempt"])

    @property
    def kind(self) -> str:
        return str(self.planned["kind"])

    @property
    def mode(self) -> str:
        return str(self.planned["mode"])

    @property
    def plan_id(self) -> str | None:
        plan: str | None = self.planned["plan_id"]
        return plan

    @property
    def status(self) -> str:
        """planned, closed, skipped, failed or withheld: the last word on it."""
        return str((self.closed or self.planned)["status"])

    @property
    def reason(self) -> str | None:
        closed = self.closed["reason"] if self.closed is not None else None
        reason: str | None = closed or self.planned["reason"]
        return reason

    @property
    def decided(self) -> bool:
        """Whether it came to decisions; a skipped or failed attempt did not."""
        return self.status not in ("skipped", "failed")

    @property
    def writes(self) -> tuple[Write, ...]:
        return self._listed("writes")

    @property
    def reads(self) -> tuple[Write, ...]:
        """The writes of earlier cycles that it rests on."""
        return self._listed("reads")

    @property
    def schema_version(self) -> int:
        """That of the tables when it was written."""
        return int(self.planned.get("schema_version") or 1)

    def _listed(self, column: str) -> tuple[Write, ...]:
        return tuple(
            Write(w["table"], w["write_id"], int(w["version"]), int(w["rows"]), w["digest"], self.cluster)
            for w in self.planned[column]
        )

    def writes_of(self, table: str) -> tuple[Write, ...]:
        return tuple(write for write in self.writes if write.table == table)


def read_attempts(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """All attempts on record, oldest cycle first; the order within a cycle is that of the chain.

    Raises LakeError where there is no lake, or its `cycles` table cannot be read.
    """
    return attempts_of(_rows(lake, "cycles", _equals("cluster", cluster)))


def attempts_of(rows: Iterable[Row]) -> list[Attempt]:
    """The attempts that these rows of `cycles` tell of, oldest cycle first."""
    rows = sorted(rows, key=lambda row: (row["cluster"], row["sequence"]))
    attempts: dict[tuple[str, datetime, str], dict[str, Row]] = {}
    for row in rows:
        kinds = attempts.setdefault((row["cluster"], row["cycle_at"], row["attempt_id"]), {})
        kinds.setdefault(row["row_kind"], row)
    found = [Attempt(kinds["planned"], kinds.get("closed")) for kinds in attempts.values() if "planned" in kinds]
    return sorted(found, key=lambda a: (a.cluster, a.cycle_at, a.number))


def read_cycles(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """The attempt that counts for each cluster and cycle, by cluster and time; see `trusted`."""
    attempts = read_attempts(lake, cluster=cluster)
    return trusted(attempts, _plans_sent(lake, attempts))


def read_cycles_between(lake: str | Path, cluster: str, first: datetime | None, last: datetime | None) -> list[Attempt]:
    """As `read_cycles`, of one cluster from `first` to `last`, both included; None for no bound."""
    import pyarrow.compute as pc

    at = pc.field("cycle_at")
    bounds = ([at >= first] if first else []) + ([at <= last] if last else [])
    attempts = attempts_of(_rows(lake, "cycles", _all_of(_is_in("cluster", [cluster]), *bounds)))
    return trusted(attempts, _plans_sent(lake, attempts))


def trusted(attempts: Iterable[Attempt], plans_sent: frozenset[str] = frozenset()) -> list[Attempt]:
    """One attempt per cluster and cycle: the one that sent commands, else the newest live one, else the newest."""
    chosen: dict[tuple[str, datetime], Attempt] = {}
    for attempt in attempts:
        key = (attempt.cluster, attempt.cycle_at)
        if key not in chosen or _rank(attempt, plans_sent) > _rank(chosen[key], plans_sent):
            chosen[key] = attempt
    return [chosen[key] for key in sorted(chosen)]


def _rank(attempt: Attempt, plans_sent: frozenset[str]) -> tuple[bool, bool, int]:
    return (attempt.plan_id in plans_sent, attempt.kind != "backfill", attempt.number)


def _plans_sent(lake: str | Path, attempts: Sequence[Attempt]) -> frozenset[str]:
    """Plans of which a command went out; a dry run sends none, so nothing is read for it."""
    if all(attempt.mode == "dry_run" for attempt in attempts):
        return frozenset()
    sent = {row["command_id"] for row in _rows(lake, "outcomes") if row["outcome"] in SENT}
    return frozenset(row["plan_id"] for row in _rows(lake, "commands") if row["command_id"] in sent)


def find_cycles(lake: str | Path, *, cluster: str | None = None, cycle: str | datetime | None = None) -> list[Attempt]:
    """The attempt asked for, of one cluster or (where none is named) of each cluster that has such a cycle.

    `cycle` is `latest` (also for None), or a time in UTC; a time given to the second or minute stands for the one
    cycle within it. Raises NoSuchCycle, which names the nearest cluster or cycle on record.
    """
    cycles = read_cycles(lake)
    if not cycles:
        raise NoSuchCycle(f"no cycle is on record in {lake}: run one first (`evenkeel rebalance --lake {lake} …`).")
    clusters = sorted({attempt.cluster for attempt in cycles})
    if cluster is not None and cluster not in clusters:
        raise NoSuchCycle(f"no cycle of cluster {cluster!r} is on record in {lake}.{_nearest(cluster, clusters)}")
    wanted = clusters if cluster is None else [cluster]
    by_cluster = {name: [a for a in cycles if a.cluster == name] for name in wanted}
    if cycle is None or cycle == LATEST:
        return [by_cluster[name][-1] for name in wanted]
    earliest, latest = time_span(cycle)
    found = [a for name in wanted for a in by_cluster[name] if earliest <= a.cycle_at <= latest]
    return _only_one_each(found, by_cluster, earliest, str(cycle), lake)


def _only_one_each(
    found: list[Attempt], by_cluster: dict[str, list[Attempt]], at: datetime, asked: str, lake: str | Path
) -> list[Attempt]:
    exact = [a for a in found if a.cycle_at == at]
    chosen = exact or found
    if not chosen:
        every = [a for attempts in by_cluster.values() for a in attempts]
        nearest = min(every, key=lambda a: (abs(a.cycle_at - at), a.cluster))
        raise NoSuchCycle(
            f"no cycle at {asked} is on record in {lake} (clusters looked at: {', '.join(by_cluster)}). "
            f"The nearest is {nearest.cycle_at.isoformat()} of {nearest.cluster}."
        )
    clusters = [a.cluster for a in chosen]
    if len(set(clusters)) < len(clusters):
        times = ", ".join(a.cycle_at.isoformat() for a in chosen)
        raise NoSuchCycle(f"{asked} fits several cycles: {times}. Give the time in full.")
    return chosen


def read_table(lake: str | Path, table: str, *, cluster: str | None = None) -> list[Row]:
    """All rows of a table that no manifest lists."""
    return _rows(lake, table, _equals("cluster", cluster))


def read_where(lake: str | Path, table: str, where: Mapping[str, Sequence[object]]) -> list[Row]:
    """Rows of a table that no manifest lists, whose columns have one of the values given."""
    return _rows(lake, table, _all_of(*(_is_in(column, values) for column, values in where.items())))


def read_commands(lake: str | Path, manifest: Attempt) -> list[Row]:
    """The commands of an attempt's plan, each once, with the last `outcome`, `seen_at` and `detail` of it, if any.

    By command id, whatever manifest lists the rows: what a later cycle has seen of a command counts too.
    """
    if manifest.plan_id is None or manifest.mode == "dry_run":
        return []
    own = _all_of(_is_in("cluster", [manifest.cluster]), _is_in("cycle_at", [manifest.cycle_at]))
    commands = [row for row in _rows(lake, "commands", own) if row["plan_id"] == manifest.plan_id]
    asked = {row["command_id"]: row for row in commands if row["mode"] != "dry_run"}
    return with_outcomes(asked.values(), _rows(lake, "outcomes", own)) if asked else []


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
    from evenkeel.lake.tables import TABLES

    rows: dict[str, list[Row]] = {manifest.attempt_id: [] for manifest in manifests}
    listed = {w.write_id: w for manifest in manifests for w in manifest.writes_of(table)}
    if not listed:
        return rows
    if check:
        for manifest in manifests:
            _check_complete(lake, table, manifest)
    stamp = ("cluster", "cycle_at", "write_id")
    wanted = None if columns is None else [*stamp, *(c for c in columns if c not in stamp)]
    condition = _all_of(
        _is_in("cluster", sorted({m.cluster for m in manifests})),
        _is_in("cycle_date", sorted({m.cycle_at.date() for m in manifests})),
        _is_in("write_id", sorted(listed)),
        *(_is_in(column, list(values)) for column, values in (where or {}).items()),
    )
    owners: dict[tuple[str, datetime, str], list[str]] = {}
    for manifest in manifests:
        for write in manifest.writes_of(table):
            owners.setdefault((manifest.cluster, manifest.cycle_at, write.write_id), []).append(manifest.attempt_id)
    for row in _rows(lake, table, condition, wanted):
        for attempt_id in owners.get((row["cluster"], row["cycle_at"], row["write_id"]), ()):
            rows[attempt_id].append(row)
    key = [column for column in TABLES[table].key if columns is None or column in columns]
    for found in rows.values():
        found.sort(key=lambda row: tuple(str(row[column]) for column in key))
    return rows


def _check_complete(lake: str | Path, table: str, manifest: Attempt) -> None:
    writes = manifest.writes_of(table)
    expected = sum(write.rows for write in writes)
    ids = sorted(write.write_id for write in writes)
    found = _count(lake, table, _all_of(_is_in("cluster", [manifest.cluster]), _is_in("write_id", ids)))
    if found < expected:
        raise LakeError(
            f"table {table} of {lake} holds {found} of the {expected} rows that the manifest of {manifest.cluster} "
            f"at {manifest.cycle_at.isoformat()} lists (writes {', '.join(ids)}): they are past their retention, or "
            "the table is damaged. Restore the table, or decide the cycle anew."
        )


def _rows(lake: str | Path, table: str, condition: Any = None, columns: Sequence[str] | None = None) -> list[Row]:
    try:
        found = _dataset(lake, table).to_table(columns=columns, filter=condition)
        rows: list[Row] = found.to_pylist(maps_as_pydicts="lossy")
        return rows
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(lake, table, error) from error


def _count(lake: str | Path, table: str, condition: Any) -> int:
    try:
        return int(_dataset(lake, table).count_rows(filter=condition))
    except (OSError, ValueError) as error:
        raise _damaged(lake, table, error) from error


def _dataset(lake: str | Path, table: str) -> Any:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    path = f"{str(lake).rstrip('/')}/{table}"
    try:
        return DeltaTable(path).to_pyarrow_dataset(filesystem=_own_files(path))
    except TableNotFoundError as error:
        if table == "cycles" or not DeltaTable.is_deltatable(f"{str(lake).rstrip('/')}/cycles"):
            raise NoLake(
                f"there is no lake at {lake}: its `cycles` table is missing. Name the folder that cycles were "
                "written to (--lake, or EVENKEEL_LAKE), or run a first cycle with it."
            ) from error
        raise LakeError(
            f"table {table} of the lake {lake} is missing, although a manifest lists rows of it. Restore the folder."
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        raise _damaged(lake, table, error) from error


def _own_files(path: str) -> Any:
    """The table's folder as Arrow's own file system; None, hence deltalake's, for an object store.

    deltalake's is written in Python, and Arrow's reading threads call it even while the process ends: every other
    process that had read a lake was aborted then.
    """
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    from evenkeel.lake.commits import local_log

    log = local_log(path)
    return None if log is None else SubTreeFileSystem(str(log.parent.resolve()), LocalFileSystem())


def _damaged(lake: str | Path, table: str, error: Exception) -> LakeError:
    return LakeError(
        f"table {table} of the lake {lake} cannot be read: {error}. Its files are damaged or incomplete; restore them "
        "from a copy, or decide the cycle anew."
    )


def _equals(column: str, value: object | None) -> Any:
    return None if value is None else _is_in(column, [value])


def _is_in(column: str, values: Sequence[object]) -> Any:
    import pyarrow.compute as pc

    return pc.field(column).isin(list(values))


def _all_of(*conditions: Any) -> Any:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def time_span(cycle: str | datetime) -> tuple[datetime, datetime]:
    """The moments that a given time stands for: itself, or all of the second or minute that it names."""
    if isinstance(cycle, datetime):
        at = cycle if cycle.tzinfo else cycle.replace(tzinfo=UTC)
        return at, at
    try:
        at = datetime.fromisoformat(cycle.strip())
    except ValueError:
        raise BadInput(
            f"{cycle[:60]!r} is no time of a cycle: give `latest`, or UTC as in 2026-11-21T08:27:13."
        ) from None
    at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    if "." in cycle:
        return at, at
    whole = timedelta(seconds=1) if _WITH_SECONDS.search(cycle) else timedelta(minutes=1)
    return at, at + whole - timedelta(microseconds=1)


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} On record: {', '.join(known[:20])}."
