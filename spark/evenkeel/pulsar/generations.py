"""Generations of Pulsar: versions whose classes decide alike and whose defaults are the same.

Each follows the classes of its newest version on Maven: 3.0.7, 3.3.6, 4.0.8, 4.2.4 (4.x), 5.0.1. 4.1 is taken for 4.2,
as no jar of it was seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

Generation = Literal["3.0", "3.3", "4.0", "4.x", "5.0"]

FIRST_VERSION: Final[Mapping[Generation, tuple[int, ...]]] = {
    "3.0": (0,),
    "3.3": (3, 3),
    "4.0": (4,),
    "4.x": (4, 1),
    "5.0": (5,),
}
"""First version of each generation, oldest first."""
GENERATIONS: Final = tuple(FIRST_VERSION)
NUMBERS: Final = re.compile(r"(\d+)((?:\.\d+)*)")
"""The numbers that a readable version begins with."""


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version that `NUMBERS` matches."""
    match = NUMBERS.match(version)
    assert match is not None
    return tuple(int(part) for part in match.group().split("."))


def generation_of(versions: Iterable[str | None]) -> Generation:
    """Return the generation of the oldest broker that named its version; "4.x" if none did."""
    oldest = min((numbers_of(version) for version in versions if version and NUMBERS.match(version)), default=None)
    return "4.x" if oldest is None else [name for name, first in FIRST_VERSION.items() if oldest >= first][-1]
