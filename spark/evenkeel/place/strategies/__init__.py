"""The modular manager's placement strategies by Pulsar's class names (key loadBalancerLoadPlacementStrategy).

The extensible manager has its own, `least_resource_usage_with_weight.select_extensible`, and reads no key.
"""

from __future__ import annotations

from evenkeel.errors import SettingsError
from evenkeel.model.consideration import by_name
from evenkeel.place.strategies import (
    avg_shedder,
    least_long_term_message_rate,
    least_resource_usage_with_weight,
    round_robin_broker_selector,
)
from evenkeel.place.strategy import PlacementStrategy

MODULAR = by_name(
    "placement strategies",
    least_long_term_message_rate.STRATEGY,
    least_resource_usage_with_weight.STRATEGY,
    round_robin_broker_selector.STRATEGY,
    avg_shedder.STRATEGY,
)


def strategy_named(name: str) -> PlacementStrategy:
    """The strategy of that class name; `SettingsError` if the modular manager has none of that name."""
    strategy = MODULAR.get(name)
    if strategy is None:
        raise SettingsError(
            f"loadBalancerLoadPlacementStrategy = {name}: not a placement strategy of the modular load manager; "
            f"set it to {' or '.join(MODULAR)}"
        )
    return strategy
