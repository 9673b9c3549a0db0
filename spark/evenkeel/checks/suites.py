"""The Great Expectations suites under version control, read as rules.

A suite is a file `expectations/<table>.json` in Great Expectations' own format; every expectation's `meta` names its
rule, its severity and what to do. `EVENKEEL_EXPECTATIONS` may name another folder. Suites belong to what the code
digest covers, so `engine.code` says where they lie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.checks.rules import REJECT, SEVERITIES, Rule
from evenkeel.engine.code import suites_folder
from evenkeel.errors import EvenkeelError
from evenkeel.lake.tables import TABLES

SUITES = ("broker_reports", "topic_stats", "namespace_bundles", "bundle_ownership", "cluster_policies", "raw_answers")

# Types whose offending records our own filters can find; only those can reject.
FILTERED = {
    "expect_column_values_to_not_be_null",
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_match_regex",
}
WHOLE = {"expect_compound_columns_to_be_unique"}


class SuiteError(EvenkeelError):
    """A suite that cannot be read or that contradicts itself."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations of one table, in the order of the file."""

    table: str
    rules: tuple[Rule, ...]

    def columns(self) -> tuple[str, ...]:
        """The columns that any of the expectations looks at, sorted."""
        return tuple(sorted({column for rule in self.rules for column in columns_of(rule)}))


def read_suites(place: Path | None = None) -> dict[str, Suite]:
    """All suites by table; `SuiteError` names the file, the rule and what is wrong with it."""
    place = place or suites_folder()
    return {table: read_suite(place / f"{table}.json", table) for table in SUITES}


def read_suite(path: Path, table: str) -> Suite:
    """One suite, checked against the table's columns."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(f"no suite for {table}: {path} cannot be read ({error.strerror}); restore it") from None
    except ValueError as error:
        raise SuiteError(f"{path} is no JSON: {error}; restore it from version control") from None
    rules = tuple(_rule(path, table, expectation) for expectation in body.get("expectations", ()))
    doubled = {rule.name for rule in rules if sum(other.name == rule.name for other in rules) > 1}
    if doubled:
        raise SuiteError(f"{path}: rule {min(doubled)} stands there twice; give each rule a name of its own")
    return Suite(table, rules)


def columns_of(rule: Rule) -> list[str]:
    """The columns that an expectation names."""
    kwargs = rule.definition["kwargs"]
    return [kwargs["column"]] if "column" in kwargs else list(kwargs["column_list"])


def _rule(path: Path, table: str, expectation: Mapping[str, Any]) -> Rule:
    meta, kind = expectation.get("meta", {}), expectation.get("type")
    name, severity = meta.get("rule"), meta.get("severity")
    if not name or severity not in SEVERITIES:
        raise SuiteError(f"{path}: {kind} needs meta.rule and meta.severity (one of {', '.join(SEVERITIES)})")
    if kind not in FILTERED | WHOLE or (severity == REJECT and kind not in FILTERED):
        known = ", ".join(sorted(FILTERED if severity == REJECT else FILTERED | WHOLE))
        raise SuiteError(f"{path}: rule {name} ({severity}) is of type {kind}; possible are {known}")
    rule = Rule(
        name=name,
        table=table,
        severity=severity,
        advice=meta.get("advice", ""),
        kind="expectation",
        unit=_unit(table, expectation["kwargs"]),
        definition={"type": kind, "kwargs": expectation["kwargs"]},
    )
    unknown = set(columns_of(rule)) - set(TABLES[table].column_names())
    if unknown:
        raise SuiteError(f"{path}: rule {name} names column {min(unknown)}, which {table} does not have")
    return rule


def _unit(table: str, kwargs: Mapping[str, Any]) -> str | None:
    units = {column.name: column.unit for column in TABLES[table].columns}
    return units.get(kwargs.get("column", "")) or None
