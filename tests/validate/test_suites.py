"""The suites under version control, and what is said of one that is damaged."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.observed import OBSERVED
from evenkeel.spark.code import suites_folder
from evenkeel.validate.suites import (
    BY_ROW,
    REJECT,
    SEVERITIES,
    SUITES,
    Suite,
    SuiteError,
    ValidationRule,
    columns_of,
    expectation_of,
    read_suite,
    read_suites,
    run_suite,
)


def test_every_observed_table_has_a_suite() -> None:
    """But one: a resource quota is read as a whole or set aside as a whole, so no row of it is left to be judged."""
    assert set(SUITES) == {table.name for table in OBSERVED} - {"resource_quotas"}
    assert {path.stem for path in suites_folder().glob("*.json")} == set(SUITES)


@pytest.mark.parametrize("table", SUITES)
def test_every_expectation_names_existing_columns_a_severity_and_what_to_do(table: str) -> None:
    suite = read_suites()[table]
    assert suite.rules
    for rule in suite.rules:
        assert set(columns_of(rule)) <= set(TABLES[table].column_names()), rule.name
        assert rule.severity in SEVERITIES, rule.name
        assert rule.advice.endswith((".", "?")), rule.name
        assert rule.severity != REJECT or rule.definition["type"] in BY_ROW, rule.name


@pytest.mark.parametrize("table", SUITES)
def test_every_bound_is_closed_on_both_sides_so_that_no_number_passes_that_is_none(table: str) -> None:
    for rule in read_suites()[table].rules:
        if rule.definition["type"] == "expect_column_values_to_be_between":
            kwargs = rule.definition["kwargs"]
            assert kwargs["min_value"] < kwargs["max_value"] < float("inf"), rule.name


@pytest.mark.parametrize("table", ["broker_reports", "topic_stats", "bundle_ownership"])
def test_every_rate_is_checked_to_be_finite_and_not_negative(table: str) -> None:
    """A broker's total below 0 is a warning: its report serves all the same."""
    severity = "warn" if table == "broker_reports" else "reject"
    checked = {rule.name: rule for rule in read_suites()[table].rules}
    for rate in ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out"):
        rule = checked[f"{rate}_is_a_rate"]
        assert (rule.severity, rule.definition["kwargs"]["min_value"]) == (severity, 0)
        assert rule.unit in {"msg/s", "byte/s"}


@pytest.mark.parametrize("name", ["persistent://t/n/a", "Non-Persistent://t/n/a b", "segment://t/n/a/0000-7fff-1"])
def test_names_of_topics_of_every_kind_pass(name: str) -> None:
    (rule,) = [one for one in read_suites()["topic_stats"].rules if one.name == "topic_is_named"]
    assert re.match(rule.definition["kwargs"]["regex"], name)
    assert not re.match(rule.definition["kwargs"]["regex"], name.replace("://", ":/"))


def damaged(tmp_path: Path, *expectations: dict[str, Any]) -> Path:
    path = tmp_path / "topic_stats.json"
    path.write_text(json.dumps({"name": "topic_stats", "expectations": expectations}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"kwargs": {"column": "nonsense", "min_value": 0, "max_value": 1}},
            "names column nonsense, which topic_stats",
        ),
        ({"severity": "loud"}, "one of critical (quarantine), warning (reject), info (warn)"),
        ({"severity": ["info"]}, "one of critical (quarantine), warning (reject), info (warn)"),
        ({"meta": {"rule": "r", "severity": "reject"}}, "beside `type` its own `severity`"),
        ({"meta": {}}, "needs meta.rule"),
        ({"windows": []}, "rule r has windows, which is not read here"),
        ({"kwargs": {"min_value": 0}}, "rule r names no column"),
        ({"kwargs": {"column": "hash", "min_value": {"$PARAMETER": "x"}}}, "rule r has a parameter"),
        ({"kwargs": {"column": "hash", "min_value": "0"}}, "rule r has a bound that is not a number"),
        (
            {"kwargs": {"column": "hash", "max_value": 1, "strict_max": "no"}},
            "or a strict_min or strict_max that is neither",
        ),
        ({"type": "expect_column_mean_to_be_between"}, "possible are"),
        ({"kwargs": {"column": "hash", "row_condition": "hash > 1"}}, "rule r has a row_condition"),
    ],
)
def test_damaged_expectation_is_refused_with_file_and_rule(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    sound = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "hash", "min_value": 0, "max_value": 1},
        "severity": "warning",
        "meta": {"rule": "r", "advice": "Look."},
    }
    assert read_suite(damaged(tmp_path, sound), "topic_stats").rules[0].name == "r"
    with pytest.raises(SuiteError) as raised:
        read_suite(damaged(tmp_path, sound | change), "topic_stats")
    assert "topic_stats.json" in str(raised.value)
    assert words in str(raised.value)


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    rule = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "hash", "min_value": 0},
        "severity": "warning",
        "meta": {"rule": "r"},
    }
    with pytest.raises(SuiteError, match="rule r is in it twice; give each rule a name of its own"):
        read_suite(damaged(tmp_path, rule, rule), "topic_stats")


def test_uniqueness_cannot_reject_because_no_single_record_is_at_fault(tmp_path: Path) -> None:
    unique = {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["topic", "broker"]},
        "severity": "warning",
        "meta": {"rule": "once"},
    }
    with pytest.raises(SuiteError, match="rule once"):
        read_suite(damaged(tmp_path, unique), "topic_stats")


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"column": "state", "value_set": ["Ok", None]}, "not of texts alone, or of numbers alone"),
        ({"column": "state", "value_set": ["Ok", 1]}, "not of texts alone, or of numbers alone"),
        ({"column": "state", "value_set": []}, "not of texts alone, or of numbers alone"),
        ({"column": "state", "value_set": ["Ok"], "row_condition": "is_leader"}, "without `condition_parser` pandas"),
        (
            {"column": "state", "value_set": ["Ok"], "row_condition": "cpu_usage > 5", "condition_parser": "pandas"},
            "may be NaN",
        ),
        ({"column_list": ["cpu_usage", "report_at"]}, "may all be NULL"),
        ({"column_list": ["broker"], "ignore_row_if": "never"}, "has ignore_row_if, which is not read here"),
    ],
)
def test_what_would_mean_something_else_here_than_to_great_expectations_is_refused(
    tmp_path: Path, kwargs: dict[str, Any], words: str
) -> None:
    kind = "expect_column_values_to_be_in_set" if "column" in kwargs else "expect_compound_columns_to_be_unique"
    rule = {"type": kind, "kwargs": kwargs, "severity": "info", "meta": {"rule": "r"}}
    with pytest.raises(SuiteError, match=words):
        read_suite(damaged(tmp_path, rule), "broker_reports")


@pytest.mark.parametrize(
    ("severity", "consequence"), [("critical", "quarantine"), ("warning", "reject"), ("info", "warn")]
)
def test_the_severity_is_great_expectations_own_field(tmp_path: Path, severity: str, consequence: str) -> None:
    """The file as Great Expectations writes it, its own defaults included."""
    kwargs = {"column": "state", "value_set": ["Ok"], "mostly": 1.0}
    kind = "expect_column_values_to_be_in_set"
    edited = {"id": "7", "notes": "n", "type": kind, "kwargs": kwargs, "severity": severity, "meta": {"rule": "r"}}
    (rule,) = read_suite(damaged(tmp_path, edited), "broker_reports").rules
    assert rule.severity == consequence
    assert expectation_of(rule)["severity"] == severity


@pytest.mark.parametrize("kwargs", [{"strict_maximum": 1}, {"mostly": 2}, {"min_value": None, "max_value": None}])
def test_what_great_expectations_itself_refuses_is_told_in_a_sentence(kwargs: dict[str, Any]) -> None:
    whole = {"column": "n", "min_value": 0, **kwargs}
    definition = {"type": "expect_column_values_to_be_between", "kwargs": whole}
    suite = Suite("raw_answers", (ValidationRule("n", "raw_answers", REJECT, "", definition=definition),))
    with pytest.raises(SuiteError, match=r"Great Expectations refuses expectations/raw_answers.json: .*Between"):
        run_suite(suite, pa.table({"n": pa.array([1], pa.int64())}))


def test_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"broker_reports\.json cannot be read"):
        read_suites(tmp_path)
    (tmp_path / "broker_reports.json").write_text("<html>", encoding="utf-8")
    with pytest.raises(SuiteError, match=r"broker_reports\.json is not JSON"):
        read_suites(tmp_path)
