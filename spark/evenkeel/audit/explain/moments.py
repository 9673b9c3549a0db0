"""Times as operators give them: UTC, or the wall clock of a zone with its two odd hours a year."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from evenkeel.errors import BadInput

_SECONDS = re.compile(r"\d\d:\d\d:\d\d")
_DAY_ALONE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Given:
    """A time as given stands for all of the minute, second or day that it names: the moments from `first` to `last`."""

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
        raise BadInput(f"--tz {name!r} is no time zone: {hint}") from None


def parse_moment(text: str, where: tzinfo, option: str) -> Given:
    """The moments that a text stands for; one without a zone of its own is read in `where`.

    BadInput for what is no time, and for a wall clock's time that comes twice or never: the message names the moments.
    """
    text = text.strip()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"{option} {text[:60]!r} is no time: write the date and the time, as in 2026-11-21T03:12 "
            "(UTC, or the zone of --tz)."
        ) from None
    first = at.astimezone(UTC) if at.tzinfo else _of_wall_clock(at, where, option)
    if "." in text or "," in text:
        return Given(first, first, text)
    return Given(first, first + _whole(text) - timedelta(microseconds=1), text)


def _whole(text: str) -> timedelta:
    if _DAY_ALONE.fullmatch(text):
        return timedelta(days=1)
    return timedelta(seconds=1) if _SECONDS.search(text) else timedelta(minutes=1)


def _of_wall_clock(at: datetime, where: tzinfo, option: str) -> datetime:
    earlier, later = (at.replace(tzinfo=where, fold=fold).astimezone(UTC) for fold in (0, 1))
    if earlier == later:
        return earlier
    told = f"{option} {at.isoformat(sep=' ')}"
    if earlier < later:
        raise BadInput(
            f"{told} comes twice in {where}, when clocks go back: say which, {_utc(earlier)} or {_utc(later)}."
        )
    raise BadInput(
        f"{told} does not exist in {where}, where clocks go forward then: the nearest moments are {_utc(later)} "
        f"and {_utc(earlier)}."
    )


def _utc(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
