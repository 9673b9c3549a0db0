"""How figures, times and names are written for people: units, digits, and nothing that a name could do to a page."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime
from typing import TypeGuard

UNKNOWN = "unknown"
_BINARY = ((1024.0**3, "GiB/s"), (1024.0**2, "MiB/s"), (1024.0, "KiB/s"))


def percent(fraction: float | None, digits: int = 1) -> str:
    """0.714 → `71.4 %`."""
    return UNKNOWN if not _known(fraction) else f"{_number(fraction * 100, digits)} %"


def ratio(value: float | None) -> str:
    """1.4233 → `1.42`."""
    return UNKNOWN if not _known(value) else f"{value:.2f}"


def count(value: float | None) -> str:
    """12345 → `12,345`."""
    return UNKNOWN if not _known(value) else f"{round(value):,}"


def throughput(bytes_per_s: float | None) -> str:
    """Byte/s in the largest binary unit that leaves a whole digit: `1.2 MiB/s`."""
    if not _known(bytes_per_s):
        return UNKNOWN
    value = bytes_per_s
    for size, unit in _BINARY:
        if abs(value) >= size:
            return f"{_number(value / size, _digits(value / size))} {unit}"
    return f"{_number(value, 0)} byte/s"


def rate(messages_per_s: float | None) -> str:
    """Messages per second: `1,204.5 msg/s`."""
    return UNKNOWN if not _known(messages_per_s) else f"{_number(messages_per_s, 1)} msg/s"


def duration(seconds: float | None) -> str:
    """`0.2 s`, `18 s`, `4 min`, `2 h 5 min`."""
    if not _known(seconds):
        return UNKNOWN
    value = abs(seconds)
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    hours, rest = divmod(minutes, 60)
    return f"{minutes} min" if not hours else f"{hours} h {rest} min" if rest else f"{hours} h"


def quantity(value: float | None, unit: str | None) -> str:
    """A measured value or threshold in the unit that a decision row names."""
    if not _known(value):
        return "–"
    known = {
        "fraction": lambda v: percent(v),
        "percent": lambda v: percent(v / 100),
        "byte/s": throughput,
        "msg/s": rate,
        "count": count,
        "ms": lambda v: duration(v / 1000),
        "s": duration,
    }
    if unit in known:
        return str(known[unit](value))
    return f"{_number(value, 2)} {unit or ''}".strip()


def time(at: datetime | None, *, date: bool = True) -> str:
    """UTC to the second: `2026-11-21 08:27:13 UTC`, or without the date `08:27:13`."""
    if at is None:
        return UNKNOWN
    utc = at.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S UTC" if date else "%H:%M:%S")


def plural(number: int, one: str, several: str = "") -> str:
    """`1 bundle`, `2 bundles`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""


def visible(text: object) -> str:
    """The text with what cannot be seen written out: control, direction and surrogate characters as `\\u202e`."""
    return "".join(_visible(sign) for sign in str(text))


def _visible(sign: str) -> str:
    if sign.isascii() and sign.isprintable():
        return sign
    return f"\\u{ord(sign):04x}" if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else sign


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and end where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _digits(value: float) -> int:
    """Three digits that count, as far as there are any."""
    return 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0


def _number(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) != 0 else text.replace("-", "")
