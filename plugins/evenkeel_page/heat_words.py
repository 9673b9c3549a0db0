"""Names of the heat map's rows, and its figures, for the table without a script, as in `heat_picture.js`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from evenkeel.heat import HeatPicture
from evenkeel.heat.key_ranges import HIGHEST, NAMESPACE_BITS
from evenkeel.heat.scale import NOBODY, NOTHING, SEVERAL
from evenkeel.model.amounts import count
from evenkeel.model.bundles import BundleRange

METRIC_WORDS = {
    "message_rate": "Messages", "byte_rate": "Bytes", "topics": "Topics", "sessions": "Sessions",
    "broker_share": "Share of the broker",
}  # fmt: skip
_SIZES = ((1 << 40, "TiB/s"), (1 << 30, "GiB/s"), (1 << 20, "MiB/s"), (1 << 10, "KiB/s"))
MOST_TOP = 15


def about(value: float, unit: str) -> str:
    """A value of the map's scale, to the two digits that it has: `1,200 msg/s`, `3.4 MiB/s`, `0.52 %`, `17`."""
    if unit == "fraction":
        return f"{_two_digits(value * 100)} %"
    if unit == "byte/s":
        size, name = next((size_and_name for size_and_name in _SIZES if value >= size_and_name[0]), (1, "byte/s"))
        return f"{_two_digits(value / size)} {name}"
    return _two_digits(value) + ("" if unit == "count" else f" {unit}")


def _two_digits(value: float) -> str:
    if value == 0:
        return "0"
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = math.floor(value * 10.0**digits + 0.5) / 10.0**digits
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:,.{max(digits, 0)}f}"


@dataclass(frozen=True)
class HeatRow:
    """A row of a picture: the namespace and range that it begins and ends with, and how many bundles it holds. `upper`
    as bundles are named."""

    namespace: str
    lower: int
    last_namespace: str
    upper: int
    bundles: int

    @property
    def words(self) -> str:
        """The bundle's name, or the range with the number of its bundles."""
        if self.namespace == self.last_namespace:
            name = f"{self.namespace}/{BundleRange(self.lower, self.upper)}"
            return name if self.bundles == 1 else f"{name} ({self.bundles:,} bundles)"
        first, last = f"{self.namespace}/0x{self.lower:08x}", f"{self.last_namespace}/0x{self.upper:08x}"
        return f"{first} to {last} ({self.bundles:,} bundles)"


def heat_row(shown: HeatPicture, row: int) -> HeatRow:
    """The row at a place of a picture."""
    lower, upper = int(shown.rows.lower[row]), int(shown.rows.upper[row])
    first, last = lower >> NAMESPACE_BITS, (upper - 1) >> NAMESPACE_BITS
    return HeatRow(
        shown.names[first],
        lower - (first << NAMESPACE_BITS),
        shown.names[last],
        min(upper - (last << NAMESPACE_BITS), HIGHEST),
        int(shown.rows.bundles[row]),
    )


@dataclass(frozen=True)
class TopCell:
    """A row's hottest cell. `start`, `end`: seconds since 1970; `shared`: bundles share its value by their width, as
    they had it as one bundle before a split."""

    row: HeatRow
    start: int
    end: int
    value: str
    owner: str
    shared: bool

    @property
    def at(self) -> datetime:
        """Return the beginning of the cell."""
        return datetime.fromtimestamp(self.start, UTC)

    @property
    def stamp(self) -> str:
        """Return the beginning of the cell in UTC: `2026-11-21 08:27`, with seconds if it has some."""
        return self.at.strftime("%Y-%m-%d %H:%M:%S" if self.start % 60 else "%Y-%m-%d %H:%M")


def top_cells(shown: HeatPicture, most: int = MOST_TOP) -> list[TopCell]:
    """Return each row's first hottest cell, the hottest rows first; rows without a value above 0 are left out."""
    codes = shown.codes
    if not codes.size:
        return []
    columns = codes.argmax(axis=0)
    peaks = codes[columns, np.arange(codes.shape[1])]
    rows = [row for row in np.argsort(-peaks.astype(np.int64), kind="stable")[:most].tolist() if peaks[row] > NOTHING]
    return [_top_cell(shown, row, int(columns[row])) for row in rows]


def _top_cell(shown: HeatPicture, row: int, column: int) -> TopCell:
    value = shown.metric.value_of(int(shown.codes[column, row]))
    return TopCell(
        heat_row(shown, row),
        int(shown.starts[column]),
        int(shown.ends[column]),
        about(value or 0.0, shown.metric.unit),
        owner_words(shown, int(shown.owner[column, row])),
        bool(shown.shared[column, row] and shown.rows.bundles[row] == 1),
    )


def owner_words(shown: HeatPicture, code: int) -> str:
    """Return the owner of a cell in words: a broker, several, or unknown."""
    return "several brokers" if code == SEVERAL else "unknown" if code == NOBODY else shown.brokers[code - 1]


def exact(value: float | None, unit: str) -> str:
    """Return a figure of a row of `bundle_load`, unrounded."""
    if value is None or not math.isfinite(value):
        return "not known"
    if unit == "count":
        return count(value)
    if unit == "fraction":
        return f"{value * 100:,.2f} %"
    if unit == "byte/s":
        size, name = next((size_and_name for size_and_name in _SIZES if value >= size_and_name[0]), (1, "byte/s"))
        return f"{value / size:,.{2 if size > 1 else 0}f} {name}"
    return f"{value:,.2f} {unit}"


def left_out_words(left_out: Any) -> str:
    """Return how many marks are not drawn, in words; empty if all are."""
    names = {"move": "moves", "split": "splits", "held": "held commands", "bounce": "bounces"}
    return ", ".join(f"{number:,} more {names.get(kind, kind)}" for kind, number in left_out.items())
