"""Placement under the modular manager: the order of proposals, filters in Pulsar's order, strategy, and its state.

Pulsar: ModularLoadManagerImpl.selectBroker, selectBrokerForAssignment, preallocateBundle, doLoadShedding,
LoadManagerShared, BrokerLoadManagerClassFilter, BrokerVersionFilter. Keys: loadBalancerLoadPlacementStrategy,
loadBalancerBrokerOverloadedThresholdPercentage, loadBalancerSheddingExcludedNamespaces, loadBalancerBrokerMaxTopics,
loadBalancerDistributeBundlesEvenlyEnabled, loadManagerClassName, preferLaterVersions. Where Pulsar draws among equally
good brokers, the first by name is taken. If the choice is overloaded, brokers are looked at a second time.

A shedder returns a Java hash map from broker to bundles, and `doLoadShedding` iterates over it. If each placement
counts for the next one (in turns, by average usage), that order decides the destinations, so it is reproduced. It
depends on the names alone. Bundles of one broker stay in the order in which they were selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import filterfalse

from evenkeel.model.averages import default_history
from evenkeel.model.bundles import broker_of, is_system, namespace_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.broker_filters import highest
from evenkeel.model.filters.isolation import Isolation, draining
from evenkeel.model.load import BrokerReport, BundleHistory, LoadData, Owned, Ownership, Policies, owned_of
from evenkeel.place.placement import NO_CANDIDATE, PREALLOCATED, SINCE_QUOTA, Placement, settled, with_its_own_broker
from evenkeel.place.strategies import strategy_named
from evenkeel.place.strategies.round_robin_broker_selector import EXCLUDED, RoundRobinBrokerSelector
from evenkeel.place.strategy import Alternatives, Asked, BrokerFigures, Choice, PlacementState, broker_figures
from evenkeel.settings import Settings
from evenkeel.settings.compatibility import StrategyPair, in_force


@dataclass(frozen=True, slots=True)
class Step:
    """The brokers that a filter left (by name) and the rule by which it removed others; `given_up` if it was undone."""

    rule: str
    brokers: tuple[str, ...]
    removed: Mapping[str, str]
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates for one bundle. `restored`: the filters left no one (or failed), so all allowed ones came back."""

    brokers: tuple[str, ...]
    removed: Mapping[str, str]
    allowed: tuple[str, ...]
    restored: bool


@dataclass(frozen=True, slots=True)
class PlacementView:
    """The filters' input, shared by all placements of a round.

    Some values are computed once, so that a filter that can remove no broker need not check every broker for every
    bundle. These are `crowded`, the brokers above loadBalancerBrokerMaxTopics, and if versions and load managers differ
    at all.
    """

    brokers: Mapping[str, BrokerReport]
    isolation: Isolation
    anti_affinity: AntiAffinity
    ownership: Ownership
    figures: Mapping[str, BrokerFigures]
    settings: Settings
    crowded: set[str] = field(init=False)
    managers_differ: bool = field(init=False)
    versions_differ: bool = field(init=False)

    @classmethod
    def of(cls, load: LoadData, policies: Policies, ownership: Ownership, settings: Settings) -> PlacementView:
        """The view of a round over that load."""
        return cls(
            brokers=load.brokers,
            isolation=Isolation(policies, load.brokers, settings),
            anti_affinity=AntiAffinity(policies, ownership, settings),
            ownership=ownership,
            figures=broker_figures(load, settings),
            settings=settings,
        )

    def __post_init__(self) -> None:
        limit, leaders = self.settings.loadBalancerBrokerMaxTopics, self.settings.loadManagerClassName
        ranks = {figure.rank for figure in self.figures.values()}
        differ = any(report.load_manager != leaders for report in self.brokers.values())
        object.__setattr__(self, "crowded", {name for name, figures in self.figures.items() if figures.topics > limit})
        object.__setattr__(self, "managers_differ", differ)
        object.__setattr__(self, "versions_differ", len(ranks) > 1 or None in ranks)

    def give(self, bundle: str, broker: str, history: BundleHistory) -> None:
        """Give the bundle to the broker; later placements count it."""
        self.anti_affinity.give(bundle, broker)
        self.figures[broker].give(history)
        if self.figures[broker].topics > self.settings.loadBalancerBrokerMaxTopics:
            self.crowded.add(broker)


def candidates_for(bundle: str, view: PlacementView) -> Candidates:
    """Return the candidates for the bundle after all filters, and the filter that removed each other broker."""
    settings = view.settings
    allowed = view.isolation.allowed(bundle)
    removed = dict(allowed.removed)
    kept = allowed.brokers
    evenly = settings.loadBalancerDistributeBundlesEvenlyEnabled or is_system(namespace_of(bundle))
    steps = [few_topics, least_of_group, *([fewest_bundles] if evenly else []), same_load_manager]
    for step in steps:
        left = step(bundle, kept, view)
        kept = left.brokers
        removed |= left.removed
    left = newest_version(bundle, kept, view)
    if left.given_up or not left.brokers:
        return Candidates(allowed.brokers, dict(allowed.removed), allowed.brokers, restored=True)
    return Candidates(left.brokers, removed | dict(left.removed), allowed.brokers, restored=False)


def few_topics(bundle: str, candidates: Iterable[str], view: PlacementView) -> Step:
    """Drop brokers with more topics (reported and assigned) than allowed; if no one remains, drop no one."""
    candidates = tuple(candidates)
    if not view.crowded:
        return Step("topics_over_limit", candidates, {})
    kept = tuple(broker for broker in candidates if broker not in view.crowded)
    if not kept:
        return Step("topics_over_limit", candidates, {}, given_up=True)
    return _step("topics_over_limit", candidates, kept)


def least_of_group(bundle: str, candidates: Iterable[str], view: PlacementView) -> Step:
    """Keep the failure domains, then the brokers, with the least of the bundle's anti-affinity group."""
    spread = view.anti_affinity.keep_least(namespace_of(bundle), candidates)
    return Step("anti_affinity", spread.brokers, spread.removed)


def fewest_bundles(bundle: str, candidates: Iterable[str], view: PlacementView) -> Step:
    """Keep the brokers with the fewest bundles of the bundle's namespace."""
    candidates = tuple(candidates)
    rule = "more_bundles_of_namespace"
    owned = view.ownership.owners_of(namespace_of(bundle))
    without = tuple(filterfalse(owned.__contains__, candidates))
    if without:
        return Step(rule, without, dict.fromkeys(filter(owned.__contains__, candidates), rule))
    least = min((owned[broker] for broker in candidates), default=0)
    return _step(rule, candidates, tuple(broker for broker in candidates if owned[broker] == least))


def same_load_manager(bundle: str, candidates: Iterable[str], view: PlacementView) -> Step:
    """Drop brokers that run another load manager than the leader."""
    candidates = tuple(candidates)
    if not view.managers_differ:
        return Step("other_load_manager", candidates, {})
    leaders = view.settings.loadManagerClassName
    kept = tuple(broker for broker in candidates if view.brokers[broker].load_manager == leaders)
    return _step("other_load_manager", candidates, kept)


def newest_version(bundle: str, candidates: Iterable[str], view: PlacementView) -> Step:
    """Keep the brokers on the newest version, if the setting is on; undone if a version cannot be read."""
    candidates = tuple(candidates)
    if not view.settings.preferLaterVersions or not candidates or not view.versions_differ:
        return Step("older_version", candidates, {})
    newest = highest({broker: view.figures[broker].rank for broker in candidates})
    if newest is None:
        return Step("older_version", candidates, {}, given_up=True)
    return _step("older_version", candidates, tuple(broker for broker in candidates if broker in newest))


def _step(rule: str, before: Iterable[str], kept: tuple[str, ...]) -> Step:
    before = tuple(before)
    if len(kept) == len(before):
        return Step(rule, kept, {})
    left = frozenset(kept)
    return Step(rule, kept, {broker: rule for broker in before if broker not in left})


OVERLOADED_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"


def strategy_in_force(settings: Settings) -> str:
    """The placement strategy; Pulsar 5.0 replaces AvgShedder where another class sheds."""
    return in_force(StrategyPair.of(settings), "modular", settings.generation).placement


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
        if choice.brokers and self._view.figures[choice.brokers[0]].overload_usage > limit:
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
            measured=self._view.figures[destination].overload_usage,
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
