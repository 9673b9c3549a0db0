"""The pages of a bundle and of a broker: where it is and how loaded, its course, why at a moment, and what rests on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from evenkeel.errors import BadInput, EvenkeelError, LakeError, NoLake, NoSuchCycle
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.record import trace, wording
from evenkeel.record.explain import Moment, Times, explain, missing
from evenkeel.record.explain.ask import find
from evenkeel.record.explain.rendering import alternative_line, rule_line
from evenkeel.record.explain.subject import Subject, parse_subject
from evenkeel.record.read import Attempt, Record, Row, clusters_of
from evenkeel.record.read.ranges import LAST_MOMENT
from evenkeel.record.read.tables import text
from evenkeel.times import Given, time_given
from evenkeel_page.heat_request import RANGES, asked_range
from evenkeel_page.heat_why import COLUMNS, LOADS, broker_shares, bundle_figures
from evenkeel_page.heat_words import exact
from evenkeel_page.look import sentence
from evenkeel_page.reader import Answer
from evenkeel_page.subject_charts import course_picture
from evenkeel_page.subject_course import (
    BROKER_FIGURES,
    KINDS_OF,
    LoadPoint,
    OwnedBundles,
    SubjectCourse,
    owned_bundles,
    read_course,
)
from evenkeel_page.subject_links import LinkedCycle, anchor, broker_link, bundle_link, linking, stamp

COURSE_RANGES = ("1h", "6h", "24h", "3d", "7d", "30d")
LONGEST = timedelta(days=31)
MOST_BUNDLES, MOST_EVENTS, MOST_NAMED = 20, 60, 12
_TICK = timedelta(microseconds=1)
Render = Callable[..., str]


@dataclass(frozen=True)
class SubjectRequest:
    """What an address asks for. `at`: the moment as given, None where the end of the range is meant; `word`: the length
    of the range in COURSE_RANGES, "" where it was given from one moment to another; `problem`: why the range cannot be
    drawn."""

    cluster: str
    subject: Subject
    at: Given | None
    word: str
    first: datetime
    last: datetime
    has_end: bool
    problem: str = ""

    @property
    def when(self) -> Times:
        """The moment that is explained."""
        if self.at is None and self.has_end:
            return Times(time_given(stamp(self.last - _TICK), "to"))
        return Times(self.at)

    def range_words(self) -> dict[str, str]:
        """The range as words of an address."""
        if self.word and not self.has_end:
            return {"last": self.word}
        return {"from": stamp(self.first), "to": stamp(self.last)}

    def link(self, subject: Subject, at: datetime | None) -> str:
        """The address of a bundle or a broker at a moment, with the same range."""
        made = broker_link if subject.kind == "broker" else bundle_link
        return made(self.cluster, subject.name, at, **self.range_words())


def bundle(
    lake: str, render: Render, cluster: str, name: str, at: str | None = None, first: str | None = None,
    to: str | None = None, last: str | None = None,
) -> Answer:  # fmt: skip
    """The page of a bundle, or of the one that a topic lay in. A broker has its page elsewhere, a command its bundle's."""
    record = _record(lake, cluster)
    subject = parse_subject(name)
    given = {"at": at, "from": first, "to": to, "last": last}
    if subject.kind == "broker":
        return _elsewhere(broker_link(cluster, subject.name, **_known(given)))
    if subject.kind == "command":
        found = find(record, subject, cluster, Times())
        return _elsewhere(bundle_link(cluster, str(found.bundle), found.attempt.cycle_at))
    asked = _asked(record, cluster, subject, at, first, to, last)
    return _page(record, render, asked)


def broker(
    lake: str, render: Render, cluster: str, name: str, at: str | None = None, first: str | None = None,
    to: str | None = None, last: str | None = None,
) -> Answer:  # fmt: skip
    """The page of a broker, by any name that is on record; a bundle's name leads to its own page."""
    record = _record(lake, cluster)
    if "/0x" in name and ":" not in name:
        return _elsewhere(bundle_link(cluster, name, **_known({"at": at, "from": first, "to": to, "last": last})))
    asked = _asked(record, cluster, Subject("broker", name), at, first, to, last)
    return _page(record, render, asked)


def _record(lake: str, cluster: str) -> Record:
    record = Record(lake)
    if not record.clusters():
        raise NoLake(f"no cycle is on record in {lake}")
    clusters_of(record, cluster)
    return record


def _known(words: dict[str, str | None]) -> dict[str, Any]:
    return {name: word for name, word in words.items() if word}


def _elsewhere(address: str) -> Answer:
    return Answer(303, location=address)


def _asked(
    record: Record, cluster: str, subject: Subject, at: str | None, first: str | None, to: str | None, last: str | None
) -> SubjectRequest:
    """What is asked for. A moment outside the range that ends with the newest cycle stands in the middle of its own."""
    moment = time_given(at, "at") if at else None
    newest = record.newest_row_at("cycles", cluster)
    assert newest is not None, "a cluster is known by its cycles"
    problem = ""
    try:
        word, begin, end = asked_range(newest, last, first, to, COURSE_RANGES)
    except BadInput as error:
        problem = str(error)
        word, begin, end = asked_range(newest, None, None, None)
    if moment is not None and not (first or to) and not begin <= moment.first < end:
        begin, end = _around(moment.first, end - begin)
    if end <= begin:
        problem = f"the range ends at {stamp(end)}, which is not after its start {stamp(begin)}"
    elif end - begin > LONGEST:
        problem = f"the range is longer than {LONGEST.days} days: ask for less, or see the heat map, which has a year"
    return SubjectRequest(cluster, subject, moment, word, begin, end, bool(first or to), problem)


def _around(at: datetime, length: timedelta) -> tuple[datetime, datetime]:
    try:
        return at - length / 2, at + length / 2
    except OverflowError:
        return (at, at + length) if at.year < 2 else (at - length, at)


# What is shown.


@dataclass(frozen=True)
class Broken:
    """Where a bundle is not on record in a cycle: those that have its range then, `whole` where they are no parts of
    it but one that it is a part of."""

    bundles: tuple[str, ...]
    more: int
    whole: bool


def _page(record: Record, render: Render, asked: SubjectRequest) -> Answer:
    attempt, topic = _in_force(record, asked), ""
    if asked.subject.kind == "topic":
        found = find(record, asked.subject, asked.cluster, asked.when)
        topic, asked = asked.subject.name, _about_bundle(asked, str(found.bundle))
    moment, silent = _explained(record, asked, topic)
    row = _row(record, attempt, asked.subject) if attempt.decided else None
    course = None if asked.problem else _course(record, asked, attempt)
    is_known = row is not None or moment is not None or bool(course and (course.there or course.events))
    owned = changes = None
    if asked.subject.kind == "broker" and attempt.decided:
        owned = owned_bundles(record, attempt, asked.subject.name, MOST_BUNDLES)
        changes = _changes(record, course)
    context = {
        "asked": asked, "subject": asked.subject, "topic": topic, "attempt": attempt, "moment": moment,
        "missing": silent, "figures": _figures(record, attempt, asked.subject, row, owned), "row": row,
        "broken": None if row is not None else _relatives(record, attempt, asked.subject),
        "last_there": _last_there(course, row), "course": course, "owned": owned, "changes": changes,
        "events": () if course is None else course.events[::-1][:MOST_EVENTS], "kinds": KINDS_OF[asked.subject.kind],
        "picture": None if course is None else course_picture(course, attempt.cycle_at),
        "happened": {} if course is None else _happened(course), "ranges": {name: RANGES[name][0] for name in COURSE_RANGES},
        "near": _near(record, asked, attempt), "inputs": _inputs(record, asked, moment),
        "dependents": _dependents(record, asked, attempt, row), "heat": _heat_link(asked), "exact": exact,
        "report": "cycle?" + urlencode({"cluster": asked.cluster, "at": attempt.cycle_at.isoformat()}),
        "rule_line": rule_line, "alternative_line": alternative_line, "stamp": wording.time, "moment_text": stamp,
        "bundle_anchor": lambda name: anchor(asked.link(Subject("bundle", name), attempt.cycle_at), name, 70),
        "at_link": lambda at: asked.link(asked.subject, at), "event_link": lambda one: _event_link(asked, one),
        "others": _others(asked, course),
    }  # fmt: skip
    brokers = _brokers_named(moment, row, owned)
    with linking(LinkedCycle(asked.cluster, attempt.cycle_at, brokers)):
        body = render("subject.html.j2", **context)
    return Answer(400 if asked.problem else 200 if is_known else 404, body)


def _in_force(record: Record, asked: SubjectRequest) -> Attempt:
    until = LAST_MOMENT if asked.when.at is None else min(asked.when.at.last, LAST_MOMENT)
    attempt = record.in_force(asked.cluster, until)
    if attempt is None:
        raise missing.before_the_first(record, [asked.cluster], until)
    return attempt


def _about_bundle(asked: SubjectRequest, bundle: str) -> SubjectRequest:
    from dataclasses import replace

    return replace(asked, subject=Subject("bundle", bundle))


def _explained(record: Record, asked: SubjectRequest, topic: str) -> tuple[Moment | None, str]:
    """The explanation, else why there is none."""
    subject = Subject("topic", topic) if topic else asked.subject
    try:
        said = explain(record, subject, cluster=asked.cluster, when=asked.when)
    except (BadInput, NoSuchCycle, LakeError) as error:
        return None, sentence(str(error))
    assert isinstance(said, Moment)
    return said, ""


def _row(record: Record, attempt: Attempt, subject: Subject) -> Row | None:
    table, columns = ("broker_load", BROKER_FIGURES) if subject.kind == "broker" else (LOADS, (*COLUMNS, "ownership"))
    rows = record.rows([attempt], table, columns=columns, where=text(subject.kind) == subject.name)
    return next(iter(rows[attempt.attempt_id]), None)


def _course(record: Record, asked: SubjectRequest, attempt: Attempt) -> SubjectCourse:
    tables = (LOADS,) if asked.subject.kind == "bundle" else ("broker_load", "unload_decisions")
    rows = sum(write.rows for table in tables for write in attempt.writes_of(table))
    return read_course(record, asked.subject, asked.cluster, asked.first, asked.last - _TICK, rows)


def _figures(
    record: Record, attempt: Attempt, subject: Subject, row: Row | None, owned: OwnedBundles | None
) -> list[tuple[str, str]]:
    """Names and values of what stands at the top."""
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


def _relatives(record: Record, attempt: Attempt, subject: Subject) -> Broken | None:
    """The bundles that have the range of one that is not on record in a cycle."""
    import pyarrow.compute as pc

    if subject.kind != "bundle" or not attempt.decided:
        return None
    own = range_of(subject.name)
    overlap = (pc.field("lower") < own.upper) & (pc.field("upper") > own.lower)
    inside = (text("namespace") == namespace_of(subject.name)) & overlap
    rows = record.rows([attempt], LOADS, columns=("bundle", "lower"), where=inside)[attempt.attempt_id]
    names = [row["bundle"] for row in sorted(rows, key=lambda row: row["lower"])]
    if not names or subject.name in names:
        return None
    return Broken(tuple(names[:MOST_NAMED]), len(names) - len(names[:MOST_NAMED]), range_of(names[0]).covers(own))


def _last_there(course: SubjectCourse | None, row: Row | None) -> datetime | None:
    """Where the subject is gone at the moment: when the course had it last."""
    return None if course is None or row is not None or not course.there else course.there[-1].at


@dataclass(frozen=True)
class Arrivals:
    """What a broker owned at the end of a range and not at its beginning, and the other way round: the first by name."""

    first: datetime
    last: datetime
    came: tuple[str, ...]
    left: tuple[str, ...]
    numbers: tuple[int, int]


def _changes(record: Record, course: SubjectCourse | None) -> Arrivals | None:
    """Between the first and the last cycle of a course that had the broker."""
    if course is None or len(course.there) < 2:
        return None
    ends = [course.there[0].at, course.there[-1].at]
    names = []
    for at in ends:
        (attempt,) = record.cycles(course.cluster, at, at)
        names.append(owned_bundles(record, attempt, course.subject.name, 0).names)
    came, left = sorted(names[1] - names[0]), sorted(names[0] - names[1])
    return Arrivals(*ends, tuple(came[:MOST_NAMED]), tuple(left[:MOST_NAMED]), (len(came), len(left)))


def _happened(course: SubjectCourse) -> dict[datetime, str]:
    """Of each point the kinds of what happened since the point before, in words."""
    found: dict[datetime, list[str]] = {}
    places = iter(course.points)
    point = next(places, None)
    for one in course.events:
        while point is not None and point.at < one.at:
            point = next(places, None)
        if point is not None:
            found.setdefault(point.at, []).append(one.kind)
    return {at: ", ".join(dict.fromkeys(kinds)) for at, kinds in found.items()}


def _near(record: Record, asked: SubjectRequest, attempt: Attempt) -> list[tuple[str, str]]:
    before = record.in_force(asked.cluster, attempt.cycle_at - _TICK)
    after = record.following(asked.cluster, attempt.cycle_at)
    named = (("cycle before", before), ("cycle after", after))
    return [(word, asked.link(asked.subject, one.cycle_at)) for word, one in named if one is not None]


def _event_link(asked: SubjectRequest, one: Any) -> str:
    """A bundle's event leads to its moment, a broker's to the bundle at that moment."""
    return asked.link(Subject("bundle", one.bundle) if one.bundle else asked.subject, one.at)


def _others(asked: SubjectRequest, course: SubjectCourse | None) -> list[tuple[str, str]]:
    """Ranges before and after the one that is shown."""
    if course is None:
        return []
    found, step = [], (asked.last - asked.first) / 2
    for word, way in (("Earlier", -1), ("Later", 1)):
        try:
            words = {"from": stamp(asked.first + way * step), "to": stamp(asked.last + way * step)}
        except OverflowError:
            continue
        made = broker_link if asked.subject.kind == "broker" else bundle_link
        found.append((word, made(asked.cluster, asked.subject.name, **words)))
    return found


def _heat_link(asked: SubjectRequest) -> str:
    words = {"cluster": asked.cluster, "from": stamp(asked.first), "to": stamp(asked.last)}
    if asked.subject.kind == "bundle":
        words["within"] = asked.subject.name
    else:
        words |= {"colour": "owner", "broker": asked.subject.name}
    return "heat?" + urlencode(words)


def _brokers_named(moment: Moment | None, row: Row | None, owned: OwnedBundles | None) -> frozenset[str]:
    names = {row.get("owner") if row else None}
    if moment is not None:
        names |= {name for sent in moment.commands for name in (sent.from_broker, sent.destination)}
    return frozenset(name for name in names if name)


# What rests on what.


def _inputs(record: Record, asked: SubjectRequest, moment: Moment | None) -> trace.Inputs | None:
    """What the decisions of the cycle rest on; None where nothing was explained."""
    if moment is None:
        return None
    try:
        return trace.inputs(record, asked.subject, cluster=asked.cluster, when=asked.when)
    except EvenkeelError:
        return None


def _dependents(record: Record, asked: SubjectRequest, attempt: Attempt, row: Row | None) -> trace.Dependents | None:
    """What rests on the broker's report of the cycle."""
    if asked.subject.kind != "broker" or row is None:
        return None
    at = Given(attempt.cycle_at, attempt.cycle_at, stamp(attempt.cycle_at))
    try:
        return trace.of_broker(record, asked.subject.name, cluster=asked.cluster, when=Times(first=at, last=at))
    except EvenkeelError:
        return None
