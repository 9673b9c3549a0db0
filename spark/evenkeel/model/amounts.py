"""Amounts as text for people: one text for one figure, in stored sentences, on pages and in a shell.

The texts of `amount` are part of stored sentences of decisions, which are digested: they never change. The other
functions give the same text, with a typographic minus sign, and "unknown" for a missing figure.
"""

from __future__ import annotations

import math
from typing import TypeGuard

UNKNOWN = "unknown"
NOTHING = "–"
_BINARY = ((1_048_576.0, "MiB/s"), (1024.0, "KiB/s"))
_DECIMAL = ("B", "kB", "MB", "GB", "TB")


def amount(value: float | None, unit: str) -> str:
    """Return a figure of a decision row in the row's unit: 71.0 %, 12.3 MiB/s, 1,500 msg/s, 18 s (of ms), 1,001."""
    if value is None:
        return "an unknown figure"
    if unit == "fraction":
        return f"{value * 100:.1f} %"
    if unit == "percent":
        return f"{value:.1f} %"
    if unit == "byte/s":
        size, name = throughput_unit(value)
        return f"{value / size:,.{0 if size == 1.0 else 1}f} {name}"
    if unit == "ms":
        return f"{value / 1000:,.0f} s"
    text = f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    return f"{text} msg/s" if unit == "msg/s" else text


def throughput_unit(bytes_per_s: float) -> tuple[float, str]:
    """Return the unit that suits a throughput, and its size in byte/s; one digit is shown of it, none of byte/s."""
    return next((unit for unit in _BINARY if abs(bytes_per_s) >= unit[0]), (1.0, "byte/s"))


def quantity(value: float | None, unit: str | None) -> str:
    """Return a measured value or threshold of a decision row, as its sentence has it; `–` for None."""
    if not _known(value):
        return NOTHING
    if unit == "s":
        return duration(value)
    text = _signed(amount(value, unit or ""))
    return text if unit in ("fraction", "percent", "byte/s", "ms", "msg/s", "count", "", None) else f"{text} {unit}"


def percent(fraction: float | None) -> str:
    """Return a fraction as percent: 0.714 → `71.4 %`."""
    return quantity(fraction, "fraction") if _known(fraction) else UNKNOWN


def throughput(bytes_per_s: float | None) -> str:
    """Return byte/s with a suitable unit: `1.2 MiB/s`, `307.0 KiB/s`, `3 byte/s`."""
    return quantity(bytes_per_s, "byte/s") if _known(bytes_per_s) else UNKNOWN


def rate(messages_per_s: float | None) -> str:
    """Return messages per second: `1,204.5 msg/s`, `1,500 msg/s`."""
    return quantity(messages_per_s, "msg/s") if _known(messages_per_s) else UNKNOWN


def ratio(value: float | None) -> str:
    """Return a ratio with two decimals: 1.4233 → `1.42`."""
    return f"{value:.2f}" if _known(value) else UNKNOWN


def count(value: float | None) -> str:
    """Return a count with separators: 12345 → `12,345`."""
    return f"{round(value):,}" if _known(value) else UNKNOWN


def plural(count: float | None, noun: str, several: str = "") -> str:
    """Return a count with its noun: `1 bundle`, `1,204 bundles`; `several` is a plural that is not made with `s`."""
    return f"{amount(count, 'count')} {noun if count == 1 else several or noun + 's'}"


def counted(count: float | None, noun: str) -> str:
    """Return a count, rounded, with its noun: `3 minutes`, `1 hour`; `an unknown number of minutes` for None."""
    return f"an unknown number of {noun}s" if count is None else plural(round(count), noun)


def duration(seconds: float | None) -> str:
    """Return a duration, given in seconds: `0.2 s`, `18 s`, `4 min`, `2 h 5 min`."""
    if not _known(seconds):
        return UNKNOWN
    value = abs(seconds)
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{minutes} min" if not hours else f"{hours} h {minutes} min" if minutes else f"{hours} h"


def size(number: float | None) -> str:
    """Return a number of stored bytes: `4.2 MB`, `17 B`; empty if it is unknown."""
    if number is None:
        return ""
    value, unit = float(number), _DECIMAL[0]
    for unit in _DECIMAL:
        if abs(value) < 1000 or unit == _DECIMAL[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _signed(text: str) -> str:
    """Return the text with a minus sign for a hyphen, and none before a zero."""
    if not text.startswith("-"):
        return text
    return f"−{text[1:]}" if any(sign in "123456789" for sign in text) else text[1:]
