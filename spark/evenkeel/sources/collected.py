"""The broker- and bundle-sized answers of a run, collected: what `evenkeel.pulsar` reads as rows.

Topic-sized bodies stay where they are; of them only the first 2,000 characters come along. What is in this process at
once is bounded: all answers of a run where they are small together, as they nearly always are, else those of a few
snapshots, or of a large one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.json_text import values_in
from evenkeel.pulsar.answers import RECORD_CHARACTERS, Answer, Answers
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.sources.landed import FIGURES_PATH
from evenkeel.sources.recordings import utc
from evenkeel.spark.sql import first_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWN = "own"
LENT = "lent"
"""Whose request it is: the snapshot's own, or of the earlier snapshot that lends configuration and topic lists."""

_NOT_NEEDED_WHOLE = rf"{FIGURES_PATH}|^/admin/v2/(persistent|non-persistent)/|^/metrics"
_SEE = "see what wrote it"
_FEW = Limits(small_answers_mib=64, requests=50_000)
"""What answers of several snapshots together may be for them to come at once."""


@dataclass(frozen=True, slots=True)
class UnreadRequest:
    """A request that cannot be read: its position, its text, and whose it is (own or lent)."""

    n: int
    text: str
    source: str


@dataclass(slots=True)
class CollectedAnswers:
    """The answers of one cycle by source (own or lent), and the requests that cannot be read. `size` is what their
    texts take in this process. `beyond` says which limit they are beyond: then they are left where they are."""

    answers: dict[str, Answers]
    unread: list[UnreadRequest]
    size: int = 0
    beyond: str | None = None


@dataclass
class SnapshotAnswers:
    """The answers of one snapshot. `weights` are bytes and values of JSON of each request; where these are beyond the
    snapshot's limits its answers are not here."""

    found: list[Answer] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)
    weights: list[tuple[int, int]] = field(default_factory=list)

    @cached_property
    def answers(self) -> Answers:
        """The answers by what they are about."""
        return Answers(self.found)

    @cached_property
    def size(self) -> int:
        """Bytes that the texts take in this process."""
        return sum(size for size, _ in self.weights)


def together(own: SnapshotAnswers, lent: SnapshotAnswers | None, limits: Limits) -> CollectedAnswers:
    """The answers of a cycle: of its own snapshot, and of the one that lends."""
    parts = [(OWN, own)] if lent is None else [(OWN, own), (LENT, lent)]
    beyond = _beyond([one for _, part in parts for one in part.weights], limits)
    if beyond is not None:
        return CollectedAnswers({}, [], beyond=beyond)
    unread = [UnreadRequest(n, text, source) for source, part in parts for n, text in part.unread]
    answers = {source: part.answers for source, part in parts if part.found}
    return CollectedAnswers(answers, unread, sum(part.size for _, part in parts))


def _beyond(weights: Sequence[tuple[int, int]], limits: Limits) -> str | None:
    """Which limit requests of these weights are beyond, at the first of them that is."""
    try:
        _demand(len(weights), sum(size for size, _ in weights), sum(values for _, values in weights), limits)
    except BeyondLimit:
        pass
    else:
        return None
    sums = accumulate(weights, lambda one, other: (one[0] + other[0], one[1] + other[1]))
    try:
        for count, (size, values) in enumerate(sums, start=1):
            _demand(count, size, values, limits)
    except BeyondLimit as error:
        return str(error)
    return None


def _demand(requests: int, size: int, values: int, limits: Limits) -> None:
    answers = "its answers, those of topics left aside,"
    limits.demand("requests", requests, f"the snapshot has {requests:,} requests and more", _SEE)
    limits.demand("small_answers_mib", size, f"{answers} have {size:,} bytes and more", _SEE)
    limits.demand("json_values", values, f"{answers} hold {values:,} values of JSON and more", _SEE)


def collect_answers(
    apart: DataFrame, limits: Mapping[int, Limits], *, at_once: bool
) -> Iterator[tuple[int, SnapshotAnswers]]:
    """The answers of each snapshot of `limits`, by number: the caller is to let go of each.

    `at_once`: they are of one cycle, and nothing is gained by a look at how large they are.
    """
    from pyspark.sql import functions as F

    rows = _answer_rows(apart, limits)
    if at_once:
        yield from sorted(_collected(rows, limits).items())
        return
    few = _few(rows, limits)
    if few is not None:
        yield from sorted(few.items())
        return
    for chunk in _chunks(rows, limits):
        wanted = rows.where(F.col("snapshot").between(chunk[0], chunk[-1]))
        found = _collected(wanted, {number: limits[number] for number in chunk})
        for number in chunk:
            yield number, found.pop(number)


def _answer_rows(apart: DataFrame, limits: Mapping[int, Limits]) -> DataFrame:
    from pyspark.sql import functions as F

    is_large = F.col("path").rlike(_NOT_NEEDED_WHOLE)
    usual = DEFAULT.bytes_of("small_answer_mib")
    own: dict[int, list[int]] = {}
    for number, one in limits.items():
        own.setdefault(one.bytes_of("small_answer_mib"), []).append(number)
    cases = [(F.col("snapshot").isin(numbers), most) for most, numbers in sorted(own.items()) if most != usual]
    most = F.lit(next(iter(own))) if len(own) == 1 else first_of(cases, F.lit(usual))
    cut = is_large | (F.octet_length("body") > most)
    body = F.when(cut, F.substring("body", 1, RECORD_CHARACTERS)).otherwise(F.col("body"))
    columns = ("snapshot", "n", "broker", "method", "path", "status", "at", "location", "size")
    unread_text = F.substring("unread", 1, RECORD_CHARACTERS)
    is_cut = F.coalesce(cut & ~F.coalesce(is_large, F.lit(False)), F.lit(False))
    return apart.select(*columns, body.alias("body"), unread_text.alias("unread"), is_cut.alias("is_cut"))


def _chunks(rows: DataFrame, limits: Mapping[int, Limits]) -> Iterator[list[int]]:
    """The snapshots in their order, as many at once as are small together."""
    from pyspark.sql import functions as F

    texts = F.sum(F.coalesce(F.octet_length("body"), F.lit(0)) + F.coalesce(F.octet_length("unread"), F.lit(0)))
    sizes = rows.groupBy("snapshot").agg(F.count(F.lit(1)).alias("requests"), texts.alias("bytes")).collect()
    known = {row["snapshot"]: (int(row["requests"]), int(row["bytes"])) for row in sizes}
    chunk: list[int] = []
    requests = size = 0
    for number in sorted(limits):
        own_requests, own_size = known.get(number, (0, 0))
        is_full = size + own_size > _FEW.bytes_of("small_answers_mib") or requests + own_requests > _FEW.requests
        if chunk and is_full:
            yield chunk
            chunk, requests, size = [], 0, 0
        chunk.append(number)
        requests, size = requests + own_requests, size + own_size
    yield chunk


def _few(rows: DataFrame, limits: Mapping[int, Limits]) -> dict[int, SnapshotAnswers] | None:
    """The answers of all; None where they are too large together."""
    found = {number: _Collecting(one) for number, one in limits.items()}
    size = count = 0
    for row in rows.toLocalIterator():
        size, count = size + _of(found, row).take(row), count + 1
        if size > _FEW.bytes_of("small_answers_mib") or count > _FEW.requests:
            return None
    return {number: one.end() for number, one in found.items()}


def _collected(rows: DataFrame, limits: Mapping[int, Limits]) -> dict[int, SnapshotAnswers]:
    """The answers of some. What is beyond its limits is not waited for: the others are read anew without it."""
    done: dict[int, SnapshotAnswers] = {}
    while True:
        waiting = {number: _Collecting(one) for number, one in limits.items() if number not in done}
        wanted = rows.where(f"snapshot in ({', '.join(map(str, waiting))})") if done else rows
        for row in wanted.toLocalIterator():
            one = _of(waiting, row)
            one.take(row)
            if one.is_beyond:
                done[row["snapshot"]] = one.end()
                break
        else:
            return done | {number: one.end() for number, one in waiting.items()}
        if len(done) == len(limits):
            return done


def _of(found: Mapping[int, _Collecting], row: Any) -> _Collecting:
    collecting = found.get(row["snapshot"])
    if collecting is None:
        raise EvenkeelError(
            "the Spark server names a file of a snapshot otherwise than it was asked for: please report it"
        )
    return collecting


class _Collecting:
    """Takes the rows of one snapshot up to its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._found = limits, SnapshotAnswers()
        self._size = self._values = 0
        self.is_beyond = False

    def take(self, row: Any) -> int:
        """Takes a row, and says how many bytes its texts have."""
        size = _size(row)
        if self.is_beyond:
            return size
        values = values_in(row["body"]) if row["body"] is not None else 0
        weights = self._found.weights
        weights.append((size, values))
        self._size, self._values = self._size + size, self._values + values
        try:
            _demand(len(weights), self._size, self._values, self._limits)
        except BeyondLimit:
            self.is_beyond = True
            self._found = SnapshotAnswers(weights=weights)
            return size
        if row["unread"] is not None:
            self._found.unread.append((row["n"], row["unread"]))
        else:
            self._found.found.append(_answer(row))
        return size

    def end(self) -> SnapshotAnswers:
        return self._found


def _size(row: Any) -> int:
    """Bytes that a row's texts take in this process: a text with one emoji takes four for every character."""
    return sum(sys.getsizeof(row[name]) for name in ("body", "unread") if row[name] is not None)


def _answer(row: Any) -> Answer:
    return Answer(
        n=row["n"],
        broker=row["broker"] or "",
        path=row["path"],
        status=row["status"],
        body=row["body"],
        at=utc_or_none(row["at"]),
        location=row["location"],
        method=row["method"],
        size=row["size"] or 0,
        is_cut=row["is_cut"],
    )


def utc_or_none(text: str | None) -> datetime | None:
    """A request's time, or None where it has none."""
    try:
        return utc(text)
    except BadInput:
        return None
