"""Whether rows outside manifests are those that the transparency log holds: none is gone, none was added afterwards.

Rows that are older than the log's publishes and have no leaf were added, or changed, later. Newer ones wait for the
next publish. Rows that are gone are past their period by an upkeep that has a leaf itself, or somebody removed them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from evenkeel.errors import LakeError, SettingsError
from evenkeel.lake.store import Lake
from evenkeel.lake_log.new_rows import units_in
from evenkeel.lake_log.row_leaves import LOGGED_TABLES, LoggedTable, RowsLeaf, Unit, in_utc
from evenkeel.model.amounts import plural
from evenkeel.record.verify.chain import LOG, Fault

_NAMED = 20
"""So many of a table's faults at most are named one by one."""
_UPKEEPS = "upkeeps"


@dataclass(frozen=True, slots=True)
class RowsCheck:
    """What was found of rows outside manifests. `waiting`: a line for each table with rows that the next publish takes
    in."""

    faults: tuple[Fault, ...]
    waiting: tuple[str, ...]


def first_kept(lake: str, leaves: Sequence[tuple[int, RowsLeaf]], now: datetime) -> date | None:
    """The first date of which everything is kept that is kept longest, by the upkeeps on record; None without any.

    Periods are those of upkeeps that have a leaf (else the defaults), so that nobody shortens them afterwards; any
    upkeep up to `now` says how late it is. Rows that cannot be read are left out: `check_other_rows` names them.
    """
    from evenkeel.maintenance.expiry import NAMES, Periods

    logged = {digest for _, leaf in leaves if leaf.table == _UPKEEPS for digest in leaf.digests}
    days: list[int] = []
    begun: list[datetime] = []
    with suppress(LakeError):
        for unit in units_in(Lake(lake), LOGGED_TABLES[_UPKEEPS]):
            if (at := in_utc(unit.row["begun_at"])) <= now:
                begun.append(at)
            if unit.digest not in logged:
                continue
            with suppress(SettingsError, OverflowError, TypeError, ValueError):  # no upkeep of ours has such periods
                periods = {name: int(value) for name, value in unit.row["periods"] if name in NAMES}
                days.append(Periods(**periods).audit_days)
    if not begun:
        return None
    return (max(begun) - timedelta(days=min(days, default=Periods().audit_days))).date()


def check_other_rows(
    lake: str,
    leaves: Sequence[tuple[int, RowsLeaf]],
    reached: Mapping[str, datetime],
    kept_from: date | None,
    clusters: frozenset[str] | None,
) -> RowsCheck:
    """Holds the rows of a lake against their leaves.

    `leaves`: with their indices, all of the log. `reached`: cluster -> the latest cycle that a leaf is of, so its
    publish was not earlier. `kept_from`: as `first_kept` gives it. `clusters`: whose rows are looked at, beside those
    of no cluster; None for all.
    """
    faults: list[Fault] = []
    waiting: list[str] = []
    by_table: dict[str, list[tuple[int, RowsLeaf]]] = {}
    for index, leaf in leaves:
        by_table.setdefault(leaf.table, []).append((index, leaf))
    for table in LOGGED_TABLES.values():
        own = by_table.get(table.name, [])
        try:
            units = units_in(Lake(lake), table)
        except LakeError as error:
            faults.append(Fault("", None, LOG, table.name, "its rows", str(error)))
            continue
        left = Counter(digest for _, leaf in own for digest in leaf.digests)
        extra: list[Unit] = []
        for unit in units:
            if left[unit.digest]:
                left[unit.digest] -= 1
            else:
                extra.append(unit)
        found = [*_gone(table, own, left, kept_from), *_added_later(table, extra, reached)]
        found = [one for one in found if clusters is None or one.cluster in clusters or not one.cluster]
        faults += found[:_NAMED]
        if (more := len(found) - _NAMED) > 0:
            faults.append(Fault("", None, LOG, table.name, "the log", f"{plural(more, 'further fault')} of its rows"))
        if new := len(extra) - sum(1 for unit in extra if _is_late(table, unit, reached)):
            waiting.append(f"{table.name}: {plural(new, 'row')} since the last publish, which the next one logs")
    return RowsCheck(tuple(faults), tuple(waiting))


def _gone(
    table: LoggedTable, leaves: Sequence[tuple[int, RowsLeaf]], left: Counter[str], kept_from: date | None
) -> Iterator[Fault]:
    """Rows that leaves hold and the table has not; `left`: digest -> how often."""
    for index, leaf in leaves:
        gone = 0
        for digest in leaf.digests:
            if left[digest] > 0:
                left[digest] -= 1
                gone += 1
        if not gone or (table.expires and kept_from is not None and date.fromisoformat(leaf.day) < kept_from):
            continue
        what = "writes" if table.by_write else "rows"
        words = f"{gone} of the {len(leaf.digests)} {what} of {leaf.day} that it holds are gone, or were changed"
        yield Fault(leaf.cluster, _begin_of(leaf.day), LOG, table.name, f"leaf {index}", words)


def _added_later(table: LoggedTable, extra: Sequence[Unit], reached: Mapping[str, datetime]) -> Iterator[Fault]:
    for unit in extra:
        if _is_late(table, unit, reached):
            words = (
                f"it has no leaf in the log, and a publish after its time ({_latest(unit, reached).isoformat()}) would "
                "have logged it: it was added or changed later"
            )
            yield Fault(unit.cluster, unit.made_at, LOG, table.name, unit.words, words)


def _is_late(table: LoggedTable, unit: Unit, reached: Mapping[str, datetime]) -> bool:
    return unit.made_at is not None and bool(reached) and unit.made_at + table.apart < _latest(unit, reached)


def _latest(unit: Unit, reached: Mapping[str, datetime]) -> datetime:
    return reached.get(unit.cluster) or max(reached.values())


def _begin_of(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
