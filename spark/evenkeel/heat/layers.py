"""The four layers of the heat map: length of their columns, retention, and division into blocks."""

from __future__ import annotations

from dataclasses import dataclass

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
        """Return the end of the last built column.

        It is the newest cycle's column in the finest layer, in others the last complete one.
        """
        return self.column_of(newest) + (self.seconds if self is FINEST else 0)


LAYERS = (Layer(60, 3, 120), Layer(600, 30, 144), Layer(3_600, 100, 120), Layer(21_600, 400, 120))
"""From the finest to the coarsest. The columns and blocks of all begin at multiples of their lengths since 1970."""
FINEST, COARSEST = LAYERS[0], LAYERS[-1]
