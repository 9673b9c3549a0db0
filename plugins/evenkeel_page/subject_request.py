"""The request for a bundle or a broker in an address: a moment, and a range of time around or beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.errors import BadInput
from evenkeel.explain import Times
from evenkeel.explain.subject import Subject
from evenkeel.lake.record import Record
from evenkeel.times import Given, time_given
from evenkeel_page.heat_request import asked_range
from evenkeel_page.look import sentence
from evenkeel_page.subject_links import stamp, subject_link

COURSE_RANGES = ("1h", "6h", "24h", "3d", "7d", "30d")
"""Of the heat map's words for ranges those that a course may be as long as."""
LONGEST = timedelta(days=31)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class SubjectRequest:
    """The request in an address.

    `at`: the moment as given, None for the end of the range; `word`: the length of the range in COURSE_RANGES, "" if it
    was given from one moment to another (`is_given`); `problem`: why the range cannot be drawn.
    """

    cluster: str
    subject: Subject
    at: Given | None
    word: str
    first: datetime
    last: datetime
    is_given: bool
    problem: str = ""

    @property
    def when(self) -> Times:
        """The moment that is explained."""
        if self.at is None and self.is_given:
            return Times(time_given(stamp(self.last - _TICK), "to"))
        return Times(self.at)

    def range_words(self) -> dict[str, str]:
        """The range as words of an address."""
        if self.word and not self.is_given:
            return {"last": self.word}
        return {"from": stamp(self.first), "to": stamp(self.last)}

    def link(self, subject: Subject, at: datetime | None) -> str:
        """The address of a bundle or a broker at a moment, with the same range."""
        return subject_link(subject.kind, self.cluster, subject.name, at, **self.range_words())

    def beside(self) -> list[tuple[str, str]]:
        """Words and addresses of the ranges half a length before and after this one."""
        ranges, step = [], (self.last - self.first) / 2
        for word, way in (("Earlier", -1), ("Later", 1)):
            try:
                words = {"from": stamp(self.first + way * step), "to": stamp(self.last + way * step)}
            except OverflowError:
                continue
            ranges.append((word, subject_link(self.subject.kind, self.cluster, self.subject.name, **words)))
        return ranges


def subject_request(
    record: Record,
    cluster: str,
    subject: Subject,
    *,
    at: str | None = None,
    first: str | None = None,
    to: str | None = None,
    last: str | None = None,
) -> SubjectRequest:
    """Return the request, for a cluster on record; BadInput for an unreadable moment.

    A moment outside of the range that ends with the newest cycle is in the middle of a separate range.
    """
    moment = time_given(at, "at") if at else None
    newest = record.newest_row_at("cycles", cluster)
    assert newest is not None, "a cluster is known by its cycles"
    problem, is_given = "", bool(first or to)
    try:
        word, begin, end = asked_range(newest, last, first, to, COURSE_RANGES)
    except BadInput as error:
        problem, is_given = sentence(str(error)), False
        word, begin, end = asked_range(newest, None, None, None)
    if moment is not None and not is_given and not begin <= moment.first < end:
        begin, end = _around(moment.first, end - begin)
    if end <= begin:
        problem = f"The range ends at {stamp(end)}, which is not after its start {stamp(begin)}."
    elif end - begin > LONGEST:
        problem = f"The range is longer than {LONGEST.days} days: ask for less, or see the heat map, which has a year."
    return SubjectRequest(cluster, subject, moment, word, begin, end, is_given, problem)


def _around(at: datetime, length: timedelta) -> tuple[datetime, datetime]:
    try:
        return at - length / 2, at + length / 2
    except OverflowError:
        return (at, at + length) if at.year == 1 else (at - length, at)
