"""Shedders by Pulsar's class names (key loadBalancerLoadSheddingStrategy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenkeel.decisions.load import LoadData
from evenkeel.decisions.shedding import overload_shedder, threshold_shedder
from evenkeel.decisions.shedding.shed import Shed, ShedderState
from evenkeel.errors import NotImplementedStrategy
from evenkeel.settings import Settings

Shedder = Callable[[LoadData, ShedderState, Settings], Shed]

IMPLEMENTED: Mapping[str, Shedder] = {
    "OverloadShedder": overload_shedder.shed,
    "ThresholdShedder": threshold_shedder.shed,
}


def shedder_named(name: str) -> Shedder:
    """The shedder of that class name; `NotImplementedStrategy` if Evenkeel does not decide with it yet."""
    found = IMPLEMENTED.get(name)
    if found is None:
        raise NotImplementedStrategy(
            f"shedder {name} is not implemented: set loadBalancerLoadSheddingStrategy to {' or '.join(IMPLEMENTED)}"
        )
    return found
