"""Placement where the shedder planned it, and on any candidate otherwise (Pulsar: AvgShedder as placement strategy).

A planned destination counts while it is a candidate. Where Pulsar draws among candidates, the first by name is taken.

Pulsar 4.2 finds a plan by the bundle's averages, not by its name. Bundles with equal averages, such as all new ones,
follow the same plan, and the draw for one is remembered for the others. (Plans of earlier rounds never match again in
Pulsar, since averages move on with every sample. So plans live for one round.) Pulsar 5.0 finds a plan by name, makes
plans for shed bundles only, and draws again for every other one. It never draws the broker that the bundle is to leave.
It leaves a planned broker above loadBalancerBrokerOverloadedThresholdPercentage if another broker is below it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.consideration import PLANNED
from evenkeel.model.load import BundleHistory
from evenkeel.place.strategy import (
    Asked,
    BrokerFigures,
    Choice,
    PlacementRule,
    PlacementState,
    PlacementStrategy,
    StrategyRound,
    placement_rule,
)
from evenkeel.settings import Settings

OVERLOADED_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"


def _rule(name: str, text: str) -> PlacementRule:
    again = "all candidates left by the filters are overloaded; without filters "
    return placement_rule(name, text, again + text)


PLANNED_DESTINATION = _rule(PLANNED, "the shedder planned that destination")
NO_PLAN = _rule("no_plan", "nothing is planned for it, and of {others}{filters} it is the first by name")
NOT_A_CANDIDATE = _rule(
    "planned_is_no_candidate", "the planned broker is not a candidate, and of the others it is the first by name"
)
OVERLOADED = _rule(
    "planned_is_overloaded", "the planned broker is overloaded, and of the healthy ones it is the first by name"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """The brokers Pulsar draws one from (a plan leaves just one), and why those."""

    brokers: tuple[str, ...]
    by: PlacementRule


class PlannedPlacement(StrategyRound):
    """One round of the strategy: plans are taken in, then bundles are placed one by one."""

    def __init__(self, figures: Mapping[str, BrokerFigures], settings: Settings) -> None:
        self._figures, self._settings = figures, settings

    def choose(self, asked: Asked, candidates: tuple[str, ...]) -> Choice:
        """Choose a broker (see `StrategyRound`)."""
        planned = self.select(asked, candidates)
        return Choice(candidates, planned.brokers, (), planned.by, "not_planned")

    @abstractmethod
    def select(self, asked: Asked, candidates: Sequence[str]) -> Planned:
        """Return the brokers that may get the bundle, of the candidates in name order."""


class ByAverages(PlannedPlacement):
    """The strategy of Pulsar 4.x: plans are found by a bundle's averages."""

    def __init__(self, figures: Mapping[str, BrokerFigures], settings: Settings) -> None:
        super().__init__(figures, settings)
        self._plans: dict[BundleHistory, str] = {}

    def plan(self, bundle: str, history: BundleHistory, destination: str) -> None:
        """See `StrategyRound`."""
        self._plans[history] = destination

    def select(self, asked: Asked, candidates: Sequence[str]) -> Planned:
        """Select a broker (see `PlannedPlacement`); a drawn one counts as planned from now on."""
        planned = self._plans.get(asked.history)
        if planned is not None and planned in candidates:
            return Planned((planned,), PLANNED_DESTINATION)
        if candidates:
            self._plans[asked.history] = candidates[0]
        return Planned(tuple(candidates), NO_PLAN if planned is None else NOT_A_CANDIDATE)


class ByName(PlannedPlacement):
    """The strategy of Pulsar 5.0: plans are found by a bundle's name."""

    def __init__(self, figures: Mapping[str, BrokerFigures], settings: Settings) -> None:
        super().__init__(figures, settings)
        self._plans: dict[str, str] = {}

    def plan(self, bundle: str, history: BundleHistory, destination: str) -> None:
        """See `StrategyRound`."""
        self._plans[bundle] = destination

    def select(self, asked: Asked, candidates: Sequence[str]) -> Planned:
        """Select a broker (see `PlannedPlacement`); no plan is left when bundles without owner are placed."""
        planned = None if asked.owner is None else self._plans.get(asked.bundle)
        if planned is None:
            return Planned(tuple(candidates), NO_PLAN)
        if planned not in candidates:
            left = tuple(broker for broker in candidates if broker != asked.owner)
            return Planned(left, NOT_A_CANDIDATE)
        limit = self._settings.loadBalancerBrokerOverloadedThresholdPercentage
        if self._figures[planned].usage * 100.0 > limit:
            others = (broker for broker in candidates if broker != asked.owner)
            healthy = tuple(broker for broker in others if self._figures[broker].usage * 100.0 <= limit)
            if healthy:
                return Planned(healthy, OVERLOADED)
        return Planned((planned,), PLANNED_DESTINATION)


def begin(figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings) -> PlannedPlacement:
    """Return the strategy of that generation of Pulsar, without plans."""
    return (ByName if settings.generation == "5.0" else ByAverages)(figures, settings)


STRATEGY = PlacementStrategy(
    "AvgShedder", begin, keys=(OVERLOADED_KEY,), rules=(PLANNED_DESTINATION, NO_PLAN, NOT_A_CANDIDATE, OVERLOADED)
)
