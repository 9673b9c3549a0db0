"""The shedders of both load managers by Pulsar's class names (key loadBalancerLoadSheddingStrategy)."""

from __future__ import annotations

from evenkeel.errors import SettingsError
from evenkeel.model.consideration import by_name
from evenkeel.shed.shedder import ModularShedder
from evenkeel.shed.strategies import (
    avg_shedder,
    overload_shedder,
    threshold_shedder,
    transfer_shedder,
    uniform_load_shedder,
)

MODULAR = by_name(
    "shedders", overload_shedder.SHEDDER, threshold_shedder.SHEDDER, uniform_load_shedder.SHEDDER, avg_shedder.SHEDDER
)
EXTENSIBLE = by_name("shedders", transfer_shedder.SHEDDER)


def shedder_named(name: str) -> ModularShedder:
    """The modular manager's shedder of that class name; `SettingsError` if it has none of that name."""
    shedder = MODULAR.get(name)
    if shedder is None:
        raise SettingsError(
            f"loadBalancerLoadSheddingStrategy = {name}: not a shedder of the modular load manager; "
            f"set it to {' or '.join(MODULAR)}"
        )
    return shedder
