"""The newest cycles of many clusters, for a list that is looked at again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from evenkeel.lake.record.attempts import Attempt, are_told_apart_by_commands, attempts_of, trusted
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.record.ranges import Record, clusters_of
from evenkeel.lake.record.recent_rows import MANY_ROWS, Recent
from evenkeel.lake.record.tables import Row

_TICK = timedelta(microseconds=1)
_ROWS_OF_A_CYCLE = 2
"""The manifest and its end."""
_MORE = 4
"""So many times the rows are read next, where those that were read held too few cycles."""


@dataclass(frozen=True, slots=True)
class Newest:
    """Cycles of all clusters, by cluster and time, and whether there are older ones."""

    cycles: list[Attempt]
    has_older: bool


def newest_cycles(
    lake: str | Path | Recent,
    most: int,
    *,
    columns: Sequence[str],
    before: datetime | None = None,
    cluster: str | None = None,
) -> Newest:
    """The newest cycles, or the newest before a moment: about `most` of them, but all clusters' of each moment.

    `columns`: what of their manifests is read beside `cluster`. `cluster`: of this one alone. A `Recent` that was there
    before is refreshed, and reads new files alone. Raises NoSuchCycle where nothing at all is on record, or nothing of
    that cluster.
    """
    recent = lake if isinstance(lake, Recent) else Recent(lake)
    recent.refresh()
    clusters = clusters_of(recent, cluster)
    until = LAST_MOMENT if before is None else before - _TICK
    rows = _ROWS_OF_A_CYCLE * most
    while True:
        since = recent.files("cycles").since(clusters, until, rows)
        span = (FIRST_MOMENT if since is None else since), until
        rows_of = _rows(recent, clusters, span, columns)
        found = [one for name in clusters for one in _counting(recent, name, rows_of[name], span, columns)]
        if since is None or len(found) >= most:
            break
        rows *= _MORE
    moments = sorted((one.cycle_at for one in found), reverse=True)
    kept = [one for one in found if one.cycle_at >= moments[most - 1]] if len(found) > most else found
    return Newest(kept, since is not None or len(kept) < len(found))


def _rows(
    recent: Recent, clusters: Sequence[str], span: tuple[datetime, datetime], columns: Sequence[str]
) -> dict[str, list[Row]]:
    """Cluster -> the rows of `cycles` from one moment to another."""
    import pyarrow.compute as pc

    first, last = span
    files = [file for name in clusters for file in recent.files("cycles").between(name, first, last)]
    small, large = ([file for file in files if (file.rows > MANY_ROWS) is many] for many in (False, True))
    found: dict[str, list[Row]] = {name: [] for name in clusters}
    where = pc.field("cycle_at") >= first, f"since {first.isoformat()}"
    for row in (*recent.rows("cycles", small, columns), *recent.rows("cycles", large, columns, *where)):
        if first <= row["cycle_at"] <= last:
            found[row["cluster"]].append(row)
    return found


def _counting(
    recent: Recent, cluster: str, rows: Sequence[Row], span: tuple[datetime, datetime], columns: Sequence[str]
) -> list[Attempt]:
    """The attempts that count for a cluster's cycles, oldest first."""
    attempts = attempts_of(rows)
    if not are_told_apart_by_commands(attempts):
        return trusted(attempts)
    return Record(recent.lake).cycles(cluster, *span, ["cluster", *columns])
