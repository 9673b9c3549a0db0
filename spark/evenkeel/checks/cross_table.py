"""All rules over several tables, run on one cluster.

Transient effects of a move only warn. What cannot come from a move and touches the whole cluster's picture quarantines.
What touches one record sets that record aside.
"""

from __future__ import annotations

from evenkeel.checks.broker_rules import BROKER_RULES
from evenkeel.checks.bundle_rules import BUNDLE_RULES
from evenkeel.checks.facts import KEY, PLACE, RECORD, ClusterFacts, Row
from evenkeel.checks.rules import Finding
from evenkeel.checks.topic_rules import TOPIC_RULES

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
