"""Times: as operators give them, read in one way by commands, params of DAGs and pages; and as texts that are stored.

A time is ISO 8601. With an offset of its own it is that moment; without one it is UTC, or the wall clock of a zone that
was named beside it, with its two odd hours a year. It stands for all of the day, hour, minute or second that it names:
a range begins with the first moment of its first time and ends with the last moment of its last one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from evenkeel.errors import BadInput

IN_UTC = "UTC where no zone is given"
"""For the help of options."""
FROM_TO = ("--from", "--to")

_SHAPE = re.compile(
    r"\d{4}-?\d\d-?\d\d(?:[T ](?P<hour>\d\d)(?P<minute>:?\d\d)?(?P<second>:?\d\d)?(?P<fraction>[.,]\d+)?"
    r"(?:Z|[+-]\d\d(?::?\d\d){0,2})?)?"
)
_TICK, _DAY = timedelta(microseconds=1), timedelta(days=1)
_FOREVER = datetime.max.replace(tzinfo=UTC)
_LENGTHS = {
    "fraction": _TICK,
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
}


@dataclass(frozen=True, slots=True)
class Given:
    """A time as given stands for all of the day, minute or second that it names: the moments from `first` to `last`."""

    first: datetime
    last: datetime
    text: str


def zone(name: str | None) -> tzinfo:
    """The zone of that name; UTC for None."""
    if name is None:
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = available_timezones()
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else "write it like Europe/Berlin."
        if not known:
            hint = "this machine has no time zones (package tzdata); give times in UTC."
        raise BadInput(f"--tz {name!r} is not a time zone: {hint}") from None


def time_given(text: str, option: str, where: tzinfo = UTC) -> Given:
    """The moments that a text stands for; one without a zone of its own is read in `where`.

    BadInput, which begins with `option`, for what is not a time, and for a wall clock's time that comes twice or never:
    the message names the moments.
    """
    text = text.strip()
    shape = _SHAPE.fullmatch(text)
    try:
        if shape is None:
            raise ValueError(text)
        return _given(text, shape, where, option)
    except (ValueError, OverflowError):
        raise BadInput(
            f"{option} {text[:60]!r} is not a time: write 2026-11-21T08:27:04Z, 2026-11-21T08:27 or 2026-11-21; one "
            f"without a zone is in {where}."
        ) from None


def moment_given(text: str, option: str) -> datetime:
    """The one moment that a text stands for, where no more than one can be meant: the first of what it names."""
    return time_given(text, option).first


def range_given(
    since: str | None, until: str | None, where: tzinfo = UTC, *, options: tuple[str, str] = FROM_TO
) -> tuple[Given | None, Given | None]:
    """Both ends of a range, None for no bound; BadInput as `time_given`, and where it would end before it begins."""
    first = None if since is None else time_given(since, options[0], where)
    last = None if until is None else time_given(until, options[1], where)
    if first and last and first.first > last.last:
        raise BadInput(f"{options[0]} {first.text} lies after {options[1]} {last.text}: swap them.")
    return first, last


def bounds_given(
    since: str | None, until: str | None, *, options: tuple[str, str] = FROM_TO
) -> tuple[datetime | None, datetime | None]:
    """The first and the last moment of a range in UTC, both included; errors as `range_given`."""
    first, last = range_given(since, until, options=options)
    return first.first if first else None, last.last if last else None


def moment_in(value: object) -> datetime | None:
    """The moment of an ISO-8601 text with a time zone, in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def utc_text(at: datetime) -> str:
    """ISO-8601 in UTC with microseconds and offset, `2026-11-21T09:15:00.000000+00:00`; texts sort as moments do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def utc_milliseconds(at: datetime) -> str:
    """ISO-8601 in UTC with milliseconds, `2026-11-21T09:15:00.000Z`, as times stand in a recording."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_seconds(at: datetime) -> str:
    """`2026-11-21T09:15:00Z` for a moment that is in UTC already."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _given(text: str, shape: re.Match[str], where: tzinfo, option: str) -> Given:
    at = datetime.fromisoformat(text)
    if shape["hour"] is None:
        is_last = at.date() == date.max
        return Given(_midnight(at, where), _FOREVER if is_last else _midnight(at + _DAY, where) - _TICK, text)
    first = at.astimezone(UTC) if at.tzinfo else _of_wall_clock(at, where, option)
    whole = next(length for name, length in _LENGTHS.items() if shape[name])
    return Given(first, first + (whole - _TICK), text)


def _midnight(day: datetime, where: tzinfo) -> datetime:
    """When a day begins; one that loses its midnight, or has it twice, begins where the day before ends."""
    return day.replace(tzinfo=where).astimezone(UTC)


def _of_wall_clock(at: datetime, where: tzinfo, option: str) -> datetime:
    earlier, later = (at.replace(tzinfo=where, fold=fold).astimezone(UTC) for fold in (0, 1))
    if earlier == later:
        return earlier
    text = f"{option} {at.isoformat(sep=' ')}"
    if earlier < later:
        raise BadInput(
            f"{text} comes twice in {where}, when clocks go back: say which, {utc_seconds(earlier)} or "
            f"{utc_seconds(later)}."
        )
    raise BadInput(
        f"{text} does not exist in {where}, where clocks go forward then: the nearest moments are {utc_seconds(later)} "
        f"and {utc_seconds(earlier)}."
    )


def after_all(moment: datetime, others: Iterable[datetime]) -> datetime:
    """The moment, or a microsecond after the newest of the others where the moment is not later: what is said last
    holds, and the clocks of those who say it may differ."""
    newest = max(others, default=None)
    return moment if newest is None or newest < moment else newest + _TICK
