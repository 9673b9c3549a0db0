"""Rules on what an operator configured: mistakes that Pulsar takes without a word, and that last until they are mended.

All only warn; `evenkeel status` shows what is broken as long as it is (`status.attention.MISCONFIGURED`).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from evenkeel.validate.bundle_rules import is_old_form
from evenkeel.validate.facts import ClusterFacts, cross_rule
from evenkeel.validate.suites import WARN, Found, listing


@cross_rule(
    "topic_stats",
    WARN,
    "They are left out: the v2 admin API has no answer about them, and Pulsar 4.2 refuses them. Move their "
    "topics to a namespace tenant/namespace.",
)
def namespaces_have_two_parts(facts: ClusterFacts) -> Found:
    """Check that no namespace with load has the form tenant/cluster/namespace of Pulsar 1 (refused by 4.2)."""
    names = {row["namespace"] for rows in (facts.claims, facts.topics, facts.namespaces) for row in rows}
    old = sorted(filter(is_old_form, names))
    sentence = f"{len(old)} of {len(names)} namespaces are of the form tenant/cluster/namespace: {listing(old)}."
    return Found(len(names), old, sentence)


@cross_rule(
    "cluster_policies",
    WARN,
    "An expression has to match a broker's whole host name, without port: `pulsar-1.*`, not `pulsar-1:8080`.",
)
def policies_name_brokers(facts: ClusterFacts) -> Found:
    """Check that each isolation policy matches a broker, by an expression that is primary or secondary; one with an
    expression that Java refuses breaks `expressions_can_be_read` instead."""
    matched = _matched(facts)
    idle = sorted(
        name
        for name, of in matched.items()
        if not any(names or names is None for role in ("primary", "secondary") for names in of[role])
    )
    sentence = f"{len(idle)} of {len(matched)} isolation policies match no broker at all: {listing(idle)}."
    return Found(len(matched), idle if facts.listed else [], sentence)


@cross_rule(
    "cluster_policies", WARN, "Correct it with `pulsar-admin ns-isolation-policy set`; `rejected` has the text."
)
def expressions_can_be_read(facts: ClusterFacts) -> Found:
    """Check that Java reads the expressions of isolation policies; one that it refuses matches nothing."""
    policies = _matched(facts)
    refused = sorted(name for name, of in policies.items() if any(None in names for names in of.values()))
    sentence = f"{len(refused)} of {len(policies)} isolation policies have an expression that Java refuses: "
    return Found(len(policies), refused, f"{sentence}{listing(refused)}.")


def _matched(facts: ClusterFacts) -> dict[str, Any]:
    """Isolation policy -> list of expressions -> the names that each expression matches, None if Java refuses it."""
    policies = json.loads(facts.policies.get("isolation_policies") or "{}")
    return {name: body["matched"] for name, body in policies.items() if "matched" in body}


@cross_rule("cluster_policies", WARN, "Leave each broker in one domain: `pulsar-admin clusters update-failure-domain`.")
def domains_name_brokers_once(facts: ClusterFacts) -> Found:
    """Check that failure domains name each broker once (FailureDomain: of several domains of a broker one counts)."""
    domains = facts.policies.get("failure_domains") or {}
    named = Counter(broker for _, brokers in _items(domains) for broker in brokers)
    twice = sorted(broker for broker, times in named.items() if times > 1)
    sentence = f"{len(twice)} of {len(named)} brokers of failure domains are named more than once: {listing(twice)}."
    return Found(len(named), twice, sentence)


@cross_rule(
    "cluster_policies",
    WARN,
    "Some of its namespaces share a place in any plan: make the group smaller, or add domains or brokers.",
)
def groups_fit_domains(facts: ClusterFacts) -> Found:
    """Check that no anti-affinity group has more namespaces than there are domains, or brokers without domains."""
    groups = Counter(group for _, group in _items(facts.policies.get("anti_affinity_groups") or {}))
    domains = [name for name, brokers in _items(facts.policies.get("failure_domains") or {}) if brokers]
    by_domain = facts.settings.failureDomainsEnabled and bool(domains)
    places, noun = (len(domains), "failure domains") if by_domain else (len(set(facts.listed)), "brokers")
    large = sorted(group for group, namespaces in groups.items() if namespaces > places)
    sentence = f"{len(large)} of {len(groups)} anti-affinity groups have more namespaces than the {places} {noun}: "
    return Found(len(groups), large, f"{sentence}{listing(large)}.")


def _items(mapping: Any) -> list[tuple[str, Any]]:
    """Return the entries of a map, which Arrow gives as a list of pairs."""
    return [*(mapping.items() if isinstance(mapping, dict) else mapping)]


CONFIGURATION_RULES = (
    namespaces_have_two_parts,
    policies_name_brokers,
    expressions_can_be_read,
    domains_name_brokers_once,
    groups_fit_domains,
)
