"""Rules over several tables of one cluster: pure functions from what was observed to what was found.

Transient effects of a move only warn: while a bundle changes its owner, two brokers may claim it, a split's parent may
stand beside its children, and topics may be shown twice or nowhere for up to one stats period. What cannot come from a
move and touches the whole cluster's picture quarantines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evenkeel.checks.facts import KEY, PLACE, RECORD, ClusterFacts, Row
from evenkeel.checks.rules import QUARANTINE, REJECT, WARN, Finding, Found, Rule, listing
from evenkeel.decisions.bundles import HIGHEST_HASH, bundle_name, parse_range, validate_boundaries
from evenkeel.decisions.namespaces import is_heartbeat_or_sla
from evenkeel.errors import BadRange

_USAGE_SLACK_PERCENT = 105.0
_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


@dataclass(frozen=True, slots=True)
class CrossRule:
    """A rule and how it is looked up; `refuse` names the records of small tables to set aside."""

    rule: Rule
    look: Callable[[ClusterFacts], Found]
    refuse: Callable[[ClusterFacts], list[Row]] | None = None


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """Every rule, in order."""
    return [Finding(facts.cluster, each.rule, each.look(facts)) for each in CROSS_RULES]


def refused_records(facts: ClusterFacts) -> list[Row]:
    """Records of small tables that a cross-table rule sets aside, as bodies of `rejected` rows."""
    return [
        {
            "cluster": facts.cluster,
            "rejected_from": each.rule.table,
            "place": row[PLACE],
            "rule": each.rule.name,
            "reason": f"{row[PLACE]}: {each.look(facts).said} {each.rule.advice}".strip(),
            "record": row[RECORD],
            "record_key": row[KEY],
        }
        for each in CROSS_RULES
        if each.refuse is not None
        for row in each.refuse(facts)
    ]


def unknown_namespaces(facts: ClusterFacts) -> list[str]:
    """Namespaces that have topics and no boundaries, brokers' own left out; their topics are set aside."""
    known = {row["namespace"] for row in facts.namespaces}
    shown = {row["namespace"] for row in facts.topics}
    return sorted(name for name in shown - known if not _is_brokers_own(name))


def snapshot_is_short(facts: ClusterFacts) -> Found:
    most = facts.settings.evenkeelMaxSnapshotSeconds
    began, ended = facts.policies.get("snapshot_started_at"), facts.ended_at
    if began is None or ended is None:
        return Found(0, threshold=most)
    took = (ended - began).total_seconds()
    said = f"The snapshot took {took:.1f} s, {took - most:.1f} s more than the {most:.0f} s allowed."
    return Found(1, [facts.cluster] if took > most else [], said, took, most)


def cluster_has_brokers(facts: ClusterFacts) -> Found:
    return Found(
        len(facts.listed),
        [] if facts.listed else [facts.cluster],
        "The cluster lists no broker.",
        len(facts.listed),
        1.0,
    )


def brokers_are_listed_once(facts: ClusterFacts) -> Found:
    doubled = sorted(name for name, times in Counter(facts.listed).items() if times > 1)
    said = f"{len(doubled)} of {len(set(facts.listed))} brokers are listed more than once: {listing(doubled)}."
    return Found(len(facts.listed), doubled, said)


def a_broker_is_usable(facts: ClusterFacts) -> Found:
    usable = _usable(facts)
    said = f"None of {len(facts.brokers)} brokers gave a report that can be used."
    return Found(len(facts.brokers), [] if usable else [facts.cluster], said, float(len(usable)), 1.0)


def enough_brokers_answered(facts: ClusterFacts) -> Found:
    most = facts.settings.evenkeelMissingBrokersToleratedPercent
    usable = _usable(facts)
    expected = set(facts.listed) | {row["broker"] for row in facts.brokers if row["is_listed"]}
    missing = sorted(expected - usable)
    percent = 100.0 * len(missing) / len(expected) if expected else 0.0
    said = (
        f"{len(missing)} of {len(expected)} brokers ({percent:.1f} %) gave no report that can be used, "
        f"{most:.1f} % are tolerated: {listing(missing)}."
    )
    return Found(len(expected), missing if percent > most else [], said, percent, most)


def reports_are_fresh(facts: ClusterFacts) -> Found:
    most = facts.settings.evenkeelMaxReportAgeSeconds
    ages = _ages(facts)
    oldest = max(ages.values(), default=None)
    old = [name for name, age in ages.items() if age > most]
    said = f"A broker's report is up to {oldest or 0:.0f} s older than the snapshot; {most:.0f} s are allowed: {listing(old)}."
    return Found(len(ages), old, said, oldest, most)


def reports_are_not_ahead(facts: ClusterFacts) -> Found:
    most = facts.settings.evenkeelFutureToleranceSeconds
    ages = _ages(facts)
    furthest = max((-age for age in ages.values()), default=None)
    ahead = [name for name, age in ages.items() if -age > most]
    said = f"A broker's report is dated up to {furthest or 0:.0f} s after the snapshot; {most:.0f} s are allowed: {listing(ahead)}."
    return Found(len(ages), ahead, said, furthest, most)


def usage_is_within_limits(facts: ClusterFacts) -> Found:
    shares = {
        f"{row['broker']} {name}": 100.0 * row[f"{name}_usage"] / row[f"{name}_limit"]
        for row in facts.brokers
        for name in _RESOURCES
        if row[f"{name}_usage"] is not None and (row[f"{name}_limit"] or 0.0) > 0.0
    }
    over = [name for name, percent in shares.items() if percent > _USAGE_SLACK_PERCENT]
    most = max(shares.values(), default=None)
    said = f"Usage is up to {most or 0:.1f} % of its limit, {_USAGE_SLACK_PERCENT:.0f} % are believed: {listing(over)}."
    return Found(len(shares), over, said, most, _USAGE_SLACK_PERCENT)


def cluster_has_namespaces(facts: ClusterFacts) -> Found:
    said = "The cluster has no namespace, so there is nothing to balance."
    return Found(len(facts.namespaces), [] if facts.namespaces else [facts.cluster], said)


def boundaries_are_whole(facts: ClusterFacts) -> Found:
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
    odd = [row["namespace"] for row in facts.namespaces if row["bundles"] != len(row["boundaries"] or []) - 1]
    said = f"{len(odd)} of {len(facts.namespaces)} namespaces name another number of bundles than they have: {listing(odd)}."
    return Found(len(facts.namespaces), odd, said)


def bundles_have_one_owner(facts: ClusterFacts) -> Found:
    owners: dict[str, set[str]] = defaultdict(set)
    for claim in facts.claims:
        if claim["is_owned"]:
            owners[claim["bundle"]].add(claim["broker"])
    doubled = [bundle for bundle, names in owners.items() if len(names) > 1]
    example = f" ({', '.join(sorted(owners[min(doubled)]))})" if doubled else ""
    said = f"{len(doubled)} of {len(owners)} bundles are claimed by more than one broker: {listing(doubled)}{example}."
    return Found(len(owners), doubled, said)


def owners_are_known(facts: ClusterFacts) -> Found:
    strange = sorted({claim["broker"] for claim in _claims_of_strangers(facts)})
    said = f"Bundles are claimed for a broker that the cluster does not list: {listing(strange)}."
    return Found(len(facts.claims), strange, said, failed=len(_claims_of_strangers(facts)))


def claimed_bundles_exist(facts: ClusterFacts) -> Found:
    known = _bundles(facts)
    claimed = {claim["bundle"] for claim in facts.claims if not _is_brokers_own(claim["namespace"])}
    gone = sorted(claimed - known)
    said = f"{len(gone)} of {len(claimed)} claimed bundles are not among the boundaries: {listing(gone)}."
    return Found(len(claimed), gone, said)


def topics_have_a_namespace(facts: ClusterFacts) -> Found:
    unknown = unknown_namespaces(facts)
    topics = sum(row["rows"] for row in facts.topics if row["namespace"] in set(unknown))
    said = f"{topics} topics are of namespaces that the cluster does not have: {listing(unknown)}."
    return Found(sum(row["rows"] for row in facts.topics), unknown, said, failed=topics)


def shown_ranges_exist(facts: ClusterFacts) -> Found:
    known, unknown = _bundles(facts), set(unknown_namespaces(facts))
    shown = {
        bundle_name(row["namespace"], row["bundle_range"])
        for row in facts.topics
        if row["bundle_range"] is not None and row["namespace"] not in unknown and not _is_brokers_own(row["namespace"])
    }
    gone = sorted(shown - known)
    said = f"Topics are shown under {len(gone)} of {len(shown)} bundles that are not among the boundaries: {listing(gone)}."
    return Found(len(shown), gone, said)


def topics_lie_in_their_range(facts: ClusterFacts) -> Found:
    shown = [row for row in facts.topics if row["bundle_range"] is not None]
    odd = [f"{bundle_name(row['namespace'], row['bundle_range'])}" for row in shown if not _holds_its_hashes(row)]
    said = f"{len(odd)} of {len(shown)} bundles show topics whose hash lies outside their range: {listing(odd)}."
    return Found(len(shown), odd, said)


def loaded_topics_have_rates(facts: ClusterFacts) -> Found:
    missing = sum(row["without_rate"] for row in facts.topics)
    bundles = [f"{row['namespace']}/{row['bundle_range']}" for row in facts.topics if row["without_rate"]]
    said = f"{missing} loaded topics lack a rate, in {listing(bundles)}."
    return Found(sum(row["loaded"] for row in facts.topics), bundles, said, failed=missing)


def topic_sums_agree(facts: ClusterFacts) -> Found:
    """Both tolerances must be exceeded: rates move between two requests, and small differences are nothing."""
    percent = facts.settings.evenkeelTopicSumTolerancePercent
    slack = facts.settings.evenkeelTopicSumToleranceMsgPerSecond
    sums = {
        (bundle_name(row["namespace"], row["bundle_range"]), row["broker"]): (row["msg_rate_in"] or 0.0)
        + (row["msg_rate_out"] or 0.0)
        for row in facts.topics
        if row["bundle_range"] is not None
    }
    told = {row["broker"] for row in facts.brokers if row["has_topic_figures"]}
    own = {
        (claim["bundle"], claim["broker"]): claim["msg_rate_in"] + claim["msg_rate_out"]
        for claim in facts.claims
        if claim["broker"] in told and claim["msg_rate_in"] is not None and claim["msg_rate_out"] is not None
    }
    apart = {key: abs(sums.get(key, 0.0) - rate) for key, rate in own.items()}
    odd = {key: gap for key, gap in apart.items() if gap > slack and gap > percent / 100.0 * own[key]}
    worst = max(apart.values(), default=None)
    said = _sums_said(odd, sums, own, percent, slack) if odd else ""
    return Found(len(own), [bundle for bundle, _ in odd], said, worst, slack)


def _sums_said(
    odd: dict[tuple[str, str], float],
    sums: dict[tuple[str, str], float],
    own: dict[tuple[str, str], float],
    percent: float,
    slack: float,
) -> str:
    worst = min(odd, key=lambda key: (-odd[key], key))
    return (
        f"In {len(odd)} of {len(own)} bundles the topics' rates do not add up to the broker's own figure within "
        f"{percent:.0f} % and {slack:.0f} msg/s; {worst[0]} on {worst[1]}: {sums.get(worst, 0.0):.1f} msg/s from its "
        f"topics, {own[worst]:.1f} msg/s by the broker."
    )


def topic_figures_came(facts: ClusterFacts) -> Found:
    answering = [row for row in facts.brokers if row["state"] == "reported"]
    silent = [row["broker"] for row in answering if not row["has_topic_figures"]]
    said = f"{len(silent)} of {len(answering)} brokers gave no topic figures that can be read: {listing(silent)}."
    return Found(len(answering), silent, said)


def _ages(facts: ClusterFacts) -> dict[str, float]:
    ended = facts.ended_at
    if ended is None:
        return {}
    return {
        row["broker"]: (ended - row["report_at"]).total_seconds()
        for row in facts.brokers
        if row["report_at"] is not None
    }


def _usable(facts: ClusterFacts) -> set[str]:
    """Brokers whose report can be used: it came, is in time, and breaks no expectation that rejects."""
    ages, settings = _ages(facts), facts.settings
    oldest, furthest = settings.evenkeelMaxReportAgeSeconds, settings.evenkeelFutureToleranceSeconds
    return {
        row["broker"]
        for row in facts.brokers
        if row["state"] == "reported"
        and -furthest <= ages.get(row["broker"], 0.0) <= oldest
        and not facts.is_set_aside(row)
    }


def _reports_out_of_time(facts: ClusterFacts, is_out: Callable[[float], bool]) -> list[Row]:
    ages = _ages(facts)
    return [row for row in facts.brokers if row["broker"] in ages and is_out(ages[row["broker"]])]


def _claims_of_strangers(facts: ClusterFacts) -> list[Row]:
    known = {row["broker"] for row in facts.brokers} | set(facts.listed)
    return [claim for claim in facts.claims if claim["broker"] not in known]


def _bundles(facts: ClusterFacts) -> set[str]:
    return {
        bundle_name(row["namespace"], f"{lower}_{upper}")
        for row in facts.namespaces
        for lower, upper in _pairs(row["boundaries"] or [])
    }


def _pairs(texts: list[str]) -> Iterable[tuple[str, str]]:
    lowered = [text.lower() for text in texts]
    return zip(lowered[:-1], lowered[1:], strict=True)


def _holds_its_hashes(row: Row) -> bool:
    try:
        part = parse_range(row["bundle_range"])
    except BadRange:
        return False
    last = part.upper if part.upper == HIGHEST_HASH else part.upper - 1
    return bool(part.lower <= row["lowest_hash"] and row["highest_hash"] <= last)


def _is_brokers_own(namespace: str) -> bool:
    return is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True)


def _rule(
    name: str, table: str, severity: str, advice: str, unit: str | None = None, setting: str | None = None
) -> Rule:
    return Rule(name, table, severity, advice, unit=unit, definition={"setting": setting} if setting else {})


CROSS_RULES: tuple[CrossRule, ...] = (
    CrossRule(
        _rule(
            *("snapshot_is_short", "cluster_policies", QUARANTINE),
            "It shows no single moment: look for a slow broker in raw_answers.elapsed_ms, or ask with more threads.",
            *("s", "evenkeelMaxSnapshotSeconds"),
        ),
        snapshot_is_short,
    ),
    CrossRule(
        _rule(
            "cluster_has_brokers", "cluster_policies", QUARANTINE, "Is the admin address that of this cluster?", "count"
        ),
        cluster_has_brokers,
    ),
    CrossRule(
        _rule("brokers_are_listed_once", "cluster_policies", WARN, "Do two brokers advertise the same address?"),
        brokers_are_listed_once,
    ),
    CrossRule(
        _rule("a_broker_is_usable", "broker_reports", QUARANTINE, "Look at broker_reports.state_reason.", "count"),
        a_broker_is_usable,
    ),
    CrossRule(
        _rule(
            *("enough_brokers_answered", "broker_reports", QUARANTINE),
            "Look at broker_reports.state_reason of the missing ones; without them the cluster's picture is not whole.",
            *("percent", "evenkeelMissingBrokersToleratedPercent"),
        ),
        enough_brokers_answered,
    ),
    CrossRule(
        _rule(
            *("reports_are_fresh", "broker_reports", REJECT),
            "Does the broker still update its report? Compare its clock with the collector's.",
            *("s", "evenkeelMaxReportAgeSeconds"),
        ),
        reports_are_fresh,
        lambda facts: _reports_out_of_time(facts, lambda age: age > facts.settings.evenkeelMaxReportAgeSeconds),
    ),
    CrossRule(
        _rule(
            *("reports_are_not_ahead", "broker_reports", REJECT),
            "Compare the broker's clock with the collector's.",
            *("s", "evenkeelFutureToleranceSeconds"),
        ),
        reports_are_not_ahead,
        lambda facts: _reports_out_of_time(facts, lambda age: -age > facts.settings.evenkeelFutureToleranceSeconds),
    ),
    CrossRule(
        _rule(
            *("usage_is_within_limits", "broker_reports", WARN),
            "A limit set too low makes a broker look overloaded: check its CPU quota or its network card's speed.",
            "percent",
        ),
        usage_is_within_limits,
    ),
    CrossRule(
        _rule("cluster_has_namespaces", "namespace_bundles", WARN, "May the token read all tenants?"),
        cluster_has_namespaces,
    ),
    CrossRule(
        _rule(
            *("boundaries_are_whole", "namespace_bundles", QUARANTINE),
            "Read the namespace's bundles again; if it repeats, its policies in the metadata store are damaged.",
        ),
        boundaries_are_whole,
    ),
    CrossRule(
        _rule("bundle_counts_agree", "namespace_bundles", WARN, "Was the answer cut short?"),
        bundle_counts_agree,
    ),
    CrossRule(
        _rule(
            *("bundles_have_one_owner", "bundle_ownership", WARN),
            "For a moment that is normal while a bundle moves; if it lasts, unload the bundle.",
        ),
        bundles_have_one_owner,
    ),
    CrossRule(
        _rule(
            *("owners_are_known", "bundle_ownership", REJECT),
            "Is the broker shutting down, or was it listed under another address?",
        ),
        owners_are_known,
        _claims_of_strangers,
    ),
    CrossRule(
        _rule(
            *("claimed_bundles_exist", "bundle_ownership", WARN),
            "For a moment that is normal after a split, while the parent is still listed.",
        ),
        claimed_bundles_exist,
    ),
    CrossRule(
        _rule(
            *("topics_have_a_namespace", "topic_stats", REJECT),
            "Was the namespace made or deleted during the snapshot, or may the token not read its tenant?",
        ),
        topics_have_a_namespace,
    ),
    CrossRule(
        _rule(
            *("shown_ranges_exist", "topic_stats", WARN),
            "For a moment that is normal after a split; topics are counted by their hash, not by the range shown.",
        ),
        shown_ranges_exist,
    ),
    CrossRule(
        _rule(
            *("topics_lie_in_their_range", "topic_stats", QUARANTINE),
            "Does the cluster assign topics otherwise than by CRC32 (topicBundleAssignmentStrategy)? Then bundles "
            "cannot be told from names.",
        ),
        topics_lie_in_their_range,
    ),
    CrossRule(
        _rule(
            *("loaded_topics_have_rates", "topic_stats", REJECT),
            "The broker's answer lacks msgRateIn or its like: is its version known?",
        ),
        loaded_topics_have_rates,
    ),
    CrossRule(
        _rule(
            *("topic_sums_agree", "topic_stats", WARN),
            "Normal within one stats period after a move or a restart; if it lasts, compare both answers in raw_answers.",
            *("msg/s", "evenkeelTopicSumTolerancePercent"),
        ),
        topic_sums_agree,
    ),
    CrossRule(
        _rule(
            *("topic_figures_came", "broker_reports", WARN),
            "The load of its bundles is not known in this cycle; see rejected and raw_answers.",
        ),
        topic_figures_came,
    ),
)
