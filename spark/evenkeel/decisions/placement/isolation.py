"""Which brokers may own a bundle at all.

Pulsar: LoadManagerShared.applyNamespacePolicies, SimpleResourceAllocationPolicies, NamespaceIsolationPolicyImpl.
A namespace under a policy goes to the policy's primary brokers, and to its secondary ones too where fewer than
`min_available` primaries are there. A namespace without one goes to brokers that are primary for no policy and serve
its topic domain. Regular expressions match the host part of a broker's name; from 5.0 on also the whole name. Brokers
that are being emptied may own nothing (evenkeelDrainingBrokers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.decisions.bundles import namespace_of
from evenkeel.decisions.load import BrokerReport, IsolationPolicy, Policies
from evenkeel.decisions.placement.draining import RULE as DRAINING
from evenkeel.decisions.placement.draining import draining
from evenkeel.errors import BadInput
from evenkeel.settings import Settings

_ALLOWED = "allowed"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Brokers a bundle may have, in name order, and why each other one may not have it."""

    brokers: tuple[str, ...]
    removed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Compiled:
    name: str
    namespaces: tuple[re.Pattern[str], ...]
    primary: tuple[re.Pattern[str], ...]
    secondary: tuple[re.Pattern[str], ...]
    min_available: int


class Isolation:
    """The isolation policies over the brokers of one cycle; answers are remembered per policy and topic domain."""

    def __init__(self, policies: Policies, brokers: Mapping[str, BrokerReport], settings: Settings) -> None:
        self._policies = [_compile(name, policy) for name, policy in sorted(policies.isolation.items())]
        self._non_persistent = policies.non_persistent_bundles
        self._names = {broker: _names(broker, settings) for broker in sorted(brokers)}
        self._draining = draining(brokers, settings)
        self._brokers = brokers
        self._policy_of: dict[str, _Compiled | None] = {}
        self._answers: dict[tuple[str | None, bool], Allowed] = {}

    def allowed(self, bundle: str) -> Allowed:
        """Who may own the bundle."""
        namespace, non_persistent = namespace_of(bundle), bundle in self._non_persistent
        if namespace not in self._policy_of:
            matching = (policy for policy in self._policies if _any(policy.namespaces, (namespace,)))
            self._policy_of[namespace] = next(matching, None)
        policy = self._policy_of[namespace]
        asked = None if policy is None else policy.name, non_persistent
        if asked not in self._answers:
            self._answers[asked] = self._decide(policy, non_persistent)
        return self._answers[asked]

    def _decide(self, policy: _Compiled | None, non_persistent: bool) -> Allowed:
        reasons = {}
        for broker, names in self._names.items():
            if not names:
                reasons[broker] = "unreadable_name"
            elif broker in self._draining:
                reasons[broker] = DRAINING
            elif policy is not None:
                reasons[broker] = _place_under(policy, names)
            else:
                reasons[broker] = self._place_without_policy(broker, names, non_persistent)
        primaries = sum(reason == _ALLOWED for reason in reasons.values())
        if policy is not None and primaries < policy.min_available:
            reasons = {broker: _ALLOWED if r == "secondary" else r for broker, r in reasons.items()}
        brokers = tuple(broker for broker, reason in reasons.items() if reason == _ALLOWED)
        return Allowed(brokers, {broker: reason for broker, reason in reasons.items() if reason != _ALLOWED})

    def _place_without_policy(self, broker: str, names: tuple[str, ...], non_persistent: bool) -> str:
        report = self._brokers[broker]
        serves = report.non_persistent_topics if non_persistent else report.persistent_topics
        if not serves:
            return "topic_domain_not_served"
        return "reserved_by_policy" if any(_any(p.primary, names) for p in self._policies) else _ALLOWED


def _place_under(policy: _Compiled, names: tuple[str, ...]) -> str:
    if _any(policy.primary, names):
        return _ALLOWED
    return "secondary" if _any(policy.secondary, names) else "outside_policy"


def _names(broker: str, settings: Settings) -> tuple[str, ...]:
    host, colon, _ = broker.rpartition(":")
    if not colon:
        return ()
    return (host, broker) if settings.generation == "5.0" else (host,)


def _any(patterns: tuple[re.Pattern[str], ...], names: tuple[str, ...]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns for name in names)


def _compile(name: str, policy: IsolationPolicy) -> _Compiled:
    try:
        return _Compiled(
            name,
            tuple(re.compile(x, re.ASCII) for x in policy.namespaces),
            tuple(re.compile(x, re.ASCII) for x in policy.primary),
            tuple(re.compile(x, re.ASCII) for x in policy.secondary),
            policy.min_available,
        )
    except re.error as error:
        raise BadInput(f"isolation policy {name!r} has a regular expression that cannot be read: {error}") from None
