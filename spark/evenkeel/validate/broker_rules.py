"""Rules on the snapshot as a whole and on the brokers' own figures."""

from __future__ import annotations

from collections import Counter

from evenkeel.validate.facts import ClusterFacts, cross_rule
from evenkeel.validate.suites import QUARANTINE, REJECT, WARN, Found, listing

_USAGE_SLACK_PERCENT = 105.0
_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


@cross_rule(
    "cluster_policies",
    QUARANTINE,
    "It shows no single moment: look for a slow broker in raw_answers.elapsed_ms, or ask with more threads.",
    "s",
    "evenkeelMaxSnapshotSeconds",
)
def snapshot_is_short(facts: ClusterFacts) -> Found:
    """Check that the snapshot took at most evenkeelMaxSnapshotSeconds, from first request to last answer."""
    most = facts.settings.evenkeelMaxSnapshotSeconds
    began, ended = facts.policies.get("snapshot_started_at"), facts.ended_at
    if began is None or ended is None:
        return Found(0, threshold=most)
    took = (ended - began).total_seconds()
    sentence = f"The snapshot took {took:.1f} s, {took - most:.1f} s more than the {most:.0f} s allowed."
    return Found(1, [facts.cluster] if took > most else [], sentence, took, most)


@cross_rule("cluster_policies", QUARANTINE, "Is the admin address that of this cluster?", "count")
def cluster_has_brokers(facts: ClusterFacts) -> Found:
    """Check that at least one broker is listed."""
    return Found(
        len(facts.listed),
        [] if facts.listed else [facts.cluster],
        "The cluster lists no broker.",
        len(facts.listed),
        1.0,
    )


@cross_rule("cluster_policies", WARN, "Do two brokers advertise the same address?")
def brokers_are_listed_once(facts: ClusterFacts) -> Found:
    """Check that no broker is in the list twice."""
    doubled = sorted(name for name, times in Counter(facts.listed).items() if times > 1)
    sentence = f"{len(doubled)} of {len(set(facts.listed))} brokers are listed more than once: {listing(doubled)}."
    return Found(len(facts.listed), doubled, sentence)


@cross_rule("broker_reports", QUARANTINE, "Look at broker_reports.state_reason.", "count")
def a_broker_is_usable(facts: ClusterFacts) -> Found:
    """Check that at least one report can be used."""
    usable = _usable(facts)
    sentence = f"None of {len(facts.brokers)} brokers has a report that can be used."
    return Found(len(facts.brokers), [] if usable else [facts.cluster], sentence, float(len(usable)), 1.0)


@cross_rule(
    "broker_reports",
    QUARANTINE,
    "Look at broker_reports.state_reason of the missing ones; without them the cluster's picture is not whole.",
    "percent",
    "evenkeelMissingBrokersToleratedPercent",
)
def enough_brokers_answered(facts: ClusterFacts) -> Found:
    """Check that at most evenkeelMissingBrokersToleratedPercent of the brokers lack a usable report."""
    most = facts.settings.evenkeelMissingBrokersToleratedPercent
    usable = _usable(facts)
    expected = set(facts.listed) | {row["broker"] for row in facts.brokers if row["is_listed"]}
    missing = sorted(expected - usable)
    percent = 100.0 * len(missing) / len(expected) if expected else 0.0
    sentence = (
        f"{len(missing)} of {len(expected)} brokers ({percent:.1f} %) have no report that can be used, "
        f"{most:.1f} % are tolerated: {listing(missing)}."
    )
    return Found(len(expected), missing if percent > most else [], sentence, percent, most)


@cross_rule(
    "broker_reports",
    REJECT,
    "Does the broker still update its report? Compare its clock with the collector's.",
    "s",
    "evenkeelMaxReportAgeSeconds",
    refuse="brokers",
)
def reports_are_fresh(facts: ClusterFacts) -> Found:
    """Check that no report is older than evenkeelMaxReportAgeSeconds when the snapshot ends."""
    most = facts.settings.evenkeelMaxReportAgeSeconds
    ages = _ages(facts)
    oldest = max(ages.values(), default=None)
    old = [name for name, age in ages.items() if age > most]
    age = f"A broker's report is up to {oldest or 0:.0f} s older than the snapshot"
    sentence = f"{age}; {most:.0f} s are allowed: {listing(old)}."
    return Found(len(ages), old, sentence, oldest, most)


@cross_rule(
    "broker_reports",
    REJECT,
    "Compare the broker's clock with the collector's.",
    "s",
    "evenkeelFutureToleranceSeconds",
    refuse="brokers",
)
def reports_are_not_ahead(facts: ClusterFacts) -> Found:
    """Check that no report is dated more than evenkeelFutureToleranceSeconds after the snapshot's end."""
    most = facts.settings.evenkeelFutureToleranceSeconds
    ages = _ages(facts)
    furthest = max((-age for age in ages.values()), default=None)
    ahead = [name for name, age in ages.items() if -age > most]
    date = f"A broker's report is dated up to {furthest or 0:.0f} s after the snapshot"
    sentence = f"{date}; {most:.0f} s are allowed: {listing(ahead)}."
    return Found(len(ages), ahead, sentence, furthest, most)


@cross_rule(
    "broker_reports",
    WARN,
    "A limit set too low makes a broker look overloaded: check its CPU quota or its network card's speed.",
    "percent",
)
def usage_is_within_limits(facts: ClusterFacts) -> Found:
    """Check that usage is at most 105 % of its limit; CPU is a mean over a minute and may end a little above."""
    shares = {
        f"{row['broker']} {name}": 100.0 * row[f"{name}_usage"] / row[f"{name}_limit"]
        for row in facts.brokers
        for name in _RESOURCES
        if row[f"{name}_usage"] is not None and (row[f"{name}_limit"] or 0.0) > 0.0
    }
    over = [name for name, percent in shares.items() if percent > _USAGE_SLACK_PERCENT]
    most = max(shares.values(), default=None)
    sentence = (
        f"Usage is up to {most or 0:.1f} % of its limit, {_USAGE_SLACK_PERCENT:.0f} % are believed: {listing(over)}."
    )
    return Found(len(shares), over, sentence, most, _USAGE_SLACK_PERCENT)


@cross_rule(
    "broker_reports",
    WARN,
    "If one hangs, SIGKILL ends it; if several do, look at the metadata store first. It gets no bundle.",
)
def brokers_do_not_hang(facts: ClusterFacts) -> Found:
    """Check that no broker answers while its metadata store or its load manager does not."""
    hung = [row["broker"] for row in facts.brokers if row["state"] == "hung"]
    sentence = f"{len(hung)} of {len(facts.brokers)} brokers hang: {listing(hung)}."
    return Found(len(facts.brokers), hung, sentence)


@cross_rule("broker_reports", WARN, "The load of its bundles is not known in this cycle; see rejected and raw_answers.")
def topic_figures_came(facts: ClusterFacts) -> Found:
    """Check that every broker that reported also gave its topics' figures."""
    answering = [row for row in facts.brokers if row["state"] == "reported"]
    silent = [row["broker"] for row in answering if not row["has_topic_figures"]]
    sentence = f"{len(silent)} of {len(answering)} brokers gave no topic figures that can be read: {listing(silent)}."
    return Found(len(answering), silent, sentence)


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
    """Return the brokers whose report can be used: it came, is in time, and breaks no rejecting expectation."""
    ages, settings, unusable = _ages(facts), facts.settings, {*map(repr, facts.unusable)}  # NaN does not equal NaN
    oldest, furthest = settings.evenkeelMaxReportAgeSeconds, settings.evenkeelFutureToleranceSeconds
    return {
        row["broker"]
        for row in facts.brokers
        if row["state"] == "reported"
        and -furthest <= ages.get(row["broker"], 0.0) <= oldest
        and not (unusable and repr(row) in unusable)
    }


BROKER_RULES = (
    snapshot_is_short,
    cluster_has_brokers,
    brokers_are_listed_once,
    a_broker_is_usable,
    enough_brokers_answered,
    reports_are_fresh,
    reports_are_not_ahead,
    usage_is_within_limits,
    brokers_do_not_hang,
    topic_figures_came,
)
