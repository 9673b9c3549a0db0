"""Rules on boundaries and on who owns what.

While a bundle moves, two brokers may claim it, and a split's parent may stand beside its children: that only warns.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from evenkeel.model.bundles import bundle_name, validate_boundaries
from evenkeel.model.topics import is_heartbeat_or_sla
from evenkeel.validate.facts import ClusterFacts, CrossRule, Row, rule
from evenkeel.validate.suites import QUARANTINE, REJECT, WARN, Found, listing


def cluster_has_namespaces(facts: ClusterFacts) -> Found:
    """There is something to balance."""
    said = "The cluster has no namespace, so there is nothing to balance."
    return Found(len(facts.namespaces), [] if facts.namespaces else [facts.cluster], said)


def boundaries_are_whole(facts: ClusterFacts) -> Found:
    """Each namespace covers 0x00000000 to 0xffffffff without hole or overlap."""
    problems = {
        row["namespace"]: found for row in facts.namespaces if (found := validate_boundaries(row["boundaries"] or []))
    }
    first = min(problems) if problems else ""
    said = (
        f"{len(problems)} of {len(facts.namespaces)} namespaces do not cover 0x00000000 to 0xffffffff without hole or "
        f"overlap; {first}: {'; '.join(problems.get(first, ())[:3])}."
    )
    return Found(len(facts.namespaces), list(problems), said)


def bundle_counts_agree(facts: ClusterFacts) -> Found:
    """The number of bundles that a namespace names is the number it has."""
    odd = [row["namespace"] for row in facts.namespaces if row["bundles"] != len(row["boundaries"] or []) - 1]
    many = f"{len(odd)} of {len(facts.namespaces)} namespaces"
    said = f"{many} name another number of bundles than they have: {listing(odd)}."
    return Found(len(facts.namespaces), odd, said)


def bundles_have_one_owner(facts: ClusterFacts) -> Found:
    """At most one broker has a bundle in its list of owned ones."""
    owners: dict[str, set[str]] = defaultdict(set)
    for claim in facts.claims:
        if claim["is_owned"]:
            owners[claim["bundle"]].add(claim["broker"])
    doubled = [bundle for bundle, names in owners.items() if len(names) > 1]
    example = f" ({', '.join(sorted(owners[min(doubled)]))})" if doubled else ""
    said = f"{len(doubled)} of {len(owners)} bundles are claimed by more than one broker: {listing(doubled)}{example}."
    return Found(len(owners), doubled, said)


def owners_are_known(facts: ClusterFacts) -> Found:
    """Whoever claims a bundle is a broker of the cluster."""
    strange = sorted({claim["broker"] for claim in _claims_of_strangers(facts)})
    said = f"Bundles are claimed for a broker that the cluster does not list: {listing(strange)}."
    return Found(len(facts.claims), strange, said, failed=len(_claims_of_strangers(facts)))


def claimed_bundles_exist(facts: ClusterFacts) -> Found:
    """Claimed bundles lie between boundaries in force."""
    known = known_bundles(facts)
    claimed = {claim["bundle"] for claim in facts.claims if not is_brokers_own(claim["namespace"])}
    gone = sorted(claimed - known)
    said = f"{len(gone)} of {len(claimed)} claimed bundles are not among the boundaries: {listing(gone)}."
    return Found(len(claimed), gone, said)


def known_bundles(facts: ClusterFacts) -> set[str]:
    """The bundles between the boundaries in force."""
    return {
        bundle_name(row["namespace"], f"{lower}_{upper}")
        for row in facts.namespaces
        for lower, upper in pairwise(text.lower() for text in row["boundaries"] or [])
    }


def is_brokers_own(namespace: str) -> bool:
    """Whether it is a heartbeat or SLA-monitor namespace, which stands in no list of namespaces."""
    return is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True)


def _claims_of_strangers(facts: ClusterFacts) -> list[Row]:
    known = {row["broker"] for row in facts.brokers} | set(facts.listed)
    return [claim for claim in facts.claims if claim["broker"] not in known]


BUNDLE_RULES: tuple[CrossRule, ...] = (
    CrossRule(
        rule("cluster_has_namespaces", "namespace_bundles", WARN, "May the token read all tenants?"),
        cluster_has_namespaces,
    ),
    CrossRule(
        rule(
            *("boundaries_are_whole", "namespace_bundles", QUARANTINE),
            "Read the namespace's bundles again; if it repeats, its policies in the metadata store are damaged.",
        ),
        boundaries_are_whole,
    ),
    CrossRule(
        rule("bundle_counts_agree", "namespace_bundles", WARN, "Was the answer cut short?"),
        bundle_counts_agree,
    ),
    CrossRule(
        rule(
            *("bundles_have_one_owner", "bundle_ownership", WARN),
            "For a moment that is normal while a bundle moves; if it lasts, unload the bundle.",
        ),
        bundles_have_one_owner,
    ),
    CrossRule(
        rule(
            *("owners_are_known", "bundle_ownership", REJECT),
            "Is the broker shutting down, or was it listed under another address?",
        ),
        owners_are_known,
        _claims_of_strangers,
    ),
    CrossRule(
        rule(
            *("claimed_bundles_exist", "bundle_ownership", WARN),
            "For a moment that is normal after a split, while the parent is still listed.",
        ),
        claimed_bundles_exist,
    ),
)
