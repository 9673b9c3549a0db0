"""Java's generator of random numbers (java.util.Random), so that a cluster can be the one that Java code made."""

from __future__ import annotations

import math

_MULTIPLIER, _ADDEND, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
_HIGHEST = (1 << 31) - 1


class JavaRandom:
    """Gives the numbers that java.util.Random gives for the same seed (gaussians to the last bits of `log`)."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK
        self._kept: float | None = None

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + _ADDEND) & _MASK
        return self._state >> (48 - bits)

    def double(self) -> float:
        """From 0 to 1."""
        return float((self._next(26) << 27) + self._next(27)) / float(1 << 53)

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        drawn = self._next(31)
        if bound & (bound - 1) == 0:
            return (bound * drawn) >> 31
        while drawn - drawn % bound + bound - 1 > _HIGHEST:
            drawn = self._next(31)
        return drawn % bound

    def gaussian(self) -> float:
        """Mean 0, deviation 1; two at a time, by the polar method."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        while True:
            a, b = 2 * self.double() - 1, 2 * self.double() - 1
            square = a * a + b * b
            if 0 < square < 1:
                factor = math.sqrt(-2 * math.log(square) / square)
                self._kept = b * factor
                return a * factor
