"""The suites in `expectations/`, read and run: expectations per table, each with its rule, severity and advice.

A suite is a file `expectations/<table>.json` in Great Expectations' own format, with its own field `severity`; every
expectation's `meta` names its rule and its advice. What would mean something else here than there is refused.
`EVENKEEL_EXPECTATIONS` may name another folder. The code digest covers suites, so `spark.code.suites_folder` says where
they are.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EvenkeelError
from evenkeel.handover import CycleKey
from evenkeel.json_text import parse_json
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.code import suites_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


TOPICS = "topic_stats"
SUITES = ("broker_reports", TOPICS, "namespace_bundles", "bundle_ownership", "cluster_policies", "raw_answers")

OF_CYCLE = ("cluster", "cycle_at")

REJECT = "reject"
QUARANTINE = "quarantine"
WARN = "warn"
SEVERITIES = (REJECT, QUARANTINE, WARN)
_OF_GX = {"critical": QUARANTINE, "warning": REJECT, "info": WARN}
"""Severity by Great Expectations' own field."""
GX_WORDS = {consequence: word for word, consequence in _OF_GX.items()}

# Types that single rows break; only those can reject.
BY_ROW = {
    "expect_column_values_to_not_be_null",
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_match_regex",
}
WHOLE = {"expect_compound_columns_to_be_unique"}
_KINDS: Mapping[str, Any] = dict.fromkeys(("min_value", "max_value"), int | float) | {
    "strict_min": bool,
    "strict_max": bool,
}
_MEMBERS = {"type", "kwargs", "meta", "severity", "id", "notes", "description", "rendered_content"}


class SuiteError(EvenkeelError):
    """A suite that cannot be read or that contradicts itself."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations of one table, in the order of the file."""

    table: str
    rules: tuple[ValidationRule, ...]

    def columns(self) -> tuple[str, ...]:
        """Return the columns that Great Expectations needs, sorted."""
        return tuple(sorted({column for rule in self.rules for column in columns_of(rule)}))


def read_suites(place: Path | None = None) -> dict[str, Suite]:
    """Return all suites by table; raises `SuiteError`, which names the file, the rule and the fault."""
    place = place or suites_folder()
    return {table: read_suite(place / f"{table}.json", table) for table in SUITES}


def read_suite(path: Path, table: str) -> Suite:
    """Return one suite, checked against the table's columns."""
    try:
        body = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(f"no suite for {table}: {path} cannot be read ({error.strerror}); restore it") from None
    except ValueError as error:
        raise SuiteError(f"{path} is not JSON: {error}; restore it from version control") from None
    rules = tuple(_rule(path, table, expectation) for expectation in body.get("expectations", ()))
    doubled = {rule.name for rule in rules if sum(other.name == rule.name for other in rules) > 1}
    if doubled:
        raise SuiteError(f"{path}: rule {min(doubled)} is in it twice; give each rule a name of its own")
    return Suite(table, rules)


def columns_of(rule: ValidationRule) -> list[str]:
    """Return the columns that an expectation names, also in its `row_condition`, and those within which rows are
    unique."""
    kwargs = rule.definition["kwargs"]
    named = [kwargs["column"]] if "column" in kwargs else [*OF_CYCLE, *kwargs["column_list"]]
    return [*named, *_conditional(rule)]


def _conditional(rule: ValidationRule) -> list[str]:
    words = re.findall(r"\w+", json.dumps(rule.definition["kwargs"].get("row_condition")))
    return [name for name in TABLES[rule.table].column_names() if name in words]


def _rule(path: Path, table: str, expectation: Mapping[str, Any]) -> ValidationRule:
    meta, kind, kwargs = expectation.get("meta", {}), str(expectation.get("type")), expectation.get("kwargs", {})
    name, severity = meta.get("rule"), _OF_GX.get(str(expectation.get("severity")))
    if not name or severity is None or "severity" in meta:
        meaning = ", ".join(f"{word} ({consequence})" for word, consequence in _OF_GX.items())
        raise SuiteError(f"{path}: {kind} needs meta.rule, and beside `type` its own `severity`: one of {meaning}")
    if kind not in BY_ROW | WHOLE or (severity == REJECT and kind not in BY_ROW):
        known = ", ".join(sorted(BY_ROW if severity == REJECT else BY_ROW | WHOLE))
        raise SuiteError(f"{path}: rule {name} ({severity}) is of type {kind}; possible are {known}")
    units = {column.name: column.unit for column in TABLES[table].columns}
    rule = ValidationRule(
        name=name,
        table=table,
        severity=severity,
        advice=meta.get("advice", ""),
        kind="expectation",
        unit=units.get(kwargs.get("column", "")) or None,
        definition={"type": kind, "kwargs": kwargs},
    )
    for fault in _faults(rule, {*expectation}):
        raise SuiteError(f"{path}: rule {name} {fault}")
    unknown = set(columns_of(rule)) - set(TABLES[table].column_names())
    if unknown:
        raise SuiteError(f"{path}: rule {name} names column {min(unknown)}, which {table} does not have")
    return rule


def _faults(rule: ValidationRule, members: Set[str]) -> list[str]:
    """Return what Great Expectations takes and what would mean something else here."""
    kwargs, columns = rule.definition["kwargs"], {column.name: column for column in TABLES[rule.table].columns}
    unread, values = (members - _MEMBERS) | ({*kwargs} & {"ignore_row_if"}), kwargs.get("value_set", [""])
    conditional = [columns[name].type for name in _conditional(rule) if name in columns]
    is_in_pandas = rule.table != TOPICS and kwargs.get("condition_parser") == "pandas"
    faults = {
        "names no column": {*kwargs}.isdisjoint(("column", "column_list")),
        f"has {', '.join(sorted(unread))}, which is not read here": unread,
        "has a parameter, or a condition that is not text": any(isinstance(each, dict) for each in kwargs.values()),
        "has a bound that is not a number, or a strict_min or strict_max that is neither true nor false": any(
            not isinstance(kwargs.get(name), kind | None) for name, kind in _KINDS.items()
        ),
        "has a value_set that is not of texts alone, or of numbers alone": (
            None in values or len({isinstance(value, str) for value in values}) != 1
        ),
        f"has a row_condition without `condition_parser` pandas, or on {TOPICS}, of which Spark may filter the rows": (
            "row_condition" in kwargs and not is_in_pandas
        ),
        "has a row_condition on a figure: it may be NaN, which counts as infinite here": "double" in conditional,
        "is on columns that may all be NULL: Great Expectations passes over such rows, and they count here": all(
            name in columns and columns[name].nullable for name in kwargs.get("column_list", OF_CYCLE)
        ),
    }
    return [fault for fault, is_so in faults.items() if is_so]


_SAMPLE = 10
_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A rule of one table or of several.

    `severity`: reject rejects the record, quarantine leaves the cluster out of the cycle, warn only records. `kind` is
    expectation or cross_table; `advice` says what an operator can do; `definition` is the rule as written.
    """

    name: str
    table: str
    severity: str
    advice: str
    kind: str = "cross_table"
    unit: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a rule in one cycle: how many it checked, the offenders, and the sentence about them."""

    checked: int
    offenders: Sequence[str] = ()
    said: str = ""
    measured: float | None = None
    threshold: float | None = None
    failed: int | None = None

    @property
    def passed(self) -> bool:
        """True if nothing broke the rule."""
        return not self.offenders and not self.failed


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of validation_results."""

    cluster: str
    rule: ValidationRule
    found: Found
    cycle_at: str = ""

    @property
    def key(self) -> CycleKey:
        """Key of the cycle within the run."""
        return self.cluster, self.cycle_at

    @property
    def passed(self) -> bool:
        """True if the cluster meets the rule."""
        return self.found.passed

    def row(self) -> dict[str, Any]:
        """Return the columns of `validation_results`, without cluster and cycle."""
        rule, result = self.rule, self.found
        as_written = {"rule": rule.name, "severity": rule.severity, "advice": rule.advice, **rule.definition}
        return {
            "checked_table": rule.table,
            "rule": rule.name,
            "kind": rule.kind,
            "severity": rule.severity,
            "passed": result.passed,
            "checked_rows": result.checked,
            "failed_rows": len(result.offenders) if result.failed is None else result.failed,
            "measured": result.measured,
            "threshold": result.threshold,
            "unit": rule.unit,
            "sample": [shortened(name) for name in sorted(set(result.offenders))[:_SAMPLE]],
            "detail": self.sentence(),
            "definition": json.dumps(as_written, sort_keys=True, ensure_ascii=False),
        }

    def sentence(self) -> str:
        """Return the finding and what to do."""
        if self.passed:
            return f"{self.found.checked} looked at, all in order."
        return f"{self.found.said} {_CONSEQUENCES[self.rule.severity]} {self.rule.advice}".strip()


_CONSEQUENCES = {
    REJECT: "Set aside, the rest goes on.",
    QUARANTINE: "The cluster is left out of this cycle.",
    WARN: "Recorded only.",
}


def shortened(name: str) -> str:
    """Return a name that fits a line: the middle of very long ones is left out."""
    return name if len(name) <= _NAME_LENGTH else f"{name[:120]}… ({len(name)} characters) …{name[-40:]}"


def listing(names: Sequence[str], most: int = 3) -> str:
    """Return a few names in order, and how many more there are."""
    ordered = sorted(set(names))
    shown = ", ".join(shortened(name) for name in ordered[:most])
    return shown if len(ordered) <= most else f"{shown} and {len(ordered) - most} more"


# Runs a suite with Great Expectations: over pandas if the rows are in this process, else over Spark.
#
# Over a few hundred rows its pandas engine takes a tenth of the time that its Spark engine does. Importing the library
# takes seconds, so it happens only when a suite is run.

# The second sets a level of its own, and logs a temporary folder for every context.
_TALKATIVE = ("great_expectations", "great_expectations.data_context.types.base")
_COMPLETE = {"result_format": "COMPLETE", "return_unexpected_index_query": False}


@dataclass(frozen=True, slots=True)
class ExpectationVerdict:
    """Great Expectations' verdict on one rule.

    `failed`: number of rows that break the rule; with `mostly` a rule may still pass. `positions`: these rows, counted
    from 0, in an Arrow table; none for a Spark frame, of which `samples` has some values.
    """

    rule: ValidationRule
    passed: bool
    failed: int
    positions: Sequence[int] = ()
    samples: Sequence[str] = ()


def run_suite(suite: Suite, rows: pa.Table | DataFrame) -> tuple[ExpectationVerdict, ...]:
    """Return the verdict on each rule of the suite, in its order.

    `rows` are an Arrow table (checked by the pandas engine) or a Spark frame (checked by the Spark engine), with the
    columns that `Suite.columns` names.
    """
    is_arrow = hasattr(rows, "to_pandas") and hasattr(rows, "column_names")
    batch = _batch(_to_pandas(rows) if is_arrow else rows, "pandas" if is_arrow else "spark")
    results = _validated(batch, suite.table, suite.rules, "BASIC")
    broken = [rule for rule in suite.rules if is_arrow and results[rule.name].get("unexpected_count")]
    if broken:
        results |= _validated(batch, suite.table, broken, _COMPLETE)
    return tuple(
        ExpectationVerdict(
            rule,
            bool(result["success"]),
            int(result.get("unexpected_count", 0)),
            result.get("unexpected_index_list") or (),
            tuple(_text(value) for value in result.get("partial_unexpected_list", ())),
        )
        for rule in suite.rules
        for result in [results[rule.name]]
    )


def _batch(frame: Any, engine: str) -> Any:
    """Return a frame in the form that Great Expectations takes."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    # A context of its own for each run: a shared one gets slower with every added suite. Batch and suite are put
    # together in this function, since a context first writes its contents as YAML.
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = getattr(context.data_sources, f"add_{engine}")("rows")
    definition = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    return definition.get_batch(batch_parameters={"dataframe": frame})


def _validated(batch: Any, table: str, rules: Sequence[ValidationRule], form: Any) -> dict[str, dict[str, Any]]:
    """Return rule name -> its result with `success`; raises SuiteError for a rule that cannot be checked."""
    import great_expectations as gx

    try:
        suite = gx.ExpectationSuite(name=table, expectations=[expectation_of(rule) for rule in rules])
    except ValueError as error:
        raise SuiteError(
            f"Great Expectations refuses expectations/{table}.json: {' '.join(str(error).split())}"
        ) from None
    results = {}
    for each in batch.validate(suite, result_format=form).results:
        name = each.expectation_config.meta["rule"]
        infos = [each.exception_info] if "raised_exception" in each.exception_info else each.exception_info.values()
        for info in infos:
            if info.get("raised_exception"):
                why = info.get("exception_message") or "no message"
                raise SuiteError(
                    f"rule {name} on {table} could not be checked: {why}; look at expectations/{table}.json"
                )
        results[name] = {**each.result, "success": each.success}
    return results


def expectation_of(rule: ValidationRule) -> dict[str, Any]:
    """Return the rule in Great Expectations' own form. Rows of several cycles are unique only within their cycle."""
    severity = GX_WORDS[rule.severity]
    kwargs = dict(rule.definition["kwargs"])
    if "column_list" in kwargs:
        kwargs["column_list"] = [*dict.fromkeys((*OF_CYCLE, *kwargs["column_list"]))]
    return {"type": rule.definition["type"], "kwargs": kwargs, "meta": {"rule": rule.name}, "severity": severity}


def _to_pandas(rows: pa.Table) -> Any:
    """Return rows as a pandas frame that keeps whole numbers whole, and NULL apart from NaN.

    Pandas has one value for both, so NaN becomes infinite. Both break the same rules, since every rule on a figure has
    an upper bound.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    for n, column in enumerate(rows.schema):
        if pa.types.is_floating(column.type):
            marked = pc.if_else(pc.is_nan(rows[column.name]), float("inf"), rows[column.name])
            rows = rows.set_column(n, column.name, marked)
    return rows.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}.get)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in sorted(value.items()))
    return str(value)
