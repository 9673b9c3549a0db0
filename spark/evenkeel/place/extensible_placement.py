"""Placement under the extensible manager: filters, then its only strategy.

Pulsar: ExtensibleLoadManagerImpl.selectAsync, getBrokerSelectionStrategy. Keys: loadBalancerSheddingExcludedNamespaces
(whose bundles are placed in turns), loadBalancerAverageResourceUsageDifferenceThresholdPercentage and those of the
filters. Where Pulsar draws among equally good brokers, the first by name is taken. A placed bundle counts at once for
its anti-affinity group, and for nothing else: loads stay as they were published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenkeel.model.bundles import broker_of, namespace_of
from evenkeel.model.consideration import Alternative, Considered, Rule, finite, number
from evenkeel.model.filters.broker_filters import BrokerFilters, Filtered
from evenkeel.model.load import ExtensibleLoad, Policies
from evenkeel.place.placement import NO_CANDIDATE, Placement, goes_to, placement_words, with_its_own_broker
from evenkeel.place.strategies import least_resource_usage_with_weight
from evenkeel.place.strategies import round_robin_broker_selector as round_robin
from evenkeel.place.strategies.least_resource_usage_with_weight import DIFFERENCE_KEY, ExtensibleBest
from evenkeel.place.strategies.round_robin_broker_selector import FIRST_TURN, IN_TURNS, Turn
from evenkeel.settings import Settings


class ExtensiblePlacementRound:
    """One round of placing. `owners`: broker -> the bundles it owns, without the bundles to be placed.

    `turn` is the next turn among brokers for shedding-excluded namespaces; read it afterwards to continue later.
    """

    def __init__(
        self,
        load: ExtensibleLoad,
        policies: Policies,
        owners: Mapping[str, Iterable[str]],
        settings: Settings,
        *,
        turn: Turn = FIRST_TURN,
    ) -> None:
        self._load = load
        self._settings = settings
        self._filters = BrokerFilters(load, policies, owners, settings)
        self.turn = turn

    def place(self, bundles: Iterable[str]) -> tuple[Placement, ...]:
        """A broker for each bundle, in name order, each one counting for those after it."""
        return tuple(self.assign(bundle) for bundle in sorted(bundles))

    def assign(self, bundle: str, owner: str | None = None) -> Placement:
        """A broker for one bundle; `owner` is the broker that it has left, if it has just left one."""
        own_broker = broker_of(namespace_of(bundle))
        if own_broker is not None:
            return with_its_own_broker(bundle, own_broker, self._load.brokers)
        filtered = self._filters.candidates(bundle)
        if not filtered.brokers:
            alternatives = tuple(
                Alternative(broker, "removed", rule) for broker, rule in sorted(filtered.removed.items())
            )
            row = NO_CANDIDATE.about_bundle(bundle, owner, alternatives=alternatives)
            return Placement(bundle, None, (), alternatives, row)
        if namespace_of(bundle) in self._settings.loadBalancerSheddingExcludedNamespaces:
            placement = self._in_turns(bundle, owner, filtered)
        else:
            best = least_resource_usage_with_weight.select_extensible(
                filtered.brokers, self._load.loads, self._settings
            )
            placement = self._by_load(bundle, owner, filtered, best)
        if placement.destination is not None:
            self._filters.give(bundle, placement.destination)
        return placement

    def candidates(self, bundle: str) -> Filtered:
        """Return the brokers that may get the bundle, whatever its load."""
        return self._filters.candidates(bundle)

    def give(self, bundle: str, broker: str) -> None:
        """Count the bundle on the broker for later placements."""
        self._filters.give(bundle, broker)

    def _in_turns(self, bundle: str, owner: str | None, filtered: Filtered) -> Placement:
        taken, self.turn = round_robin.select(filtered.brokers, self.turn)
        best = (taken,) if taken else ()
        alternatives = _alternatives(filtered, best, {}, (IN_TURNS.name, "not_its_turn"))
        row = IN_TURNS.filtered.about_bundle(
            bundle,
            owner,
            setting="loadBalancerSheddingExcludedNamespaces",
            alternatives=alternatives,
            numbers={"candidates": len(filtered.brokers), "best": 1, "removed": len(filtered.removed)},
        )
        return Placement(bundle, taken, best, alternatives, row)

    def _by_load(self, bundle: str, owner: str | None, filtered: Filtered, best: ExtensibleBest) -> Placement:
        destination = best.brokers[0]
        load = best.loads.get(destination)
        rule = WELL_BELOW_MEAN if best.preferred else NONE_WELL_BELOW_MEAN
        alternatives = _alternatives(filtered, best.brokers, best.loads, (rule.name, "not_well_below_mean_load"))
        below = self._settings.loadBalancerAverageResourceUsageDifferenceThresholdPercentage / 100.0
        row = rule.about_bundle(
            bundle,
            owner,
            setting=DIFFERENCE_KEY,
            measured=None if load is None else load + below,
            threshold=None if load is None else best.mean,
            unit="fraction",
            alternatives=alternatives,
            numbers={
                "candidates": len(filtered.brokers),
                "best": len(best.brokers),
                "removed": len(filtered.removed),
                **({} if best.mean is None else {"mean_load": best.mean}),
                **({} if load is None else {"load": load}),
            },
        )
        return Placement(bundle, destination, best.brokers, alternatives, row)


def _alternatives(
    filtered: Filtered, best: tuple[str, ...], loads: Mapping[str, float], rules: tuple[str, str]
) -> tuple[Alternative, ...]:
    """Every broker: the best ones and the other candidates with their rule and load, the rest with their filter's."""
    chosen = set(best)
    left = [
        Alternative(broker, "best", rules[0], finite(loads.get(broker)))
        if broker in chosen
        else Alternative(broker, "candidate", rules[1], finite(loads.get(broker)))
        for broker in filtered.brokers
    ]
    removed = [Alternative(broker, "removed", rule) for broker, rule in filtered.removed.items()]
    return tuple(sorted(left + removed, key=lambda candidate: candidate.name))


def _by_load(row: Considered) -> str:
    words = placement_words(row)
    start = f"{goes_to(row)}: of {words['others']}{words['filters']}"
    if "mean_load" not in row.numbers:
        return f"{start} none has load data{words['tie']}."
    mean = f"their mean load of {number(row, 'mean_load', 'fraction')}"
    if row.by is WELL_BELOW_MEAN:
        return f"{start} it is well below {mean}, at {number(row, 'load', 'fraction')}{words['tie']}."
    return f"{start} none is well below {mean}{words['tie']}."


WELL_BELOW_MEAN = Rule("placed", "well_below_mean_load", _by_load)
NONE_WELL_BELOW_MEAN = Rule("placed", "none_well_below_mean_load", _by_load)
