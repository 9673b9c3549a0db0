"""The names that each regular expression of an isolation policy matches, by Java's engine, which Spark has.

Pulsar matches by java.util.regex (NamespaceIsolationPolicyImpl, String.matches). The answers are stored beside the
policies, so that deciding needs no engine and a replay has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from evenkeel.ingest.snapshot_intake import SnapshotIntake
from evenkeel.pulsar.answers import Rejection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES = {"namespaces": "namespaces", "primary": "brokers", "secondary": "brokers"}
"""Lists of expressions in a policy, and what their expressions match."""
POLICIES, MATCHED = "isolation_policies", "matched"
REFUSED_EXPRESSION = "refused_expression"
Asked = tuple[str, frozenset[str]]
"""An expression, and the names that it may match."""
Known = dict[Asked, list[str] | None]
"""The names that match, sorted; None if Java refuses the expression."""


def add_matches(spark: SparkSession, intakes: Iterable[SnapshotIntake], known: Known) -> None:
    """Add `matched` to each isolation policy of these intakes: for each list the names that its expressions match.

    One query asks for all that is not in `known`, and completes it. No policy, no query.
    """
    policies = [
        (intake, bodies, _names(intake.observed.rows))
        for intake in intakes
        if intake.observed is not None and (bodies := json.loads(intake.observed.policies[POLICIES] or "{}"))
    ]
    asked = {
        (expression, names[kind])
        for _, bodies, names in policies
        for body in bodies.values()
        for role, kind in ROLES.items()
        for expression in body.get(role) or ()
    }
    _ask(spark, asked - known.keys(), known)
    for intake, bodies, names in policies:
        for name, body in bodies.items():
            texts = {role: body.get(role) or () for role in ROLES}
            body[MATCHED] = {role: [known[text, names[ROLES[role]]] for text in texts[role]] for role in ROLES}
            for role, found in body[MATCHED].items():
                for text in (text for text, matched in zip(texts[role], found, strict=True) if matched is None):
                    intake.refuse(_refused(name, role, text))
        if intake.observed is not None:
            intake.observed.policies[POLICIES] = json.dumps(bodies, ensure_ascii=False, sort_keys=True)


def _refused(policy: str, role: str, expression: str) -> Rejection:
    place = f"isolation policy {policy} {role}"
    reason = (
        f"{place}: Java refuses the expression {expression}, so it matches nothing here, and brokers log an error for "
        "each bundle that they look up: correct it with `pulsar-admin ns-isolation-policy set`"
    )
    return Rejection("cluster_policies", place, REFUSED_EXPRESSION, reason, expression)


def _names(rows: dict[str, list[Any]]) -> dict[str, frozenset[str]]:
    """Return the names of a cluster's namespaces, and those of its brokers: whole, and the host alone."""
    brokers = {row["broker"] for row in rows["broker_reports"]}
    owned = {row["bundle"].rpartition("/")[0] for row in rows["bundle_ownership"]}
    return {
        "namespaces": frozenset(owned | {row["namespace"] for row in rows["namespace_bundles"]}),
        "brokers": frozenset(brokers | {broker.rpartition(":")[0] for broker in brokers}),
    }


def _ask(spark: SparkSession, asked: Iterable[Asked], known: Known) -> None:
    groups: dict[frozenset[str], list[str]] = {}
    for expression, names in asked:
        groups.setdefault(names, []).append(expression)
        known[expression, names] = []
    ordered = list(groups)
    if not ordered:
        return
    each_name = [(n, name) for n, names in enumerate(ordered) for name in sorted(names)]
    each_text = [(n, text) for n, names in enumerate(ordered) for text in sorted(groups[names])]
    names_frame = spark.createDataFrame(each_name, "n int, name string")
    pairs = spark.createDataFrame(each_text, "n int, expression string").join(names_frame, "n")
    answered = pairs.selectExpr("*", "try_reflect('java.util.regex.Pattern', 'matches', expression, name) AS answer")
    found: dict[Asked, list[str] | None] = {}
    for row in answered.where("answer IS NULL OR answer = 'true'").collect():
        key = (row["expression"], ordered[row["n"]])
        if row["answer"] is None:
            found[key] = None
        elif (matched := found.setdefault(key, [])) is not None:
            matched.append(row["name"])
    known |= {key: matched if matched is None else sorted(matched) for key, matched in found.items()}
