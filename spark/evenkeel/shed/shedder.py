"""The declaration of a shedder, its answer, and its state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from evenkeel.model.consideration import Considered, Rule
from evenkeel.model.load import LoadData
from evenkeel.settings import Settings

ShedderState = Mapping[str, Mapping[str, float]]
"""State of a shedder between rounds: name of the figure -> broker -> value."""


@dataclass(frozen=True, slots=True)
class Shed:
    """Bundles to unload with the broker they leave, in broker (AvgShedder: pair) and then selection order.

    With the considered rows, and the state for the next round. `destinations`: bundle -> broker, in order of selection,
    if the shedder itself chose one.
    """

    unloads: tuple[tuple[str, str], ...]
    considered: tuple[Considered, ...]
    state: ShedderState
    destinations: Mapping[str, str] = field(default_factory=dict)


Decide = TypeVar("Decide", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Shedder(Generic[Decide]):
    """A shedder, declared once at the end of its module.

    `name`: Pulsar's class, by which loadBalancerLoadSheddingStrategy names it. `shed`: its decision, pure. `keys`: the
    settings that it reads. `rules`: the rules of its verdicts on brokers and the cluster. `remembers`: the names in its
    state. `forgets_gone_brokers`: True if Pulsar notifies it that a broker is gone (onActiveBrokersChange), so that the
    state of that broker is dropped.
    """

    name: str
    shed: Decide
    keys: tuple[str, ...]
    rules: tuple[Rule, ...]
    remembers: tuple[str, ...] = ()
    forgets_gone_brokers: bool = False


ModularShedder = Shedder[Callable[[LoadData, ShedderState, Settings], Shed]]
"""A shedder of the modular load manager."""


def without_gone(state: ShedderState, brokers: Collection[str]) -> dict[str, dict[str, float]]:
    """Return the state without brokers that are gone."""
    return {
        name: {broker: value for broker, value in sorted(values.items()) if broker in brokers}
        for name, values in sorted(state.items())
    }
