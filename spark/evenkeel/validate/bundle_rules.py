"""Rules on boundaries and owners of bundles.

While a bundle moves, two brokers may claim it, and a split's parent may exist beside its children: that only warns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from math import fsum
from typing import TypeVar

from evenkeel.errors import BadRange
from evenkeel.model.bundles import HIGHEST_HASH, bundle_name, parse_range, validate_boundaries
from evenkeel.model.topics import is_heartbeat_or_sla
from evenkeel.settings import Settings
from evenkeel.validate.facts import ClusterFacts, Row, cross_rule
from evenkeel.validate.suites import QUARANTINE, REJECT, WARN, Found, listing


@cross_rule("namespace_bundles", WARN, "May the token read all tenants?")
def cluster_has_namespaces(facts: ClusterFacts) -> Found:
    """Check that the cluster has a namespace to balance."""
    sentence = "The cluster has no namespace, so there is nothing to balance."
    return Found(len(facts.namespaces), [] if facts.namespaces else [facts.cluster], sentence)


@cross_rule(
    "namespace_bundles",
    QUARANTINE,
    "Read the namespace's bundles again; if it repeats, its policies in the metadata store are damaged.",
)
def boundaries_are_whole(facts: ClusterFacts) -> Found:
    """Check that each namespace covers 0x00000000 to 0xffffffff without hole or overlap."""
    problems = {
        row["namespace"]: faults for row in facts.namespaces if (faults := validate_boundaries(row["boundaries"] or []))
    }
    first = min(problems) if problems else ""
    sentence = (
        f"{len(problems)} of {len(facts.namespaces)} namespaces do not cover 0x00000000 to 0xffffffff without hole or "
        f"overlap; {first}: {'; '.join(problems.get(first, ())[:3])}."
    )
    return Found(len(facts.namespaces), list(problems), sentence)


@cross_rule("namespace_bundles", WARN, "Was the answer cut short?")
def bundle_counts_agree(facts: ClusterFacts) -> Found:
    """Check that each namespace has the number of bundles that it reports."""
    odd = [row["namespace"] for row in facts.namespaces if row["bundles"] != len(row["boundaries"] or []) - 1]
    many = f"{len(odd)} of {len(facts.namespaces)} namespaces"
    sentence = f"{many} name another number of bundles than they have: {listing(odd)}."
    return Found(len(facts.namespaces), odd, sentence)


@cross_rule(
    "bundle_ownership",
    WARN,
    "Normal while a bundle moves, with the modular manager for a stats period. If it lasts, unload the bundle.",
)
def bundles_have_one_owner(facts: ClusterFacts) -> Found:
    """Check that at most one broker claims a bundle."""
    owners: dict[str, set[str]] = defaultdict(set)
    for claim in facts.claims:
        if claim["is_owned"]:
            owners[claim["bundle"]].add(claim["broker"])
    doubled = [bundle for bundle, names in owners.items() if len(names) > 1]
    example = f" ({', '.join(sorted(owners[min(doubled)]))})" if doubled else ""
    sentence = (
        f"{len(doubled)} of {len(owners)} bundles are claimed by more than one broker: {listing(doubled)}{example}."
    )
    return Found(len(owners), doubled, sentence)


@cross_rule(
    "bundle_ownership",
    REJECT,
    "Is the broker shutting down, or was it listed under another address?",
    refuse="claims",
)
def owners_are_known(facts: ClusterFacts) -> Found:
    """Check that every claiming broker is a broker of the cluster."""
    known = {row["broker"] for row in facts.brokers} | set(facts.listed)
    claimants = [claim["broker"] for claim in facts.claims if claim["broker"] not in known]
    strange = sorted({*claimants})
    sentence = f"Bundles are claimed for a broker that the cluster does not list: {listing(strange)}."
    return Found(len(facts.claims), strange, sentence, failed=len(claimants))


@cross_rule("bundle_ownership", WARN, "For a moment that is normal after a split, while the parent is still listed.")
def claimed_bundles_exist(facts: ClusterFacts) -> Found:
    """Check that claimed bundles are between boundaries in force."""
    known = known_bundles(facts)
    claimed = {claim["bundle"] for claim in facts.claims if _is_listed(claim["namespace"])}
    missing = sorted(claimed - known)
    sentence = f"{len(missing)} of {len(claimed)} claimed bundles are not among the boundaries: {listing(missing)}."
    return Found(len(claimed), missing, sentence)


def known_bundles(facts: ClusterFacts) -> set[str]:
    """Return the bundles between the boundaries in force."""
    return {
        bundle_name(row["namespace"], f"{lower}_{upper}")
        for row in facts.namespaces
        for lower, upper in pairwise(text.lower() for text in row["boundaries"] or [])
    }


def is_brokers_own(namespace: str) -> bool:
    """Return True for a heartbeat or SLA-monitor namespace, which is in no list of namespaces."""
    return is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True)


_OLD_FORM = re.compile(r"[-=:.\w]+/[-=:.\w]+/[-=:.\w]+")


def is_old_form(namespace: str) -> bool:
    """Return True for a namespace tenant/cluster/namespace of Pulsar 1."""
    return _OLD_FORM.fullmatch(namespace) is not None and not is_brokers_own(namespace)


def _is_listed(namespace: str) -> bool:
    """Return True for a namespace that is in lists of namespaces, and has boundaries."""
    return not is_brokers_own(namespace) and not is_old_form(namespace)


BUNDLE_RULES = (
    cluster_has_namespaces,
    boundaries_are_whole,
    bundle_counts_agree,
    bundles_have_one_owner,
    owners_are_known,
    claimed_bundles_exist,
)


# Rules on the topics, summed by the bundle range under which a broker shows them.
#
# While a bundle moves, its topics may be shown twice or nowhere for up to one stats period: that only warns.


def unknown_namespaces(facts: ClusterFacts) -> list[str]:
    """Return the namespaces that have topics and lack boundaries; their topics are rejected."""
    known = {row["namespace"] for row in facts.namespaces}
    shown = {row["namespace"] for row in facts.topics}
    return sorted(filter(_is_listed, shown - known))


@cross_rule(
    "topic_stats",
    REJECT,
    "Was the namespace made or deleted during the snapshot, or may the token not read its tenant?",
)
def topics_have_a_namespace(facts: ClusterFacts) -> Found:
    """Check that every topic's namespace has boundaries, except brokers' own namespaces."""
    unknown = unknown_namespaces(facts)
    topics = sum(row["rows"] for row in facts.topics if row["namespace"] in set(unknown))
    sentence = f"{topics} topics are of namespaces that the cluster does not have: {listing(unknown)}."
    return Found(sum(row["rows"] for row in facts.topics), unknown, sentence, failed=topics)


@cross_rule(
    "topic_stats",
    WARN,
    "For a moment that is normal after a split; topics are counted by their hash, not by the range shown.",
)
def shown_ranges_exist(facts: ClusterFacts) -> Found:
    """Check that topics are shown under bundles between boundaries in force."""
    known, unknown = known_bundles(facts), set(unknown_namespaces(facts))
    shown = {
        bundle_name(row["namespace"], row["bundle_range"])
        for row in facts.topics
        if row["bundle_range"] is not None and row["namespace"] not in unknown and _is_listed(row["namespace"])
    }
    missing = sorted(shown - known)
    many = f"{len(missing)} of {len(shown)} bundles"
    sentence = f"Topics are shown under {many} that are not among the boundaries: {listing(missing)}."
    return Found(len(shown), missing, sentence)


@cross_rule(
    "topic_stats",
    QUARANTINE,
    "Does the cluster assign topics otherwise than by CRC32 (topicBundleAssignmentStrategy)? Then bundles "
    "cannot be told from names.",
)
def topics_lie_in_their_range(facts: ClusterFacts) -> Found:
    """Check that a topic's hash is in the range under which it is shown; the highest hash in the last bundle."""
    shown = [row for row in facts.topics if row["bundle_range"] is not None]
    odd = [f"{bundle_name(row['namespace'], row['bundle_range'])}" for row in shown if not _holds_its_hashes(row)]
    sentence = f"{len(odd)} of {len(shown)} bundles show topics whose hash lies outside their range: {listing(odd)}."
    return Found(len(shown), odd, sentence)


@cross_rule("topic_stats", REJECT, "The broker's answer lacks msgRateIn or its like: is its version known?")
def loaded_topics_have_rates(facts: ClusterFacts) -> Found:
    """Check that a loaded topic has all four rates."""
    missing = sum(row["without_rate"] for row in facts.topics)
    bundles = [f"{row['namespace']}/{row['bundle_range']}" for row in facts.topics if row["without_rate"]]
    sentence = f"{missing} loaded topics lack a rate, in {listing(bundles)}."
    return Found(sum(row["loaded"] for row in facts.topics), bundles, sentence, failed=missing)


@cross_rule(
    "topic_stats",
    WARN,
    "Normal within a stats period after a move or a restart; if it lasts, compare both answers in raw_answers.",
    "msg/s",
    "evenkeelTopicSumTolerancePercent",
)
def topic_sums_agree(facts: ClusterFacts) -> Found:
    """Check the sums of topics; both tolerances must be exceeded.

    Rates move between two requests, and small differences do not matter.
    """
    sums = {
        (bundle_name(row["namespace"], row["bundle_range"]), row["broker"]): (row["msg_rate_in"] or 0.0)
        + (row["msg_rate_out"] or 0.0)
        for row in facts.topics
        if row["bundle_range"] is not None
    }
    reporting = {row["broker"] for row in facts.brokers if row["has_topic_figures"]}
    own_totals = {
        (claim["bundle"], claim["broker"]): claim["msg_rate_in"] + claim["msg_rate_out"]
        for claim in facts.claims
        if claim["broker"] in reporting and claim["msg_rate_in"] is not None and claim["msg_rate_out"] is not None
    }
    return _compared(own_totals, sums, facts.settings, ("bundles", "topics", "figure"))


@cross_rule(
    "broker_reports",
    WARN,
    "Rules by message rates see what the broker says of itself: look at its log, and restart it if it lasts.",
    "msg/s",
    "evenkeelTopicSumTolerancePercent",
)
def broker_totals_agree(facts: ClusterFacts) -> Found:
    """Check a broker's totals against the sums of its bundles, with the tolerances of the sums of topics.

    Pulsar decides by the totals (LocalBrokerData.update sums them up from the same figures).
    """
    carried: dict[str, list[float]] = defaultdict(list)
    for claim in facts.claims:
        if claim["msg_rate_in"] is not None and claim["msg_rate_out"] is not None:
            carried[claim["broker"]] += claim["msg_rate_in"], claim["msg_rate_out"]
    sums = {(broker,): fsum(rates) for broker, rates in carried.items()}
    totals = {
        (row["broker"],): row["msg_rate_in"] + row["msg_rate_out"]
        for row in facts.brokers
        if row["broker"] in carried and row["msg_rate_in"] is not None and row["msg_rate_out"] is not None
    }
    return _compared(totals, sums, facts.settings, ("brokers", "bundles", "total"))


_Key = TypeVar("_Key", bound=tuple[str, ...])


def _compared(
    own: Mapping[_Key, float], sums: Mapping[_Key, float], settings: Settings, nouns: tuple[str, str, str]
) -> Found:
    """Return the own figures (msg/s) that differ from the sums of their parts by more than both tolerances.

    `nouns`: of the wholes, of their parts, and of the own figure.
    """
    wholes, parts, figure = nouns
    percent, slack = settings.evenkeelTopicSumTolerancePercent, settings.evenkeelTopicSumToleranceMsgPerSecond
    apart = {key: abs(sums.get(key, 0.0) - rate) for key, rate in own.items()}
    odd = [key for key, gap in apart.items() if gap > slack and gap > percent / 100.0 * max(own[key], 0.0)]
    worst, sentence = max(apart.values(), default=None), ""
    if odd:
        key = min(odd, key=lambda key: (-apart[key], key))
        figures = f"{sums.get(key, 0.0):.1f} msg/s from its {parts}, {own[key]:.1f} msg/s by the broker"
        sentence = (
            f"In {len(odd)} of {len(own)} {wholes} the {parts}' rates do not add up to the broker's own {figure} "
            f"within {percent:.0f} % and {slack:.0f} msg/s; {' on '.join(key)}: {figures}."
        )
    return Found(len(own), [key[0] for key in odd], sentence, worst, slack)


def _holds_its_hashes(row: Row) -> bool:
    try:
        part = parse_range(row["bundle_range"])
    except BadRange:
        return False
    last = part.upper if part.upper == HIGHEST_HASH else part.upper - 1
    return bool(part.lower <= row["lowest_hash"] and row["highest_hash"] <= last)


TOPIC_RULES = (
    topics_have_a_namespace,
    shown_ranges_exist,
    topics_lie_in_their_range,
    loaded_topics_have_rates,
    topic_sums_agree,
    broker_totals_agree,
)
