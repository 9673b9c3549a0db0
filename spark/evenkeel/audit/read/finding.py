"""Which cycles are meant: by cluster and time, with the nearest ones on record where there is none."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evenkeel.audit.read.attempts import Attempt
from evenkeel.audit.read.record import LAST_MOMENT, Record
from evenkeel.errors import NoSuchCycle
from evenkeel.times_given import time_given

LATEST = "latest"


def find_cycles(
    lake: str | Path, *, cluster: str | None = None, cycle: str | datetime | None = None, option: str = "--cycle"
) -> list[Attempt]:
    """The attempt asked for, of one cluster or (where none is named) of each cluster that has such a cycle.

    `cycle` is `latest` (also for None), or a time as `times_given` reads it, which stands for the one cycle within it;
    `option` is what that is called where it was given. Raises NoSuchCycle, which names the nearest cluster or cycle on
    record.
    """
    record = Record(lake)
    wanted = clusters_of(record, cluster)
    if cycle is None or cycle == LATEST:
        return [newest for name in wanted if (newest := record.in_force(name, LAST_MOMENT)) is not None]
    earliest, latest = _span(cycle, option)
    found = [a for name in wanted for a in record.cycles(name, earliest, latest)]
    return _only_one_each(found, record, wanted, earliest, str(cycle))


@dataclass(frozen=True, slots=True)
class Newest:
    """Cycles of all clusters, by cluster and time, and how many `older` ones there are."""

    cycles: list[Attempt]
    older: int


def newest_cycles(
    lake: str | Path, most: int, *, before: datetime | None = None, columns: Sequence[str] | None = None
) -> Newest:
    """The newest cycles, or the newest before a moment: about `most` of them, but all clusters' of each moment.

    Raises NoSuchCycle where nothing at all is on record.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    record = Record(lake)
    clusters = clusters_of(record, None)
    known = pa.chunked_array([record.moments(name) for name in clusters])
    if before is not None:
        known = known.filter(pc.less(known, pa.scalar(before, known.type)))
    if not len(known):
        return Newest([], 0)
    newest = known.take(pc.top_k_unstable(known, k=min(most, len(known))))
    first, last = newest[-1].as_py(), newest[0].as_py()
    cycles = [one for name in clusters for one in record.cycles(name, first, last, columns)]
    return Newest(cycles, len(known) - len(cycles))


def clusters_of(record: Record, cluster: str | None) -> list[str]:
    """The cluster that is named, or all on record. Raises NoSuchCycle with the nearest name where there is none."""
    clusters = record.clusters()
    if not clusters:
        lake = record.lake
        raise NoSuchCycle(f"no cycle is on record in {lake}: run one first (`evenkeel rebalance --lake {lake} …`).")
    if cluster is not None and cluster not in clusters:
        raise NoSuchCycle(f"no cycle of cluster {cluster!r} is on record in {record.lake}.{nearest(cluster, clusters)}")
    return clusters if cluster is None else [cluster]


def _only_one_each(
    found: list[Attempt], record: Record, wanted: Sequence[str], at: datetime, asked: str
) -> list[Attempt]:
    exact = [a for a in found if a.cycle_at == at]
    chosen = exact or found
    if not chosen:
        near = [a for name in wanted for a in (record.in_force(name, at), record.following(name, at)) if a is not None]
        closest = min(near, key=lambda a: (abs(a.cycle_at - at), a.cluster))
        raise NoSuchCycle(
            f"no cycle at {asked} is on record in {record.lake} (clusters looked at: {', '.join(wanted)}). "
            f"The nearest is {closest.cycle_at.isoformat()} of {closest.cluster}."
        )
    clusters = [a.cluster for a in chosen]
    if len(set(clusters)) < len(clusters):
        times = ", ".join(a.cycle_at.isoformat() for a in chosen)
        raise NoSuchCycle(f"{asked} fits several cycles: {times}. Give the time in full.")
    return chosen


def _span(cycle: str | datetime, option: str) -> tuple[datetime, datetime]:
    """The moments that a given time stands for: itself, or all that its text names."""
    if isinstance(cycle, datetime):
        at = cycle if cycle.tzinfo else cycle.replace(tzinfo=UTC)
        return at, at
    found = time_given(cycle, option)
    return found.first, found.last


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint at the nearest of the names on record, and the first of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} On record: {', '.join(known[:20])}."
