"""An explanation as text for a person, and as JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, tzinfo
from itertools import chain
from typing import Any

from evenkeel.explain import wording
from evenkeel.explain.explanation import Course, Moment, OtherOption, Quiet, Reason, SentCommand, Where
from evenkeel.model import amounts
from evenkeel.model.past_commands import HARMED

MOST_LINES = 8


def as_text(answer: Moment | Course, where: tzinfo = UTC) -> str:
    """The explanation, with times in the zone `where`; ends with a line break."""
    lines = _moment(answer, where) if isinstance(answer, Moment) else _course(answer, where)
    return "\n".join(wording.visible(line) for line in lines) + "\n"


def _course(course: Course, where: tzinfo) -> Iterator[str]:
    span = f"{clock(course.first, where)} to {clock(course.last, where)}"
    yield f"{course.subject.name} in cluster {course.cluster}, {span}: {amounts.plural(course.cycles, 'cycle')}"
    for step in course.steps:
        yield ""
        if isinstance(step, Quiet):
            until = "" if step.cycles == 1 else f" to {clock(step.last, where)}"
            yield f"{clock(step.first, where)}{until}: {step.sentence}"
        else:
            yield from _moment(step, where)
    yield from _notes(course.notes)


def _moment(moment: Moment, where: tzinfo) -> Iterator[str]:
    status = "" if moment.status == "closed" else f", {moment.status}"
    how = f"attempt {moment.attempt}, {moment.kind}, {moment.mode.replace('_', ' ')}{status}"
    name = moment.subject.name if moment.subject.kind != "command" else f"command {moment.subject.name}"
    yield f"{name} in cluster {moment.cluster}, cycle of {clock(moment.cycle_at, where)} ({how})"
    if moment.subject.kind in ("topic", "command"):
        yield f"Its bundle is {moment.bundle or 'not known'}."
    yield from _section("Harm that was seen", [line for sent in moment.commands for line in _harm(sent, where)])
    yield ""
    yield "Where it was"
    yield f"  {_where(moment)}"
    yield ""
    yield "What was decided"
    reasons = [reason for reason in moment.reasons if reason.step not in ("guard", "planner")]
    if not reasons:
        yield "  Nothing is on record about it in this cycle."
    for reason in reasons:
        yield f"  {reason.step}: {reason.outcome}"
        yield f"    {reason.sentence}"
        yield f"    {rule_line(reason)}"
    verdicts = [reason for reason in moment.reasons if reason.step == "planner"]
    yield from _section(
        "What Evenkeel's planner says",
        [line for one in verdicts for line in (f"{one.outcome}: {one.sentence}", f"  {rule_line(one)}")],
    )
    others = [_first(reason.step, map(alternative_line, reason.alternatives)) for reason in moment.reasons]
    yield from _section("What else was possible", [*chain(*others)])
    changes = [_first(reason.step, (change.sentence for change in reason.changes)) for reason in moment.reasons]
    yield from _section("What would have changed the answer", list(dict.fromkeys(chain(*changes))))
    guards = [reason for reason in moment.reasons if reason.step == "guard"]
    yield from _section("Guards' verdicts", [f"{guard.outcome}: {guard.sentence}" for guard in guards])
    yield from _section("What was sent, and what was seen", [line for s in moment.commands for line in _sent(s, where)])
    if not moment.commands and any(reason.acts and reason.step != "guard" for reason in moment.reasons):
        yield ""
        yield "Nothing was sent for it."
    yield from _notes(moment.notes)


def _where(moment: Moment) -> str:
    place = moment.where
    if place is None:
        return "Not on record any more."
    if moment.subject.kind == "broker":
        state = "" if place.state == "reported" else f" ({place.state.replace('_', ' ')})"
        usage = f"usage {amounts.percent(place.usage)}{state}"
        bundles, topics = amounts.counted(place.bundles, "bundle"), amounts.counted(place.topics, "topic")
        return f"{usage}, {bundles}, {topics}, {_load(place)}"
    owner = f"On {place.broker}" if place.broker else f"On no broker that is known for certain ({place.state})"
    return f"{owner}, with {_load(place)}, {amounts.counted(place.topics, 'topic')}"


def _load(place: Where) -> str:
    return f"{amounts.throughput(place.traffic)}, {amounts.rate(place.rate)}"


def rule_line(reason: Reason) -> str:
    """The rule that decided, with its numbers."""
    text = f"rule {reason.rule}" + (f" of {reason.strategy}" if reason.strategy else "")
    if reason.measured is not None:
        text += f": measured {amounts.quantity(reason.measured, reason.unit)}"
    if reason.threshold is not None:
        text += f", threshold {amounts.quantity(reason.threshold, reason.unit)}"
    if reason.margin is not None:
        text += f", margin {_margin(reason.margin, reason.unit)}"
    return text + (f" ({reason.setting})" if reason.setting else "")


def _margin(value: float, unit: str | None) -> str:
    if unit in ("fraction", "percent"):
        points = value * 100 if unit == "fraction" else value
        return f"{points:+.1f} points".replace("-", "−")
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{amounts.quantity(abs(value), unit)}"


def alternative_line(option: OtherOption) -> str:
    """Return the rejected alternative, the reason, and its distance."""
    measured = "" if option.measured is None else f", {amounts.quantity(option.measured, option.unit)}"
    behind = "" if option.behind is None else f", behind by {_margin(option.behind, option.unit).lstrip('+')}"
    return f"{option.name}, {option.verdict}{measured}{behind}"


def _first(step: str, statements: Iterable[str]) -> list[str]:
    """Return the first statements with their step, and how many more there are."""
    lines = [f"{step}: {statement}" for statement in statements]
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"{step}: and {more} more"] if more > 0 else lines


def _sent(sent: SentCommand, where: tzinfo) -> Iterator[str]:
    goal = f" to {sent.destination}" if sent.destination else ""
    start = f" from {sent.from_broker}" if sent.from_broker else ""
    yield f"{sent.act}{start}{goal} ({sent.mode.replace('_', ' ')}), command {sent.command_id[:16]}"
    yield f"  {sent.request}"
    for seen in sent.seen:
        outcome = seen.outcome.replace("_", " ")
        yield f"  {clock(seen.at, where)} {outcome}: {seen.detail.removeprefix(f'{outcome}: ')}"
    if not sent.seen:
        yield "  nothing is on record of it yet: the next cycle looks"


def _harm(sent: SentCommand, where: tzinfo) -> Iterator[str]:
    for outcome in sent.seen:
        if outcome.outcome == HARMED:
            yield f"{clock(outcome.at, where)}, after the {sent.act}: {outcome.detail}"


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield title
        yield from (f"  {line}" for line in lines)


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield ""
        yield from notes


def clock(at: datetime, where: tzinfo) -> str:
    """A moment on the clock of a zone: `2026-11-21 03:12:37 CET`."""
    return at.astimezone(where).strftime("%Y-%m-%d %H:%M:%S %Z")


# An explanation as JSON for a program; keys are documented in docs/reference/json.md and do not change.
#
# Times are ISO 8601 in UTC; figures are in the unit beside them, None is null.

VERSION = 1


def as_json(answer: Moment | Course) -> str:
    """The text of one JSON object."""
    body = moment_body(answer) if isinstance(answer, Moment) else course_body(answer)
    return json.dumps({"version": VERSION, **body}, ensure_ascii=False, indent=2, default=stamp)


def course_body(course: Course) -> dict[str, Any]:
    """A range: `steps` in the order of time."""
    steps = [
        {"type": "quiet", **asdict(step)} if isinstance(step, Quiet) else moment_body(step) for step in course.steps
    ]
    return {"type": "course", **_plain(course, without=("steps",)), "steps": steps}


def moment_body(moment: Moment) -> dict[str, Any]:
    """Return one cycle as JSON."""
    body = _plain(moment, without=("reasons",))
    return {
        "type": "moment",
        **body,
        "reasons": [
            {
                **_plain(reason, without=("changes",)),
                "changes": [{**asdict(change), "by": change.by} for change in reason.changes],
            }
            for reason in moment.reasons
        ],
    }


def _plain(fields: Any, *, without: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in asdict(fields).items() if name not in without}


def stamp(value: object) -> str:
    """A moment as JSON has it; TypeError for anything else that it has not."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} in an explanation")
