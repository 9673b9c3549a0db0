"""Times of day (UTC) between which something is allowed, as operators write them: `22:00-04:30`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WINDOW = re.compile(r"(?P<from_h>[01]\d|2[0-3]):(?P<from_m>[0-5]\d)-(?P<to_h>[01]\d|2[0-3]):(?P<to_m>[0-5]\d)")


def minutes_of(window: str) -> tuple[int, int] | None:
    """First minute of the day and the one after the last; the end lies before the start where midnight is between.

    None for what is no window, and for one without length: it could mean never as well as always.
    """
    found = _WINDOW.fullmatch(window)
    if found is None:
        return None
    start = int(found["from_h"]) * 60 + int(found["from_m"])
    end = int(found["to_h"]) * 60 + int(found["to_m"])
    return None if start == end else (start, end)


def is_within(minute_of_day: int, windows: Iterable[str]) -> bool:
    """Whether a minute of the day lies in one of the windows; what is no window holds no minute."""
    return any(_holds(minutes_of(window), minute_of_day) for window in windows)


def _holds(window: tuple[int, int] | None, minute: int) -> bool:
    if window is None:
        return False
    start, end = window
    return start <= minute < end if start < end else minute >= start or minute < end
