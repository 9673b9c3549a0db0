"""A suite over many cycles: Great Expectations looks once, and its words mean what they mean there."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from evenkeel.handover import CycleKey
from evenkeel.lake.schemas import TABLES
from evenkeel.validate import judging, suites
from evenkeel.validate.facts import AT, Facts, RowsOfCycles, by_row
from evenkeel.validate.judging import Offenders, broken_words, judge_suite
from evenkeel.validate.suites import (
    REJECT,
    ExpectationVerdict,
    Finding,
    Found,
    Suite,
    SuiteError,
    ValidationRule,
    read_suites,
)
from tests.builders import NOON, cluster

Row = dict[str, Any]
KEYS: list[CycleKey] = [
    (name, (NOON + timedelta(minutes=5 * n)).isoformat(timespec="microseconds"))
    for name in ("a", "b")
    for n in range(3)
]

TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.string()),
}


def table_of(rows: Sequence[Row]) -> pa.Table:
    schema = pa.schema([(column.name, TYPES[column.type]) for column in TABLES["broker_reports"].body_columns()])
    schema = schema.append(pa.field(AT, pa.string()))
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


def facts_of(change: Callable[[CycleKey, list[Row]], None]) -> Facts:
    """Reports of two brokers in each of six cycles, the cycles in no order."""
    rows = []
    for key in (KEYS[3], KEYS[0], KEYS[5], KEYS[1], KEYS[4], KEYS[2]):
        of_cycle = [dict(row) for row in cluster(key[0], brokers=2).rows()["broker_reports"]]
        for row in of_cycle:
            row |= {"cluster": key[0], "cycle_at": datetime.fromisoformat(key[1]), AT: key[1]}
        change(key, of_cycle)
        rows += of_cycle
    return Facts({"broker_reports": RowsOfCycles(table_of(rows))}, RowsOfCycles(table_of([])), None)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows Great Expectations was shown, look by look."""
    seen: list[int] = []
    run_suite = suites.run_suite

    def counting(suite: Suite, rows: Any) -> Any:
        seen.append(rows.num_rows)
        return run_suite(suite, rows)

    monkeypatch.setattr(judging, "run_suite", counting)
    return seen


def failed(facts: Facts, *rules: ValidationRule) -> Mapping[tuple[CycleKey, str], Finding]:
    suite = Suite("broker_reports", rules) if rules else read_suites()["broker_reports"]
    found, _ = judge_suite(facts, suite, KEYS, None)  # type: ignore[arg-type]
    assert len(found) == len(KEYS) * len(suite.rules)
    return {(finding.key, finding.rule.name): finding for finding in found if not finding.passed}


def breaks_a_rule(key: CycleKey, rows: list[Row]) -> None:
    if key in (KEYS[1], KEYS[5]):
        rows[0]["cpu_usage"] = math.nan


def test_one_look_names_the_rows_of_every_cycle(looked: list[int]) -> None:
    found = failed(facts_of(breaks_a_rule))
    assert set(found) == {(KEYS[1], "cpu_usage_is_a_figure"), (KEYS[5], "cpu_usage_is_a_figure")}
    for finding in found.values():
        assert finding.row()["checked_rows"] == 2
        assert finding.row()["failed_rows"] == 1
        assert finding.row()["sample"] == ["broker b1:8080"]
    assert looked == [12]


def test_it_says_of_each_cycle_what_it_says_of_it_alone() -> None:
    facts = facts_of(breaks_a_rule)
    suite = read_suites()["broker_reports"]
    together, _ = judge_suite(facts, suite, KEYS, None)  # type: ignore[arg-type]
    for key in KEYS:
        alone = Facts({"broker_reports": RowsOfCycles(facts.small["broker_reports"].of(key))}, facts.topics, None)
        expected = [one.row() for one in judge_suite(alone, suite, [key], None)[0]]  # type: ignore[arg-type]
        assert [one.row() for one in together if one.key == key] == expected


def test_rows_that_stand_there_twice_are_named_in_their_cycle(looked: list[int]) -> None:
    def doubles(key: CycleKey, rows: list[Row]) -> None:
        if key == KEYS[2]:
            rows.append(rows[0])

    found = failed(facts_of(doubles))
    assert {key for key, _ in found} == {KEYS[2]}
    assert [finding.row()["failed_rows"] for finding in found.values()] == [2]
    assert looked == [13]


def rule(**kwargs: Any) -> ValidationRule:
    definition = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "cpu_usage", **kwargs}}
    return ValidationRule("edited", "broker_reports", REJECT, "Look.", "expectation", definition=definition)


def uses(first: float, second: float) -> Callable[[CycleKey, list[Row]], None]:
    """CPU usage of both brokers in the second cycle; in the others both use 1."""

    def change(key: CycleKey, rows: list[Row]) -> None:
        for row, usage in zip(rows, (first, second) if key == KEYS[1] else (1.0, 1.0), strict=True):
            row["cpu_usage"] = usage

    return change


@pytest.mark.parametrize(
    ("kwargs", "offenders"),
    [
        ({"min_value": 0, "max_value": 3}, []),
        ({"min_value": 0, "max_value": 3, "strict_max": True}, ["broker b2:8080"]),
        ({"min_value": 0, "max_value": 3, "strict_min": True}, ["broker b1:8080"]),
        ({"min_value": 1, "max_value": 2, "mostly": 0.5}, ["broker b1:8080", "broker b2:8080"]),
        ({"min_value": 0, "max_value": 2, "mostly": 0.5}, []),
        (
            {"min_value": 1, "max_value": 2, "row_condition": 'broker == "b1:8080"', "condition_parser": "pandas"},
            ["broker b1:8080"],
        ),
    ],
)
def test_an_edited_rule_means_what_it_means_to_great_expectations(kwargs: Row, offenders: list[str]) -> None:
    found = failed(facts_of(uses(0.0, 3.0)), rule(**kwargs))
    assert {key: finding.row()["sample"] for (key, _), finding in found.items()} == (
        {KEYS[1]: offenders} if offenders else {}
    )


def test_records_of_a_cycle_in_which_mostly_lets_the_rule_pass_are_kept() -> None:
    suite = Suite("broker_reports", (rule(min_value=1, max_value=2, mostly=0.5),))
    assert judge_suite(facts_of(uses(1.0, 3.0)), suite, KEYS, None)[1] == []  # type: ignore[arg-type]
    refused = judge_suite(facts_of(uses(0.0, 3.0)), suite, KEYS, None)[1]  # type: ignore[arg-type]
    assert [(one.key, one.row["broker"], one.rule.name) for one in refused] == [
        (KEYS[1], "b1:8080", "edited"),
        (KEYS[1], "b2:8080", "edited"),
    ]
    assert refused[1].words == "cpu_usage is 3.0, allowed is 1 to 2. Look."


@pytest.mark.parametrize(
    ("kwargs", "allowed"),
    [
        ({"min_value": 0, "max_value": 2}, "0 to 2"),
        ({"min_value": 0, "max_value": 2, "strict_max": True}, "at least 0 and less than 2"),
        ({"min_value": 0, "strict_min": True, "max_value": 2}, "more than 0 and at most 2"),
        ({"max_value": 2}, "at most 2"),
        ({"min_value": 5, "strict_min": True}, "more than 5"),
    ],
)
def test_the_reason_names_the_bounds_as_they_are(kwargs: Row, allowed: str) -> None:
    assert broken_words(rule(**kwargs), {"cpu_usage": 3.0}) == f"cpu_usage is 3.0, allowed is {allowed}."


def test_a_rule_that_cannot_be_checked_is_refused_with_the_reason_and_the_file() -> None:
    definition = {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "broker", "regex": "(b"}}
    broken = ValidationRule("edited", "broker_reports", REJECT, "Look.", definition=definition)
    words = (
        r"rule edited on broker_reports could not be checked: Invalid regular .*; look at expectations/broker_reports"
    )
    with pytest.raises(SuiteError, match=words):
        failed(facts_of(uses(1.0, 1.0)), broken)


def test_a_rule_on_record_is_the_same_text_however_its_file_spells_it() -> None:
    kwargs: Row = {"column": "broker", "regex": "ü"}
    texts = set()
    for order in (1, -1):
        definition = {"type": "expect_column_values_to_match_regex", "kwargs": dict([*kwargs.items()][::order])}
        edited = ValidationRule("edited", "broker_reports", REJECT, "Look.", definition=definition)
        texts.add(Finding("a", edited, Found(1)).row()["definition"])
    (text,) = texts
    assert '"kwargs": {"column": "broker", "regex": "ü"}' in text


def test_whole_numbers_are_compared_whole() -> None:
    rows = pa.table({"n": pa.array([2**53, 2**53 + 1, None], pa.int64())})
    kwargs = {"column": "n", "min_value": 0, "max_value": 2**53}
    definition = {"type": "expect_column_values_to_be_between", "kwargs": kwargs}
    suite = Suite("raw_answers", (ValidationRule("n", "raw_answers", REJECT, "", definition=definition),))
    (verdict,) = suites.run_suite(suite, rows)
    assert (verdict.passed, verdict.failed, [*verdict.positions]) == (False, 1, [1])


def test_rows_of_a_cycle_lie_side_by_side() -> None:
    rows = facts_of(lambda key, rows: None).small["broker_reports"]
    assert rows.counts() == dict.fromkeys(KEYS, 2)
    for key in KEYS:
        assert {(row["cluster"], row[AT]) for row in rows.of(key).to_pylist()} == {key}
    assert rows.of(("none", KEYS[0][1])).num_rows == 0


def test_offenders_that_spark_counts_over_all_cycles_are_those_of_a_cycle_that_is_alone() -> None:
    rule = next(rule for suite in read_suites().values() for rule in suite.rules if not by_row([rule]))
    verdict = ExpectationVerdict(rule, passed=False, failed=3, samples=["one"])
    nothing = RowsOfCycles(table_of([]))
    for keys, number in ((KEYS[:1], 3), (KEYS, None)):
        found = judging._offenders(Facts({}, nothing, None), None, verdict, keys)
        assert found == {key: Offenders(number, ["one"]) for key in keys}
