"""Placing bundles: filters, strategy, a second look when the choice is overloaded, and remembering what was given.

Pulsar: ModularLoadManagerImpl.selectBroker, selectBrokerForAssignment, preallocateBundle. Keys:
loadBalancerLoadPlacementStrategy, loadBalancerBrokerOverloadedThresholdPercentage,
loadBalancerSheddingExcludedNamespaces. Where Pulsar draws among equally good brokers, the first by name is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenkeel.decisions.averages import first_history
from evenkeel.decisions.bundles import broker_of, namespace_of
from evenkeel.decisions.considered import Alternative, Considered, considered
from evenkeel.decisions.load import BundleHistory, LoadData, Policies
from evenkeel.decisions.placement import avg_shedder, least_long_term_message_rate, round_robin
from evenkeel.decisions.placement.anti_affinity import AntiAffinity
from evenkeel.decisions.placement.candidates import Candidates, Surroundings, candidates_for
from evenkeel.decisions.placement.gates import UnloadGates
from evenkeel.decisions.placement.isolation import Isolation
from evenkeel.decisions.placement.ownership import Ownership
from evenkeel.decisions.placement.round_robin import FIRST_TURN, Turn
from evenkeel.decisions.placement.standing import standings
from evenkeel.errors import NotImplementedStrategy
from evenkeel.settings import Settings

AVG_SHEDDER = "AvgShedder"
IMPLEMENTED = ("LeastLongTermMessageRate", AVG_SHEDDER)
_OVERLOADED = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one bundle goes. `best`: brokers that are equally good; `destination`: the one taken, None if nobody may.

    `candidates`: every broker, with the filter that removed it or its score.
    """

    bundle: str
    destination: str | None
    best: tuple[str, ...]
    candidates: tuple[Alternative, ...]
    considered: Considered


@dataclass(frozen=True, slots=True)
class _Picked:
    """The best candidates and, where the strategy scores, the score of each; rules of the best and of the others."""

    best: tuple[str, ...]
    rule: str
    rule_of_others: str
    scores: Mapping[str, float] = field(default_factory=dict)


def strategy_in_force(settings: Settings) -> str:
    """The placement strategy; Pulsar 5.0 replaces AvgShedder where another class sheds."""
    asked = settings.loadBalancerLoadPlacementStrategy
    if asked == AVG_SHEDDER != settings.loadBalancerLoadSheddingStrategy and settings.generation == "5.0":
        return "LeastLongTermMessageRate"
    return asked


class PlacementRound:
    """One round of placing: what was given away in it counts for what comes after.

    Bundles are placed one by one; `place_ownerless` does so in name order. `turn` is whose turn it is among
    brokers for shedding-excluded namespaces; read it afterwards to go on in a later round.
    """

    def __init__(self, load: LoadData, policies: Policies, settings: Settings, *, turn: Turn = FIRST_TURN) -> None:
        self._strategy = strategy_in_force(settings)
        if self._strategy not in IMPLEMENTED:
            raise NotImplementedStrategy(
                f"placement strategy {self._strategy} is not implemented: "
                f"set loadBalancerLoadPlacementStrategy to {' or '.join(IMPLEMENTED)}"
            )
        reported = {name: report.bundles.union(report.stats) for name, report in load.brokers.items()}
        given = {name: load.preallocated.get(name, {}).keys() for name in load.brokers}
        ownership = Ownership({name: reported[name] | given[name] for name in reported})
        self._around = Surroundings(
            brokers=load.brokers,
            isolation=Isolation(policies, load.brokers, settings),
            anti_affinity=AntiAffinity(policies, ownership, settings),
            ownership=ownership,
            standing=standings(load, settings),
            settings=settings,
        )
        self._histories = load.histories
        self._stranger = first_history()
        self._preallocated = {bundle: broker for broker in sorted(given) for bundle in given[broker]}
        self._avg_shedder = avg_shedder.placement_of("5" if settings.generation == "5.0" else "4")
        self.turn = turn

    @property
    def gates(self) -> UnloadGates:
        """The unload gates over the same policies and ownership."""
        return UnloadGates(self._around.isolation, self._around.anti_affinity)

    def plan(self, destinations: Mapping[str, str]) -> None:
        """Note where the shedder wants bundles to go, in its order; AvgShedder alone looks at it."""
        for bundle, destination in destinations.items():
            self._avg_shedder.plan(bundle, self._history(bundle), destination)

    def place_shed(self, bundle: str, broker: str) -> Placement:
        """A destination for a bundle that `broker` sheds; nothing is remembered, so all shed bundles see the same.

        No destination, or the present owner as the best one, means the bundle is not unloaded ("refused").
        """
        placement = self._select(bundle, broker)
        if placement.destination is None:
            return placement
        if placement.destination == broker:
            return replace(placement, considered=replace(placement.considered, outcome="kept", rule="already_best"))
        return placement

    def place_ownerless(self, bundles: Iterable[str]) -> tuple[Placement, ...]:
        """A broker for each bundle that has none, in name order, each one counting for those after it."""
        return tuple(self.assign(bundle) for bundle in sorted(bundles))

    def assign(self, bundle: str) -> Placement:
        """A broker for one bundle without owner, remembered as given to it; a bundle given before stays."""
        given = self._preallocated.get(bundle)
        if given is not None:
            return _settled(bundle, given, "preallocated")
        own = broker_of(namespace_of(bundle))
        if own is not None:
            return self._own(bundle, own)
        placement = self._select(bundle, None)
        if placement.destination is not None:
            self._preallocated[bundle] = placement.destination
            self._around.anti_affinity.give(bundle, placement.destination)
            self._around.standing[placement.destination].give(self._history(bundle))
        return placement

    def _own(self, bundle: str, broker: str) -> Placement:
        """Heartbeat and SLA namespaces belong to the broker in their name, or to nobody while that one is away."""
        if broker in self._around.brokers:
            return _settled(bundle, broker, "brokers_own_namespace")
        row = considered(bundle, "bundle", broker, "skipped", "brokers_own_namespace")
        return Placement(bundle, None, (), (), row)

    def _history(self, bundle: str) -> BundleHistory:
        return self._histories.get(bundle, self._stranger)

    def _select(self, bundle: str, owner: str | None) -> Placement:
        settings = self._around.settings
        excluded = namespace_of(bundle) in settings.loadBalancerSheddingExcludedNamespaces
        found = candidates_for(bundle, self._around)
        asked = avg_shedder.Asked(bundle, self._history(bundle), owner)
        picked = self._pick(asked, found.brokers, excluded)
        limit = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
        if picked.best and self._around.standing[picked.best[0]].usage > limit:
            found = Candidates(found.allowed, self._around.isolation.allowed(bundle).removed, found.allowed, True)
            picked = self._pick(asked, found.brokers, False)
            picked = replace(picked, rule=f"{picked.rule}_of_all_allowed")
        return self._placement(bundle, owner, found, picked)

    def _pick(self, asked: avg_shedder.Asked, candidates: tuple[str, ...], excluded: bool) -> _Picked:
        standing, settings = self._around.standing, self._around.settings
        if excluded:
            taken, self.turn = round_robin.select(candidates, self.turn)
            return _Picked((taken,) if taken else (), "in_turns", "not_its_turn")
        if self._strategy == AVG_SHEDDER:
            choice = self._avg_shedder.select(asked, candidates, standing, settings)
            return _Picked(choice.brokers, choice.rule, "not_planned")
        found = least_long_term_message_rate.select(candidates, standing, settings)
        return _Picked(found.brokers, "least_long_term_rate", "higher_long_term_rate", found.scores)

    def _placement(self, bundle: str, owner: str | None, found: Candidates, picked: _Picked) -> Placement:
        best, scores = picked.best, picked.scores
        alternatives = tuple(_alternative(broker, found, picked) for broker in sorted((*found.brokers, *found.removed)))
        if not best:
            row = considered(bundle, "bundle", owner, "refused", "no_candidate", alternatives=alternatives)
            return Placement(bundle, None, (), alternatives, row)
        destination = best[0]
        row = considered(
            bundle,
            "bundle",
            owner,
            "placed",
            picked.rule,
            setting=_OVERLOADED,
            measured=self._around.standing[destination].usage,
            threshold=self._around.settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0,
            unit="fraction",
            alternatives=alternatives,
            numbers={
                "candidates": len(found.brokers),
                "best": len(best),
                "restored": int(found.restored),
                "bundle_rate": self._history(bundle).long_term.rate,
                **({"score": scores[destination]} if math.isfinite(scores.get(destination, math.inf)) else {}),
            },
        )
        return Placement(bundle, destination, best, alternatives, row)


def _alternative(broker: str, found: Candidates, picked: _Picked) -> Alternative:
    if broker in found.removed:
        return Alternative(broker, "removed", found.removed[broker])
    score, is_best = picked.scores.get(broker), broker in picked.best
    if score is not None and math.isinf(score):
        return Alternative(broker, "best" if is_best else "candidate", "overloaded")
    if is_best:
        return Alternative(broker, "best", picked.rule.removesuffix("_of_all_allowed"), score)
    return Alternative(broker, "candidate", picked.rule_of_others, score)


def _settled(bundle: str, broker: str, rule: str) -> Placement:
    alternatives = (Alternative(broker, "best", rule),)
    row = considered(bundle, "bundle", None, "placed", rule, alternatives=alternatives)
    return Placement(bundle, broker, (broker,), alternatives, row)
