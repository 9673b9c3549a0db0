"""The manifests of a range, some dates at a time, and what of the record is still promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from evenkeel.handover import Write
from evenkeel.lake.schemas import TABLES
from evenkeel.maintenance.expiry import Periods, settled, whole_kind
from evenkeel.record.read import Attempt, Record, Row, attempts_of, read_table_if_any
from evenkeel.record.read.record import FIRST_MOMENT, LAST_MOMENT
from evenkeel.record.verify.chain import Anchor

# Some 20 kB each as Python has them.
_MANIFESTS_AT_ONCE = 6_000


@dataclass(frozen=True, slots=True)
class Span:
    """From a moment to another, both included."""

    first: datetime = FIRST_MOMENT
    last: datetime = LAST_MOMENT

    def __contains__(self, moment: datetime) -> bool:
        return self.first <= moment <= self.last


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole rows of `cycles` in the span, and their attempts, by cluster and cycle.

    `near` are all attempts at cycles of the same dates and of the dates of predecessors: by their manifests it is known
    whose a file is that lies there.
    """

    rows: list[Row]
    attempts: list[Attempt]
    near: list[Attempt]


def dates_of(links: Any, span: Span) -> Counter[date]:
    """How many manifests there are of each date that has any in the span; `links` as `Record.links` tells them."""
    import pyarrow.compute as pc

    at = links.column("cycle_at")
    counted = pc.value_counts(pc.cast(at, "date32")).to_pylist()
    touched = span.first.date(), span.last.date()
    return Counter({one["values"]: one["counts"] for one in counted if touched[0] <= one["values"] <= touched[1]})


def attempts_in(links: Any, span: Span) -> int:
    """How many attempts there are at cycles of the span."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = links.column("cycle_at")
    begin, end = (pa.scalar(moment, at.type) for moment in (span.first, span.last))
    inside = pc.and_(pc.greater_equal(at, begin), pc.less_equal(at, end))
    return int(pc.sum(pc.and_(inside, pc.equal(links.column("row_kind"), "planned"))).as_py() or 0)


def in_stretches(record: Record, clusters: Sequence[str], dates: Mapping[date, int], span: Span) -> Iterator[Stretch]:
    """The attempts of these clusters in the span, oldest dates first."""
    for days in _together(dates):
        whole = [row for name in clusters for row in record.manifests(name, *_ends(days))]
        every = attempts_of(whole)
        attempts = [attempt for attempt in every if attempt.cycle_at in span]
        far = {(one.cluster, at.date()) for one in attempts if (at := one.planned["predecessor_cycle_at"])}
        near = [one for name, day in sorted(far) if day not in days for one in record.attempts(name, *_ends([day]))]
        yield Stretch([row for row in whole if row["cycle_at"] in span], attempts, [*every, *near])


def _together(dates: Mapping[date, int]) -> Iterator[list[date]]:
    days: list[date] = []
    manifests = 0
    for day in sorted(dates):
        if days and manifests + dates[day] > _MANIFESTS_AT_ONCE:
            yield days
            days, manifests = [], 0
        days.append(day)
        manifests += dates[day]
    if days:
        yield days


def _ends(days: Sequence[date]) -> tuple[datetime, datetime]:
    """The first and the last moment."""
    first = datetime.combine(days[0], time(), UTC)
    return first, datetime.combine(days[-1], time(), UTC) + timedelta(days=1, microseconds=-1)


# What of the record is still promised: upkeep drops rows past their periods, and says where a cut chain begins.


@dataclass(frozen=True, slots=True)
class Kept:
    """The periods of the last upkeep and when it began; where none ever ran, everything is kept."""

    periods: Periods | None = None
    at: datetime | None = None

    def promises(self, attempt: Attempt, table: str) -> bool:
        """Whether all rows that the attempt wrote to the table have to be there."""
        if self.periods is None or self.at is None:
            return True
        kind = whole_kind(TABLES[table])
        return kind is None or attempt.cycle_at.date() >= self.periods.cutoff(kind, self.at)

    def writes(self, attempt: Attempt) -> tuple[Write, ...]:
        """The writes of an attempt whose rows are all promised."""
        return tuple(write for write in attempt.writes if self.promises(attempt, write.table))


def read_kept(lake: str | Path) -> Kept:
    """As the newest row of `upkeeps` says."""
    rows = read_table_if_any(lake, "upkeeps")
    if not rows:
        return Kept()
    newest = max(rows, key=lambda row: (row["begun_at"], row["upkeep_id"]))
    return Kept(settled(newest["periods"], {}, shorten=True), newest["begun_at"])


def read_anchors(lake: str | Path) -> list[Mapping[str, Any]]:
    """All anchors of the lake."""
    return [*read_table_if_any(lake, "anchors")]


def anchor_of(first: int, anchors: Iterable[Mapping[str, Any]]) -> Anchor | None:
    """Where a cluster's chain, whose `first` row has that sequence, has to begin: after the newest anchor before it,
    None for the very first.

    An upkeep that was killed may have left an anchor whose rows are still there.
    """
    before = [one for one in anchors if one["sequence"] < first]
    if not before:
        return None
    newest = max(before, key=lambda one: int(one["sequence"]))
    return Anchor(int(newest["sequence"]), str(newest["manifest_digest"]))
