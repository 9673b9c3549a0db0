"""Metrics are named as Prometheus asks for, each stands on the reference page, and none stands there more."""

import re
from pathlib import Path

import pytest

from evenkeel.lake.schemas import TABLES
from evenkeel.metrics.declarations import (
    BY_NAME,
    COUNTER,
    EMITTED,
    METRICS,
    NEEDS,
    OPEN_COMMAND,
    OUTCOMES,
    SEVERITIES,
    ExportedMetric,
)
from evenkeel.status.attention import KINDS
from evenkeel.validate import suites

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "monitoring.md"
BOUNDED = {"cluster", "outcome", "severity", "task", "witness"}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_conventions(metric: ExportedMetric) -> None:
    assert re.fullmatch(r"evenkeel(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert metric.name.endswith("_seconds") == metric.unit.startswith("seconds")
    assert metric.name.endswith("_timestamp_seconds") == (metric.unit == "seconds since 1970")
    assert metric.name.endswith("_ratio") == (metric.unit == "ratio")
    assert set(metric.labels) <= BOUNDED


def test_no_name_stands_twice() -> None:
    assert len(BY_NAME) == len(METRICS)
    assert set(EMITTED) <= set(BY_NAME)


def test_the_page_has_every_metric_with_unit_and_labels_and_none_more() -> None:
    rows = re.findall(r"^\|`(evenkeel_\w+)`(?: †)?\|(\w+)\|(.*?)\|(.*?)\|.+\|$", PAGE.read_text(), re.M)
    assert rows == [(one.name, one.kind, one.unit, ", ".join(f"`{label}`" for label in one.labels)) for one in METRICS]
    labels = {name for one in METRICS for name in one.labels}
    assert set(re.findall(r"^\|`([a-z]+)`\|", PAGE.read_text(), re.M)) == labels


def test_each_kind_of_need_has_its_metric() -> None:
    assert [one.need for one in NEEDS] == [kind.name for kind in KINDS]


def test_a_need_rests_on_the_tables_that_its_kind_names() -> None:
    sources = {kind.name: kind.source for kind in KINDS}
    own_names = {"harm": "outcomes", "moves": "commands"}
    for one in NEEDS:
        for table in one.rests_on - {"unload_decisions"}:
            assert own_names.get(table, table) in sources[one.need], (one.need, table)


def test_values_of_labels_are_those_on_record() -> None:
    assert SEVERITIES == suites.SEVERITIES
    (outcome,) = (column for column in TABLES["outcomes"].columns if column.name == "outcome")
    assert {*outcome.comment.split(", "), "withheld", OPEN_COMMAND} == set(OUTCOMES)
