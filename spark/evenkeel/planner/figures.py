"""The planner's figures of a cluster: models of usage, loads, and the levels that it steers by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.planner.floor import Floor
from evenkeel.planner.target import Target
from evenkeel.planner.usage_model import BrokerModel, load_of
from evenkeel.planner.view import OWN_NAMESPACE, PlannerBundle

ALWAYS_HELD = frozenset({"frozen", OWN_NAMESPACE, "excluded_namespace"})
"""Rules that hold a bundle for good. Other rules hold it for a while, and the target does not count those bundles with
it."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlannerFigures:
    """The planner's figures of one cluster. Usages are fractions; `floor` is the usage of the level `stop`.

    `models`: resource -> broker -> model; `loads`: resource -> broker -> load (byte/s); `bundle_loads`: resource ->
    bundle -> load (byte/s); `usage`: broker -> the usage of its busiest resource by the models. `even`: the evenly used
    cluster; `act`, `at_once`, `stop`: the levels; `spread`, `band`: the levels `stop` and `act` if every bundle could
    be split. `message_bytes`: bytes that a message counts as. `latest_part`: weight of the latest figures beside
    averages, 1 if load does not swing.
    """

    resources: Sequence[str]
    models: Mapping[str, Mapping[str, BrokerModel]]
    loads: Mapping[str, Mapping[str, float]]
    bundle_loads: Mapping[str, Mapping[str, float]]
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
        """Return True if load goes to and fro from cycle to cycle, so that averages are planned with."""
        return self.latest_part < 1.0

    def load(self, bundle: PlannerBundle, resource: str) -> float:
        """The load of a bundle that is planned with (byte/s)."""
        return self.bundle_loads[resource][bundle.name]

    def usage_at(self, broker: str, loads: Mapping[str, float]) -> float:
        """The usage of a broker's busiest resource with these loads, by resource."""
        return max(self.models[r][broker].line.usage(loads[r]) for r in self.resources)


def planned_load(bundle: PlannerBundle, resource: str, message_bytes: float, latest_part: float) -> float:
    """The load of a bundle (byte/s) between its average and its latest figures; `latest_part`: 1 for the latest."""
    latest = load_of(bundle.figures, resource, message_bytes)
    if latest_part >= 1.0:
        return latest
    average = load_of(bundle.average, resource, message_bytes)
    return average + latest_part * (latest - average)


class AloneOnBest:
    """Usage of the best allowed broker with one bundle alone on it, for many bundles.

    Many bundles may go to the same brokers, often to all. Their models are gathered once and evaluated together.
    """

    def __init__(self, figures: PlannerFigures) -> None:
        self._figures = figures
        self._lines: dict[frozenset[str], tuple[_Floats, _Floats]] = {}

    def usage(self, bundle: PlannerBundle) -> float | None:
        """The usage of the best broker that may have the bundle, alone; None where none may."""
        figures = self._figures
        loads = {r: load_of(bundle.figures, r, figures.message_bytes) for r in figures.resources}
        owner = bundle.owner or ""
        of_owner = figures.usage_at(owner, loads) if owner in figures.usage else None
        if of_owner is not None and bundle.held in ALWAYS_HELD:
            return of_owner
        base, slope = self._lines_of(bundle.brokers)
        with np.errstate(over="ignore"):
            busiest = (base + slope * np.array([*loads.values()])).max(axis=1)
        of_others = float(busiest.min()) if len(busiest) else None
        return min((usage for usage in (of_owner, of_others) if usage is not None), default=None)

    def _lines_of(self, brokers: frozenset[str]) -> tuple[_Floats, _Floats]:
        """Base and slope of the models of these brokers, a row for each broker, a column for each resource."""
        if brokers not in self._lines:
            models = [self._figures.models[r] for r in self._figures.resources]
            lines = [
                [model_of[broker].line for model_of in models]
                for broker in sorted(brokers & self._figures.usage.keys())
            ]
            shape = len(lines), len(models)
            self._lines[brokers] = (
                np.array([[line.base for line in model_of] for model_of in lines]).reshape(shape),
                np.array([[line.slope for line in model_of] for model_of in lines]).reshape(shape),
            )
        return self._lines[brokers]
