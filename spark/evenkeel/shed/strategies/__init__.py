"""The modular manager's shedders by Pulsar's class names (key loadBalancerLoadSheddingStrategy)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from evenkeel.errors import SettingsError
from evenkeel.model.load import LoadData
from evenkeel.settings import Settings
from evenkeel.shed.shedder import Shed, ShedderState, without_gone
from evenkeel.shed.strategies import avg_shedder, overload_shedder, threshold_shedder, uniform_load_shedder

Shedder = Callable[[LoadData, ShedderState, Settings], Shed]

IMPLEMENTED: Mapping[str, Shedder] = {
    "OverloadShedder": overload_shedder.shed,
    "ThresholdShedder": threshold_shedder.shed,
    "UniformLoadShedder": uniform_load_shedder.shed,
    "AvgShedder": avg_shedder.shed,
}

# AvgShedder goes on counting where a broker comes back: Pulsar does not tell it that one has gone.
FORGETS_GONE_BROKERS = frozenset({"ThresholdShedder"})


def shedder_named(name: str) -> Shedder:
    """The shedder of that class name; `SettingsError` if the modular manager has none of that name."""
    found = IMPLEMENTED.get(name)
    if found is None:
        raise SettingsError(
            f"loadBalancerLoadSheddingStrategy = {name} is no shedder of the modular load manager: "
            f"set it to {' or '.join(IMPLEMENTED)}"
        )
    return found


def on_active_brokers_change(name: str, state: ShedderState, brokers: Collection[str]) -> ShedderState:
    """What the shedder of that name still remembers when these brokers are there (Pulsar: onActiveBrokersChange)."""
    return without_gone(state, brokers) if name in FORGETS_GONE_BROKERS else state
