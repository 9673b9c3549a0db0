"""The record in ranges of time: a question reads only the manifests and partitions that it concerns."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Protocol

from evenkeel.errors import LakeError, NoSuchCycle
from evenkeel.handover import RECORDING
from evenkeel.lake.outbox import with_outcomes
from evenkeel.lake.record.attempts import Attempt, are_told_apart_by_commands, attempts_of, plans_of, trusted
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT, KnownFiles
from evenkeel.lake.record.tables import (
    ROUNDING,
    FileFilter,
    Row,
    all_of,
    as_rows,
    between,
    damaged,
    dataset_of,
    files_between,
    is_in,
    is_table,
    open_table,
    text,
)
from evenkeel.times import borne_out, time_given

_LINK = (
    *("sequence", "row_kind", "cycle_at", "attempt_id", "attempt"),
    *("previous_digest", "body_digest", "manifest_digest"),
)
_HANDOVER = ("sequence", "attempt_id", "cycle_at", "predecessor_attempt_id", "splits", "unloads", "placements")


class Record:
    """A lake's tables, opened when needed and read in ranges."""

    def __init__(self, lake: str | Path) -> None:
        self.lake = lake
        self._opened: dict[str, Any] = {}
        self._files: dict[str, KnownFiles] = {}
        self._datasets: dict[tuple[Any, ...], Any] = {}

    def clusters(self) -> list[str]:
        """Return clusters with a cycle on record, by name."""
        return self.files("cycles").clusters()

    def files(self, table: str) -> KnownFiles:
        """Return the files of a table by its log; none if the table is missing, as nothing was written to it yet."""
        import pyarrow as pa

        if table not in self._files:
            exists = table == "cycles" or is_table(self.lake, table)
            actions = pa.table(self._table(table).get_add_actions(flatten=True)) if exists else None
            self._files[table] = KnownFiles(actions)
        return self._files[table]

    def newest_row_at(self, table: str, cluster: str) -> datetime | None:
        """Return the newest cycle with rows in the table, to the millisecond, listed or not."""
        ends = self.files(table).ends([cluster])
        return None if ends is None else ends[1]

    def dates(self, table: str, cluster: str) -> list[date]:
        """Return the dates for which the table still has files."""
        return self.files(table).dates(cluster)

    def cycles(
        self, cluster: str, first: datetime, last: datetime, columns: Sequence[str] | None = None, where: Any = None
    ) -> list[Attempt]:
        """Return the attempt that counts for each cycle from `first` to `last`, both included, oldest first.

        With `where` only cycles that meet a condition on their moment (`at_moments`).
        """
        attempts = self.attempts(cluster, first, last, columns, where)
        if not are_told_apart_by_commands(attempts):
            return trusted(attempts)
        # Whole dates: an outcome has the date of its command's cycle.
        commands = self.outbox("commands", cluster, first, last, ["command_id", "plan_id"])
        outcomes = self.outbox("outcomes", cluster, first, last, ["command_id", "outcome"])
        return trusted(attempts, plans_of(commands, outcomes))

    def cycles_at(
        self, moments: Collection[tuple[str, datetime]], columns: Sequence[str] | None = None
    ) -> list[Attempt]:
        """Return the attempt that counts for each of these cycles, by cluster and time; a cluster's range is read
        once."""
        counted: list[Attempt] = []
        for name in sorted({name for name, _ in moments} & {*self.clusters()}):
            times = {at for cluster, at in moments if cluster == name}
            cycles = self.cycles(name, min(times), max(times), columns)
            counted += [cycle for cycle in cycles if cycle.cycle_at in times]
        return counted

    def attempts(
        self, cluster: str, first: datetime, last: datetime, columns: Sequence[str] | None = None, where: Any = None
    ) -> list[Attempt]:
        """Return all attempts at the cycles from `first` to `last`, both included."""
        return attempts_of(self.manifests(cluster, first, last, columns, where))

    def manifests(
        self, cluster: str, first: datetime, last: datetime, columns: Sequence[str] | None = None, where: Any = None
    ) -> list[Row]:
        """Return the rows of `cycles` themselves."""
        return as_rows(self._table_of("cycles", cluster, (first, last), where, columns))

    def links(self, cluster: str, *more: str) -> Any:
        """Return all manifests of a cluster in the chain's order, as an Arrow table of the columns of the chain.

        `more`: further columns.
        """
        table = self._table_of("cycles", cluster, (FIRST_MOMENT, LAST_MOMENT), None, (*_LINK, *more))
        return table.sort_by([("sequence", "ascending"), ("manifest_digest", "ascending")])

    def moments(
        self, cluster: str, where: Any = None, *, first: datetime = FIRST_MOMENT, last: datetime = LAST_MOMENT
    ) -> Any:
        """Return the moments of cycles from `first` to `last`, as an Arrow array, oldest first: a year has half a
        million.

        With `where` only cycles with an attempt whose plan meets it.
        """
        import pyarrow.compute as pc

        planned = text("row_kind") == "planned"
        condition = planned if where is None else planned & where
        moments = pc.unique(self._table_of("cycles", cluster, (first, last), condition, ["cycle_at"])[0])
        return moments.take(pc.sort_indices(moments))

    def changes(self, cluster: str, column: str, first: datetime, last: datetime) -> list[tuple[datetime, datetime]]:
        """Return each two neighbouring decided cycles from `first` to `last` whose plans differ in a column."""
        import numpy as np

        decided = (text("row_kind") == "planned") & ~is_in("status", ["skipped", "failed"]) & text(column).is_valid()
        table = self._table_of("cycles", cluster, (first, last), decided, ["cycle_at", "sequence", column])
        table = table.sort_by([("cycle_at", "ascending"), ("sequence", "ascending")])
        values = table.column(column).combine_chunks().dictionary_encode().indices.to_numpy()
        moments = table.column("cycle_at")
        return [(moments[n].as_py(), moments[n + 1].as_py()) for n in np.flatnonzero(values[1:] != values[:-1])]

    def listing(self, cluster: str, first: datetime, last: datetime, beginning: str) -> list[Attempt]:
        """Return the attempts that list a write whose id begins so."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = ["attempt_id", "writes"]
        table = self._table_of("cycles", cluster, (first, last), None, columns)
        if not table.num_rows:
            return []
        lists = table.column("writes").combine_chunks()
        ids = pc.struct_field(pc.list_flatten(lists), "write_id")
        rows = pc.list_parent_indices(lists).filter(pc.starts_with(ids, pattern=beginning))
        wanted = pc.unique(table.column("attempt_id").take(pa.array(rows))).to_pylist()
        return self.attempts(cluster, first, last, where=is_in("attempt_id", wanted)) if wanted else []

    def planned(self, cluster: str, beginning: str) -> list[Attempt]:
        """Return the attempts whose plan's id begins so."""
        import pyarrow.compute as pc

        moments = self.moments(cluster, pc.starts_with(text("plan_id"), pattern=beginning)).to_pylist()
        near = [attempt for at in moments for attempt in self.attempts(cluster, at, at)]
        return [attempt for attempt in near if (attempt.plan_id or "").startswith(beginning)]

    def handovers(self, cluster: str, first: datetime, last: datetime) -> list[Row]:
        """Return for every attempt from `first` to `last`, in the chain's order, its predecessor and its figures.

        `reads` is the number of writes of earlier cycles that it read.
        """
        import pyarrow.compute as pc

        columns = [*_HANDOVER, "reads"]
        table = self._table_of("cycles", cluster, (first, last), text("row_kind") == "planned", columns)
        counted = table.set_column(len(_HANDOVER), "reads", pc.list_value_length(table.column("reads")))
        return sorted(as_rows(counted), key=lambda row: row["sequence"])

    def recorded_after(self, cluster: str, sequence: int) -> Any:
        """Return the rows of a cluster's chain after a place in it, as an Arrow table of `cycle_at` and `sequence`."""
        import pyarrow.compute as pc

        chosen: list[FileFilter] = [("cluster", "in", [cluster]), ("sequence", ">", sequence)]
        where = is_in("cluster", [cluster]) & (pc.field("sequence") > sequence)
        try:
            dataset = dataset_of(self._table("cycles"), self.lake, "cycles", chosen)
            return dataset.to_table(columns=["cycle_at", "sequence"], filter=where)
        except (OSError, ValueError, KeyError) as error:
            raise damaged(self.lake, "cycles", error) from error

    def in_force(self, cluster: str, at: datetime) -> Attempt | None:
        """Return the newest cycle that is not later than `at`."""
        while True:
            since = self.files("cycles").last_known(cluster, at)
            if since is None:
                return None
            cycles = self.cycles(cluster, since - ROUNDING, at)
            if cycles:
                return cycles[-1]
            at = since - ROUNDING

    def following(self, cluster: str, at: datetime) -> Attempt | None:
        """Return the first cycle that is later than `at`."""
        while True:
            until = self.files("cycles").next_known(cluster, at)
            if until is None:
                return None
            cycles = [cycle for cycle in self.cycles(cluster, at, until + ROUNDING) if cycle.cycle_at > at]
            if cycles:
                return cycles[0]
            at = until + ROUNDING

    def superseding(self, cluster: str, at: datetime, source: str | None) -> datetime | None:
        """Return the newest cycle that makes plans of the cycle at `at` void, as *publish* has it; None without one.

        `source`: of that cycle. Backfills do not count, nor cycles over a recording unless it is one itself.
        """
        counts = text("kind") != "backfill"
        if source != RECORDING:
            counts &= text("source") != RECORDING
        newest = borne_out([at, *self.moments(cluster, counts, first=at).to_pylist()])
        return newest if newest is not None and newest > at else None

    def rows(
        self,
        attempts: Sequence[Attempt],
        table: str,
        *,
        columns: Sequence[str] | None = None,
        where: Any = None,
    ) -> dict[str, list[Row]]:
        """Return attempt_id -> the rows of the table that its manifest lists and that meet `where`, by the table's key.

        The attempts are of one cluster. Expired rows are missing.
        """
        from evenkeel.lake.schemas import TABLES

        rows_by_attempt: dict[str, list[Row]] = {attempt.attempt_id: [] for attempt in attempts}
        owners: dict[tuple[str, datetime], list[str]] = {}
        for attempt in attempts:
            for write in attempt.writes_of(table):
                if write.rows:
                    owners.setdefault((write.write_id, attempt.cycle_at), []).append(attempt.attempt_id)
        if not owners:
            return rows_by_attempt
        moments = [attempt.cycle_at for attempt in attempts]
        listed = at_moments(moments) & is_in("write_id", sorted({write_id for write_id, _ in owners}))
        condition = listed if where is None else listed & where
        wanted = None if columns is None else list(dict.fromkeys((*columns, "cycle_at", "write_id")))
        for row in as_rows(self._table_at(table, attempts[0].cluster, moments, condition, wanted)):
            for attempt_id in owners.get((row["write_id"], row["cycle_at"]), ()):
                rows_by_attempt[attempt_id].append(row)
        key = [column for column in TABLES[table].key if columns is None or column in columns]
        for rows in rows_by_attempt.values():
            rows.sort(key=lambda row: tuple(str(row[column]) for column in key))
        return rows_by_attempt

    def arrow_rows(self, attempts: Sequence[Attempt], table: str, columns: Sequence[str], where: Any = None) -> Any:
        """Return the rows of `rows` as an Arrow table in any order: `columns`, and before them `attempt`.

        `attempt` is the place of the row's attempt among those given. Returns None if their manifests list no rows of
        the table.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        listed = [(n, each, write) for n, each in enumerate(attempts) for write in each.writes_of(table) if write.rows]
        if not listed:
            return None
        ids = pa.array([write.write_id for _, _, write in listed])
        moments = [each.cycle_at for _, each, _ in listed]
        # A condition leaves few rows: looking up only their writes costs less.
        whole = at_moments(moments) & is_in("write_id", sorted({*ids.to_pylist()}))
        condition = whole if where is None else at_moments(moments) & where
        wanted = list(dict.fromkeys((*columns, "cycle_at", "write_id")))
        arrow_table = self._table_at(table, listed[0][1].cluster, moments, condition, wanted)
        if where is not None:
            arrow_table = arrow_table.filter(pc.is_in(arrow_table.column("write_id").cast(pa.string()), value_set=ids))
        places = pc.index_in(arrow_table.column("write_id").cast(pa.string()), value_set=ids).to_numpy()
        at = arrow_table.column("cycle_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        moments_us = pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        attempt = pa.array(np.array([n for n, _, _ in listed], np.int64)[places])
        return (
            arrow_table.select(list(columns))
            .add_column(0, "attempt", attempt)
            .filter(pa.array(moments_us[places] == at))
        )

    def counts(self, attempts: Sequence[Attempt], table: str) -> dict[str, int]:
        """Return attempt_id -> the number of rows that its manifest lists and that still exist. Of one cluster."""
        import pyarrow.compute as pc

        listed = [(attempt, write) for attempt in attempts for write in attempt.writes_of(table) if write.rows]
        counts = {attempt.attempt_id: 0 for attempt in attempts}
        if not listed:
            return counts
        moments = [attempt.cycle_at for attempt, _ in listed]
        condition = is_in("write_id", sorted({write.write_id for _, write in listed}))
        rows = self._table_at(table, listed[0][0].cluster, moments, condition, ["write_id"])
        counted = {one["values"]: one["counts"] for one in pc.value_counts(rows.column("write_id")).to_pylist()}
        for attempt, write in listed:
            counts[attempt.attempt_id] += counted.get(write.write_id, 0)
        return counts

    def outbox(
        self,
        table: str,
        cluster: str,
        first: datetime,
        last: datetime,
        columns: Sequence[str] | None = None,
        where: Any = None,
    ) -> list[Row]:
        """Return rows of `commands`, `outcomes` or another table of cycles from `first` to `last`, whatever lists them.

        For tables other than these two the manifests must be asked whether the rows count.
        """
        dates = tuple(day for day in self.dates(table, cluster) if first.date() <= day <= last.date())
        if not dates:
            return []
        return as_rows(self._table_of(table, cluster, (first, last), where, columns, dates))

    def _table_at(
        self, table: str, cluster: str, moments: Sequence[datetime], where: Any, columns: Sequence[str] | None
    ) -> Any:
        """Return an Arrow table of a cluster's rows of the dates of these moments, from the first to the last."""
        dates = tuple(sorted({moment.date() for moment in moments}))
        return self._table_of(table, cluster, (min(moments), max(moments)), where, columns, dates)

    def _table_of(
        self,
        table: str,
        cluster: str,
        span: tuple[datetime, datetime],
        where: Any,
        columns: Sequence[str] | None,
        dates: tuple[date, ...] = (),
    ) -> Any:
        """Return an Arrow table of a cluster's rows between two moments, of these dates only if some are given."""
        inside = all_of(is_in("cluster", [cluster]), between("cycle_at", *span), *(() if where is None else (where,)))
        try:
            key = (table, cluster, span, dates)
            if key not in self._datasets:
                chosen = files_between([cluster], *span, dates)
                self._datasets[key] = dataset_of(self._table(table), self.lake, table, chosen)
            return self._datasets[key].to_table(columns=None if columns is None else [*columns], filter=inside)
        except (OSError, ValueError, KeyError) as error:
            raise damaged(self.lake, table, error) from error

    def _table(self, table: str) -> Any:
        if table not in self._opened:
            self._opened[table] = open_table(self.lake, table)
        return self._opened[table]


def at_moments(moments: Iterable[datetime]) -> Any:
    """Return a condition for rows of cycles at exactly these moments: files without them are not opened."""
    import pyarrow.compute as pc

    return pc.field("cycle_at").isin(sorted({*moments}))


LATEST = "latest"


def find_cycles(
    lake: str | Path, *, cluster: str | None = None, cycle: str | datetime | None = None, option: str = "--cycle"
) -> list[Attempt]:
    """Return the requested attempt, of one cluster or (if none is named) of each cluster that has such a cycle.

    `cycle` is `latest` (also for None), or a time as `times.time_given` reads it, for the only cycle within it;
    `option` is its name in the command. Raises NoSuchCycle, which names the nearest cluster or cycle on record.
    """
    record = Record(lake)
    wanted = clusters_of(record, cluster)
    if cycle is None or cycle == LATEST:
        return [newest for name in wanted if (newest := record.in_force(name, LAST_MOMENT)) is not None]
    earliest, latest = _span(cycle, option)
    attempts = [a for name in wanted for a in record.cycles(name, earliest, latest)]
    chosen = [a for a in attempts if a.cycle_at == earliest] or attempts
    if not chosen:
        near = [
            a
            for name in wanted
            for a in (record.in_force(name, earliest), record.following(name, earliest))
            if a is not None
        ]
        closest = min(near, key=lambda a: (abs(a.cycle_at - earliest), a.cluster))
        raise NoSuchCycle(
            f"no cycle at {cycle} is on record in {record.lake} (clusters looked at: {', '.join(wanted)}). "
            f"The nearest is {closest.cycle_at.isoformat()} of {closest.cluster}."
        )
    if len({a.cluster for a in chosen}) < len(chosen):
        times = ", ".join(a.cycle_at.isoformat() for a in chosen)
        raise NoSuchCycle(f"{cycle} fits several cycles: {times}. Give the time in full.")
    return chosen


def read_attempts(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """Return all attempts on record, by cluster, cycle and number.

    Raises LakeError if there is no lake, or its `cycles` table cannot be read.
    """
    record = Record(lake)
    names = record.clusters() if cluster is None else [cluster]
    return [attempt for name in names for attempt in record.attempts(name, FIRST_MOMENT, LAST_MOMENT)]


def read_cycles(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """Return the attempt that counts for each cluster and cycle, by cluster and time; see `trusted`."""
    record = Record(lake)
    names = record.clusters() if cluster is None else [cluster]
    return [attempt for name in names for attempt in record.cycles(name, FIRST_MOMENT, LAST_MOMENT)]


def read_commands(lake: str | Path, manifest: Attempt) -> list[Row]:
    """Return the commands of an attempt's plan, each once, with their last `outcome`, `seen_at` and `detail`, if any.

    They are read by command id, whatever manifest lists the rows: a later cycle's observation of a command counts too.
    """
    if manifest.plan_id is None or manifest.mode == "dry_run":
        return []
    record, cycle = Record(lake), (manifest.cluster, manifest.cycle_at, manifest.cycle_at)
    commands = record.outbox("commands", *cycle, where=is_in("plan_id", [manifest.plan_id]))
    sent = [row for row in commands if row["mode"] != "dry_run"]
    return with_outcomes(sent, record.outbox("outcomes", *cycle)) if sent else []


def read_rows(
    lake: str | Path, manifest: Attempt, table: str, *, columns: Sequence[str] | None = None, check: bool = True
) -> list[Row]:
    """Return the rows of `table` that this attempt wrote for its cluster, as dicts, in the order of the table's key.

    A map column comes as a dict, a timestamp as an aware datetime in UTC. With `check`, raises LakeError for fewer rows
    than the manifest lists: they expired, or the table is damaged.
    """
    writes = manifest.writes_of(table)
    expected = sum(write.rows for write in writes)
    if check and (existing := Record(lake).counts([manifest], table)[manifest.attempt_id]) < expected:
        ids = ", ".join(sorted(write.write_id for write in writes))
        raise LakeError(
            f"table {table} of {lake} holds {existing} of the {expected} rows that the manifest of {manifest.cluster} "
            f"at {manifest.cycle_at.isoformat()} lists (writes {ids}): they are past their retention, or the table is "
            "damaged. Restore the table, or decide the cycle again."
        )
    return read_rows_of(lake, [manifest], table, columns=columns)[manifest.attempt_id]


def read_rows_of(
    lake: str | Path,
    manifests: Sequence[Attempt],
    table: str,
    *,
    columns: Sequence[str] | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, list[Row]]:
    """Return `read_rows` for several attempts in one pass: attempt_id -> rows. `where` is column -> allowed values."""
    record, rows = Record(lake), dict[str, list[Row]]()
    condition = all_of(*(is_in(column, values) for column, values in where.items())) if where else None
    wanted = None if columns is None else ["cluster", *columns]
    for cluster in dict.fromkeys(manifest.cluster for manifest in manifests):
        attempts = [manifest for manifest in manifests if manifest.cluster == cluster]
        rows |= record.rows(attempts, table, columns=wanted, where=condition)
    return rows


class OnRecord(Protocol):
    """A lake for readers: its place and its clusters."""

    @property
    def lake(self) -> str | Path:
        """Root of the tables."""

    def clusters(self) -> list[str]:
        """Return clusters with a cycle on record, by name."""


def clusters_of(record: OnRecord, cluster: str | None) -> list[str]:
    """Return the named cluster, or all on record; raises NoSuchCycle with the nearest name if there is none."""
    clusters = record.clusters()
    if not clusters:
        lake = record.lake
        raise NoSuchCycle(f"no cycle is on record in {lake}: run one first (`evenkeel rebalance --lake {lake} …`).")
    if cluster is not None and cluster not in clusters:
        raise NoSuchCycle(f"no cycle of cluster {cluster!r} is on record in {record.lake}.{nearest(cluster, clusters)}")
    return clusters if cluster is None else [cluster]


def _span(cycle: str | datetime, option: str) -> tuple[datetime, datetime]:
    """Return the moments that a given time covers: itself, or all that its text names."""
    if isinstance(cycle, datetime):
        at = cycle if cycle.tzinfo else cycle.replace(tzinfo=UTC)
        return at, at
    given = time_given(cycle, option)
    return given.first, given.last


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint at the nearest of the names on record, and the first of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} On record: {', '.join(known[:20])}."
