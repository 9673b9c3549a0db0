"""Checks of the folders of all tables of a record, and the upkeeps that count: these may remove rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from evenkeel.lake.record import Attempt
from evenkeel.lake.record.tables import Row, is_table, rows_where
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.verify.export import MANIFEST as EXPORT
from evenkeel.verify.table_logs import TableFault, TableLog, check_table, replay

Known = dict[str, dict[int, str]]
"""Table -> version -> SHA-256 (hex) of the commit's JSON, for the commits that are on record."""

_UPKEEPS = "upkeeps"
_FILE = "__filename"
_COLUMNS = ("upkeep_id", "state", "begun_at", "periods", _FILE)
_CLOCKS = timedelta(days=1)
"""So far may the clock of an upkeep be ahead of that of its commit, or of ours."""


def note(known: Known, attempts: Iterable[Attempt]) -> None:
    """Add the commits that manifests have on record; what the log says of a commit comes first."""
    for attempt in attempts:
        for write in (*attempt.writes, *attempt.reads):
            known.setdefault(write.table, {}).setdefault(write.version, write.commit)


def check_tables(lake: str, known: Known, upkeeps: Iterable[Row]) -> list[TableFault]:
    """Return the faults of all tables' folders; commits of `upkeeps` may remove rows.

    In an export versions are others than on record, so there no commit is known.
    """
    if files_of(Lake(lake).root).exists(EXPORT):
        known = {}
    ids = frozenset(str(row["upkeep_id"]) for row in upkeeps)
    return [fault for table in OF_RECORD for fault in check_table(lake, table, known.get(table, {}), ids)]


def counted_upkeeps(lake: str, known: Mapping[int, str], now: datetime) -> tuple[list[Row], list[TableFault]]:
    """Return the rows of `upkeeps` that count, and a fault for each other row.

    A row counts if its commit is on record, where any is, and if it does not lie after its commit, or after `now`. An
    earlier time says nothing: exports, and upkeep itself, copy rows into later commits.
    """
    if not is_table(lake, _UPKEEPS):
        return [], []
    log = replay(lake, _UPKEEPS, known)
    if log.state is None:  # its own check says what is wrong with the log
        return [], []
    added_in = {path.rpartition("/")[2]: version for path, version in log.state.added_in.items()}
    counted, faults = [], []
    for row in rows_where(lake, _UPKEEPS, columns=[*_COLUMNS]):
        reason = next(_reasons_against(row, added_in.get(row[_FILE].rpartition("/")[2]), log, known, now), None)
        if reason is None:
            counted.append(row)
        else:
            place = f"{row['state']} row of upkeep {row['upkeep_id']}"
            faults.append(TableFault(_UPKEEPS, place, f"{reason}: it counts for nothing, and no row expires by it"))
    return counted, faults


def _reasons_against(
    row: Row, version: int | None, log: TableLog, known: Mapping[int, str], now: datetime
) -> Iterator[str]:
    if known and version not in log.sound:
        yield f"commit {version}, which added it, is not on record with that digest"
    written_at = None if version is None else log.written_at.get(version)
    if row["begun_at"] > (written_at or now) + _CLOCKS:
        yield f"it began at {row['begun_at'].isoformat()}, after its commit of {(written_at or now).isoformat()}"
    if row["begun_at"] > now + _CLOCKS:
        yield f"it began at {row['begun_at'].isoformat()}, which is yet to come"
