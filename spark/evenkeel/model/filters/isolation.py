"""Isolation policies, and draining brokers: the brokers that a namespace may use.

Pulsar: LoadManagerShared.applyNamespacePolicies, SimpleResourceAllocationPolicies, NamespaceIsolationPolicyImpl. A
namespace under a policy goes to the policy's primary brokers. It goes to its secondary ones too if fewer than
`min_available` primaries are available. A namespace without one goes to brokers that are primary for no policy and
serve its topic domain. Regular expressions match the host part of a broker's name; from 5.0 on also the whole name.
Draining brokers may own nothing (evenkeelDrainingBrokers).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evenkeel.errors import BadInput
from evenkeel.model.bundles import namespace_of
from evenkeel.model.load import BrokerReport, IsolationPolicy, Policies
from evenkeel.settings import Settings

_ALLOWED = "allowed"
_Matches = Callable[[str], object]
"""Return a true value for a name that a regular expression matches whole."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Brokers that may own a bundle, in name order, and the reason for each other one."""

    brokers: tuple[str, ...]
    removed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Compiled:
    name: str
    namespaces: tuple[_Matches, ...]
    primary: tuple[_Matches, ...]
    secondary: tuple[_Matches, ...]
    min_available: int


class Isolation:
    """The isolation policies over the brokers of one cycle.

    Answers depend on the namespace's policy and, without one, on the topic domain: they are cached by these two.
    """

    def __init__(self, policies: Policies, brokers: Mapping[str, BrokerReport], settings: Settings) -> None:
        self._policies = _compiled(policies)
        self._non_persistent = policies.non_persistent_bundles
        self._names = {broker: _names(broker, settings) for broker in sorted(brokers)}
        self._draining = draining(brokers, settings)
        self._brokers = brokers
        self._policy_of: dict[str, _Compiled | None] = {}
        self._reasons: dict[tuple[str | None, bool], Mapping[str, str]] = {}
        self._answers: dict[tuple[str | None, bool], Allowed] = {}

    def allowed(self, bundle: str) -> Allowed:
        """Return the brokers that may own the bundle."""
        policy, kind = self._asked(bundle)
        if kind not in self._answers:
            self._answers[kind] = _settled(policy, self._reasons_for(policy, kind))
        return self._answers[kind]

    def allowed_among(self, bundle: str, candidates: Iterable[str]) -> Allowed:
        """Return the candidates that may own the bundle; only primaries among them count towards `min_available`."""
        policy, kind = self._asked(bundle)
        reasons = self._reasons_for(policy, kind)
        return _settled(policy, {broker: reasons[broker] for broker in sorted(candidates)})

    def kind(self, bundle: str) -> tuple[str | None, bool]:
        """Return the bundle's policy, and True if brokers must serve non-persistent topics: equal kinds go alike."""
        return self._asked(bundle)[1]

    def _asked(self, bundle: str) -> tuple[_Compiled | None, tuple[str | None, bool]]:
        namespace = namespace_of(bundle)
        if namespace not in self._policy_of:
            self._policy_of[namespace] = _policy_for(self._policies, namespace)
        policy = self._policy_of[namespace]
        return policy, (policy.name, False) if policy else (None, bundle in self._non_persistent)

    def _reasons_for(self, policy: _Compiled | None, kind: tuple[str | None, bool]) -> Mapping[str, str]:
        """Return for each broker "allowed", "secondary", or why it may not own such a bundle."""
        if kind not in self._reasons:
            reasons = {}
            for broker, names in self._names.items():
                if not names:
                    reasons[broker] = "unreadable_name"
                elif broker in self._draining:
                    reasons[broker] = RULE
                elif policy is not None:
                    reasons[broker] = _place_under(policy, names)
                else:
                    reasons[broker] = self._place_without_policy(broker, names, kind[1])
            self._reasons[kind] = reasons
        return self._reasons[kind]

    def _place_without_policy(self, broker: str, names: tuple[str, ...], non_persistent: bool) -> str:
        report = self._brokers[broker]
        serves = report.non_persistent_topics if non_persistent else report.persistent_topics
        if not serves:
            return "topic_domain_not_served"
        return "reserved_by_policy" if any(_any(p.primary, names) for p in self._policies) else _ALLOWED


def policy_finder(policies: Policies) -> Callable[[str], str | None]:
    """Return a function that finds the policy of a namespace: the first by name that matches, None if none does."""
    compiled = _compiled(policies)

    def find(namespace: str) -> str | None:
        policy = _policy_for(compiled, namespace)
        return policy.name if policy else None

    return find


def _compiled(policies: Policies) -> list[_Compiled]:
    return [_compile(name, policy) for name, policy in sorted(policies.isolation.items())]


def _policy_for(policies: list[_Compiled], namespace: str) -> _Compiled | None:
    return next((policy for policy in policies if _any(policy.namespaces, (namespace,))), None)


def _settled(policy: _Compiled | None, reasons: Mapping[str, str]) -> Allowed:
    """Return the allowed brokers; secondary ones are allowed only if too few primaries are."""
    primaries = sum(reason == _ALLOWED for reason in reasons.values())
    fails_over = policy is not None and primaries < policy.min_available
    allowed = {_ALLOWED, "secondary"} if fails_over else {_ALLOWED}
    brokers = tuple(broker for broker, reason in reasons.items() if reason in allowed)
    return Allowed(brokers, {broker: reason for broker, reason in reasons.items() if reason not in allowed})


def _place_under(policy: _Compiled, names: tuple[str, ...]) -> str:
    if _any(policy.primary, names):
        return _ALLOWED
    return "secondary" if _any(policy.secondary, names) else "outside_policy"


def _names(broker: str, settings: Settings) -> tuple[str, ...]:
    host, colon, _ = broker.rpartition(":")
    if not colon:
        return ()
    return (host, broker) if settings.generation == "5.0" else (host,)


def _any(patterns: tuple[_Matches, ...], names: tuple[str, ...]) -> bool:
    return any(matches(name) for matches in patterns for name in names)


def _compile(name: str, policy: IsolationPolicy) -> _Compiled:
    """Take the matches on record, else those of Python's engine. What Java refuses matches nothing."""
    lists: dict[str, tuple[_Matches, ...]] = {}
    for role in ("namespaces", "primary", "secondary"):
        if policy.matched is not None:
            lists[role] = tuple(frozenset(names or ()).__contains__ for names in policy.matched[role])
            continue
        try:
            lists[role] = tuple(re.compile(text, re.ASCII).fullmatch for text in getattr(policy, role))
        except re.error as error:
            raise BadInput(f"isolation policy {name!r} has a regular expression that cannot be read: {error}") from None
    return _Compiled(name, **lists, min_available=policy.min_available)


# Kind of policy that a namespace is under (Pulsar: IsolationPoliciesHelper, AntiAffinityGroupPolicyHelper).


class PoliciesPresent:
    """The policies of one cycle; answers are cached per namespace."""

    def __init__(self, policies: Policies) -> None:
        self._isolation_of = policy_finder(policies)
        self._groups = {namespace for namespace, group in policies.groups.items() if group.strip()}
        self._answers: dict[str, str | None] = {}

    def policy(self, namespace: str) -> str | None:
        """Return the kind of policy of the namespace: "isolation_policy", "anti_affinity_group", or None."""
        if namespace not in self._answers:
            self._answers[namespace] = self._find(namespace)
        return self._answers[namespace]

    def _find(self, namespace: str) -> str | None:
        if self._isolation_of(namespace) is not None:
            return "isolation_policy"
        return "anti_affinity_group" if namespace in self._groups else None


# Draining brokers: no answer about the possible owners of a bundle contains them.
#
# Key: evenkeelDrainingBrokers, a list of broker ids; Pulsar has no such setting. A draining broker counts as absent. It
# is never a candidate, also if the filters are undone because they left none. It does not count towards the primary
# brokers that an isolation policy asks for. Bundles may still leave it, and no load is transferred to it. `Isolation`
# uses this function. The extensible manager's filters call it before all others, as they never take brokers back that
# anti-affinity removed.

RULE = "draining"


def draining(brokers: Iterable[str], settings: Settings) -> frozenset[str]:
    """Return the brokers that are being drained, by the list."""
    return settings.evenkeelDrainingBrokers.intersection(brokers)
