"""Courses as lines in a picture: positions for a template to draw, with a separate width for phones.

A template draws them, and not Altair, which takes seconds for hundreds of points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.explain import wording

MOST_LINES = 6
"""A line has a colour, a pattern of dashes, and a number at its end."""
_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 240, 46, 26, 12, 28
_TAG = 13
_DAY_S, _TEN_MINUTES_S = 86_400, 600


@dataclass(frozen=True)
class Line:
    """One line of the picture.

    `number`: its colour and pattern; `stretches`: points of a polyline for each run of known values, a dot for a single
    value; `tag`: the place of its number.
    """

    number: int
    stretches: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    tag: tuple[float, float]


@dataclass(frozen=True)
class Chart:
    """A picture. Ticks are (place, text)."""

    width: int
    height: int
    left: int
    right: int
    bottom: int
    label: str
    lines: tuple[Line, ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_ticks: tuple[tuple[float, str], ...]
    changes: tuple[tuple[float, str], ...] = ()


def chart(
    moments: Sequence[datetime],
    series: Sequence[tuple[int, str, Sequence[float | None]]],
    title: str,
    width: int,
    floor: float | None,
    changes: Sequence[tuple[datetime, str]] = (),
) -> Chart:
    """Return the picture of (number, name, values) over moments; `floor`: the scale's lowest value, else the data's.

    `changes`: moments at which settings changed, with what changed.
    """
    known = [value for _, _, values in series for value in values if value is not None]
    ticks = _ticks(min(known) if floor is None else floor, max(known))
    low, high = ticks[0], ticks[-1]
    right, bottom = width - _RIGHT, _HEIGHT - _BOTTOM
    first, last = moments[0].timestamp(), moments[-1].timestamp()
    across = [_LEFT + (right - _LEFT) * ((at.timestamp() - first) / (last - first or 1.0)) for at in moments]

    def down(value: float) -> float:
        return round(bottom - (bottom - _TOP) * (value - low) / (high - low), 1)

    lines = [_line(number, across, [None if v is None else down(v) for v in values]) for number, _, values in series]
    ends = ", ".join(f"{number} {wording.visible(name)}: {_last(values)}" for number, name, values in series)
    label = (
        f"{title} from {wording.time(moments[0])} to {wording.time(moments[-1])}; at the end {ends}. The table below "
        "has the numbers."
    )
    step = ticks[1] - ticks[0]
    return Chart(
        width, _HEIGHT, _LEFT, right, bottom, label, tuple(_tagged(lines)),
        tuple((down(value), f"{value:.{max(0, -math.floor(math.log10(step)))}f}") for value in ticks),
        tuple(_x_ticks(moments, across, width)),
        tuple(
            (round(_LEFT + (right - _LEFT) * ((at.timestamp() - first) / (last - first or 1.0)), 1),
             f"{wording.time(at)}, settings: {wording.visible(words)}")
            for at, words in changes if first <= at.timestamp() <= last
        ),
    )  # fmt: skip


def _last(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return "unknown" if not known else f"{known[-1]:.2f}" if isinstance(known[-1], float) else str(known[-1])


def _line(number: int, across: Sequence[float], places: Sequence[float | None]) -> Line:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(across, places, strict=True):
        if y is None:
            runs.append([])
        else:
            runs[-1].append((round(x, 1), y))
    seen = [run for run in runs if run]
    end = seen[-1][-1] if seen else (0.0, 0.0)
    return Line(
        number,
        tuple(" ".join(f"{x},{y}" for x, y in run) for run in seen if len(run) > 1),
        tuple(run[0] for run in seen if len(run) == 1),
        (end[0] + 6, end[1] + 4),
    )


def _tagged(lines: Sequence[Line]) -> list[Line]:
    """The lines with their numbers apart from each other."""
    tagged: list[Line] = []
    above = -math.inf
    for line in sorted(lines, key=lambda curve: (curve.tag[1], curve.number)):
        y = round(max(line.tag[1], above + _TAG), 1)
        above = y
        tagged.append(Line(line.number, line.stretches, line.dots, (line.tag[0], y)))
    return sorted(tagged, key=lambda tagged_line: tagged_line.number)


def _ticks(low: float, high: float) -> list[float]:
    """Round values, the first not above the lowest, the last not below the highest."""
    span = max(high - low, abs(high) * 0.02, 0.02)
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    if isinstance(high, int):
        step = float(max(1, math.ceil(step)))
    first = math.floor(low / step + 1e-9)
    number = max(1, math.ceil(high / step - 1e-9) - first)
    return [round((first + n) * step, 10) for n in range(number + 1)]


def _x_ticks(moments: Sequence[datetime], across: Sequence[float], width: int) -> list[tuple[float, str]]:
    span = (moments[-1] - moments[0]).total_seconds()
    form = "%d %b %H:%M" if span > _DAY_S else "%H:%M" if span > _TEN_MINUTES_S else "%H:%M:%S"
    most = 3 if width < 500 else 7
    if len(moments) == 1:
        return [(across[0], moments[0].strftime(form))]
    ticks = []
    for n in range(most):
        at = moments[0] + (moments[-1] - moments[0]) * (n / (most - 1))
        ticks.append((round(across[0] + (across[-1] - across[0]) * n / (most - 1), 1), at.strftime(form)))
    return ticks
