"""From observed rows to findings, quarantined cycles and rejected records.

Each cycle is judged by itself; only Great Expectations runs on all of them at once, since a run takes a tenth of a
second and more. It names the rows that break a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenkeel.cycle.frames import place_columns, place_of
from evenkeel.handover import CycleKey
from evenkeel.settings import Settings
from evenkeel.spark.sql import is_one_of
from evenkeel.validate.broker_rules import BROKER_RULES
from evenkeel.validate.bundle_rules import BUNDLE_RULES, TOPIC_RULES, unknown_namespaces
from evenkeel.validate.configuration_rules import CONFIGURATION_RULES
from evenkeel.validate.facts import AT, ClusterFacts, Facts, Row, RowsOfCycles, by_row
from evenkeel.validate.suites import (
    QUARANTINE,
    REJECT,
    TOPICS,
    ExpectationVerdict,
    Finding,
    Found,
    Suite,
    ValidationRule,
    listing,
    run_suite,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MOST_NAMED = 10_000
"""Most topics that break one rule and are named one by one; beyond, Spark filters them by the suite's rule."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record to reject: a row of a table as it was read, the rule and the reason."""

    table: str
    row: Row
    rule: ValidationRule
    words: str

    @property
    def key(self) -> CycleKey:
        """Key of the record's cycle within the run."""
        return self.row["cluster"], self.row[AT]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Validate's judgement of the open cycles.

    `refusals` are records to reject. Topics are separate: all that break one of `topic_rules`, and those of
    `strange_namespaces`, each with its cycle.
    """

    findings: tuple[Finding, ...]
    quarantined: Mapping[CycleKey, str]
    refusals: tuple[RefusedRecord, ...]
    topic_rules: tuple[ValidationRule, ...]
    strange_namespaces: tuple[tuple[CycleKey, str], ...]


@dataclass(frozen=True, slots=True)
class Offenders:
    """Rows that break a rule in one cycle: their number, None if it is not known per cycle, and names."""

    rows: int | None
    names: Sequence[str]


def judge(
    facts: Facts, suites: Mapping[str, Suite], settings: Mapping[CycleKey, Settings], topic_stats: DataFrame
) -> Judgement:
    """Run every suite and every cross-table rule. `settings` are those in force, by open cycle."""
    keys = sorted(settings)
    findings: list[Finding] = []
    refusals: list[RefusedRecord] = []
    for suite in suites.values():
        suite_findings, refused = judge_suite(facts, suite, keys, topic_stats)
        findings += suite_findings
        refusals += refused
    named = {refusal.rule.name for refusal in refusals if refusal.table == TOPICS}
    unusable: dict[CycleKey, list[Row]] = {}
    for refusal in refusals:
        if refusal.table == "broker_reports":
            unusable.setdefault(refusal.key, []).append(refusal.row)
    strange: list[tuple[CycleKey, str]] = []
    for key in keys:
        seen = cluster_facts(facts, key, settings[key], unusable.get(key, ()))
        findings += check_cluster(seen)
        refusals += refused_records(seen)
        strange += [(key, name) for name in unknown_namespaces(seen)]
    of_topics = [refusal.rule for refusal in findings if not refusal.passed and refusal.rule.table == TOPICS]
    return Judgement(
        findings=tuple(findings),
        quarantined=quarantined(findings),
        refusals=tuple(refusals),
        topic_rules=tuple(
            {
                refusal.name: refusal
                for refusal in of_topics
                if refusal.severity == REJECT and refusal.name not in named
            }.values()
        ),
        strange_namespaces=tuple(strange),
    )


def _refused_by_suite(
    rows: RowsOfCycles, findings: Iterable[Finding], verdicts: Iterable[ExpectationVerdict]
) -> Iterator[RefusedRecord]:
    """Yield the records that break a rejecting rule of a suite, once per rule; none of topics that Spark has to
    filter."""
    failed = {(finding.key, finding.rule.name) for finding in findings if not finding.passed}
    for verdict in verdicts:
        rule = verdict.rule
        is_topics = rule.table == TOPICS
        if rule.severity != REJECT or (is_topics and verdict.failed > MOST_NAMED):
            continue
        for row in rows.at(verdict.positions):
            if ((row["cluster"], row[AT]), rule.name) in failed:
                words = broken_words(rule, None if is_topics else row)
                yield RefusedRecord(rule.table, row, rule, f"{words} {rule.advice}".strip())


def quarantined(findings: Iterable[Finding]) -> dict[CycleKey, str]:
    """Return the reason in words for each quarantined cycle: the first finding, and how many more there are."""
    broken: dict[CycleKey, list[Finding]] = {}
    for finding in findings:
        if not finding.passed and finding.rule.severity == QUARANTINE:
            broken.setdefault(finding.key, []).append(finding)
    return {
        key: f"validation: {cycle_findings[0].found.said} {cycle_findings[0].rule.advice}".strip()
        + (f" ({len(cycle_findings) - 1} more rules failed, see validation_results)" if len(cycle_findings) > 1 else "")
        for key, cycle_findings in broken.items()
    }


def judge_suite(
    facts: Facts, suite: Suite, keys: Sequence[CycleKey], topic_stats: DataFrame
) -> tuple[list[Finding], list[RefusedRecord]]:
    """Return one finding per rule and cycle, and the records that break a rejecting rule.

    Great Expectations checks a cycle by itself only if all rows together cannot decide. That is so with `mostly`, if
    one cycle may fail and all together pass, and if rows of Spark are to be unique.
    """
    rows, columns, checked = facts.checked(suite.table), [*suite.columns()], _counts(facts, suite.table)
    verdicts = run_suite(suite, topic_stats.select(*columns) if rows is None else rows.rows.select(columns))
    findings = []
    for verdict in verdicts:
        rule = verdict.rule
        offenders = _offenders(facts, rows, verdict, keys)
        for key in keys:
            offending = offenders.get(key)
            if (
                offending is not None
                and len(keys) > 1
                and ("mostly" in rule.definition["kwargs"] or offending.rows is None)
            ):
                (alone,) = _alone(suite, rule, key, rows, topic_stats)
                offending = None if alone.passed else Offenders(alone.failed, offending.names or alone.samples)
            elif verdict.passed:
                offending = None
            findings.append(_finding(key, rule, checked.get(key, 0), offending))
    return findings, [] if rows is None else [*_refused_by_suite(rows, findings, verdicts)]


def _alone(
    suite: Suite, rule: ValidationRule, key: CycleKey, rows: RowsOfCycles | None, topic_stats: DataFrame
) -> tuple[ExpectationVerdict, ...]:
    """Return the verdict on one rule in one cycle."""
    columns = [*suite.columns()]
    cycle_rows = topic_stats.where(is_one_of([key])).select(*columns) if rows is None else rows.of(key).select(columns)
    return run_suite(Suite(suite.table, (rule,)), cycle_rows)


def _offenders(
    facts: Facts, rows: RowsOfCycles | None, verdict: ExpectationVerdict, keys: Sequence[CycleKey]
) -> dict[CycleKey, Offenders]:
    """Return the offenders by cycle; of topics the bundles (the records themselves are in `rejected`)."""
    rule = verdict.rule
    if not verdict.failed:
        return {}
    names: dict[CycleKey, list[str]] = {}
    if rows is not None:
        columns = _named_by(rule)
        for row in rows.at(verdict.positions, ("cluster", AT, *columns)):
            names.setdefault((row["cluster"], row[AT]), []).append(_name(rule, row, columns))
        return {key: Offenders(len(cycle_names), cycle_names) for key, cycle_names in names.items()}
    if not by_row([rule]):
        return {key: Offenders(verdict.failed if len(keys) == 1 else None, verdict.samples) for key in keys}
    counts: Counter[CycleKey] = Counter()
    for row in facts.topics.rows.to_pylist():
        if row[f"broken_{rule.name}"]:
            counts[row["cluster"], row[AT]] += row[f"broken_{rule.name}"]
            names.setdefault((row["cluster"], row[AT]), []).append(f"{row['namespace']}/{row['bundle_range']}")
    return {key: Offenders(count, names[key]) for key, count in counts.items()}


def _named_by(rule: ValidationRule) -> list[str]:
    if not by_row([rule]):
        return list(rule.definition["kwargs"]["column_list"])
    return ["namespace", "bundle_range"] if rule.table == TOPICS else place_columns(rule.table)


def _name(rule: ValidationRule, row: Row, columns: Sequence[str]) -> str:
    if not by_row([rule]):
        return ", ".join(f"{name}={row[name]}" for name in sorted(columns))
    return f"{row['namespace']}/{row['bundle_range']}" if rule.table == TOPICS else place_of(rule.table, row)


def cluster_facts(facts: Facts, key: CycleKey, settings: Settings, unusable: Sequence[Row] = ()) -> ClusterFacts:
    """Return the rows of one cycle for the cross-table rules; `unusable` are the broker reports that its suite
    rejects."""
    policies = facts.rows("cluster_policies", key)
    return ClusterFacts(
        cluster=key[0],
        cycle_at=key[1],
        settings=settings,
        policies=policies[0] if policies else {},
        brokers=tuple(facts.rows("broker_reports", key)),
        namespaces=tuple(facts.rows("namespace_bundles", key)),
        claims=tuple(facts.rows("bundle_ownership", key)),
        topics=tuple(facts.rows(TOPICS, key)),
        unusable=tuple(unusable),
    )


def broken_words(rule: ValidationRule, row: Row | None = None) -> str:
    """Return the fault of a record in words, with the value if the record is in memory."""
    kwargs, kind = rule.definition["kwargs"], rule.definition["type"]
    column = kwargs["column"]
    is_value = f"{column} is {row[column]}" if row is not None else f"{column} is out of order"
    if kind == "expect_column_values_to_not_be_null":
        return f"{column} is not known."
    if kind == "expect_column_values_to_be_in_set":
        return f"{is_value}, allowed are {', '.join(map(str, kwargs['value_set']))}."
    if kind == "expect_column_values_to_match_regex":
        return f"{is_value}, which is no such name."
    least, most = (kwargs.get(bound) for bound in ("min_value", "max_value"))
    words = [f"{'more than' if kwargs.get('strict_min') else 'at least'} {least}"] if least is not None else []
    words += [f"{'less than' if kwargs.get('strict_max') else 'at most'} {most}"] if most is not None else []
    is_closed = len(words) == 2 and not kwargs.get("strict_min") and not kwargs.get("strict_max")
    return f"{is_value}, allowed is {f'{least} to {most}' if is_closed else ' and '.join(words)}."


def _counts(facts: Facts, table: str) -> dict[CycleKey, int]:
    """Return the number of rows of each cycle."""
    if table != TOPICS:
        return facts.small[table].counts()
    rows = facts.topics.rows
    counted = rows.group_by(["cluster", AT]).aggregate([("rows", "sum")]).to_pylist()
    return {(row["cluster"], row[AT]): row["rows_sum"] for row in counted}


def _finding(key: CycleKey, rule: ValidationRule, checked: int, offenders: Offenders | None) -> Finding:
    if offenders is None:
        return Finding(key[0], rule, Found(checked), key[1])
    sentence = f"{offenders.rows} of {checked} rows of {rule.table} break {rule.name}: {listing(offenders.names)}."
    return Finding(key[0], rule, Found(checked, offenders.names, sentence, failed=offenders.rows), key[1])


# All rules over several tables, run on one cycle.
#
# Transient effects of a move only warn. A fault that cannot come from a move and affects the whole cluster's picture
# quarantines. A fault of one record rejects that record.

CROSS_RULES = (*BROKER_RULES, *BUNDLE_RULES, *TOPIC_RULES, *CONFIGURATION_RULES)


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """Return the findings of every rule, in order."""
    return [Finding(facts.cluster, each.rule, each.look(facts), facts.cycle_at) for each in CROSS_RULES]


def refused_records(facts: ClusterFacts) -> list[RefusedRecord]:
    """Return the records of small tables that a cross-table rule rejects."""
    records: list[RefusedRecord] = []
    for each in CROSS_RULES:
        if each.refuse is not None:
            found = each.look(facts)
            words = f"{found.said} {each.rule.advice}".strip()
            rows = (row for row in getattr(facts, each.refuse) if row["broker"] in found.offenders)
            records += (RefusedRecord(each.rule.table, row, each.rule, words) for row in rows)
    return records
