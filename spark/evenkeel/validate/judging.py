"""From what was observed to findings, quarantined cycles and records set aside.

Each cycle is judged by itself; only Great Expectations looks at all of them at once, since a look takes a tenth of a
second and more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenkeel.handover import CycleKey
from evenkeel.settings import Settings
from evenkeel.spark.sql import is_one_of
from evenkeel.validate.broker_rules import BROKER_RULES
from evenkeel.validate.bundle_rules import BUNDLE_RULES, TOPIC_RULES, unknown_namespaces
from evenkeel.validate.facts import AT, BROKEN, KEY, PLACE, RECORD, ClusterFacts, Facts, Row, RowsOfCycles, filtered
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
    """What validate says of the open cycles.

    `records` are bodies of `rejected` rows of the small tables, with `cluster` and `_cycle_at`; `record` is None where
    a rule over several tables refuses what breaks no rule of its own (`facts.with_records`). Of topic_stats, whose rows
    are not here, `broken_topic_rules` are the rules that some topic breaks and `strange_namespaces` those whose topics
    are set aside, each with its cycle.
    """

    findings: tuple[Finding, ...]
    quarantined: Mapping[CycleKey, str]
    records: tuple[Row, ...]
    broken_topic_rules: tuple[ValidationRule, ...]
    strange_namespaces: tuple[tuple[CycleKey, str], ...]

    @property
    def sets_aside(self) -> bool:
        """Whether any record is to be set aside."""
        return bool(self.records or self.broken_topic_rules)


Verdicts = tuple[ExpectationVerdict, ...]
"""On each rule of a suite, in its order."""


def judge(
    facts: Facts,
    suites: Mapping[str, Suite],
    settings: Mapping[CycleKey, Settings],
    topic_stats: DataFrame,
    verdicts: Mapping[str, Verdicts] | None = None,
) -> Judgement:
    """Runs every suite and every cross-table rule. `settings` are those in force, by open cycle; `verdicts` what Great
    Expectations has said already of all rows of tables."""
    keys, said = sorted(settings), verdicts or {}
    findings = [
        finding
        for suite in suites.values()
        for finding in judge_suite(facts, suite, keys, topic_stats, said.get(suite.table))
    ]
    records: list[Row] = []
    strange: list[tuple[CycleKey, str]] = []
    for key in keys:
        seen = cluster_facts(facts, suites, key, settings[key])
        findings += check_cluster(seen)
        records += refused_records(seen)
        strange += [(key, name) for name in unknown_namespaces(seen)]
    records += [row for suite in suites.values() if suite.table != TOPICS for row in broken_records(facts, suite)]
    failed = {finding.rule.name for finding in findings if not finding.passed and finding.rule.table == TOPICS}
    by_name = {finding.rule.name: finding.rule for finding in findings if finding.rule.table == TOPICS}
    return Judgement(
        findings=tuple(findings),
        quarantined=quarantined(findings),
        records=tuple(records),
        broken_topic_rules=tuple(by_name[name] for name in sorted(failed) if by_name[name].severity == REJECT),
        strange_namespaces=tuple(strange),
    )


def quarantined(findings: Iterable[Finding]) -> dict[CycleKey, str]:
    """Per quarantined cycle the reason in words: the first finding, and how many more there are."""
    broken: dict[CycleKey, list[Finding]] = {}
    for finding in findings:
        if not finding.passed and finding.rule.severity == QUARANTINE:
            broken.setdefault(finding.key, []).append(finding)
    return {
        key: f"validation: {found[0].found.said} {found[0].rule.advice}".strip()
        + (f" ({len(found) - 1} more rules failed, see validation_results)" if len(found) > 1 else "")
        for key, found in broken.items()
    }


def judge_suite(
    facts: Facts,
    suite: Suite,
    keys: Sequence[CycleKey],
    topic_stats: DataFrame,
    verdicts: Verdicts | None = None,
) -> list[Finding]:
    """One finding per rule and cycle; `verdicts` as for `judge`.

    Great Expectations runs once over all cycles. Where a rule fails there, our own filters say in which of them; where
    these cannot say it, or come to another number, it runs once more for each cycle that may be meant.
    """
    if verdicts is None:
        rows = rows_to_check(facts, suite)
        verdicts = run_suite(suite, topic_stats.select(*suite.columns()) if rows is None else rows)
    checked = _counts(facts, suite.table)
    if len(keys) == 1:
        return [_finding(facts, keys[0], verdict, checked) for verdict in verdicts]
    marks = offences(facts, suite)
    unsure = {verdict.rule.name: _to_look_at_again(facts, verdict, marks, keys) for verdict in verdicts}
    own = {key: _own_verdicts(facts, suite, key, topic_stats) for key in sorted(set().union(*unsure.values()))}
    findings = []
    for verdict in verdicts:
        name = verdict.rule.name
        for key in keys:
            count = marks[name].get(key, 0) if name in marks else 0
            told = replace(verdict, passed=not count, failed=count, offenders=())
            findings.append(_finding(facts, key, own[key][name] if key in unsure[name] else told, checked))
    return findings


_KNOWN = frozenset({"column", "min_value", "max_value", "value_set", "regex"})


def _to_look_at_again(
    facts: Facts,
    verdict: ExpectationVerdict,
    marks: Mapping[str, Mapping[CycleKey, int]],
    keys: Sequence[CycleKey],
) -> frozenset[CycleKey]:
    """The cycles for which Great Expectations has to judge a rule by itself: none where our filters tell."""
    rule = verdict.rule
    if rule.definition["type"] in FILTERED:
        failed = marks[rule.name]
        if not _KNOWN.issuperset(rule.definition["kwargs"]):
            return frozenset(failed)  # as with `mostly`, where one cycle may fail and all together pass
        agree = sum(failed.values()) == verdict.failed and verdict.passed == (not verdict.failed)
        return frozenset() if agree else frozenset(keys)
    if verdict.passed and {"cluster", "cycle_at"}.issubset(rule.definition["kwargs"]["column_list"]):
        return frozenset()
    return frozenset(keys) if rule.table == TOPICS else _doubled(facts.small[rule.table], rule)


def _doubled(rows: RowsOfCycles, rule: ValidationRule) -> frozenset[CycleKey]:
    """The cycles in which these columns of the rule do not tell the rows apart."""
    import pyarrow.compute as pc

    by = list(dict.fromkeys(["cluster", AT, *rule.definition["kwargs"]["column_list"]]))
    found = rows.rows.select(by).group_by(by).aggregate([([], "count_all")])
    doubled = found.filter(pc.greater(found["count_all"], 1))
    return frozenset(zip(doubled["cluster"].to_pylist(), doubled[AT].to_pylist(), strict=True))


def _own_verdicts(facts: Facts, suite: Suite, key: CycleKey, topic_stats: DataFrame) -> dict[str, ExpectationVerdict]:
    """What Great Expectations says of one cycle alone."""
    rows = rows_to_check(facts, suite, key)
    found = run_suite(suite, topic_stats.where(is_one_of([key])).select(*suite.columns()) if rows is None else rows)
    return {verdict.rule.name: verdict for verdict in found}


def offences(facts: Facts, suite: Suite) -> dict[str, Counter[CycleKey]]:
    """How many rows of each cycle break each rule of a suite, by our own filters; of cycles where none does nothing."""
    import pyarrow.compute as pc

    found: dict[str, Counter[CycleKey]] = {rule.name: Counter() for rule in filtered(suite.rules)}
    if suite.table == TOPICS:
        rows = facts.topics.rows
        for name, counts in found.items():
            column = f"broken_{name}"
            for row in rows.filter(pc.greater(rows[column], 0)).select(["cluster", AT, column]).to_pylist():
                counts[row["cluster"], row[AT]] += row[column]
        return found
    rows = facts.small[suite.table].rows
    broken = rows.filter(pc.greater(pc.list_value_length(rows[BROKEN]), 0)).select(["cluster", AT, BROKEN])
    for row in broken.to_pylist():
        for name in row[BROKEN]:
            found[name][row["cluster"], row[AT]] += 1
    return found


def cluster_facts(facts: Facts, suites: Mapping[str, Suite], key: CycleKey, settings: Settings) -> ClusterFacts:
    """What the cross-table rules look at, of one cycle."""
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
        rejecting=frozenset(rule.name for rule in suites["broker_reports"].rules if rule.severity == REJECT),
    )


def broken_records(facts: Facts, suite: Suite) -> list[Row]:
    """Bodies of `rejected` rows: the records of a small table that break a rejecting rule, once per rule."""
    import pyarrow.compute as pc

    rules = {rule.name: rule for rule in suite.rules if rule.severity == REJECT}
    rows = facts.small[suite.table].rows
    broken = rows.filter(pc.greater(pc.list_value_length(rows[BROKEN]), 0)).to_pylist() if rules else []
    return [
        {
            "cluster": row["cluster"],
            AT: row[AT],
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


def rows_to_check(facts: Facts, suite: Suite, key: CycleKey | None = None) -> pa.Table | None:
    """What Great Expectations is given, of one cycle or of all: the columns that the suite looks at; None where there
    are more topics than are worth fetching."""
    found = facts.topic_rows if suite.table == TOPICS else facts.small[suite.table]
    if found is None:
        return None
    return (found.rows if key is None else found.of(key)).select(list(suite.columns()))


def _counts(facts: Facts, table: str) -> dict[CycleKey, int]:
    """The rows of each cycle."""
    if table != TOPICS:
        return facts.small[table].counts()
    rows = facts.topics.rows
    found = rows.group_by(["cluster", AT]).aggregate([("rows", "sum")]).to_pylist()
    return {(row["cluster"], row[AT]): row["rows_sum"] for row in found}


def _finding(facts: Facts, key: CycleKey, verdict: ExpectationVerdict, counts: Mapping[CycleKey, int]) -> Finding:
    rule, checked = verdict.rule, counts.get(key, 0)
    if verdict.passed:
        return Finding(key[0], rule, Found(checked), key[1])
    offenders = _offenders(facts, key, rule) or list(verdict.offenders)
    what = listing(offenders)
    said = f"{verdict.failed} of {checked} rows of {rule.table} break {rule.name}: {what}."
    return Finding(key[0], rule, Found(checked, offenders, said, failed=verdict.failed), key[1])


def _offenders(facts: Facts, key: CycleKey, rule: ValidationRule) -> list[str]:
    """Who breaks the rule, by our own filters; of topics the bundles (the records themselves stand in `rejected`)."""
    if rule.definition["type"] not in FILTERED:
        return []
    rows = facts.rows(rule.table, key)
    if rule.table == TOPICS:
        return [f"{row['namespace']}/{row['bundle_range']}" for row in rows if row[f"broken_{rule.name}"]]
    return [row[PLACE] for row in rows if rule.name in row[BROKEN]]


# All rules over several tables, run on one cycle.
#
# Transient effects of a move only warn. What cannot come from a move and touches the whole cluster's picture
# quarantines. What touches one record sets that record aside.

CROSS_RULES = (*BROKER_RULES, *BUNDLE_RULES, *TOPIC_RULES)


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """Every rule, in order."""
    return [Finding(facts.cluster, each.rule, each.look(facts), facts.cycle_at) for each in CROSS_RULES]


def refused_records(facts: ClusterFacts) -> list[Row]:
    """Records of small tables that a cross-table rule sets aside, as bodies of `rejected` rows."""
    found: list[Row] = []
    for each in CROSS_RULES:
        rows = each.refuse(facts) if each.refuse is not None else []
        said = each.look(facts).said if rows else ""
        found += (
            {
                "cluster": facts.cluster,
                AT: facts.cycle_at,
                "rejected_from": each.rule.table,
                "place": row[PLACE],
                "rule": each.rule.name,
                "reason": f"{row[PLACE]}: {said} {each.rule.advice}".strip(),
                "record": row[RECORD],
                "record_key": row[KEY],
            }
            for row in rows
        )
    return found
