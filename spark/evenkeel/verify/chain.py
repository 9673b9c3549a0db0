"""Checks of a cluster's manifests: they are the chain that publishers wrote, and attempts read what predecessors wrote.

A changed row no longer fits its own digest. An added or removed row leaves a link that fits nothing. The chain cannot
show that its newest rows were removed: `log_check` does. Upkeep drops rows past their periods, and an anchor names the
row before a chain that it cut; `Kept` says which rows still have to be there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from evenkeel.handover import Write
from evenkeel.lake.manifest import body_digest
from evenkeel.lake.record import Attempt, Record, Row, attempts_of
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.schemas import TABLES
from evenkeel.maintenance.expiry import NAMES, settled, whole_kind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last row before a chain whose earlier rows expired; the default is an anchor before the very first row."""

    sequence: int = 0
    manifest_digest: str = ""


class Link(NamedTuple):
    """The columns of a manifest that make it part of a chain; `cycle_at` in microseconds since 1970."""

    sequence: int
    row_kind: str
    cycle_at: int
    attempt_id: str
    attempt: int
    previous_digest: str
    body_digest: str
    manifest_digest: str


def check_links(cluster: str, links: Iterable[Link], anchor: Anchor | None = None) -> Iterator[Fault]:
    """Yield the faults of one cluster's chain; its links are ordered by sequence, then by digest.

    `check_bodies` compares the content of rows with their digests, which takes a hundred times as long.
    """
    start = anchor or Anchor()
    sequence, digest = start.sequence, start.manifest_digest
    numbering = _Numbering(is_whole=anchor is None)
    for link in links:
        if link.sequence != sequence + 1 or link.previous_digest != digest:
            yield _fault(cluster, link, _break(link, sequence))
        if hashlib.sha256((link.previous_digest + link.body_digest).encode()).hexdigest() != link.manifest_digest:
            words = "its manifest_digest does not follow from its other digests: one of them was changed"
            yield _fault(cluster, link, words)
        number = numbering.of(link)
        if link.attempt != number:
            yield _fault(cluster, link, f"it is attempt {number} at its cycle, and says {link.attempt}")
        sequence, digest = link.sequence, link.manifest_digest


def check_bodies(rows: Iterable[Mapping[str, Any]]) -> Iterator[Fault]:
    """Yield a fault for each row of `cycles`, in any order, whose content was changed."""
    words = "its content is not what its digest covers: it was changed after it was written"
    for row in rows:
        if body_digest(row) != row["body_digest"]:
            place = _place(row["sequence"], row["row_kind"])
            yield Fault(row["cluster"], row["cycle_at"], CHAIN, "cycles", place, words, row["attempt_id"])


def _break(link: Link, last: int) -> str:
    """Return why a link does not follow the one before it, whose sequence was `last`."""
    if link.sequence == last:
        return "a second row stands at this place of the chain: one of them was added"
    if link.sequence == last + 1:
        return "it does not name the digest of the row before it: one of the two was replaced"
    gone = f"row {last + 1}" if link.sequence == last + 2 else f"rows {last + 1} to {link.sequence - 1}"
    return f"{gone} before it is missing: removed, or never restored from a copy"


class _Numbering:
    """The numbers of attempts, which no digest covers: they follow from the rows before. The first number is 1."""

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._attempts: dict[int, list[str]] = {}
        self._expired: dict[int, int] = {}

    def of(self, link: Link) -> int:
        """Return the number that the attempt of a link has to have."""
        at, name = link.cycle_at, link.attempt_id
        known = self._attempts.get(at)
        if known is None:
            known = self._attempts[at] = []
            # If earlier rows expired, the first row of a cycle may belong to a later attempt.
            if not self._is_whole:
                self._expired[at] = link.attempt - 1
        if name not in known:
            known.append(name)
        return self._expired.get(at, 0) + known.index(name) + 1


def _fault(cluster: str, link: Link, words: str) -> Fault:
    at = _EPOCH + timedelta(microseconds=link.cycle_at)
    return Fault(cluster, at, CHAIN, "cycles", _place(link.sequence, link.row_kind), words, link.attempt_id)


def _place(sequence: int, row_kind: str) -> str:
    return f"row {sequence}, {row_kind}"


CHAIN = "chain"
CONTENT = "content"
DATA = "data"
CODE = "code"
DEFINITION = "definition"
UNKNOWN = "unknown"
LOG = "log"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Part of the record that was changed, or a decision that is not reproduced.

    `kind` is chain (rows of `cycles`), content (rows that a manifest lists), data (the code that decided first decides
    otherwise now), code (other code decides otherwise), definition (other code decides otherwise, and its digest
    follows another definition, so the two cannot be compared), unknown (it cannot be decided again) or log (the
    transparency log contradicts the record). `place`: the row, write, file or column. `words`: the rest.
    """

    cluster: str
    cycle_at: datetime | None
    kind: str
    table: str
    place: str
    words: str
    attempt_id: str | None = None

    def sentence(self) -> str:
        """Return the fault in one line."""
        at = f" at {self.cycle_at.isoformat()}" if self.cycle_at is not None else ""
        whose = f"{self.cluster}{at}: " if self.cluster else ""
        return f"{whose}{self.table} ({self.place}): {self.words}"


def check_reads(
    attempts: Iterable[Attempt], near: Iterable[Attempt], begins: Mapping[str, datetime]
) -> Iterator[Fault]:
    """Yield a fault for each read that the manifest of the predecessor, one of `near`, does not list as it was read,
    and for each predecessor that is not on record, though the chain begins before it.

    `begins`: cluster -> its oldest cycle on record.
    """
    known = {(attempt.cluster, attempt.attempt_id): attempt for attempt in near}
    for attempt in attempts:
        before = known.get((attempt.cluster, str(attempt.planned["predecessor_attempt_id"])))
        place, at = f"attempt {attempt.number}", attempt.planned["predecessor_cycle_at"]
        if before is None:
            named = attempt.planned["predecessor_attempt_id"]
            if named is not None and at is not None and at > begins[attempt.cluster]:
                words = f"its predecessor, attempt {named} at {at.isoformat()}, is not on record: the end of the chain "
                words += "was lost before this row was written. Restore the table from a copy"
                yield Fault(attempt.cluster, attempt.cycle_at, CHAIN, "cycles", place, words, attempt.attempt_id)
            continue
        listed = set(before.writes)
        for read in attempt.reads:
            if read not in listed:
                when = before.cycle_at.isoformat()
                words = f"it rests on write {read.write_id}, which its predecessor at {when} does not list"
                yield Fault(attempt.cluster, attempt.cycle_at, CHAIN, read.table, place, words, attempt.attempt_id)


_MANIFESTS_AT_ONCE = 6_000
"""The most manifests in memory; Python needs about 20 kB for each."""
_MANIFESTS_AT_FIRST = 1_000


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time, both ends included."""

    first: datetime = FIRST_MOMENT
    last: datetime = LAST_MOMENT

    def __contains__(self, moment: datetime) -> bool:
        return self.first <= moment <= self.last


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some dates of a span, in memory.

    `rows`: whole rows of `cycles` in the span. `attempts`: their attempts, by cluster and cycle. `near`: all attempts
    at cycles of these dates and of the dates of predecessors; their manifests say to which write a file belongs.
    """

    rows: list[Row]
    attempts: list[Attempt]
    near: list[Attempt]


def dates_of(links: Any, span: Span) -> Counter[date]:
    """Return the number of manifests of each date that has any in the span; `links`: see `Record.links`."""
    import pyarrow.compute as pc

    at = links.column("cycle_at")
    counted = pc.value_counts(pc.cast(at, "date32")).to_pylist()
    first, last = span.first.date(), span.last.date()
    return Counter({day["values"]: day["counts"] for day in counted if first <= day["values"] <= last})


def attempts_in(links: Any, span: Span) -> int:
    """Return the number of attempts at cycles of the span."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = links.column("cycle_at")
    begin, end = (pa.scalar(moment, at.type) for moment in (span.first, span.last))
    inside = pc.and_(pc.greater_equal(at, begin), pc.less_equal(at, end))
    return int(pc.sum(pc.and_(inside, pc.equal(links.column("row_kind"), "planned"))).as_py() or 0)


def in_stretches(record: Record, clusters: Sequence[str], dates: Mapping[date, int], span: Span) -> Iterator[Stretch]:
    """Yield the attempts of these clusters in the span, oldest dates first."""
    for days in _together(dates):
        rows = [row for name in clusters for row in record.manifests(name, *_ends(days))]
        of_these_days = attempts_of(rows)
        attempts = [attempt for attempt in of_these_days if attempt.cycle_at in span]
        predecessors = {(a.cluster, at.date()) for a in attempts if (at := a.planned["predecessor_cycle_at"])}
        earlier = [
            attempt
            for name, day in sorted(predecessors)
            if day not in days
            for attempt in record.attempts(name, *_ends([day]))
        ]
        yield Stretch([row for row in rows if row["cycle_at"] in span], attempts, [*of_these_days, *earlier])


def _together(dates: Mapping[date, int]) -> Iterator[list[date]]:
    """Yield days in order, with a bounded number of manifests each time; the first time with fewer."""
    days: list[date] = []
    manifests, most = 0, min(_MANIFESTS_AT_FIRST, _MANIFESTS_AT_ONCE)
    for day in sorted(dates):
        if days and manifests + dates[day] > most:
            yield days
            days, manifests, most = [], 0, _MANIFESTS_AT_ONCE
        days.append(day)
        manifests += dates[day]
    if days:
        yield days


def _ends(days: Sequence[date]) -> tuple[datetime, datetime]:
    """Return the first and the last moment of days."""
    first = datetime.combine(days[0], time(), UTC)
    return first, datetime.combine(days[-1], time(), UTC) + timedelta(days=1, microseconds=-1)


@dataclass(frozen=True, slots=True)
class Kept:
    """`since`: kind of row -> the first date of which all rows have to be there; every date of a kind without one."""

    since: Mapping[str, date] = field(default_factory=dict)

    def promises(self, attempt: Attempt, table: str) -> bool:
        """Return True if all rows that the attempt wrote to the table have to be there."""
        return attempt.cycle_at.date() >= self.since.get(whole_kind(TABLES[table]) or "", date.min)

    def writes(self, attempt: Attempt) -> tuple[Write, ...]:
        """Return the writes of an attempt whose rows all have to be there."""
        return tuple(write for write in attempt.writes if self.promises(attempt, write.table))


def kept_by(upkeeps: Iterable[Row]) -> Kept:
    """Return what these rows of `upkeeps` left, in any order: each dropped what was past its periods at its time."""
    begun = [(settled(row["periods"], {}, shorten=True), row["begun_at"]) for row in upkeeps]
    kinds = [name.removesuffix("_days") for name in NAMES] if begun else []
    return Kept({kind: max(periods.cutoff(kind, at) for periods, at in begun) for kind in kinds})


def anchor_of(first: int, anchors: Iterable[Mapping[str, Any]]) -> Anchor | None:
    """Return the newest anchor before a chain that begins with sequence `first`, None without one.

    A killed upkeep may have written an anchor whose rows the chain still has.
    """
    before = [anchor for anchor in anchors if anchor["sequence"] < first]
    if not before:
        return None
    newest = max(before, key=lambda anchor: int(anchor["sequence"]))
    return Anchor(int(newest["sequence"]), str(newest["manifest_digest"]))
