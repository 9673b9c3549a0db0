"""The pages of a bundle and of a broker: load, course, reasons at a moment, inputs and dependents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from evenkeel.errors import NoLake
from evenkeel.explain import Moment, Times, wording
from evenkeel.explain import missing_data as missing
from evenkeel.explain.ask import find
from evenkeel.explain.rendering import alternative_line, rule_line
from evenkeel.explain.subject import Subject, parse_subject
from evenkeel.lake.record import Attempt, Record, Row, clusters_of
from evenkeel.lake.record.known_files import LAST_MOMENT
from evenkeel.report.page import report_link
from evenkeel_page.heat_request import RANGES
from evenkeel_page.heat_words import exact
from evenkeel_page.reader import Answer
from evenkeel_page.rendering import above, renderer, short
from evenkeel_page.subject_charts import course_picture, owner_classes
from evenkeel_page.subject_course import KINDS_OF, SubjectCourse, SubjectEvent, owned_bundles, read_course
from evenkeel_page.subject_facts import (
    arrivals_of,
    dependents_of,
    elsewhen,
    explained,
    figures_of,
    happened_at,
    inputs_of,
    kept_from,
    relatives_of,
    row_of,
    table_of,
)
from evenkeel_page.subject_links import LinkedCycle, anchor, is_bundle_name, linking, page_link, stamp, subject_link
from evenkeel_page.subject_request import COURSE_RANGES, SubjectRequest, subject_request

MOST_BUNDLES, MOST_EVENTS = 20, 60
_TICK = timedelta(microseconds=1)


def bundle(lake: str, cluster: str, name: str, **words: str | None) -> Answer:
    """The page of a bundle, or of the one that a topic lay in; a broker's and a command's name lead to their pages.

    `words`: at, first, to and last of the address.
    """
    record = _record(lake, cluster)
    subject = parse_subject(name)
    if subject.kind == "broker":
        return _elsewhere("broker", cluster, subject.name, words)
    if subject.kind == "command":
        cycle = find(record, subject, cluster, Times())
        return Answer(303, location=subject_link("bundle", cluster, str(cycle.bundle), cycle.attempt.cycle_at))
    return _page(record, name, subject_request(record, cluster, subject, **words))


def broker(lake: str, cluster: str, name: str, **words: str | None) -> Answer:
    """Return the page of a broker, by any recorded name; a bundle's name leads to its own page. `words` as there."""
    record = _record(lake, cluster)
    if is_bundle_name(name):
        return _elsewhere("bundle", cluster, name, words)
    return _page(record, name, subject_request(record, cluster, Subject("broker", name), **words))


def _elsewhere(page: str, cluster: str, name: str, words: Mapping[str, str | None]) -> Answer:
    """Return the redirect to the page of the other kind of subject, with the same words."""
    given = {"at": words.get("at"), "from": words.get("first"), "to": words.get("to"), "last": words.get("last")}
    return Answer(303, location=page_link(page, {"cluster": cluster, "name": name, **given}))


def _record(lake: str, cluster: str) -> Record:
    record = Record(lake)
    if not record.clusters():
        raise NoLake(f"no cycle is on record in {lake}")
    clusters_of(record, cluster)
    return record


def _page(record: Record, name: str, asked: SubjectRequest) -> Answer:
    attempt, given = _in_force(record, asked), asked.subject
    if given.kind == "topic":
        cycle = find(record, given, asked.cluster, asked.when)
        asked = replace(asked, subject=Subject("bundle", str(cycle.bundle)))
    subject = asked.subject
    moment, silent, is_unknown = explained(record, asked, given)
    row = row_of(record, attempt, subject)
    course = None if asked.problem else _course(record, asked, attempt)
    owned = None
    if subject.kind == "broker" and attempt.decided:
        owned = owned_bundles(record, attempt, subject.name, MOST_BUNDLES)
    context = {
        "asked": asked, "subject": subject, "topic": given.name if given.kind == "topic" else "", "attempt": attempt,
        "moment": moment, "missing": silent, "row": row, "figures": figures_of(record, attempt, subject, row, owned),
        "relatives": relatives_of(record, attempt, subject) if row is None else None,
        "elsewhen": elsewhen(course, attempt) if row is None and attempt.decided else None,
        "owned": owned, "arrivals": arrivals_of(record, course), "near": _near(record, asked, attempt),
        "inputs": inputs_of(record, asked, moment), "dependents": dependents_of(record, asked, attempt, row),
        "kept_from": kept_from(record, course),
    }  # fmt: skip
    brokers = _brokers_named(moment, row) | {*owner_classes(course)} if course else _brokers_named(moment, row)
    with linking(LinkedCycle(asked.cluster, attempt.cycle_at, brokers)):
        render = renderer("clusters", [*above(asked.cluster), (short(name), "")])
        body = render("subject.html.j2", **context, **_drawn(course, attempt), **_words(asked, attempt))
    is_unknown = is_unknown and row is None and not (course and (course.there or course.events))
    return Answer(400 if asked.problem else 404 if is_unknown else 200, body)


def _in_force(record: Record, asked: SubjectRequest) -> Attempt:
    until = LAST_MOMENT if asked.when.at is None else min(asked.when.at.last, LAST_MOMENT)
    attempt = record.in_force(asked.cluster, until)
    if attempt is None:
        raise missing.before_the_first(record, [asked.cluster], until)
    return attempt


def _course(record: Record, asked: SubjectRequest, attempt: Attempt) -> SubjectCourse:
    tables = ("bundle_load",) if asked.subject.kind == "bundle" else ("broker_load", "unload_decisions")
    rows = sum(write.rows for table in tables for write in attempt.writes_of(table))
    return read_course(record, asked.subject, asked.cluster, asked.first, asked.last - _TICK, rows)


def _drawn(course: SubjectCourse | None, attempt: Attempt) -> dict[str, Any]:
    """Return what the template draws of a course."""
    return {
        "course": course,
        "events": () if course is None else course.events[::-1][:MOST_EVENTS],
        "picture": None if course is None else course_picture(course, attempt.cycle_at),
        "owner_classes": {} if course is None else owner_classes(course),
        "happened": happened_at(course),
    }


def _words(asked: SubjectRequest, attempt: Attempt) -> dict[str, Any]:
    """Return addresses, and functions by which the template formats values."""
    cluster, at = asked.cluster, attempt.cycle_at
    return {
        "kinds": KINDS_OF[asked.subject.kind], "table": table_of(asked.subject), "exact": exact,
        "ranges": {name: RANGES[name][0] for name in COURSE_RANGES}, "beside": asked.beside(),
        "heat": _heat_link(asked), "report": report_link(cluster, at),
        "rule_line": rule_line, "alternative_line": alternative_line, "stamp": wording.time, "moment_text": stamp,
        "bundle_anchor": lambda name: anchor(asked.link(Subject("bundle", name), at), name, 70),
        "at_link": lambda moment: asked.link(asked.subject, moment),
        "event_link": lambda event: _event_link(asked, event),
    }  # fmt: skip


def _near(record: Record, asked: SubjectRequest, attempt: Attempt) -> list[tuple[str, str]]:
    before = record.in_force(asked.cluster, attempt.cycle_at - _TICK)
    after = record.following(asked.cluster, attempt.cycle_at)
    named = (("cycle before", before), ("cycle after", after))
    return [(word, asked.link(asked.subject, cycle.cycle_at)) for word, cycle in named if cycle is not None]


def _event_link(asked: SubjectRequest, event: SubjectEvent) -> str:
    """A bundle's event leads to its moment, a broker's to the bundle at that moment."""
    return asked.link(Subject("bundle", event.bundle) if event.bundle else asked.subject, event.at)


def _heat_link(asked: SubjectRequest) -> str:
    words = {"cluster": asked.cluster, "from": stamp(asked.first), "to": stamp(asked.last)}
    if asked.subject.kind == "bundle":
        return page_link("heat", words | {"within": asked.subject.name})
    return page_link("heat", words | {"colour": "owner", "broker": asked.subject.name})


def _brokers_named(moment: Moment | None, row: Row | None) -> frozenset[str]:
    """Brokers whose names on the page are links."""
    names = {row.get("owner") if row else None}
    if moment is not None:
        names |= {name for sent in moment.commands for name in (sent.from_broker, sent.destination)}
    return frozenset(name for name in names if name)
