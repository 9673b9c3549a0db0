"""Placing bundles: filters, strategy, a second look when the choice is overloaded, and remembering what was given.

Pulsar: ModularLoadManagerImpl.selectBroker, selectBrokerForAssignment, preallocateBundle. Keys:
loadBalancerLoadPlacementStrategy, loadBalancerBrokerOverloadedThresholdPercentage,
loadBalancerSheddingExcludedNamespaces. Where Pulsar draws among equally good brokers, the first by name is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evenkeel.errors import SettingsError
from evenkeel.filters.anti_affinity import AntiAffinity
from evenkeel.filters.isolation import Isolation, draining
from evenkeel.filters.ownership import Owned, Ownership, owned_of
from evenkeel.model.averages import first_history
from evenkeel.model.bundles import broker_of, namespace_of
from evenkeel.model.considered import Alternative, Considered, considered
from evenkeel.model.load import BundleHistory, LoadData, Policies
from evenkeel.place.broker_figures import broker_figures
from evenkeel.place.modular_candidates import Candidates, PlacementView, candidates_for
from evenkeel.place.strategies import Chooser, avg_shedder
from evenkeel.place.strategy import Alternatives, Choice, PlacementState
from evenkeel.settings import Settings
from evenkeel.settings.compatibility import PLACEMENTS_OF, StrategyPair, in_force

IMPLEMENTED = PLACEMENTS_OF["modular"]
AVG_SHEDDER = "AvgShedder"
_OVERLOADED = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one bundle goes. `best`: brokers that are equally good; `destination`: the one taken, None if nobody may.

    `candidates`: every broker, with the filter that removed it or its score.
    """

    bundle: str
    destination: str | None
    best: tuple[str, ...]
    candidates: Sequence[Alternative]
    considered: Considered


def strategy_in_force(settings: Settings) -> str:
    """The placement strategy; Pulsar 5.0 replaces AvgShedder where another class sheds."""
    asked = StrategyPair(settings.loadBalancerLoadSheddingStrategy, settings.loadBalancerLoadPlacementStrategy)
    return in_force(asked, "modular", settings.generation).placement


class PlacementRound:
    """One round of placing: what was given away in it counts for what comes after.

    Bundles are placed one by one; `place_ownerless` does so in name order. `state` is what an earlier round remembered
    (usage averages, whose turn it is); read it afterwards to go on in a later round. `owned` gives what `owned_of` has
    found for somebody else.
    """

    def __init__(
        self,
        load: LoadData,
        policies: Policies,
        settings: Settings,
        *,
        state: PlacementState | None = None,
        owned: Callable[[], Owned] | None = None,
    ) -> None:
        self._strategy = strategy_in_force(settings)
        if self._strategy not in IMPLEMENTED:
            raise SettingsError(
                f"loadBalancerLoadPlacementStrategy = {self._strategy} is no placement strategy of the modular load "
                f"manager: set it to {' or '.join(IMPLEMENTED)}"
            )
        given = {name: load.preallocated.get(name, {}).keys() for name in load.brokers}
        leaving = draining(load.brokers, settings)
        ownership = Ownership(known=owned or (lambda: owned_of(load)))
        self._around = PlacementView(
            brokers=load.brokers,
            isolation=Isolation(policies, load.brokers, settings),
            anti_affinity=AntiAffinity(policies, ownership, settings),
            ownership=ownership,
            standing=broker_figures(load, settings),
            settings=settings,
        )
        self._histories = load.histories
        self._stranger = first_history()
        self._preallocated = {bundle: broker for broker in sorted(given.keys() - leaving) for bundle in given[broker]}
        self._chooser = Chooser(settings, self._around.standing, state or {})
        self._avg_shedder = avg_shedder.placement_of("5" if settings.generation == "5.0" else "4")

    @property
    def state(self) -> PlacementState:
        """What the placements so far leave to be remembered."""
        return self._chooser.state

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
            return replace(placement, considered=placement.considered._replace(outcome="kept", rule="already_best"))
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
            return with_its_own_broker(bundle, own, self._around.brokers)
        placement = self._select(bundle, None)
        if placement.destination is not None:
            self._preallocated[bundle] = placement.destination
            self._around.give(bundle, placement.destination, self._history(bundle))
            self._chooser.given(placement.destination)
        return placement

    def _history(self, bundle: str) -> BundleHistory:
        return self._histories.get(bundle, self._stranger)

    def _select(self, bundle: str, owner: str | None) -> Placement:
        settings = self._around.settings
        excluded = namespace_of(bundle) in settings.loadBalancerSheddingExcludedNamespaces
        found = candidates_for(bundle, self._around)
        asked = avg_shedder.Asked(bundle, self._history(bundle), owner)
        choice = self._chooser.choose_excluded(found.brokers) if excluded else self._choose(asked, found.brokers)
        rule = choice.rule
        limit = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
        if choice.brokers and self._around.standing[choice.brokers[0]].usage > limit:
            found = Candidates(found.allowed, self._around.isolation.allowed(bundle).removed, found.allowed, True)
            choice = self._choose(asked, found.brokers)
            rule = f"{choice.rule}_of_all_allowed"
        return self._placement(bundle, owner, found, choice, rule)

    def _choose(self, asked: avg_shedder.Asked, candidates: tuple[str, ...]) -> Choice:
        if self._strategy != AVG_SHEDDER:
            return self._chooser.choose(candidates)
        planned = self._avg_shedder.select(asked, candidates, self._around.standing, self._around.settings)
        return Choice(candidates, planned.brokers, (), planned.rule, "not_planned")

    def _placement(self, bundle: str, owner: str | None, found: Candidates, choice: Choice, rule: str) -> Placement:
        alternatives = Alternatives(choice, found.removed)
        if not choice.brokers:
            row = considered(bundle, "bundle", owner, "refused", "no_candidate", alternatives=alternatives)
            return Placement(bundle, None, (), alternatives, row)
        destination = choice.brokers[0]
        row = considered(
            bundle,
            "bundle",
            owner,
            "placed",
            rule,
            setting=_OVERLOADED,
            measured=self._around.standing[destination].usage,
            threshold=self._around.settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0,
            unit="fraction",
            alternatives=alternatives,
            numbers=self._numbers(bundle, found, choice),
        )
        return Placement(bundle, destination, choice.brokers, alternatives, row)

    def _numbers(self, bundle: str, found: Candidates, choice: Choice) -> Mapping[str, float]:
        score = choice.score(choice.brokers[0])
        return {
            "candidates": len(found.brokers),
            "best": len(choice.brokers),
            "removed": len(found.removed),
            "restored": int(found.restored),
            "bundle_rate": self._history(bundle).long_term.rate,
            **choice.numbers,
            **({} if score is None else {"score": score}),
        }


def with_its_own_broker(bundle: str, broker: str, brokers: Collection[str]) -> Placement:
    """Heartbeat and SLA namespaces belong to the broker in their name, or to nobody while that one is away."""
    if broker in brokers:
        return _settled(bundle, broker, "brokers_own_namespace")
    row = considered(bundle, "bundle", broker, "skipped", "brokers_own_namespace")
    return Placement(bundle, None, (), (), row)


def _settled(bundle: str, broker: str, rule: str) -> Placement:
    alternatives = (Alternative(broker, "best", rule),)
    row = considered(bundle, "bundle", None, "placed", rule, alternatives=alternatives)
    return Placement(bundle, broker, (broker,), alternatives, row)
