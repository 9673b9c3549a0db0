"""Placement under the modular manager: the order of proposals, filters, strategy, and its state.

Pulsar: ModularLoadManagerImpl.selectBroker, selectBrokerForAssignment, preallocateBundle, doLoadShedding. Keys:
loadBalancerLoadPlacementStrategy, loadBalancerBrokerOverloadedThresholdPercentage,
loadBalancerSheddingExcludedNamespaces. Where Pulsar draws among equally good brokers, the first by name is taken. If
the choice is overloaded, brokers are looked at a second time.

A shedder returns a Java hash map from broker to bundles, and `doLoadShedding` iterates over it. If each placement
counts for the next one (in turns, by average usage), that order decides the destinations, so it is reproduced. It
depends on the names alone. Bundles of one broker stay in the order in which they were selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from evenkeel.model.averages import default_history
from evenkeel.model.bundles import broker_of, namespace_of
from evenkeel.model.filters.isolation import draining
from evenkeel.model.filters.ownership import Owned, Ownership, owned_of
from evenkeel.model.load import BundleHistory, LoadData, Policies
from evenkeel.place.modular_candidates import Candidates, PlacementView, candidates_for
from evenkeel.place.placement import (
    NO_CANDIDATE,
    PREALLOCATED,
    SINCE_QUOTA,
    Placement,
    settled,
    with_its_own_broker,
)
from evenkeel.place.strategies import strategy_named
from evenkeel.place.strategies.round_robin_broker_selector import EXCLUDED, RoundRobinBrokerSelector
from evenkeel.place.strategy import Alternatives, Asked, Choice, PlacementState
from evenkeel.settings import Settings
from evenkeel.settings.compatibility import StrategyPair, in_force

OVERLOADED_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"


def strategy_in_force(settings: Settings) -> str:
    """The placement strategy; Pulsar 5.0 replaces AvgShedder where another class sheds."""
    asked = StrategyPair(settings.loadBalancerLoadSheddingStrategy, settings.loadBalancerLoadPlacementStrategy)
    return in_force(asked, "modular", settings.generation).placement


class PlacementRound:
    """One round of placing; each placement counts for the later ones.

    Bundles are placed one by one; `place_ownerless` does so in name order. `state` is the state of an earlier round
    (usage averages, the next turn); read it afterwards to continue in a later round. `owned` is a result of `owned_of`,
    if the caller has one.
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
        strategy = strategy_named(strategy_in_force(settings))
        given = {name: load.preallocated.get(name, {}).keys() for name in load.brokers}
        leaving = draining(load.brokers, settings)
        ownership = Ownership(known=owned or (lambda: owned_of(load)))
        self._view = PlacementView.of(load, policies, ownership, settings)
        self._histories = load.histories
        self._default_history = default_history()
        self._preallocated = {bundle: broker for broker in sorted(given.keys() - leaving) for bundle in given[broker]}
        self._strategy = strategy.begin(self._view.figures, state or {}, settings)
        self._in_turns = RoundRobinBrokerSelector(self._view.figures, state or {}, settings, prefix=EXCLUDED)

    @property
    def state(self) -> PlacementState:
        """Return the state after the placements so far."""
        return {**self._in_turns.state, **self._strategy.state}

    def plan(self, destinations: Mapping[str, str]) -> None:
        """Note where the shedder wants bundles to go, in its order; AvgShedder alone looks at it."""
        for bundle, destination in destinations.items():
            self._strategy.plan(bundle, self._history(bundle), destination)

    def place_shed(self, bundle: str, broker: str) -> Placement:
        """Return a destination for a bundle that `broker` sheds; no state changes, so all shed bundles see the same
        brokers.

        No destination, or the present owner as the best one, means the bundle is not unloaded ("refused").
        """
        return self._select(bundle, broker).kept_by(broker)

    def place_ownerless(self, bundles: Iterable[str]) -> tuple[Placement, ...]:
        """A broker for each bundle that has none, in name order, each one counting for those after it."""
        return tuple(self.assign(bundle) for bundle in sorted(bundles))

    def assign(self, bundle: str) -> Placement:
        """A broker for one bundle without owner, remembered as given to it; a bundle given before stays."""
        given = self._preallocated.get(bundle)
        if given is not None:
            return settled(bundle, given, PREALLOCATED)
        own_broker = broker_of(namespace_of(bundle))
        if own_broker is not None:
            return with_its_own_broker(bundle, own_broker, self._view.brokers)
        placement = self._select(bundle, None)
        if placement.destination is not None:
            self._preallocated[bundle] = placement.destination
            self._view.give(bundle, placement.destination, self._history(bundle))
            self._strategy.given(placement.destination)
        return placement

    def candidates(self, bundle: str) -> Candidates:
        """Return the brokers that may get the bundle, before the strategy chooses."""
        return candidates_for(bundle, self._view)

    def give(self, bundle: str, broker: str) -> None:
        """Count the bundle on the broker for later placements."""
        self._view.give(bundle, broker, self._history(bundle))

    def _history(self, bundle: str) -> BundleHistory:
        return self._histories.get(bundle, self._default_history)

    def _select(self, bundle: str, owner: str | None) -> Placement:
        settings = self._view.settings
        excluded = namespace_of(bundle) in settings.loadBalancerSheddingExcludedNamespaces
        filtered = candidates_for(bundle, self._view)
        asked = Asked(bundle, self._history(bundle), owner)
        choice = (self._in_turns if excluded else self._strategy).choose(asked, filtered.brokers)
        rule = choice.by.filtered
        limit = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
        if choice.brokers and self._view.figures[choice.brokers[0]].usage > limit:
            filtered = Candidates(
                filtered.allowed, self._view.isolation.allowed(bundle).removed, filtered.allowed, True
            )
            choice = self._strategy.choose(asked, filtered.brokers)
            rule = choice.by.of_all_allowed
        alternatives = Alternatives(choice, filtered.removed)
        if not choice.brokers:
            row = NO_CANDIDATE.about_bundle(bundle, owner, alternatives=alternatives)
            return Placement(bundle, None, (), alternatives, row)
        destination = choice.brokers[0]
        row = rule.about_bundle(
            bundle,
            owner,
            setting=OVERLOADED_KEY,
            measured=self._view.figures[destination].usage,
            threshold=limit,
            unit="fraction",
            alternatives=alternatives,
            numbers=self._numbers(bundle, filtered, choice),
        )
        return Placement(bundle, destination, choice.brokers, alternatives, row)

    def _numbers(self, bundle: str, filtered: Candidates, choice: Choice) -> Mapping[str, float]:
        score, history = choice.score(choice.brokers[0]), self._history(bundle)
        return {
            "candidates": len(filtered.brokers),
            "best": len(choice.brokers),
            "removed": len(filtered.removed),
            "restored": int(filtered.restored),
            "bundle_rate": history.long_term.rate,
            **({} if history.samples_since_quota is None else {SINCE_QUOTA: history.samples_since_quota}),
            **choice.numbers,
            **({} if score is None else {"score": score}),
        }


_FIRST_TABLE = 16
_MOST_FILLED = 0.75


def in_pulsars_order(unloads: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """(bundle, broker) pairs by broker in the order of Java's HashMap, else in the order given."""
    given = tuple(unloads)
    place = {broker: n for n, broker in enumerate(hash_order(broker for _, broker in given))}
    return tuple(sorted(given, key=lambda unload: place[unload[1]]))


def hash_order(names: Iterable[str], *, most: int = 0) -> list[str]:
    """Return names in the order of a Java HashMap that they were put into in ascending order."""
    ordered = sorted(set(names))
    size = _FIRST_TABLE
    while max(len(ordered), most) > size * _MOST_FILLED:
        size *= 2
    return sorted(ordered, key=lambda name: _spread(java_hash(name)) % size)


def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def _spread(code: int) -> int:
    """The upper half mixed into the lower one, as HashMap does."""
    return code ^ code >> 16
