"""Times: one reader for the times that operators give, and the texts that are stored.

Commands, params of DAGs and pages read a time alike. A time is ISO 8601. With an offset it is that moment. Without one
it is UTC, or the wall clock of a zone that was named beside it, with its two odd hours a year. It covers all of the
day, hour, minute or second that it names: a range begins with the first moment of its first time and ends with the last
moment of its last one.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from evenkeel.errors import BadInput

IN_UTC = "UTC where no zone is given"
"""Note for the help of options."""
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
    """A time as given. It covers all of the day, minute or second that it names: the moments from `first` to `last`."""

    first: datetime
    last: datetime
    text: str


def zone(name: str | None) -> tzinfo:
    """Return the zone of that name; UTC for None."""
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
    """Return the moments that a text covers; a text without a zone is read in `where`.

    Raises BadInput, which begins with `option`, if the text is not a time, or names a wall clock's time that comes
    twice or never: the message names the moments.
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
    """Return the first moment that a text covers, for options that take a single moment."""
    return time_given(text, option).first


def range_given(
    since: str | None, until: str | None, where: tzinfo = UTC, *, options: tuple[str, str] = FROM_TO
) -> tuple[Given | None, Given | None]:
    """Return both ends of a range, None for no bound.

    Raises BadInput as `time_given`, and if the range would end before it begins.
    """
    first = None if since is None else time_given(since, options[0], where)
    last = None if until is None else time_given(until, options[1], where)
    if first and last and first.first > last.last:
        raise BadInput(f"{options[0]} {first.text} is after {options[1]} {last.text}: swap them.")
    return first, last


def bounds_given(
    since: str | None, until: str | None, *, options: tuple[str, str] = FROM_TO
) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last moment of a range in UTC, both included; errors as `range_given`."""
    first, last = range_given(since, until, options=options)
    return first.first if first else None, last.last if last else None


def moment_in(value: object) -> datetime | None:
    """Return the moment of an ISO-8601 text with a time zone, in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def utc_text(at: datetime) -> str:
    """Return ISO-8601 in UTC with microseconds and offset, `2026-11-21T09:15:00.000000+00:00`; texts sort as moments
    do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def utc_milliseconds(at: datetime) -> str:
    """Return ISO-8601 in UTC with milliseconds, `2026-11-21T09:15:00.000Z`, the form of times in a recording."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_seconds(at: datetime) -> str:
    """Return `2026-11-21T09:15:00Z` for a moment that is in UTC already."""
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
    """Return the start of a day; one that loses its midnight, or has it twice, begins where the previous day ends."""
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


def elapsed() -> float:
    """Return seconds on a monotonic clock that goes on while the machine is suspended, if the system has such a clock.

    For holds and leases: CLOCK_MONOTONIC stands still meanwhile, and a hold that others took would look fresh.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


A_JUMP = timedelta(days=1)
"""A record does not go on that far from one moment to the next, unless it paused, or a clock was wrong."""


def borne_out(moments: Iterable[datetime], *, jump: timedelta = A_JUMP, lasting: timedelta = A_JUMP) -> datetime | None:
    """Return the newest of a record's moments that the others bear out; None without any.

    A clock that is wrong for a while leaves moments far ahead. So moments that follow a gap of more than `jump` count
    once they span `lasting`.
    """
    runs: list[tuple[datetime, datetime]] = []
    for moment in sorted(moments):
        if runs and moment - runs[-1][1] <= jump:
            runs[-1] = runs[-1][0], moment
        else:
            runs.append((moment, moment))
    while len(runs) > 1 and runs[-1][1] - runs[-1][0] < lasting:
        runs.pop()
    return runs[-1][1] if runs else None


def after_all(moment: datetime, others: Iterable[datetime]) -> datetime:
    """Return the moment, or a microsecond after the newest of the others if the moment is not later.

    The last entry holds, and the clocks of the machines that write entries may differ.
    """
    newest = max(others, default=None)
    return moment if newest is None or newest < moment else newest + _TICK
