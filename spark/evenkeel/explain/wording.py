"""Times and names for people, with every character made safe for a page; see `model.amounts` for figures."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.errors import visible as visible
from evenkeel.model.amounts import UNKNOWN, duration, plural

_TWO_DAYS = 172_800.0


def time(at: datetime | None, *, date: bool = True) -> str:
    """UTC to the second: `2026-11-21 08:27:13 UTC`, or without the date `08:27:13`."""
    if at is None:
        return UNKNOWN
    utc = at.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S UTC" if date else "%H:%M:%S")


def age(seconds: float) -> str:
    """Return an age: `18 s`, `4 min`, `2 h 5 min`, from two days on `3 days`; `0 s` for a time in the future."""
    if seconds < _TWO_DAYS:
        return duration(max(round(seconds), 0)).replace(".0 s", " s")
    return plural(int(seconds // 86_400), "day")


def listed(parts: list[str]) -> str:
    """Join names: `a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and end if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def ended(text: str) -> str:
    """Return the text as a sentence ends."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
