"""What a split algorithm answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """Where to cut a bundle: positions (hashes), or none and the rule that says why not."""

    positions: tuple[int, ...]
    rule: str
