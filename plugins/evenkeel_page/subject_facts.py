"""Facts for the page of a bundle or a broker, the course aside: figures, parents and children, inputs, dependents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import pyarrow.compute as pc

from evenkeel.errors import BadInput, EvenkeelError, LakeError, NoSuchCycle
from evenkeel.explain import Moment, Times, explain, trace
from evenkeel.explain.subject import Subject
from evenkeel.lake.record import Attempt, Record, Row
from evenkeel.lake.record.tables import text
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.times import Given
from evenkeel_page.heat_why import COLUMNS, LOADS, broker_shares, bundle_figures
from evenkeel_page.heat_words import exact
from evenkeel_page.look import sentence
from evenkeel_page.subject_course import BROKER_FIGURES, LoadPoint, OwnedBundles, SubjectCourse, owned_bundles
from evenkeel_page.subject_links import stamp
from evenkeel_page.subject_request import SubjectRequest

MOST_NAMED = 12


def table_of(subject: Subject) -> str:
    """Return the table with the load of the subject."""
    return "broker_load" if subject.kind == "broker" else LOADS


def row_of(record: Record, attempt: Attempt, subject: Subject) -> Row | None:
    """The subject's row in a cycle."""
    if not attempt.decided:
        return None
    columns = BROKER_FIGURES if subject.kind == "broker" else (*COLUMNS, "ownership")
    where = text(subject.kind) == subject.name
    rows = record.rows([attempt], table_of(subject), columns=columns, where=where)
    return next(iter(rows[attempt.attempt_id]), None)


def figures_of(
    record: Record, attempt: Attempt, subject: Subject, row: Row | None, owned: OwnedBundles | None
) -> list[tuple[str, str]]:
    """Return names and values for the top of the page."""
    if row is None:
        return []
    if subject.kind == "bundle":
        return [*bundle_figures(row, broker_shares(record, attempt, [row])).figures]
    point = LoadPoint(attempt.cycle_at, "", row)
    return [
        ("Usage", exact(row["weighted_usage"], "fraction")), ("Messages", exact(point.rate, "msg/s")),
        ("Bytes", exact(point.throughput, "byte/s")), ("Bundles", exact(row["bundles"], "count")),
        ("Topics", exact(row["topics"], "count")),
        ("Sessions", exact(None if owned is None else owned.sessions, "count")),
        ("CPU", _percent(row["cpu_percent"])), ("Direct memory", _percent(row["direct_memory_percent"])),
    ]  # fmt: skip


def _percent(value: float | None) -> str:
    return exact(None if value is None else value / 100, "fraction")


def explained(record: Record, asked: SubjectRequest, subject: Subject) -> tuple[Moment | None, str, bool]:
    """Return the explanation, or why there is none, and True if that is because the cycle does not know the subject."""
    try:
        explanation = explain(record, subject, cluster=asked.cluster, when=asked.when)
    except (BadInput, NoSuchCycle, LakeError) as error:
        return None, sentence(str(error)), isinstance(error, BadInput)
    assert isinstance(explanation, Moment)
    return explanation, "", False


def inputs_of(record: Record, asked: SubjectRequest, moment: Moment | None) -> trace.Inputs | None:
    """Return the inputs of the cycle's decisions; None if nothing was explained."""
    if moment is None:
        return None
    try:
        return trace.inputs(record, asked.subject, cluster=asked.cluster, when=asked.when)
    except EvenkeelError:
        return None


def dependents_of(record: Record, asked: SubjectRequest, attempt: Attempt, row: Row | None) -> trace.Dependents | None:
    """Return what uses a broker's report of the cycle."""
    if asked.subject.kind != "broker" or row is None:
        return None
    at = Given(attempt.cycle_at, attempt.cycle_at, stamp(attempt.cycle_at))
    try:
        return trace.of_broker(record, asked.subject.name, cluster=asked.cluster, when=Times(first=at, last=at))
    except EvenkeelError:
        return None


@dataclass(frozen=True)
class Relatives:
    """The bundles that have the range of one that a cycle does not have, the first of them and how many `more`;
    `is_part`: it is a part of the first."""

    bundles: tuple[str, ...]
    more: int
    is_part: bool


def relatives_of(record: Record, attempt: Attempt, subject: Subject) -> Relatives | None:
    """The parents and children of a bundle in a cycle; None where the bundle has neither."""
    if subject.kind != "bundle" or not attempt.decided:
        return None
    hashes = range_of(subject.name)
    overlap = (pc.field("lower") < hashes.upper) & (pc.field("upper") > hashes.lower)
    inside = (text("namespace") == namespace_of(subject.name)) & overlap
    rows = record.rows([attempt], LOADS, columns=("bundle", "lower"), where=inside)[attempt.attempt_id]
    names = [row["bundle"] for row in sorted(rows, key=lambda row: row["lower"])]
    if not names or subject.name in names:
        return None
    return Relatives(tuple(names[:MOST_NAMED]), max(len(names) - MOST_NAMED, 0), range_of(names[0]).covers(hashes))


def elsewhen(course: SubjectCourse | None, attempt: Attempt) -> tuple[str, datetime] | None:
    """The point of a course nearest to a cycle without the subject: the last before, else the first after."""
    points = () if course is None else course.there
    before = [point.at for point in points if point.at < attempt.cycle_at]
    if before:
        return "last", before[-1]
    return ("first", points[0].at) if points else None


def kept_from(record: Record, course: SubjectCourse | None) -> str:
    """Return the date from which the rows of a course are kept, if it begins before that; else ""."""
    if course is None or not course.points:
        return ""
    dates = record.dates(table_of(course.subject), course.cluster)
    return dates[0].isoformat() if dates and course.points[0].at.date() < dates[0] else ""


@dataclass(frozen=True)
class Arrivals:
    """Bundles that a broker owned at the end of a range and not at its beginning, and vice versa: names, numbers."""

    first: datetime
    last: datetime
    came: tuple[str, ...]
    left: tuple[str, ...]
    numbers: tuple[int, int]


def arrivals_of(record: Record, course: SubjectCourse | None) -> Arrivals | None:
    """Between the first and the last point of a broker's course."""
    if course is None or course.subject.kind != "broker" or len(course.there) < 2:
        return None
    ends = course.there[0].at, course.there[-1].at
    owned = []
    for at in ends:
        (attempt,) = record.cycles(course.cluster, at, at)
        owned.append(owned_bundles(record, attempt, course.subject.name, 0).names)
    came, left = sorted(owned[1] - owned[0]), sorted(owned[0] - owned[1])
    return Arrivals(*ends, tuple(came[:MOST_NAMED]), tuple(left[:MOST_NAMED]), (len(came), len(left)))


def happened_at(course: SubjectCourse | None) -> dict[datetime, str]:
    """Return for each point the events after the previous point and up to it, in words."""
    if course is None:
        return {}
    moments = [course.first, *(point.at for point in course.points)]
    events = {}
    for before, at in pairwise(moments):
        is_first = at == moments[1]
        kinds = [event.kind for event in course.events if before < event.at <= at or (is_first and event.at == before)]
        if kinds:
            events[at] = ", ".join(dict.fromkeys(kinds))
    return events
