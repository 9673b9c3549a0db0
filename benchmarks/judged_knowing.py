"""Two whom no operator can have, for traffic that changes all the time: how even a cluster could be.

One knows all traffic in advance and places every bundle once, at the start: best single moves one after the other, by
the busiest broker's usage over that of the evenly used cluster, mean of the scored cycles. It is no proof that nobody
places better; but what it comes to can be had without any further move. The other knows no more than the past, but
moves at no cost: in every window all bundles are placed anew, heaviest first, by what they carried in the last one.
Both are asked of scenarios without shocks that are judged by means over many cycles (`CHANGING`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.judged_cluster import ONE_MINUTE, Array
from benchmarks.judged_run import Measure, Outcome, busiest_of, play
from benchmarks.judged_scenarios import JudgedScenario
from evenkeel.settings import EffectiveSettings

CHANGING = ("on-off", "series", "cloudwatch")
LEAST_GAIN = 1e-4
"""A move that gains less of the mean ratio is not made."""


def play_knowing(scenario: JudgedScenario, nobody: EffectiveSettings, asked: Measure) -> Outcome:
    """What the cluster comes to from the best owners that were found; `nobody`: settings under which nobody sheds."""
    search = _Owners(scenario, asked)
    search.improve()
    before, found = play(scenario, nobody, asked), play(search.placed(), nobody, asked)
    found.floor, found.time, found.kept_floor = before.floor, before.time, before.kept_floor
    found.moves, found.moved = search.moved()
    return found


def play_at_will(scenario: JudgedScenario, nobody: EffectiveSettings, asked: Measure) -> Outcome:
    """What the cluster comes to where all bundles are placed anew after every window, by the means of that window; the
    scenario has no shock after the first cycle."""
    before, found = play(scenario, nobody, asked), Outcome()
    found.floor, found.time, found.kept_floor = before.floor, before.time, before.kept_floor
    cluster = scenario.cluster("at will", "modular")
    cluster.alive = frozenset(scenario.machines)
    past: list[Mapping[str, Mapping[str, float]]] = []
    for n in range(scenario.cycles):
        past.append(cluster.demand_with(scenario.factors[n]))
        usages = busiest_of([past[k] for k in scenario.windows(n)])
        minutes = n * scenario.every / ONE_MINUTE
        if not found.absorbed and max(usages.values()) <= asked.aim[n]:
            found.absorbed = [(minutes, found.rounds)]
        if asked.scored[n]:
            found.score(usages, asked.even[n])
        if (n + 1) % scenario.window == 0:
            owners = heaviest_first(scenario, n)
            away = [bundle for bundle, owner in owners.items() if owner != cluster.owner[bundle]]
            cluster.owner.update(owners)
            found.moves, found.rounds, found.last_round = found.moves + len(away), found.rounds + 1, [minutes]
            for resource, own in cluster.loads_under(scenario.factors[n]).items():
                share = math.fsum(own[bundle] for bundle in away) / math.fsum(own.values())
                found.moved[resource] = found.moved.get(resource, 0.0) + share
    return found


def heaviest_first(scenario: JudgedScenario, n: int) -> dict[str, str]:
    """Bundle -> broker, each where it leaves usage lowest, heaviest first, by the loads that cycle n is judged by."""
    loads = scenario.cluster("placed", "modular").loads_under(scenario.mean_factors(n))
    curves = {b: machine.curves() for b, machine in scenario.machines.items() if b not in scenario.down(n)}
    even = {resource: target.even for resource, target in scenario.targets(n).items()}
    carried = {broker: dict.fromkeys(loads, 0.0) for broker in sorted(curves)}
    owners: dict[str, str] = {}

    def height(broker: str, bundle: str) -> float:
        own = carried[broker]
        return max(curves[broker][r].usage(own[r] + of[bundle]) / even[r] for r, of in loads.items())

    weights = {bundle: max(loads[r][bundle] / math.fsum(loads[r].values()) for r in loads) for bundle in loads["cpu"]}
    for bundle in sorted(weights, key=lambda one: (-weights[one], one)):
        may_own = scenario.may_own.get(bundle.rpartition("/")[0], frozenset(curves))
        owners[bundle] = best = min((b for b in carried if b in may_own), key=lambda broker: height(broker, bundle))
        for resource, of in loads.items():
            carried[best][resource] += of[bundle]
    return owners


class _Owners:
    """Owners of bundles, and the loads of brokers in the scored cycles under them."""

    def __init__(self, scenario: JudgedScenario, asked: Measure) -> None:
        self._scenario, self._brokers = scenario, sorted(scenario.machines)
        cluster = scenario.cluster("known", "modular")
        cycles = [n for n, is_scored in enumerate(asked.scored) if is_scored]
        every = [cluster.loads_under(scenario.mean_factors(n)) for n in cycles]
        self._bundles = sorted(scenario.owners)
        self._even = np.array([asked.even[n] for n in cycles])
        # By resource: of each cycle and bundle, and of each cycle and broker.
        self._loads = {r: np.array([[one[r][bundle] for bundle in self._bundles] for one in every]) for r in every[0]}
        self._owner = [self._brokers.index(scenario.owners[bundle] or "") for bundle in self._bundles]
        self._carried = {r: np.zeros((len(cycles), len(self._brokers))) for r in self._loads}
        for n, owner in enumerate(self._owner):
            for r, carried in self._carried.items():
                carried[:, owner] += self._loads[r][:, n]

    def improve(self) -> None:
        """Makes the move that gains most, until none gains enough."""
        while True:
            usages = [self._usage(broker) for broker in range(len(self._brokers))]
            now = self._ratio(usages)
            tried = (
                (self._ratio(self._usages_after(usages, n, place)), n, place)
                for n in range(len(self._bundles))
                for place in range(len(self._brokers))
                if place != self._owner[n]
            )
            ratio, n, place = min(tried)
            if ratio > now - LEAST_GAIN:
                return
            for r, carried in self._carried.items():
                carried[:, self._owner[n]] -= self._loads[r][:, n]
                carried[:, place] += self._loads[r][:, n]
            self._owner[n] = place

    def placed(self) -> JudgedScenario:
        """The scenario with these owners from the start."""
        owners = {bundle: self._brokers[at] for bundle, at in zip(self._bundles, self._owner, strict=True)}
        return replace(self._scenario, owners=owners)

    def moved(self) -> tuple[int, dict[str, float]]:
        """How many bundles are not where they were, and their mean share of the load by resource."""
        away = [self._brokers[at] != self._scenario.owners[b] for b, at in zip(self._bundles, self._owner, strict=True)]
        shares = {r: (own / own.sum(axis=1, keepdims=True)).mean(axis=0) for r, own in self._loads.items()}
        return sum(away), {r: float(share[away].sum()) for r, share in shares.items()}

    def _usages_after(self, usages: Sequence[Array], n: int, place: int) -> list[Array]:
        """Of each broker, with a bundle moved."""
        after = [*usages]
        after[self._owner[n]], after[place] = self._usage(self._owner[n], n, -1), self._usage(place, n, 1)
        return after

    def _usage(self, broker: int, n: int = 0, times: int = 0) -> Array:
        """By cycle, of the broker's busiest resource, with bundle `n` so many times more."""
        curves = self._scenario.machines[self._brokers[broker]].curves()
        every = [
            curves[r].usage(carried[:, broker] + times * self._loads[r][:, n])  # type: ignore[arg-type]
            for r, carried in self._carried.items()
        ]
        busiest: Array = np.max(np.array(every), axis=0)
        return busiest

    def _ratio(self, usages: Sequence[Array]) -> float:
        return float((np.max(np.array(usages), axis=0) / self._even).mean())
