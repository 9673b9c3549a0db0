"""A rule over several tables of one cluster, and how it is looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.checks.facts import ClusterFacts, Row
from evenkeel.checks.rules import Found, Rule


@dataclass(frozen=True, slots=True)
class CrossRule:
    """`look` is a pure function from what was observed to what was found; `refuse` names the records to set aside.

    `refuse` is for records of small tables; topics are set aside by a Spark filter.
    """

    rule: Rule
    look: Callable[[ClusterFacts], Found]
    refuse: Callable[[ClusterFacts], list[Row]] | None = None


def rule(
    name: str, table: str, severity: str, advice: str, unit: str | None = None, setting: str | None = None
) -> Rule:
    """A cross-table rule; `setting` is the key that holds its threshold."""
    return Rule(name, table, severity, advice, unit=unit, definition={"setting": setting} if setting else {})
