"""The extensible manager's broker filters, in the order in which Pulsar asks them (BrokerFilter); gates of unloads.

Pulsar: ExtensibleLoadManagerImpl.brokerFilterPipeline: BrokerLoadManagerClassFilter, BrokerMaxTopicCountFilter,
BrokerVersionFilter, AntiAffinityGroupPolicyFilter, BrokerIsolationPoliciesFilter. Keys: loadManagerClassName,
loadBalancerBrokerMaxTopics (a broker exactly at it is out, unlike under the modular manager), preferLaterVersions,
failureDomainsEnabled. Draining brokers are removed before all of them. Removed brokers are never taken back: if none is
left, no broker gets the bundle.

The gates may keep a bundle on its broker although a strategy wants to unload it. Pulsar:
ModularLoadManagerImpl.shouldNamespacePoliciesUnload, shouldAntiAffinityNamespaceUnload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.isolation import RULE as DRAINING
from evenkeel.model.filters.isolation import Isolation, draining
from evenkeel.model.load import BrokerLoadData, ExtensibleLoad, LoadData, Owned, Ownership, Policies, owned_of
from evenkeel.settings import Settings

_UNKNOWN = BrokerLoadData()
"""A broker without load data counts as one without topics."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Brokers left (in name order), and for each removed one the filter's rule."""

    brokers: tuple[str, ...]
    removed: Mapping[str, str]


class BrokerFilters:
    """The filters over the brokers of one round; bundles that are filtered alike share their answer.

    Bundles given away in the round count at once for their anti-affinity group: ownership is what the leader itself
    wrote down, not what brokers report. `unreadable_version`: the version filter failed, since a broker's version
    cannot be read. Placement goes on without it; a transfer is not made. `owners`: broker -> the bundles it owns.
    """

    def __init__(
        self, load: ExtensibleLoad, policies: Policies, owners: Mapping[str, Iterable[str]], settings: Settings
    ) -> None:
        self._load = load
        self._settings = settings
        ownership = _ownership_of_groups(owners, policies)
        self._anti_affinity = AntiAffinity(policies, ownership, settings, counts_bundles=True)
        self._isolation = Isolation(policies, load.brokers, settings)
        self.unreadable_version = False
        self._common = self._common_filters()
        self._answers: dict[tuple[str | None, tuple[str | None, bool]], Filtered] = {}

    def candidates(self, bundle: str) -> Filtered:
        """Return the brokers that may get the bundle."""
        alike = self._anti_affinity.group_of(namespace_of(bundle)), self._isolation.kind(bundle)
        if alike not in self._answers:
            spread = self._anti_affinity.keep_least(namespace_of(bundle), self._common.brokers)
            allowed = self._isolation.allowed_among(bundle, spread.brokers)
            removed = {**self._common.removed, **spread.removed, **allowed.removed}
            self._answers[alike] = Filtered(allowed.brokers, removed)
        return self._answers[alike]

    def why_not(self, bundle: str, broker: str) -> str | None:
        """Return None if the broker may get the bundle, else the rule that removed it, or "not_available"."""
        if broker not in self._load.brokers:
            return "not_available"
        return self.candidates(bundle).removed.get(broker)

    def give(self, bundle: str, broker: str) -> None:
        """Note that the broker will own the bundle."""
        self._anti_affinity.give(bundle, broker)
        group = self._anti_affinity.group_of(namespace_of(bundle))
        if group is not None:
            self._answers = {alike: answer for alike, answer in self._answers.items() if alike[0] != group}

    def _common_filters(self) -> Filtered:
        """Return the result of the filters that do not look at the bundle."""
        removed: dict[str, str] = {}
        kept = sorted(self._load.brokers)
        kept = _without(kept, removed, DRAINING, set(draining(kept, self._settings)))
        kept = _without(kept, removed, "other_load_manager", self._others_manager(kept))
        kept = _without(kept, removed, "topics_over_limit", self._full_of_topics(kept))
        kept = _without(kept, removed, "older_version", self._older(kept))
        return Filtered(tuple(kept), removed)

    def _others_manager(self, brokers: list[str]) -> set[str]:
        leaders = self._settings.loadManagerClassName
        return {broker for broker in brokers if self._load.brokers[broker].load_manager != leaders}

    def _full_of_topics(self, brokers: list[str]) -> set[str]:
        most, loads = self._settings.loadBalancerBrokerMaxTopics, self._load.loads
        return {broker for broker in brokers if loads.get(broker, _UNKNOWN).topics >= most}

    def _older(self, brokers: list[str]) -> set[str]:
        if not self._settings.preferLaterVersions or not brokers:
            return set()
        newest_brokers = newest({broker: self._load.brokers[broker].version for broker in brokers})
        self.unreadable_version = newest_brokers is None
        return set() if newest_brokers is None else set(brokers) - newest_brokers


def _ownership_of_groups(owners: Mapping[str, Iterable[str]], policies: Policies) -> Ownership:
    """Return the ownership of the namespaces in anti-affinity groups; the filters ask for no others."""
    if not policies.groups:
        return Ownership()
    grouped = policies.groups.keys()
    return Ownership(
        {broker: [b for b in bundles if b.rpartition("/")[0] in grouped] for broker, bundles in owners.items()}
    )


def _without(brokers: Iterable[str], removed: dict[str, str], rule: str, out: set[str]) -> list[str]:
    removed.update(dict.fromkeys(sorted(out), rule))
    return [broker for broker in brokers if broker not in out]


# Newest of several broker versions (Pulsar: BrokerVersionFilter; key preferLaterVersions).

_SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

Rank = tuple[tuple[int, int, int], tuple[tuple[int, int, str], ...]]


def version_rank(version: str | None) -> Rank | None:
    """Return a value that orders semantic versions (a release after its pre-releases); None for other texts."""
    match = _SEMANTIC.fullmatch(version or "")
    if match is None:
        return None
    major, minor, patch, before = match.groups()
    if before is None:
        return (int(major), int(minor), int(patch)), ((2, 0, ""),)
    parts = before.split(".")
    if not all(parts):
        return None
    ranked = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return (int(major), int(minor), int(patch)), ranked


def newest(versions: Mapping[str, str | None]) -> frozenset[str] | None:
    """Return the brokers on the newest version; None if any version is missing or unreadable."""
    return highest({broker: version_rank(version) for broker, version in versions.items()})


def highest(ranks: Mapping[str, Rank | None]) -> frozenset[str] | None:
    """Return the brokers on the newest version, for versions that are ranked already."""
    known = [rank for rank in ranks.values() if rank is not None]
    if len(known) < len(ranks) or not known:
        return None
    latest = max(known)
    return frozenset(broker for broker, rank in ranks.items() if rank == latest)


class UnloadGates:
    """Isolation policies and anti-affinity groups as gates of a bundle that is to leave its broker."""

    def __init__(self, isolation: Isolation, anti_affinity: AntiAffinity) -> None:
        self._isolation = isolation
        self._anti_affinity = anti_affinity

    def refusal(self, bundle: str, broker: str) -> str | None:
        """Return None if the bundle may leave, else the rule: "no_other_broker_allowed" or "anti_affinity_even"."""
        allowed = self._isolation.allowed(bundle).brokers
        if all(candidate == broker for candidate in allowed):
            return "no_other_broker_allowed"
        if not self._anti_affinity.should_unload(namespace_of(bundle), broker, allowed):
            return "anti_affinity_even"
        return None


def unload_gates(
    load: LoadData, policies: Policies, settings: Settings, *, owned: Callable[[], Owned] | None = None
) -> UnloadGates:
    """Return the gates over a cluster's policies and ownership. `owned`: from `owned_of`, if known."""
    ownership = Ownership(known=owned or (lambda: owned_of(load)))
    return UnloadGates(Isolation(policies, load.brokers, settings), AntiAffinity(policies, ownership, settings))
