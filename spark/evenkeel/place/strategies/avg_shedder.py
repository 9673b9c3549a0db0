"""Place where the shedder has planned to, and anywhere otherwise (Pulsar: AvgShedder as placement strategy).

A planned destination counts while it is a candidate. Where Pulsar draws among candidates, the first by name is taken.

Pulsar 4.2 finds a plan by the bundle's averages, not by its name: bundles with equal averages, as all new ones have,
follow the same plan, and what was drawn for one is remembered for the others. (Plans of earlier rounds never match
again there, since averages move on with every sample; so plans live for one round.) Pulsar 5.0 goes by name, plans for
shed bundles only, draws for every other one anew, never draws the broker that the bundle is to leave, and turns away
from a planned broker above loadBalancerBrokerOverloadedThresholdPercentage while another one is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from evenkeel.model.load import BundleHistory
from evenkeel.place.broker_figures import BrokerFigures
from evenkeel.settings import Settings

Generation = Literal["4", "5"]


@dataclass(frozen=True, slots=True)
class Planned:
    """The brokers Pulsar draws one from (a plan leaves just one), and why those.

    `rule`: "planned_destination", "no_plan", "planned_is_no_candidate" or "planned_is_overloaded".
    """

    brokers: tuple[str, ...]
    rule: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The bundle to place, its averages, and the broker that sheds it (None: it has no owner)."""

    bundle: str
    history: BundleHistory
    owner: str | None


class AvgShedderPlacement(Protocol):
    """One round of it: plans are told, then bundles are placed one by one."""

    def plan(self, bundle: str, history: BundleHistory, destination: str) -> None:
        """The shedder wants the bundle there; a later plan takes the place of an earlier one."""

    def select(
        self, asked: Asked, candidates: Sequence[str], standing: Mapping[str, BrokerFigures], settings: Settings
    ) -> Planned:
        """Who may get the bundle, of the candidates in name order."""


class ByAverages:
    """As Pulsar 4.x does it."""

    def __init__(self) -> None:
        self._plans: dict[BundleHistory, str] = {}

    def plan(self, bundle: str, history: BundleHistory, destination: str) -> None:
        """See `AvgShedderPlacement`."""
        self._plans[history] = destination

    def select(
        self, asked: Asked, candidates: Sequence[str], standing: Mapping[str, BrokerFigures], settings: Settings
    ) -> Planned:
        """See `AvgShedderPlacement`; what is drawn counts as planned from now on."""
        planned = self._plans.get(asked.history)
        if planned is not None and planned in candidates:
            return Planned((planned,), "planned_destination")
        if candidates:
            self._plans[asked.history] = candidates[0]
        return Planned(tuple(candidates), "no_plan" if planned is None else "planned_is_no_candidate")


class ByName:
    """As Pulsar 5.0 does it."""

    def __init__(self) -> None:
        self._plans: dict[str, str] = {}

    def plan(self, bundle: str, history: BundleHistory, destination: str) -> None:
        """See `AvgShedderPlacement`."""
        self._plans[bundle] = destination

    def select(
        self, asked: Asked, candidates: Sequence[str], standing: Mapping[str, BrokerFigures], settings: Settings
    ) -> Planned:
        """See `AvgShedderPlacement`; plans are forgotten by the time that bundles without owner are placed."""
        planned = None if asked.owner is None else self._plans.get(asked.bundle)
        if planned is None:
            return Planned(tuple(candidates), "no_plan")
        if planned not in candidates:
            left = tuple(broker for broker in candidates if broker != asked.owner)
            return Planned(left, "planned_is_no_candidate")
        limit = settings.loadBalancerBrokerOverloadedThresholdPercentage
        if standing[planned].usage * 100.0 > limit:
            healthy = tuple(b for b in candidates if b != asked.owner and standing[b].usage * 100.0 <= limit)
            if healthy:
                return Planned(healthy, "planned_is_overloaded")
        return Planned((planned,), "planned_destination")


def placement_of(generation: Generation) -> AvgShedderPlacement:
    """The strategy as Pulsar of that generation has it, with nothing planned yet."""
    return ByName() if generation == "5" else ByAverages()
