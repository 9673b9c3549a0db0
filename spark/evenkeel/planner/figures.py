"""What the planner has found of a cluster: models of usage, loads, and the levels that it steers by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.planner.floor import Floor
from evenkeel.planner.target import Target
from evenkeel.planner.usage_model import BrokerModel, load_of
from evenkeel.planner.view import OWN_NAMESPACE, PlannerBundle

ALWAYS_HELD = frozenset({"frozen", OWN_NAMESPACE, "excluded_namespace"})
"""Why a bundle stays for good; for other reasons it stays for a while, and the target does not count with it."""


@dataclass(frozen=True, slots=True)
class PlannerFigures:
    """What was found of the cluster. Usages are fractions, `floor` that of the level `stop`.

    `models`: resource -> broker -> model; `loads`: resource -> broker -> load (byte/s); `usage`: broker -> the usage of
    its busiest resource by the models. `even`: the evenly used cluster; `act`, `at_once`, `stop`: the levels; `spread`,
    `band`: the levels `stop` and `act`, could every bundle be split. `message_bytes`: what a message counts as.
    `latest_part`: how much the latest figures count beside averages, all where load does not swing.
    """

    resources: Sequence[str]
    models: Mapping[str, Mapping[str, BrokerModel]]
    loads: Mapping[str, Mapping[str, float]]
    usage: Mapping[str, float]
    even: float
    act: float
    at_once: float
    stop: float
    spread: float
    band: float
    targets: Mapping[str, Target]
    floor: Floor
    message_bytes: float
    latest_part: float = 1.0
    is_by_traffic: bool = False

    @property
    def is_swinging(self) -> bool:
        """Whether load goes to and fro from cycle to cycle, so that averages are planned with."""
        return self.latest_part < 1.0

    def load(self, one: PlannerBundle, resource: str) -> float:
        """The load of a bundle that is planned with (byte/s)."""
        return planned_load(one, resource, self.message_bytes, self.latest_part)

    def usage_at(self, broker: str, loads: Mapping[str, float]) -> float:
        """The usage of a broker's busiest resource with these loads, by resource."""
        return max(self.models[r][broker].line.usage(loads[r]) for r in self.resources)


def planned_load(one: PlannerBundle, resource: str, message_bytes: float, latest_part: float) -> float:
    """The load of a bundle (byte/s) between its average and its latest figures; `latest_part`: 1 for the latest."""
    latest = load_of(one.figures, resource, message_bytes)
    if latest_part >= 1.0:
        return latest
    average = load_of(one.average, resource, message_bytes)
    return average + latest_part * (latest - average)


def alone_on_best(one: PlannerBundle, figures: PlannerFigures) -> float | None:
    """The usage of the best broker that may have the bundle with nothing else on it; None where none may."""
    places = (one.brokers | {one.owner or ""}) & figures.usage.keys()
    if one.held in ALWAYS_HELD and one.owner in figures.usage:
        places = frozenset({one.owner or ""})
    loads = {r: load_of(one.figures, r, figures.message_bytes) for r in figures.resources}
    return min((figures.usage_at(broker, loads) for broker in sorted(places)), default=None)
