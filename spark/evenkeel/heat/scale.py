"""Metrics of the heat map, the scale of 8 bits on which their values are stored, and its four layers of time.

A code is 0 for unknown figures and 1 for figures known to be zero. Codes 2 to 255 are 254 steps from the metric's
lowest to its highest value, each at an equal factor above the previous one; values beyond take the last step on their
side. A layer has the length of its columns, their retention, and their division into blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.errors import BadInput

Codes = npt.NDArray[np.uint8]
Figures = npt.NDArray[np.float64]

UNKNOWN, NOTHING, FIRST_STEP, LAST_STEP = 0, 1, 2, 255
_STEPS = LAST_STEP - FIRST_STEP


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of bundles that the heat map shows.

    It has its unit, the values of the first and the last step of its scale, and whether a range of several bundles
    shows their `largest` figure instead of the sum.
    """

    name: str
    unit: str
    lowest: float
    highest: float
    largest: bool = False

    @property
    def factor(self) -> float:
        """The ratio of two neighbouring steps; a value that is read back is off by its square root at most."""
        return float((self.highest / self.lowest) ** (1 / _STEPS))

    def value_of(self, code: int) -> float | None:
        """Return the value of a code; None for an unknown one."""
        value = float(self.values()[code])
        return None if math.isnan(value) else value

    def values(self) -> Figures:
        """Return the value of each of the 256 codes, in the metric's unit; NaN for unknown."""
        steps = self.lowest * (self.highest / self.lowest) ** (np.arange(_STEPS + 1) / _STEPS)
        return np.concatenate(([np.nan, 0.0], steps))

    def codes(self, figures: npt.NDArray[np.floating]) -> Codes:
        """Return the codes of figures (any shape, in the metric's unit); NaN is unknown, 0 or less is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.log(figures / self.lowest) * (_STEPS / math.log(self.highest / self.lowest))
            codes = np.clip(np.rint(steps), 0, _STEPS) + FIRST_STEP
            codes = np.where(figures > 0, codes, NOTHING)
        known: Codes = np.where(np.isnan(figures), UNKNOWN, codes).astype(np.uint8)
        return known


MESSAGE_RATE = Metric("message_rate", "msg/s", 1e-2, 1e8)
BYTE_RATE = Metric("byte_rate", "byte/s", 1.0, 1e12)
TOPIC_COUNT = Metric("topics", "count", 1e-2, 1e7)
SESSIONS = Metric("sessions", "count", 1e-2, 1e8)
BROKER_SHARE = Metric("broker_share", "fraction", 1e-6, 1.0, largest=True)
METRICS = {one.name: one for one in (MESSAGE_RATE, BYTE_RATE, TOPIC_COUNT, SESSIONS, BROKER_SHARE)}
"""In the order of the rows of `Figures` everywhere in this room."""
OWNER = "owner"
NOBODY, SEVERAL = 0, 65_535


def metric_named(name: str) -> Metric:
    """Return the metric of a name; raises BadInput, which lists them, for any other name."""
    if name not in METRICS:
        raise BadInput(f"unknown metric {name[:60]!r}; known are {', '.join(METRICS)}")
    return METRICS[name]


_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Layer:
    """Columns of so many `seconds`, kept for so many `days`; a block of so many `columns` is written at once."""

    seconds: int
    days: int
    columns: int

    @property
    def block_seconds(self) -> int:
        """The length of a block, in seconds."""
        return self.seconds * self.columns

    def column_of(self, at: float) -> int:
        """Return the first moment (seconds since 1970) of the column that contains a moment."""
        return int(at // self.seconds) * self.seconds

    def block_of(self, at: float) -> int:
        """Return the first moment of the block that contains a moment."""
        return int(at // self.block_seconds) * self.block_seconds

    def oldest(self, newest: float) -> int:
        """Return the first column that is kept while the cluster's newest cycle is `newest`."""
        return self.column_of(newest - self.days * _DAY)

    def complete_until(self, newest: float) -> int:
        """Return the end of the last built column: the newest cycle's in the finest layer, else of a complete one."""
        return self.column_of(newest) + (self.seconds if self is FINEST else 0)


LAYERS = (Layer(60, 3, 120), Layer(600, 30, 144), Layer(3_600, 100, 120), Layer(21_600, 400, 120))
"""From the finest to the coarsest. The columns and blocks of all begin at multiples of their lengths since 1970."""
FINEST, COARSEST = LAYERS[0], LAYERS[-1]
