"""What a placement strategy answers, and what it remembers between two placements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from evenkeel.model.considered import Alternative, finite

PlacementState = Mapping[str, Mapping[str, float]]
"""What placement remembers between rounds: name of the figure -> broker (or "cluster") -> value."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The brokers that are equally good, in name order: Pulsar draws one of them, Evenkeel takes the first.

    `scores` stand beside `candidates` (msg/s or a fraction, as the strategy has it; empty where nothing is measured).
    `rule` says what the best have in common, `other` why the remaining candidates are not among them.
    """

    candidates: tuple[str, ...]
    brokers: tuple[str, ...]
    scores: tuple[float, ...]
    rule: str
    other: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def score(self, broker: str) -> float | None:
        """What the broker measures; None if it has no figure or no finite one."""
        if not self.scores:
            return None
        return finite(self.scores[self.candidates.index(broker)])


class Alternatives(Sequence[Alternative]):
    """Every broker that was looked at for one bundle, in name order: removed by which filter, best, or neither.

    The single alternatives are made when they are asked for: ten thousand bundles have a thousand each.
    """

    __slots__ = ("_choice", "_removed")

    def __init__(self, choice: Choice, removed: Mapping[str, str]) -> None:
        self._choice = choice
        self._removed = removed

    def __len__(self) -> int:
        return len(self._choice.candidates) + len(self._removed)

    def __iter__(self) -> Iterator[Alternative]:
        choice, best = self._choice, frozenset(self._choice.brokers)
        scores = dict(zip(choice.candidates, choice.scores, strict=False))
        for broker in sorted((*choice.candidates, *self._removed)):
            if broker in self._removed:
                yield Alternative(broker, "removed", self._removed[broker])
                continue
            score, verdict = scores.get(broker), "best" if broker in best else "candidate"
            if score is not None and math.isinf(score):
                yield Alternative(broker, "best" if broker in best else "candidate", "overloaded")
            elif verdict == "best":
                yield Alternative(broker, "best", choice.rule, finite(score))
            else:
                yield Alternative(broker, "candidate", choice.other, finite(score))

    @overload
    def __getitem__(self, index: int) -> Alternative: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, index: int | slice) -> Alternative | tuple[Alternative, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Alternatives{tuple(self)!r}"
