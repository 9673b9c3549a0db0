"""What a shedder answers, and what it remembers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from evenkeel.model.considered import Considered

ShedderState = Mapping[str, Mapping[str, float]]
"""What a shedder remembers between rounds: name of what is remembered -> broker -> value.

ThresholdShedder: "usage_average", the moving average of usage as a fraction. AvgShedder: "low_hits" and "high_hits",
rounds in a row. The others remember nothing.
"""


@dataclass(frozen=True, slots=True)
class Shed:
    """Bundles to unload with the broker they leave, in broker (AvgShedder: pair) and then selection order; what was
    considered; the state for the next round.

    `destinations`: bundle -> broker, in order of selection, where the shedder itself has chosen one.
    """

    unloads: tuple[tuple[str, str], ...]
    considered: tuple[Considered, ...]
    state: ShedderState
    destinations: Mapping[str, str] = field(default_factory=dict)


def without_gone(state: ShedderState, brokers: Collection[str]) -> dict[str, dict[str, float]]:
    """The state without brokers that are no longer there."""
    return {
        name: {broker: value for broker, value in sorted(values.items()) if broker in brokers}
        for name, values in sorted(state.items())
    }
