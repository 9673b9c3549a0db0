"""A suite over many cycles: Great Expectations looks once, and again only where our own filters cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from evenkeel.handover import CycleKey
from evenkeel.lake.schemas import TABLES
from evenkeel.validate import judging, suites
from evenkeel.validate.facts import AT, BROKEN, KEY, PLACE, RECORD, Facts, RowsOfCycles
from evenkeel.validate.judging import judge_suite
from evenkeel.validate.suites import Finding, Suite, read_suites
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
    for name in (AT, PLACE, KEY, RECORD):
        schema = schema.append(pa.field(name, pa.string()))
    schema = schema.append(pa.field(BROKEN, pa.list_(pa.string())))
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


def facts_of(change: Callable[[CycleKey, list[Row]], None]) -> Facts:
    """Reports of two brokers in each of six cycles, the cycles in no order."""
    rows = []
    for key in (KEYS[3], KEYS[0], KEYS[5], KEYS[1], KEYS[4], KEYS[2]):
        of_cycle = [dict(row) for row in cluster(key[0], brokers=2).rows()["broker_reports"]]
        for row in of_cycle:
            row |= {"cluster": key[0], "cycle_at": datetime.fromisoformat(key[1]), AT: key[1]}
            row |= {BROKEN: [], PLACE: row["broker"], KEY: "", RECORD: "{}"}
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


def failed(facts: Facts) -> Mapping[tuple[CycleKey, str], Finding]:
    found = judge_suite(facts, read_suites()["broker_reports"], KEYS, None)  # type: ignore[arg-type]
    assert len(found) == len(KEYS) * len(read_suites()["broker_reports"].rules)
    return {(finding.key, finding.rule.name): finding for finding in found if not finding.passed}


def breaks_a_rule(key: CycleKey, rows: list[Row]) -> None:
    if key in (KEYS[1], KEYS[5]):
        rows[0] |= {"cpu_usage": math.nan, BROKEN: ["cpu_usage_is_a_figure"]}


def test_what_our_filters_mark_needs_no_second_look(looked: list[int]) -> None:
    found = failed(facts_of(breaks_a_rule))
    assert set(found) == {(KEYS[1], "cpu_usage_is_a_figure"), (KEYS[5], "cpu_usage_is_a_figure")}
    for finding in found.values():
        assert finding.row()["checked_rows"] == 2
        assert finding.row()["failed_rows"] == 1
        assert finding.row()["sample"] == ["b1:8080"]
    assert looked == [12]


def test_it_says_of_each_cycle_what_it_says_of_it_alone() -> None:
    facts = facts_of(breaks_a_rule)
    suite = read_suites()["broker_reports"]
    together = judge_suite(facts, suite, KEYS, None)  # type: ignore[arg-type]
    for key in KEYS:
        alone = Facts({"broker_reports": RowsOfCycles(facts.small["broker_reports"].of(key))}, facts.topics, None)
        expected = [one.row() for one in judge_suite(alone, suite, [key], None)]  # type: ignore[arg-type]
        assert [one.row() for one in together if one.key == key] == expected


def test_rows_that_stand_there_twice_are_looked_for_in_their_cycle(looked: list[int]) -> None:
    def doubles(key: CycleKey, rows: list[Row]) -> None:
        if key == KEYS[2]:
            rows.append(rows[0])

    found = failed(facts_of(doubles))
    assert {key for key, _ in found} == {KEYS[2]}
    assert [finding.row()["failed_rows"] for finding in found.values()] == [2]
    assert looked == [13, 3]


def test_where_our_filters_come_to_another_number_it_looks_at_every_cycle(looked: list[int]) -> None:
    def hides(key: CycleKey, rows: list[Row]) -> None:
        if key == KEYS[1]:
            rows[0]["cpu_usage"] = -1.0

    assert set(failed(facts_of(hides))) == {(KEYS[1], "cpu_usage_is_a_figure")}
    assert looked == [12, *[2] * len(KEYS)]


def test_rows_of_a_cycle_lie_side_by_side() -> None:
    rows = facts_of(lambda key, rows: None).small["broker_reports"]
    assert rows.counts() == dict.fromkeys(KEYS, 2)
    for key in KEYS:
        assert {(row["cluster"], row[AT]) for row in rows.of(key).to_pylist()} == {key}
    assert rows.of(("none", KEYS[0][1])).num_rows == 0
