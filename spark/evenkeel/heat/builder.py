"""Builder of missing or outdated heat tables, from the record alone.

For each cluster the new rows of `cycles` since the last build show which columns may have changed. A column is rebuilt
if the attempts that count for it differ from those of its digest. So a late, backfilled or re-decided cycle rebuilds
its own columns and no others. A build that was killed at any point is simply run again: its committed columns are found
built, and the place up to which the record was read is committed last. The clock is the cluster's newest cycle, so
equal records give equal tables.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.heat.blocks import Block
from evenkeel.heat.columns import ColumnMean, OwnerChange, OwnerWatch, overview_of
from evenkeel.heat.key_ranges import Names, Places
from evenkeel.heat.recorded_rows import (
    COLUMNS,
    LOADS,
    BrokerCodes,
    MarkRow,
    bounce_marks,
    command_marks,
    loads_of,
    microseconds,
)
from evenkeel.heat.scale import COARSEST, LAYERS, Layer
from evenkeel.heat.tables import (
    BLOCKS,
    MARK_BLOCK_SECONDS,
    MARKS,
    HeatConflict,
    HeatState,
    HeatTables,
    mark_block,
    mark_blocks,
)
from evenkeel.lake.record import Attempt, Record, chunked, clusters_of
from evenkeel.model.amounts import plural
from evenkeel.model.past_commands import BOUNCE_MS
from evenkeel.retrying import retry, up_to_a_fifth_more
from evenkeel.times import utc_seconds

Progress = Callable[[str, int, int], None]
"""Function that gets a cluster, the number of cycles read, and the number of cycles to read."""
_WINDOW = COARSEST.seconds
_MANIFEST = (
    *("cluster", "cycle_at", "sequence", "row_kind", "attempt", "attempt_id", "kind", "mode", "status", "plan_id"),
    *("reason", "writes"),
)
_ROWS_AT_ONCE, _CYCLES_AT_ONCE = 300_000, 200
_FLUSH_ROWS, _FLUSH_WINDOWS = 20_000_000, 60
_TRIES = 10
_TICK = timedelta(microseconds=1)
_BACK = timedelta(milliseconds=BOUNCE_MS)


@dataclass(slots=True)
class Built:
    """Result of a build of one cluster: cycles read, columns built and columns that were up to date, marks written.

    The newest cycle in the tables is None if none is on record.
    """

    cluster: str
    cycles: int = 0
    columns: int = 0
    unchanged: int = 0
    marks: int = 0
    through: datetime | None = None


def build(lake: str, cluster: str | None = None, progress: Progress | None = None) -> list[Built]:
    """Update the heat tables of a lake from its record: of one cluster, or of all on record, one after the other.

    Raises NoLake if there is none, NoSuchCycle for a cluster that is not on record, LakeError for tables that cannot be
    read, and if other builders were first again and again.
    """
    record = Record(lake)
    names = clusters_of(record, cluster)
    opened = _OpenTables(lake, record, HeatTables(lake, make=True))
    return [_built(opened, name, progress or (lambda cluster, done, of: None)) for name in names]


@dataclass(slots=True)
class _OpenTables:
    """The lake's tables, opened once for all clusters: their logs are long."""

    lake: str
    record: Record
    tables: HeatTables

    def anew(self) -> None:
        """Open both as they are now."""
        self.record, self.tables = Record(self.lake), HeatTables(self.lake)


def as_json(built: Iterable[Built]) -> Iterator[dict[str, Any]]:
    """Yield an object per cluster: its built columns, and its newest cycle."""
    for built_cluster in built:
        through = None if built_cluster.through is None else utc_seconds(built_cluster.through)
        yield {**asdict(built_cluster), "through": through}


def as_text(built: Iterable[Built], lake: str) -> Iterator[str]:
    """Yield a line per cluster, and what to do next."""
    for built_cluster in built:
        until = "no cycle yet" if built_cluster.through is None else f"up to {utc_seconds(built_cluster.through)}"
        columns, marks = plural(built_cluster.columns, "column"), plural(built_cluster.marks, "mark")
        looked = plural(built_cluster.cycles, "cycle")
        yield f"{built_cluster.cluster}: {until}; {looked} looked at, {columns} and {marks} built"
    yield (
        "the heat map in Airflow's page shows them; to keep them up to date unpause the DAG `heat`, or run "
        f"`evenkeel heat --lake {lake}` every ten minutes"
    )


def _built(opened: _OpenTables, cluster: str, progress: Progress) -> Built:
    def attempt() -> Built:
        return _Build(opened, cluster, progress).run()

    def conflict(error: Exception) -> bool:
        if isinstance(error, HeatConflict):
            opened.anew()
        return isinstance(error, HeatConflict)

    try:
        return retry(attempt, tries=_TRIES, pause=up_to_a_fifth_more, if_raised=conflict)
    except HeatConflict as error:
        raise LakeError(
            f"heat of {cluster}: other builders wrote the same blocks {_TRIES} times; their blocks are written. "
            f"Run one of them at a time"
        ) from error


@dataclass(slots=True)
class _Window:
    """A stretch of time in which columns may be due (layer and start).

    It has the first and last second of its new or changed cycles; None without any. Marks are made before `until`,
    where the next window makes them.
    """

    columns: list[tuple[Layer, int]] = field(default_factory=list)
    touched: tuple[float, float] | None = None
    until: float = float("inf")
    cycles: int = 0

    @property
    def marked(self) -> tuple[float, float] | None:
        """Return the span in which cycles get their marks: changed ones, and those of the hour after, for bounces."""
        return None if self.touched is None else (self.touched[0], min(self.until, self.touched[1] + BOUNCE_MS / 1_000))

    def touch(self, at: float) -> None:
        first, last = self.touched or (at, at)
        self.touched = min(first, at), max(last, at)
        self.cycles += 1


class _Build:
    """One build of one cluster."""

    def __init__(self, opened: _OpenTables, cluster: str, progress: Progress) -> None:
        self._opened, self._cluster, self._progress = opened, cluster, progress
        self._tables, self._record = opened.tables, opened.record
        self._brokers = BrokerCodes()
        self._pending: dict[tuple[Layer, int], Block] = {}
        self._dirty: set[tuple[Layer, int]] = set()
        self._heads: dict[tuple[Layer, int], Mapping[int, str]] = {}
        self._marks: dict[int, list[MarkRow]] = {}
        self._spans: list[tuple[datetime, datetime]] = []
        self._rows = 0
        self._done = Built(cluster)

    def run(self) -> Built:
        before = self._tables.state(self._cluster)
        moments, sequence = self._joined(before)
        if not moments:
            self._done.through = None if before is None else before.at
            return self._done
        newest = moments[-1] if before is None else max(moments[-1], before.at.timestamp())
        self._done.through = datetime.fromtimestamp(newest, UTC)
        self._done.cycles = len(moments)
        days = self._record.dates(LOADS, self._cluster)
        windows = _due(moments, newest, None if before is None else before.at.timestamp(), frozenset(days))
        done = 0
        for count, (_, window) in enumerate(sorted(windows.items()), 1):
            self._window(window)
            done += window.cycles
            self._progress(self._cluster, done, len(moments))
            if self._rows > _FLUSH_ROWS or count % _FLUSH_WINDOWS == 0:
                self._flush(None)
        since = datetime.combine(days[0], time(), UTC) if days else None
        self._flush(HeatState(sequence, self._done.through, since))
        self._forget(newest)
        return self._done

    def _joined(self, before: HeatState | None) -> tuple[list[float], int]:
        """Return the ordered moments of new cycles in the record, and the newest place in the chain."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = 0 if before is None else before.sequence
        rows = self._record.recorded_after(self._cluster, known - 1)
        places = rows.column("sequence")
        if known and not pc.any(pc.equal(places, known)).as_py():
            # The chain was set back, as a restored copy is: everything is read.
            rows = self._record.recorded_after(self._cluster, 0)
            known = 0
        new = rows.filter(pc.greater(rows.column("sequence"), known))
        if not new.num_rows:
            return [], known
        moments = pc.unique(new.column("cycle_at")).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        return sorted((moments / 1e6).tolist()), int(pc.max(new.column("sequence")).as_py())

    def _window(self, window: _Window) -> None:
        first, last = self._span(window)
        attempts = self._record.cycles(self._cluster, first, last, _MANIFEST)
        due = self._outdated(window, attempts)
        marked = [] if window.marked is None else _within(attempts, [window.marked])
        needed = _within(attempts, [*((start, start + layer.seconds) for layer, start, _ in due)])
        wanted = {attempt.attempt_id for attempt in needed} | {attempt.attempt_id for attempt in marked}
        looked = [attempt for attempt in attempts if attempt.attempt_id in wanted]
        changes = self._read(looked, due, frozenset(attempt.attempt_id for attempt in marked))
        if marked:
            span = marked[0].cycle_at, marked[-1].cycle_at
            rows = command_marks(self._record, marked) + bounce_marks(self._record, self._cluster, changes)
            self._spans.append(span)
            for row in rows:
                self._marks.setdefault(mark_block(row["at"]), []).append(row)

    def _span(self, window: _Window) -> tuple[datetime, datetime]:
        firsts = [float(start) for _, start in window.columns]
        lasts = [float(start + layer.seconds) for layer, start in window.columns]
        if window.marked is not None:
            firsts.append(window.marked[0])
            lasts.append(window.marked[1])
        first, last = (datetime.fromtimestamp(moment, UTC) for moment in (min(firsts), max(lasts)))
        return first - _TICK, last

    def _outdated(self, window: _Window, attempts: Sequence[Attempt]) -> list[tuple[Layer, int, str]]:
        """Return the columns not built from the attempts that count now, by start, with the digest of these."""
        missing: dict[Layer, set[int]] = {}
        for layer, start in window.columns:
            block = layer.block_of(start)
            if (layer, block) not in self._heads and (layer, block) not in self._pending:
                missing.setdefault(layer, set()).add(block)
        for layer, starts in missing.items():
            digests = self._tables.heads(self._cluster, layer, sorted(starts))
            self._heads.update({(layer, start): digests.get(start, {}) for start in starts})
        due = []
        for layer, start in window.columns:
            column_attempts = _within(attempts, [(start, start + layer.seconds)])
            digest, known = _digest(column_attempts), self._known(layer, start)
            if digest == known:
                self._done.unchanged += digest is not None
            elif digest is None:
                self._block(layer, layer.block_of(start)).drop(start)
                self._dirty.add((layer, layer.block_of(start)))
            else:
                due.append((layer, start, digest))
        return sorted(due, key=lambda column: (column[1], column[0].seconds))

    def _known(self, layer: Layer, start: int) -> str | None:
        place = (layer, layer.block_of(start))
        if place in self._pending:
            return self._pending[place].digest_of(start)
        return self._heads[place].get(start)

    def _read(
        self, attempts: Sequence[Attempt], due: Iterable[tuple[Layer, int, str]], marked: frozenset[str]
    ) -> list[OwnerChange]:
        """Read the cycles in order of time, build the due columns, and return owner changes among marked cycles."""
        waiting = list(due)
        waiting.reverse()
        opened: list[tuple[Layer, int, str, ColumnMean]] = []
        watch, changes = OwnerWatch(), list[OwnerChange]()
        first = next((candidate for candidate in attempts if candidate.attempt_id in marked), None)
        before = None if first is None else self._record.in_force(self._cluster, first.cycle_at - _TICK)
        if first is not None and before is not None and first.cycle_at - before.cycle_at <= _BACK:
            for at, load in self._loads([before], "last_owner"):
                watch.look(at, load, self._brokers.names)
        by_id = {candidate.attempt_id for candidate in attempts} & marked
        by_time = {microseconds(attempt.cycle_at): attempt for attempt in attempts}
        for at, load in self._loads(attempts):
            second = at / 1e6
            opened = self._closed(opened, second)
            while waiting and waiting[-1][1] <= second:
                layer, start, digest = waiting.pop()
                if second < start + layer.seconds:
                    opened.append((layer, start, digest, ColumnMean()))
            for layer, start, _, mean in opened:
                if start <= second < start + layer.seconds:
                    mean.add(load)
            if by_time[at].attempt_id in by_id:
                changes += watch.look(at, load, self._brokers.names)
        self._closed(opened, float("inf"))
        return changes

    def _closed(
        self, opened: list[tuple[Layer, int, str, ColumnMean]], second: float
    ) -> list[tuple[Layer, int, str, ColumnMean]]:
        """Put the completed columns into their blocks; return the others."""
        left = []
        for open_column in opened:
            layer, start, digest, mean = open_column
            if second < start + layer.seconds:
                left.append(open_column)
                continue
            column = mean.column()
            if column is None:
                continue
            block = self._block(layer, layer.block_of(start))
            overview = overview_of(column, self._overview_before(block))
            block.put(start, digest, column, overview, tuple(self._brokers.names))
            self._dirty.add((layer, block.start))
            self._done.columns += 1
        return left

    def _overview_before(self, block: Block) -> tuple[Names, Places] | None:
        """Return the ranges of the previous overview: in this block, else in the one before it."""
        overview = block.overview_before()
        if overview is not None or (block.layer, block.start - block.layer.block_seconds) not in self._pending:
            return overview or self._tables.newest_overview(
                self._cluster, block.layer, block.start - block.layer.block_seconds
            )
        return self._pending[block.layer, block.start - block.layer.block_seconds].overview_before()

    def _loads(self, attempts: Iterable[Attempt], owner_column: str = "owner") -> Iterator[tuple[int, Any]]:
        """Yield moment (epoch µs) and bundles of each attempt whose rows exist, in the order of time."""
        columns = list(dict.fromkeys((*COLUMNS, owner_column)))
        for chunk in chunked(attempts, _rows_of, _ROWS_AT_ONCE, _CYCLES_AT_ONCE):
            rows = self._record.arrow_rows(chunk, LOADS, columns)
            self._rows += 0 if rows is None else rows.num_rows
            for attempt, load in zip(chunk, loads_of(rows, len(chunk), self._brokers, owner_column), strict=True):
                if load is not None:
                    yield microseconds(attempt.cycle_at), load

    def _block(self, layer: Layer, start: int) -> Block:
        if (layer, start) not in self._pending:
            self._pending[layer, start] = self._tables.block(self._cluster, layer, start)
        return self._pending[layer, start]

    def _flush(self, state: HeatState | None) -> None:
        """Commit the built columns: marks first, then blocks, and with them, at the end, the state."""
        self._flush_marks()
        places = sorted(self._dirty, key=lambda place: (place[0].seconds, place[1]))
        blocks = [self._pending[place] for place in places]
        if blocks or state is not None:
            self._tables.replace(self._cluster, blocks, state)
        # Blocks are read again from now on: another builder may have written some of them.
        self._pending = {}
        self._heads, self._dirty, self._rows = {}, set(), 0
        if state is None:
            self._opened.record = self._record = Record(self._opened.lake)  # its open files are released

    def _flush_marks(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        places = sorted({*self._marks, *(block for span in self._spans for block in mark_blocks(*span))})
        replaced = {}
        for place in places:
            existing = self._tables.marks(self._cluster, [place])
            stays = pa.array([True] * existing.num_rows, pa.bool_())
            for first, last in self._spans:
                at = existing.column("at").cast(pa.timestamp("us", "UTC"))
                inside = pc.and_(
                    pc.greater_equal(at, pa.scalar(first, at.type)), pc.less_equal(at, pa.scalar(last, at.type))
                )
                stays = pc.and_(stays, pc.invert(inside))
            kept = existing.filter(stays)
            new = self._marks.get(place, [])
            if new or kept.num_rows < existing.num_rows:
                replaced[place] = [*kept.to_pylist(), *new]
                self._done.marks += len(new)
        self._tables.replace_marks(self._cluster, replaced)
        self._marks, self._spans = {}, []

    def _forget(self, newest: float) -> None:
        """Drop whole blocks that are past their layer's period."""
        past: dict[int, set[int]] = {}
        for seconds, _, start in self._tables.places().get(self._cluster, ()):
            layer = next((candidate for candidate in LAYERS if candidate.seconds == seconds), None)
            if layer is not None and start + layer.block_seconds <= layer.oldest(newest):
                past.setdefault(seconds, set()).add(start)
        if past:
            parts = [
                f"(layer_seconds = {seconds} AND block_start IN ({', '.join(map(str, sorted(starts)))}))"
                for seconds, starts in past.items()
            ]
            self._tables.forget(self._cluster, BLOCKS, " OR ".join(parts))
        oldest = COARSEST.oldest(newest) - MARK_BLOCK_SECONDS
        if any(start <= oldest for start in self._tables.mark_places(self._cluster)):
            self._tables.forget(self._cluster, MARKS, f"block_start <= {oldest}")
        self._tables.tidy()


def _due(moments: Sequence[float], newest: float, before: float | None, days: frozenset[date]) -> dict[int, _Window]:
    """Return windows by their start: the columns of new cycles, and those that are complete only now.

    `moments` (seconds since 1970, in order) of these cycles; `before`: the newest cycle known so far; `days` for which
    rows of bundles are kept.
    """
    windows: dict[int, _Window] = {}
    oldest = COARSEST.oldest(newest)
    for at in moments[bisect_left(moments, oldest) :]:
        windows.setdefault(int(at // _WINDOW) * _WINDOW, _Window()).touch(at)
    for layer in LAYERS:
        until, since = layer.complete_until(newest), layer.oldest(newest)
        starts = {layer.column_of(at) for at in moments}
        if before is not None:
            starts.add(layer.column_of(before))
        for start in starts:
            if since <= start and start + layer.seconds <= until and datetime.fromtimestamp(start, UTC).date() in days:
                windows.setdefault(start // _WINDOW * _WINDOW, _Window()).columns.append((layer, start))
    touched = [moment for _, moment in sorted(windows.items()) if moment.touched is not None]
    for moment, following in pairwise(touched):
        assert following.touched is not None
        moment.until = following.touched[0]
    return windows


def _within(attempts: Sequence[Attempt], spans: Iterable[tuple[float, float]]) -> list[Attempt]:
    """Return the ordered attempts in any of the spans, once each; a span ends before its last moment."""
    moments = [attempt.cycle_at.timestamp() for attempt in attempts]
    wanted = {n for first, last in spans for n in range(bisect_left(moments, first), bisect_left(moments, last))}
    return [attempts[n] for n in sorted(wanted)]


def _digest(attempts: Iterable[Attempt]) -> str | None:
    """Return the digest of a column's rows; None without rows."""
    lines = [
        f"{microseconds(attempt.cycle_at)} {attempt.attempt_id} {write.write_id}"
        for attempt in attempts
        for write in attempt.writes_of(LOADS)
        if write.rows
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32] if lines else None


def _rows_of(attempt: Attempt) -> int:
    return sum(write.rows for write in attempt.writes_of(LOADS))
