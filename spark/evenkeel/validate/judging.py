"""From what was observed to findings, quarantined clusters and records set aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenkeel.settings import Settings
from evenkeel.validate.broker_rules import BROKER_RULES
from evenkeel.validate.bundle_rules import BUNDLE_RULES, TOPIC_RULES, unknown_namespaces
from evenkeel.validate.facts import BROKEN, KEY, PLACE, RECORD, ClusterFacts, Facts, Row
from evenkeel.validate.suites import (
    FILTERED,
    QUARANTINE,
    REJECT,
    ExpectationVerdict,
    Finding,
    Found,
    Suite,
    ValidationRule,
    listing,
    run_suite,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


TOPICS = "topic_stats"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What validate says of the open clusters.

    `records` are bodies of `rejected` rows of the small tables. Of topic_stats, whose rows are not here,
    `broken_topic_rules` are the rules that some topic breaks and `strange_namespaces` those whose topics are set aside.
    """

    findings: tuple[Finding, ...]
    quarantined: Mapping[str, str]
    records: tuple[Row, ...]
    broken_topic_rules: tuple[ValidationRule, ...]
    strange_namespaces: tuple[tuple[str, str], ...]


def judge(
    facts: Facts, suites: Mapping[str, Suite], settings: Mapping[str, Settings], topic_stats: DataFrame
) -> Judgement:
    """Runs every suite and every cross-table rule. `settings` are those in force, by open cluster."""
    clusters = sorted(settings)
    findings = [finding for suite in suites.values() for finding in judge_suite(facts, suite, clusters, topic_stats)]
    seen = [cluster_facts(facts, suites, cluster, settings[cluster]) for cluster in clusters]
    findings += [finding for each in seen for finding in check_cluster(each)]
    records = [row for each in seen for row in refused_records(each)]
    records += [row for suite in suites.values() if suite.table != TOPICS for row in broken_records(facts, suite)]
    failed = {finding.rule.name for finding in findings if not finding.passed and finding.rule.table == TOPICS}
    by_name = {finding.rule.name: finding.rule for finding in findings if finding.rule.table == TOPICS}
    return Judgement(
        findings=tuple(findings),
        quarantined=quarantined(findings),
        records=tuple(records),
        broken_topic_rules=tuple(by_name[name] for name in sorted(failed) if by_name[name].severity == REJECT),
        strange_namespaces=tuple((each.cluster, name) for each in seen for name in unknown_namespaces(each)),
    )


def quarantined(findings: Iterable[Finding]) -> dict[str, str]:
    """Per quarantined cluster the reason in words: the first finding, and how many more there are."""
    broken: dict[str, list[Finding]] = {}
    for finding in findings:
        if not finding.passed and finding.rule.severity == QUARANTINE:
            broken.setdefault(finding.cluster, []).append(finding)
    return {
        cluster: f"validation: {found[0].found.said} {found[0].rule.advice}".strip()
        + (f" ({len(found) - 1} more rules failed, see validation_results)" if len(found) > 1 else "")
        for cluster, found in broken.items()
    }


def judge_suite(facts: Facts, suite: Suite, clusters: list[str], topic_stats: DataFrame) -> list[Finding]:
    """One finding per rule and cluster.

    Great Expectations runs once over all clusters; only where a rule fails there, once more for each of them.
    """
    import pyarrow.compute as pc
    from pyspark.sql import functions as F

    arrow = facts.topic_rows if suite.table == TOPICS else facts.small[suite.table]
    verdicts = run_suite(suite, _columns(arrow, suite) if arrow is not None else topic_stats.select(*suite.columns()))
    if all(verdict.passed for verdict in verdicts) or len(clusters) == 1:
        counts = _counts(facts, suite.table)
        return [_finding(facts, each, verdict, counts) for each in clusters for verdict in verdicts]
    findings = []
    for each in clusters:
        if arrow is not None:
            own = run_suite(suite, _columns(arrow.filter(pc.equal(arrow["cluster"], each)), suite))
        else:
            own = run_suite(suite, topic_stats.where(F.col("cluster") == each).select(*suite.columns()))
        findings += [_finding(facts, each, verdict, _counts(facts, suite.table)) for verdict in own]
    return findings


def cluster_facts(facts: Facts, suites: Mapping[str, Suite], cluster: str, settings: Settings) -> ClusterFacts:
    """What the cross-table rules look at, of one cluster."""
    policies = facts.rows("cluster_policies", cluster)
    return ClusterFacts(
        cluster=cluster,
        settings=settings,
        policies=policies[0] if policies else {},
        brokers=tuple(facts.rows("broker_reports", cluster)),
        namespaces=tuple(facts.rows("namespace_bundles", cluster)),
        claims=tuple(facts.rows("bundle_ownership", cluster)),
        topics=tuple(facts.rows(TOPICS, cluster)),
        rejecting=frozenset(rule.name for rule in suites["broker_reports"].rules if rule.severity == REJECT),
    )


def broken_records(facts: Facts, suite: Suite) -> list[Row]:
    """Bodies of `rejected` rows: the records of a small table that break a rejecting rule, once per rule."""
    import pyarrow.compute as pc

    rules = {rule.name: rule for rule in suite.rules if rule.severity == REJECT}
    rows = facts.small[suite.table]
    broken = rows.filter(pc.greater(pc.list_value_length(rows[BROKEN]), 0)).to_pylist() if rules else []
    return [
        {
            "cluster": row["cluster"],
            "rejected_from": suite.table,
            "place": row[PLACE],
            "rule": name,
            "reason": f"{row[PLACE]}: {broken_words(rules[name], row)} {rules[name].advice}".strip(),
            "record": row[RECORD],
            "record_key": row[KEY],
        }
        for row in broken
        for name in row[BROKEN]
        if name in rules
    ]


def broken_words(rule: ValidationRule, row: Row | None = None) -> str:
    """What is wrong with a record, in words, with the value where the record is at hand."""
    kwargs, kind = rule.definition["kwargs"], rule.definition["type"]
    column = kwargs["column"]
    is_value = f"{column} is {row[column]}" if row is not None else f"{column} is out of order"
    if kind == "expect_column_values_to_not_be_null":
        return f"{column} is not known."
    if kind == "expect_column_values_to_be_in_set":
        return f"{is_value}, allowed are {', '.join(map(str, kwargs['value_set']))}."
    if kind == "expect_column_values_to_match_regex":
        return f"{is_value}, which is no such name."
    return f"{is_value}, allowed is {kwargs.get('min_value')} to {kwargs.get('max_value')}."


def _columns(rows: pa.Table, suite: Suite) -> pa.Table:
    return rows.select(list(suite.columns()))


def _counts(facts: Facts, table: str) -> dict[str, int]:
    rows = facts.topics if table == TOPICS else facts.small[table]
    if table != TOPICS:
        found = rows.group_by("cluster").aggregate([([], "count_all")]).to_pylist()
        return {row["cluster"]: row["count_all"] for row in found}
    found = rows.group_by("cluster").aggregate([("rows", "sum")]).to_pylist()
    return {row["cluster"]: row["rows_sum"] for row in found}


def _finding(facts: Facts, cluster: str, verdict: ExpectationVerdict, counts: Mapping[str, int]) -> Finding:
    rule, checked = verdict.rule, counts.get(cluster, 0)
    if verdict.passed:
        return Finding(cluster, rule, Found(checked))
    offenders = _offenders(facts, cluster, rule) or list(verdict.offenders)
    what = listing(offenders)
    said = f"{verdict.failed} of {checked} rows of {rule.table} break {rule.name}: {what}."
    return Finding(cluster, rule, Found(checked, offenders, said, failed=verdict.failed))


def _offenders(facts: Facts, cluster: str, rule: ValidationRule) -> list[str]:
    """Who breaks the rule, by our own filters; of topics the bundles (the records themselves stand in `rejected`)."""
    if rule.definition["type"] not in FILTERED:
        return []
    rows = facts.rows(rule.table, cluster)
    if rule.table == TOPICS:
        return [f"{row['namespace']}/{row['bundle_range']}" for row in rows if row[f"broken_{rule.name}"]]
    return [row[PLACE] for row in rows if rule.name in row[BROKEN]]


# All rules over several tables, run on one cluster.
#
# Transient effects of a move only warn. What cannot come from a move and touches the whole cluster's picture
# quarantines. What touches one record sets that record aside.

CROSS_RULES = (*BROKER_RULES, *BUNDLE_RULES, *TOPIC_RULES)


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
