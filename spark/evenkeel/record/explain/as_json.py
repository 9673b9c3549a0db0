"""An explanation as JSON for a program; keys are documented in docs/how-to/explain.md and stay as they are.

Times are ISO 8601 in UTC; figures are in the unit that stands beside them, None is null.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from evenkeel.record.explain.changes import Change
from evenkeel.record.explain.model import Course, Moment, Quiet, Reason

VERSION = 1


def as_json(found: Moment | Course) -> str:
    """The text of one JSON object."""
    body = moment_body(found) if isinstance(found, Moment) else course_body(found)
    return json.dumps({"version": VERSION, **body}, ensure_ascii=False, indent=2, default=stamp)


def course_body(course: Course) -> dict[str, Any]:
    """A range: `steps` in the order of time."""
    steps = [_quiet(step) if isinstance(step, Quiet) else moment_body(step) for step in course.steps]
    return {"type": "course", **_plain(course, without=("steps",)), "steps": steps}


def moment_body(moment: Moment) -> dict[str, Any]:
    """One cycle."""
    body = _plain(moment, without=("reasons",))
    return {"type": "moment", **body, "reasons": [_reason(reason) for reason in moment.reasons]}


def _quiet(quiet: Quiet) -> dict[str, Any]:
    return {"type": "quiet", **asdict(quiet)}


def _reason(reason: Reason) -> dict[str, Any]:
    return {**_plain(reason, without=("changes",)), "changes": [_change(change) for change in reason.changes]}


def _change(change: Change) -> dict[str, Any]:
    return {**asdict(change), "by": change.by}


def _plain(one: Any, *, without: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name not in without}


def stamp(value: object) -> str:
    """A moment as JSON has it; TypeError for anything else that it has not."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} in an explanation")
