"""What a shedder answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.decisions.considered import Considered

ShedderState = Mapping[str, float]
"""What a shedder remembers between rounds, by broker. ThresholdShedder: moving average of usage as a fraction."""


@dataclass(frozen=True, slots=True)
class Shed:
    """Bundles to unload with the broker they leave, in broker and then selection order; what was considered; the state
    for the next round."""

    unloads: tuple[tuple[str, str], ...]
    considered: tuple[Considered, ...]
    state: ShedderState
