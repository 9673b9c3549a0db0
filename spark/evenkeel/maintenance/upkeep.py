"""One upkeep of a lake: expired rows go, past dates are compacted and compared with their manifests, and files that no
promised version names are removed.

Every step looks at the tables again and does the remaining work, so an upkeep that was killed at any point is simply
run again; two at once do the work twice. A running `rebalance` only appends, to dates that upkeep leaves alone. If both
meet in `cycles` or `controls`, the second one tries again. With a clock far ahead of the record nothing is done.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.errors import NoLake
from evenkeel.lake import handover_files
from evenkeel.lake.delta_log import kept_days, table_exists, version_days, version_properties
from evenkeel.lake.record import read_table
from evenkeel.lake.schema import sql_text
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.lake.store import Lake, append_values
from evenkeel.lake.table_files import demand_no_links
from evenkeel.maintenance.compaction import batches, clean_log, compact
from evenkeel.maintenance.expiry import (
    OUTBOX,
    ExpiryContext,
    Periods,
    clear_unlisted,
    drop_answers,
    drop_controls,
    drop_days,
    settled,
    thin_days,
    whole_kind,
)
from evenkeel.maintenance.inventory import (
    DatesOnRecord,
    Inventory,
    Lakeful,
    Stored,
    bytes_on_disk,
    read_record,
    take_inventory,
)
from evenkeel.maintenance.proofs import prove, truncate
from evenkeel.maintenance.statements import change, speaking
from evenkeel.model.amounts import plural, size
from evenkeel.spark.code import code_version
from evenkeel.times import borne_out, utc_seconds
from evenkeel.transparency.publishing import log_commits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Progress = Callable[[str], None]
Course = Callable[[int, int], None]
"""Function that gets the steps done, and all steps: a step is one table's part of expiry, compaction, proof or
vacuum."""
UPKEEPS = "upkeeps"
BEGUN, DONE = "begun", "done"
MOST_FILES = 100_000
MOST_ROWS = 20_000_000
_AT_ONCE = 4
_PASSES = 4
"""Number of passes over every table."""
_JUMP = timedelta(days=14)
"""Longest time from the newest record to an upkeep that believes its clock."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request of an upkeep.

    `given` are periods (None: as recorded), `promised` those that count as promised if none is on record; `most_files`
    bounds what one run compacts of a table, `most_rows` what it compares with manifests.
    """

    lake: str
    by: str
    given: Mapping[str, int | None] = field(default_factory=dict)
    shorten: bool = False
    most_files: int = MOST_FILES
    most_rows: int = MOST_ROWS
    promised: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class TableDone:
    """Result for a table. `bytes_freed` counts the bytes removed from the disk."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_expired: int
    rows_unlisted: int
    bytes_freed: int
    oldest_kept: date | None


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """Result of an upkeep; `left` is the work for the next one, `wrong` the dates whose rows are not those listed."""

    periods: Periods
    tables: tuple[TableDone, ...]
    left: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def keep(
    spark: SparkSession,
    request: Request,
    progress: Progress,
    now: datetime | None = None,
    course: Course = lambda done, of: None,
) -> UpkeepResult:
    """Run an upkeep; raises SettingsError for invalid periods, NoLake if there is no lake."""
    lake, now = Lake(request.lake), now or datetime.now(UTC)
    if not table_exists(lake.path("cycles")):
        raise NoLake(f"there is no lake at {lake.root}: its `cycles` table is missing. Name the folder of the tables")
    demand_no_links(lake.root)
    lake.ensure_tables(spark, OF_RECORD)
    last, record = _last(lake), read_record(lake)
    periods = settled(last.promised, request.given, shorten=request.shorten, promised=request.promised)
    if (doubt := why_not_believed(record.recorded.values(), now)) is not None:
        progress(doubt)
        return UpkeepResult(periods, (), (doubt,))
    upkeep_id = f"{last.number + 1}-{uuid.uuid4().hex}"
    with speaking(spark, json.dumps({"upkeep": upkeep_id, "by": request.by, "code_version": code_version()})):
        begun: tuple[Any, ...] = (upkeep_id, BEGUN, now, None, request.by, periods.as_dict(), [], code_version())
        append_values(spark, lake, "upkeeps", [begun])
        log_commits(
            lake.root, lake.committed, to_witnesses=False
        )  # the periods are in the log before anything is dropped
        done = _Run(spark, lake, upkeep_id, periods, now, record, last, request, progress, course).run()
        tables = [tuple(getattr(table_done, name) for name in TableDone.__slots__) for table_done in done.tables]
        ended = datetime.now(UTC)
        done_row = (upkeep_id, DONE, now, ended, request.by, periods.as_dict(), tables, code_version())
        append_values(spark, lake, "upkeeps", [done_row])
        log_commits(lake.root, lake.committed)
    return done


def why_not_believed(recorded: Iterable[datetime], now: datetime) -> str | None:
    """Return why the clock of an upkeep is not believed, None if it is; `recorded`: when cycles were recorded.

    Both clocks may be the same wrong one. So what was recorded after a jump counts once it goes on for a day.
    """
    newest = borne_out(recorded, jump=_JUMP)
    if newest is None or now - newest <= _JUMP:
        return None
    return (
        f"nothing is dropped or compacted: this machine's clock says {utc_seconds(now.astimezone(UTC))}, "
        f"{(now - newest).days} days after the newest record that others bear out ({utc_seconds(newest)}). If the "
        "clock is wrong, set it; if not, run upkeep again once cycles were recorded for a day"
    )


@dataclass(frozen=True, slots=True)
class _Last:
    """Records of earlier upkeeps; `number`: that of the newest one."""

    number: int = 0
    promised: dict[str, int] | None = None
    done_at: datetime | None = None
    done_with: Periods | None = None


@dataclass(slots=True)
class _Run:
    spark: SparkSession
    lake: Lake
    upkeep_id: str
    periods: Periods
    now: datetime
    record: DatesOnRecord
    last: _Last
    request: Request
    progress: Progress
    course: Course
    steps: int = 0
    expired: dict[str, int] = field(default_factory=dict)
    unlisted: dict[str, int] = field(default_factory=dict)
    freed: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def run(self) -> UpkeepResult:
        before = {name: self._inventory(name) for name in OF_RECORD}
        self._promise(before)
        self._expire(before)
        self._compact()
        self._prove()
        self._vacuum()
        after = {name: self._inventory(name) for name in OF_RECORD}
        results = tuple(self._told(before[name], after[name]) for name in OF_RECORD)
        return UpkeepResult(self.periods, results, tuple(self.left), tuple(self.wrong))

    def _step(self) -> None:
        self.steps += 1
        self.course(self.steps, _PASSES * len(OF_RECORD))

    def _inventory(self, name: str) -> Inventory:
        return take_inventory(TABLES[name], self.lake.path(name))

    def _promise(self, tables: Mapping[str, Inventory]) -> None:
        """Set the versions' periods in a table's properties. A longer promise of the table's own is cut only on
        request."""
        for name, inventory in tables.items():
            days = version_days(name, self.periods.version_days, self.periods.topic_version_days)
            kept = kept_days(dict(inventory.properties))
            if kept == days or (kept > days and not self.request.shorten):
                continue
            given = ", ".join(f"{sql_text(k)} = {sql_text(v)}" for k, v in version_properties(days).items())
            change(
                self.spark, self.lake, name, f"ALTER TABLE delta.`{self.lake.path(name)}` SET TBLPROPERTIES ({given})"
            )
            self.progress(f"{name}: versions are kept for {days} days, no longer for {kept:g}")

    def _expire(self, tables: Mapping[str, Inventory]) -> None:
        spark, lake = self.spark, self.lake
        look = ExpiryContext(self.now, self.periods, self.record, self.last.done_at, self.last.done_with)
        for name, inventory in tables.items():
            dropped = drop_days(spark, lake, inventory, look) + thin_days(spark, lake, inventory, look)
            self._count(self.expired, name, dropped, "rows past their period")
            self._count(self.unlisted, name, clear_unlisted(spark, lake, inventory, look), "rows that nothing lists")
            self._step()
        manifests, wishes = truncate(spark, lake, look.cutoff("audit"), self.now)
        self._count(self.expired, "wishes", wishes, "wishes past their period")
        self._count(self.expired, "cycles", manifests, "manifests past their period, after an anchor")
        begin = datetime.combine(look.cutoff("unlisted"), time(), UTC)
        if dropped := handover_files.clear(lake.root, begin):
            self.progress(f"{dropped:,} hand-overs of runs that are over removed")
        self._count(self.expired, "approvals", drop_answers(spark, lake, look), "answers past their period")
        self._count(self.expired, "controls", drop_controls(spark, lake, look), "steps past their period")

    def _count(self, where: dict[str, int], name: str, rows: int, noun: str) -> None:
        if rows:
            where[name] = where.get(name, 0) + rows
            self.progress(f"{name}: {rows:,} {noun} dropped")

    def _compact(self) -> None:
        for name in OF_RECORD:
            inventory = self._inventory(name)
            todo = batches(inventory, self.now.date(), self.request.most_files)
            total, done = sum(batch.files for batch in todo), 0
            for batch in compact(self.spark, self.lake, todo):
                done += batch.files
                files = plural(total, "small file")
                self.progress(f"{name}: {done:,} of {files} compacted{_dates(batch.first, batch.last)}")
            left = sum(batch.files for batch in batches(inventory, self.now.date(), 10**12)) - total
            if left:
                self.left.append(f"{name}: {plural(left, 'small file')}, for the next upkeep")
            self._step()

    def _prove(self) -> None:
        """Compare files that upkeep has written with the manifests while their source files exist."""
        for name in OF_RECORD:
            self._step()
            if "cycle_date" not in TABLES[name].partition or name in OUTBOX:
                continue
            kind = whole_kind(TABLES[name])
            days = self.periods.cutoff(kind, self.now) if kind else date.min, self.now.date()
            done = prove(self.spark, self.lake, self._inventory(name), self.upkeep_id, days, self.request.most_rows)
            if done.proven:
                rows, dates = plural(done.rows, "row"), plural(done.proven, "date")
                self.progress(f"{name}: as their manifests list them: {rows} of {dates}")
            for words in done.wrong:
                self.progress(words)
            self.wrong += done.wrong
            if done.left:
                dates = plural(done.left, "date")
                self.left.append(f"{name}: {dates} to hold against their manifests, for the next upkeep")

    def _vacuum(self) -> None:
        """Remove data files and commits that no promised version names; mostly listing, so several tables at once."""
        written = [name for name in OF_RECORD if self._inventory(name).version > 0]  # others never had a row
        for _ in range(len(OF_RECORD) - len(written)):
            self._step()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for name, freed in zip(written, pool.map(self._freed, written), strict=True):
                self.freed[name] = freed
                if freed:
                    self.progress(f"{name}: {freed:,} bytes freed")
                self._step()

    def _freed(self, name: str) -> int:
        path = self.lake.path(name)
        size_after = bytes_on_disk(path)
        change(self.spark, self.lake, name, f"VACUUM delta.`{path}`")
        clean_log(path)
        return max(0, size_after - bytes_on_disk(path))

    def _told(self, before: Inventory, after: Inventory) -> TableDone:
        name = before.table.name
        return TableDone(
            table=name,
            files_before=len(before.files),
            files_after=len(after.files),
            bytes_before=before.size,
            bytes_after=after.size,
            rows_expired=self.expired.get(name, 0),
            rows_unlisted=self.unlisted.get(name, 0),
            bytes_freed=self.freed.get(name, 0),
            oldest_kept=after.oldest(),
        )


def _dates(first: date | None, last: date | None) -> str:
    if first is None:
        return ""
    return f", {first}" if first == last else f", {first} to {last}"


def _last(lake: Lake) -> _Last:
    """Return the promise of the newest upkeep, completed or not, and when the last completed one began."""
    upkeeps = read_table(lake.root, UPKEEPS)
    last = _Last(max((_place(row)[0] for row in upkeeps), default=0), newest_promise(upkeeps))
    done = [row for row in upkeeps if row["state"] == DONE]
    if not done:
        return last
    ended = max(done, key=_place)
    known = {name: days for name, days in ended["periods"].items() if name in Periods.__slots__}
    return replace(last, done_at=ended["begun_at"], done_with=Periods(**known))


def newest_promise(rows: Iterable[Any]) -> dict[str, int] | None:
    """Return period -> days of the newest row of `upkeeps`; None without a row."""
    newest = max(rows, key=_place, default=None)
    return None if newest is None else dict(newest["periods"])


def _place(row: Any) -> tuple[int, Any]:
    """Return the order of an upkeep: the number before its id, whatever clocks said. Earlier versions gave none."""
    number, dash, _ = row["upkeep_id"].partition("-")
    return int(number) if dash and number.isdecimal() else 0, row["begun_at"]


def upkeep_as_text(done: UpkeepResult) -> Iterator[str]:
    """Yield a table, then the periods in force, the remaining work, and rows that differ from their manifests."""
    head = ("table", "files", "now", "size", "now", "expired", "unlisted", "freed", "oldest kept")
    rows = [
        (
            row.table, f"{row.files_before:,}", f"{row.files_after:,}", size(row.bytes_before), size(row.bytes_after),
            f"{row.rows_expired:,}", f"{row.rows_unlisted:,}", size(row.bytes_freed), str(row.oldest_kept or ""),
        )
        for row in done.tables
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield ""
    yield f"kept, in days: {', '.join(f'{k} {v}' for k, v in done.periods.as_dict().items())}"
    yield from (f"left: {line}" for line in done.left)
    yield from (f"wrong: {line}" for line in done.wrong)


def upkeep_as_json(done: UpkeepResult) -> Iterator[dict[str, Any]]:
    """Yield an object per table: upkeep's work on it."""
    for table_done in done.tables:
        yield {**asdict(table_done), "oldest_kept": str(table_done.oldest_kept) if table_done.oldest_kept else None}


def storage_as_text(stored: Lakeful) -> Iterator[str]:
    """Yield a table, largest first, then the size of a cycle and the causes of growth."""
    head = ("table", "rows", "files", "size", "earlier versions", "log", "per cycle")
    tables = sorted(stored.tables, key=lambda table: (-table.disk, table.table))
    rows = [
        (
            table.table, f"{table.rows:,}", f"{table.files:,}", size(table.live), size(table.history), size(table.log),
            size(_per_cycle(table, stored)),
        )
        for table in tables
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield ""
    whole = sum(table.disk for table in tables)
    files = sum(table.files for table in tables)
    yield f"{size(whole)} in {plural(files, 'file')}, for {plural(stored.cycles, 'cycle')}"
    if stored.cycles_of_last_date:
        each = sum(table.last_date for table in tables) / stored.cycles_of_last_date
        yield f"a cycle of {stored.last_date} takes {size(each)} (tables that are not parted by date left out)"
    yield from _growth(tables)


def storage_as_json(stored: Lakeful) -> Iterator[dict[str, Any]]:
    """Yield an object per table: rows, files and bytes, and the bytes that a cycle adds."""
    for table in stored.tables:
        yield {**asdict(table), "history": table.history, "bytes_per_cycle": _per_cycle(table, stored)}


def _growth(tables: Sequence[Stored]) -> Iterator[str]:
    """Yield the largest shares, and what can be done about them."""
    whole = sum(table.disk for table in tables) or 1
    rows, history = max(tables, key=lambda table: table.live), sum(table.history for table in tables)
    log, small = sum(table.log for table in tables), sum(table.uncompacted for table in tables)
    yield f"most of all grows {rows.table}: {100 * rows.live / whole:.0f} % of the bytes are its rows"
    if history:
        yield f"files of earlier versions: {100 * history / whole:.0f} %; they go when --version-days is over"
    if log:
        yield f"logs: {100 * log / whole:.0f} %; they go with the versions"
    yield f"files of a single write: {small:,}; `evenkeel upkeep` makes few of them once their date is over"


def _per_cycle(table: Stored, stored: Lakeful) -> float:
    if table.last_date and stored.cycles_of_last_date:
        return table.last_date / stored.cycles_of_last_date
    return table.live / stored.cycles if stored.cycles else 0.0


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    for row in (head, *rows):
        cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip()
