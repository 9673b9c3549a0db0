"""The filters between "all brokers" and the placement strategy, in Pulsar's order.

Pulsar: ModularLoadManagerImpl.selectBroker, LoadManagerShared, BrokerLoadManagerClassFilter, BrokerVersionFilter. Keys:
loadBalancerBrokerMaxTopics, loadBalancerDistributeBundlesEvenlyEnabled, loadManagerClassName, preferLaterVersions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import filterfalse

from evenkeel.model.bundles import is_system, namespace_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.broker_filters import highest
from evenkeel.model.filters.isolation import Isolation
from evenkeel.model.filters.ownership import Ownership
from evenkeel.model.load import BrokerReport, BundleHistory, LoadData, Policies
from evenkeel.place.strategy import BrokerFigures, broker_figures
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Step:
    """The brokers that one filter left (in name order) and the rule by which it removed others; `given_up` if it was
    undone."""

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
