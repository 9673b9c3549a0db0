"""Figures of a broker and of a bundle that may be changed, and the nearest value at which an answer is another one.

A figure is changed in proportion wherever it is recorded: in the latest report, in the averages, and in a strategy's
state of the broker from earlier cycles (figures named `…_average` or `…_ema`). The nearest value is found by growing
steps to both sides, then by bisection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.cycle.reading import Row, Rows

_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
_OF_BROKERS = ("broker_reports", "broker_load", "state")
_OF_BUNDLES = ("bundle_load",)
_FLOWS = (("throughput", "msg_throughput", "byte/s"), ("rate", "msg_rate", "msg/s"))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a subject, in `unit`, and its value as recorded.

    `tables`: the tables that contain it. `parts`: a pattern for the columns, and for the names of remembered figures,
    that are in proportion to it. `alone`: the columns that take the whole value if none is in proportion.
    """

    name: str
    subject: str
    unit: str
    value: float
    tables: tuple[str, ...]
    parts: str
    alone: str

    @property
    def is_whole(self) -> bool:
        """Return True for a count."""
        return self.unit == "count"

    def rows_with(self, rows: Rows, value: float) -> dict[str, Sequence[Row]]:
        """Return the changed tables for another value of the figure."""
        return {table: [*self._changed(rows[table], value)] for table in self.tables}

    def _changed(self, rows: Sequence[Row], value: float) -> Iterator[Row]:
        left = value
        for row in rows:
            if self.subject not in (row.get("broker"), row.get("bundle"), row.get("owner"), row.get("subject")):
                yield row
            elif "value" in row:
                is_part = self.value and row["value"] is not None and re.fullmatch(self.parts, row["name"])
                yield {**row, "value": row["value"] * value / self.value} if is_part else row
            else:
                yield {**row, **self._new(row, left)}
                left = left if self.value else 0.0

    def _new(self, row: Row, value: float) -> dict[str, Any]:
        parts = {name: row[name] for name in row if re.fullmatch(self.parts, name)}
        alone = [name for name in parts if re.fullmatch(self.alone, name)]
        if self.is_whole:
            return {**dict.fromkeys(parts, 0), **dict.fromkeys(alone, int(value))}
        if not self.value or None in map(parts.get, alone):
            whole = (row.get("cpu_limit") or 1.0) if self.name == "usage" else 1.0
            return {**{name: figure or 0.0 for name, figure in parts.items()}, **dict.fromkeys(alone, value * whole)}
        return {name: figure * value / self.value for name, figure in parts.items() if figure is not None}


def figures_of(kind: str, subject: str, rows: Rows) -> list[Figure]:
    """Return the figures of a broker or a bundle in the order in which they are tried; none of anything else."""
    if kind == "broker":
        return [*_of_broker(subject, rows)]
    return [*_of_bundle(subject, rows)] if kind == "bundle" else []


def _of_broker(broker: str, rows: Rows) -> Iterator[Figure]:
    report = next((row for row in rows["broker_reports"] if row["broker"] == broker), None)
    if report is None:
        return
    usage = max((report[f"{name}_usage"] or 0.0) / (report[f"{name}_limit"] or 1.0) for name in _RESOURCES)
    parts, alone = r"\w+_usage|\w+_percent|(?!msg_)\w+_(average|ema)", "cpu_usage|weighted_usage"
    yield Figure("usage", broker, "fraction", usage, _OF_BROKERS, parts, alone)
    owned_rows = [row for row in rows["bundle_load"] if row["owner"] == broker]
    for name, stem, unit in _FLOWS:
        is_known = None not in (report[f"{stem}_in"], report[f"{stem}_out"])
        value = _sum([report] if is_known else owned_rows, stem if is_known else f"used_{stem}")
        yield Figure(name, broker, unit, value, _OF_BROKERS, rf"{stem}_\w+", f"{stem}_in")
    rate = "long_msg_rate"
    yield Figure("long-term rate", broker, "msg/s", _sum(owned_rows, rate), _OF_BUNDLES, rf"{rate}_\w+", f"{rate}_in")


def _of_bundle(bundle: str, rows: Rows) -> Iterator[Figure]:
    bundle_rows = [row for row in rows["bundle_load"] if row["bundle"] == bundle]
    for row in bundle_rows:
        yield Figure("topics", bundle, "count", row["topics"] or 0, _OF_BUNDLES, "(listed_)?topics", "(listed_)?topics")
        sessions = (row["consumers"] or 0) + (row["producers"] or 0)
        yield Figure("sessions", bundle, "count", sessions, _OF_BUNDLES, "consumers|producers", "consumers")
    for name, stem, unit in (*_FLOWS, ("load", "msg", "byte/s")) if bundle_rows else ():
        flow = "msg_throughput" if name == "load" else stem
        value = max(_sum(bundle_rows, f"{term}_{flow}") for term in ("used", "short", "long"))
        yield Figure(name, bundle, unit, value, _OF_BUNDLES, rf"\w+_{stem}_\w+", rf"(used|short|long)_{flow}_in")


def _sum(rows: Iterable[Row], stem: str) -> float:
    return float(sum(row[f"{stem}_{way}"] or 0.0 for row in rows for way in ("in", "out")))


_STEPS = tuple(2.0**power for power in (*range(-6, 1), 2, 4, 7, 10, 14, 18))
"""By how much a value is changed at first, as multiples of it."""
_CLOSE = 1e-10
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Boundary:
    """`same` is the last value at which the answer is the recorded one, `other` the first one at which it differs."""

    same: float
    other: float


def nearest(
    differs: Callable[[float], bool],
    value: float,
    *,
    scale: float = 0.0,
    is_whole: bool = False,
    guesses: Collection[float] = (),
) -> Boundary | None:
    """Return the boundary nearest to `value`; None if growing steps to both sides cross none.

    `scale` is the unit of the steps, by default the value. `guesses` are values at which a boundary may be; a correct
    guess saves the bisection. Values below zero are not tried, unless `value` is below zero.
    """
    lowest = min(value, 0.0) * (1 + _STEPS[-1])
    last = {1: value, -1: value}
    for part in _STEPS:
        step = part * (scale or abs(value) or 1.0)
        boundaries = []
        for side in last:
            tried = max(lowest, value + side * (max(1.0, float(round(step))) if is_whole else step))
            if tried != last[side] and differs(tried):
                boundaries.append(_between(differs, Boundary(last[side], tried), is_whole, guesses))
            last[side] = tried
        if boundaries:
            return min(boundaries, key=lambda boundary: abs(boundary.other - value))
    return None


def _between(
    differs: Callable[[float], bool], around: Boundary, is_whole: bool, guesses: Collection[float]
) -> Boundary:
    """Bisect until no value, or nearly none, is between the two."""
    same, other = around.same, around.other
    floor = _CLOSE * max(abs(same), abs(other))
    tries = [] if is_whole else [guess + side * _CLOSE * abs(guess) * 0.4 for guess in guesses for side in (1, -1)]
    while abs(other - same) > (1.0 if is_whole else max(_CLOSE * max(abs(same), abs(other)), floor * 1e-4)):
        middle = tries.pop() if tries else float(int((same + other) / 2)) if is_whole else (same + other) / 2
        if min(same, other) < middle < max(same, other):
            same, other = (same, middle) if differs(middle) else (middle, other)
    return Boundary(same, other)


def roundest(first: float, last: float) -> float:
    """Return the number with the fewest digits between two numbers, both included."""
    for digits in range(1, _MOST_DIGITS):
        for number in (float(f"{first:.{digits}g}"), float(f"{last:.{digits}g}")):
            if min(first, last) <= number <= max(first, last):
                return number
    return last
