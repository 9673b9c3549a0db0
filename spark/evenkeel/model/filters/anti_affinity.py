"""Spreading the namespaces of an anti-affinity group over failure domains and brokers.

Pulsar: LoadManagerShared.filterAntiAffinityGroupOwnedBrokers, getAntiAffinityNamespaceOwnedBrokers,
shouldAntiAffinityNamespaceUnload, AntiAffinityGroupPolicyHelper. Key: failureDomainsEnabled. Groups compare without
regard to case; brokers in no domain form one domain of their own, "default".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress, repeat

from evenkeel.model.bundles import namespace_of
from evenkeel.model.load import Ownership, Policies
from evenkeel.settings import Settings

DEFAULT_DOMAIN = "default"


@dataclass(frozen=True, slots=True)
class GroupSpread:
    """Candidates left, and for each removed one the rule: "anti_affinity_domain" or "anti_affinity"."""

    brokers: tuple[str, ...]
    removed: Mapping[str, str]


class AntiAffinity:
    """Groups, failure domains and ownership of one cycle.

    `counts_bundles`: count a group's bundles on a broker (extensible manager), not its distinct namespaces (modular).
    """

    def __init__(
        self, policies: Policies, ownership: Ownership, settings: Settings, *, counts_bundles: bool = False
    ) -> None:
        self._group_of = {ns: group.lower() for ns, group in policies.groups.items() if group.strip()}
        self._members: dict[str, list[str]] = {}
        for namespace, group in sorted(self._group_of.items()):
            self._members.setdefault(group, []).append(namespace)
        self._ownership = ownership
        self._domains = domains_of_brokers(policies, settings)
        self._counts_bundles = counts_bundles
        self._counts: dict[str, dict[str, int]] = {}

    def group_of(self, namespace: str) -> str | None:
        """Return the group of the namespace, in lower case; None without one."""
        return self._group_of.get(namespace)

    def give(self, bundle: str, broker: str) -> None:
        """Note that the broker will have the bundle; later answers count it."""
        namespace = namespace_of(bundle)
        before = self._ownership.bundles_of(namespace, broker)
        self._ownership.add(bundle, broker)
        more = self._ownership.bundles_of(namespace, broker) - before
        counts = self._counts.get(self._group_of.get(namespace, ""))
        if counts is not None:
            counts[broker] = counts.get(broker, 0) + (more if self._counts_bundles else int(before == 0 < more))

    def counts(self, namespace: str) -> Mapping[str, int] | None:
        """Return broker -> how many namespaces of the group it serves, this one included; None without a group."""
        group = self._group_of.get(namespace)
        if group is None:
            return None
        if group not in self._counts:
            counts: dict[str, int] = {}
            for member in self._members[group]:
                for broker, bundles in self._ownership.owners_of(member).items():
                    counts[broker] = counts.get(broker, 0) + (bundles if self._counts_bundles else 1)
            self._counts[group] = counts
        return self._counts[group]

    def keep_least(self, namespace: str, candidates: Iterable[str]) -> GroupSpread:
        """Keep the candidates of the domains, and among those the brokers, with the least of the group."""
        kept = tuple(sorted(candidates))
        counts = self.counts(namespace)
        if counts is None or not kept:
            return GroupSpread(kept, {})
        removed: dict[str, str] = {}
        if self._domains:
            near = self._in_least_domains(kept, counts)
            removed = {broker: "anti_affinity_domain" for broker in kept if broker not in near}
            kept = tuple(filter(near.__contains__, kept)) if removed else kept
        served = list(map(counts.get, kept, repeat(0)))
        least = min(served)
        removed |= {broker: "anti_affinity" for broker, count in zip(kept, served, strict=True) if count != least}
        return GroupSpread(tuple(compress(kept, [count == least for count in served])), removed)

    def should_unload(self, namespace: str, current: str, candidates: Iterable[str]) -> bool:
        """Return True if moving a bundle of the namespace away can help its group: False only if all candidates are
        even.

        `candidates`: all brokers that may own the bundle, the current one included if it is one of them.
        """
        counts = self.counts(namespace)
        if not counts:
            return True
        served = {broker: counts.get(broker, 0) for broker in candidates}
        if not served:
            return False
        least = min(served.values())
        if least == 0 or served.get(current, 0) > least:
            return True
        return any(count != least for count in served.values())

    def more_at(self, namespace: str, broker: str, other: str) -> int:
        """Return how many more of the group the broker's domain has than the other's; brokers of one domain compare
        what they have themselves."""
        counts = self.counts(namespace) or {}
        homes = [self._domains.get(name, DEFAULT_DOMAIN) for name in (broker, other)]
        if homes[0] == homes[1]:
            return counts.get(broker, 0) - counts.get(other, 0)
        totals = dict.fromkeys(homes, 0)
        for name, count in counts.items():
            home = self._domains.get(name, DEFAULT_DOMAIN)
            if home in totals:
                totals[home] += count
        return totals[homes[0]] - totals[homes[1]]

    def is_last(self, bundle: str, broker: str) -> bool:
        """Return True if the broker counts for the group once less without the bundle."""
        return self._counts_bundles or self._ownership.bundles_of(namespace_of(bundle), broker) == 1

    def _in_least_domains(self, candidates: tuple[str, ...], counts: Mapping[str, int]) -> set[str]:
        homes = list(map(self._domains.get, candidates, repeat(DEFAULT_DOMAIN)))
        totals = dict.fromkeys(homes, 0)
        for domain, served in zip(homes, map(counts.get, candidates, repeat(0)), strict=True):
            totals[domain] += served
        least = min(totals.values())
        return set(compress(candidates, [totals[domain] == least for domain in homes]))


def domains_of_brokers(policies: Policies, settings: Settings) -> dict[str, str]:
    """Return each broker's failure domain; empty if domains are switched off. Of two domains the later name wins."""
    if not settings.failureDomainsEnabled:
        return {}
    return {broker: domain for domain, brokers in sorted(policies.domains.items()) for broker in brokers}
