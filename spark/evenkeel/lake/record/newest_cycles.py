"""The newest cycles of many clusters, for a list that is shown again and again."""

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
"""The rows of a cycle: the manifest and its end."""
_MORE = 4
"""Factor for the next number of rows, if those read hold too few cycles."""


@dataclass(frozen=True, slots=True)
class Newest:
    """Cycles of all clusters, by cluster and time, and whether older ones exist."""

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
    """Return the newest cycles, or the newest before a moment: about `most` of them, but all clusters' of each moment.

    `columns`: columns of their manifests to read beside `cluster`. `cluster`: only this one. An existing `Recent` is
    refreshed, and reads only new files. Raises NoSuchCycle if nothing at all is on record, or nothing of that cluster.
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
        attempts = [attempt for name in clusters for attempt in _counting(recent, name, rows_of[name], span, columns)]
        if since is None or len(attempts) >= most:
            break
        rows *= _MORE
    moments = sorted((attempt.cycle_at for attempt in attempts), reverse=True)
    kept = (
        [attempt for attempt in attempts if attempt.cycle_at >= moments[most - 1]] if len(attempts) > most else attempts
    )
    return Newest(kept, since is not None or len(kept) < len(attempts))


def _rows(
    recent: Recent, clusters: Sequence[str], span: tuple[datetime, datetime], columns: Sequence[str]
) -> dict[str, list[Row]]:
    """Return for each cluster the rows of `cycles` from one moment to another."""
    import pyarrow.compute as pc

    first, last = span
    files = [file for name in clusters for file in recent.files("cycles").between(name, first, last)]
    small, large = ([file for file in files if (file.rows > MANY_ROWS) is many] for many in (False, True))
    rows: dict[str, list[Row]] = {name: [] for name in clusters}
    where = pc.field("cycle_at") >= first, f"since {first.isoformat()}"
    for row in (*recent.rows("cycles", small, columns), *recent.rows("cycles", large, columns, *where)):
        if first <= row["cycle_at"] <= last:
            rows[row["cluster"]].append(row)
    return rows


def _counting(
    recent: Recent, cluster: str, rows: Sequence[Row], span: tuple[datetime, datetime], columns: Sequence[str]
) -> list[Attempt]:
    """Return the attempts that count for a cluster's cycles, oldest first."""
    attempts = attempts_of(rows)
    if not are_told_apart_by_commands(attempts):
        return trusted(attempts)
    return Record(recent.lake).cycles(cluster, *span, ["cluster", *columns])
