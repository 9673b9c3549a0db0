"""The keys, one module per concern, and `Settings`: every key as one frozen value, with Pulsar's compiled defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

from evenkeel.pulsar.generations import GENERATIONS, Generation
from evenkeel.settings.key import METADATA, Key, Value, generation_named
from evenkeel.settings.keys.balancing import ExtensibleKeys, PlacementKeys, SheddingKeys, SplittingKeys
from evenkeel.settings.keys.general import GeneralKeys, ReportKeys
from evenkeel.settings.keys.own import GuardKeys, OwnKeys, PlannerKeys


@dataclass(frozen=True)
class Settings(
    OwnKeys, GuardKeys, PlannerKeys, ExtensibleKeys, PlacementKeys, SheddingKeys, SplittingKeys, ReportKeys, GeneralKeys
):
    """The values that decisions are made with, under Pulsar's own key names.

    `Settings()` is Pulsar 4.x as compiled (4.2.4). Classes are held by their simple name. Values are not range-checked:
    decisions use what a cluster runs with; `resolve` checks an operator's values.
    """

    @classmethod
    def for_generation(cls, generation: str) -> Settings:
        """Return Pulsar's compiled defaults of a generation; raises `SettingsError` for another generation."""
        known = generation_named(generation)
        return cls(**{k.name: k.default_of(known) for k in registry().values()})  # type: ignore[arg-type]

    @property
    def generation(self) -> Generation:
        """Generation whose rules and defaults apply; an unresolved "auto" reads as 4.x."""
        return "4.x" if self.evenkeelPulsarVersion == "auto" else generation_named(self.evenkeelPulsarVersion)

    def is_before(self, generation: Generation) -> bool:
        """Return True if the brokers run an older generation than that one."""
        return GENERATIONS.index(self.generation) < GENERATIONS.index(generation)

    @property
    def manager(self) -> Literal["modular", "extensible"]:
        """Manager whose rules apply: the operator's override, else the load manager the brokers run."""
        if self.evenkeelManager == "auto":
            return "extensible" if self.loadManagerClassName == "ExtensibleLoadManagerImpl" else "modular"
        return "extensible" if self.evenkeelManager == "extensible" else "modular"

    @property
    def bandwidth_in_weight(self) -> float:
        """Weight of inbound traffic: the new spelling unless it is 1.0 (Pulsar's rule).

        So it cannot be set back to 1.0 over an old key.
        """
        return _spelled(self.loadBalancerBandwidthInResourceWeight, self.loadBalancerBandwithInResourceWeight)

    @property
    def bandwidth_out_weight(self) -> float:
        """Weight of outbound traffic, by the rule of `bandwidth_in_weight`."""
        return _spelled(self.loadBalancerBandwidthOutResourceWeight, self.loadBalancerBandwithOutResourceWeight)

    def values(self) -> dict[str, Value]:
        """Return all keys with their values, by name."""
        return {name: getattr(self, name) for name in registry()}

    def with_values(self, values: Mapping[str, Value]) -> Settings:
        """Return these settings with some values replaced; keys must exist, values must have the key's exact type."""
        return dataclasses.replace(self, **values)  # type: ignore[arg-type]


def _spelled(new: float, old: float) -> float:
    return new if new != 1.0 else old


@cache
def registry() -> Mapping[str, Key]:
    """Return the description of every key, by name, in alphabetical order."""
    keys = {f.name: dataclasses.replace(f.metadata[METADATA], name=f.name) for f in fields(Settings)}
    return dict(sorted(keys.items()))
