"""The queries of docs/how-to/query.md about decisions run as they stand there; tests/maintenance runs the others."""

import re
from pathlib import Path

import pytest

from evenkeel.lake.record import read_cycles, read_rows
from evenkeel.lake.store import Lake

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "query.md"


@pytest.fixture(scope="module")
def answers(spark, lake) -> list:
    """The rows that each query gives; the first one makes the view that the others use.

    A pipeline makes all tables; this lake was written without one.
    """
    Lake(str(lake)).ensure_tables(spark)
    decisions, heading, _ = PAGE.read_text().partition("## Ask about commands")
    assert heading
    queries = re.findall(r"```sql\n(.*?);\n```", decisions, flags=re.DOTALL)
    return [spark.sql(query.replace("LAKE", str(lake))).collect() for query in queries]


def test_the_view_lists_the_writes_of_the_attempts_that_count(spark, lake, answers) -> None:
    listed = {(row.cluster, row.cycle_at, row.write_id) for row in spark.table("listed").collect()}
    counting = read_cycles(lake)
    assert {(cluster, at) for cluster, at, _ in listed} == {
        (a.cluster, a.cycle_at.replace(tzinfo=None)) for a in counting
    }
    assert {write for *_, write in listed} == {w["write_id"] for a in counting for w in a.planned["writes"]}


def test_each_question_gets_the_rows_that_the_reader_without_spark_finds(lake, answers) -> None:
    _view, bundle, close, removed, _per_settings = answers
    unloads = [row for a in read_cycles(lake) for row in read_rows(lake, a, "unload_decisions")]
    places = [row for a in read_cycles(lake) for row in read_rows(lake, a, "placement_decisions")]
    subject = re.search(r"subject = '([^']+)'", PAGE.read_text()).group(1)
    assert [row.sentence for row in bundle] == [row["sentence"] for row in unloads if row["subject"] == subject]
    near = [
        r for r in unloads if r["subject_kind"] == "broker" and r["rule"] == "below_threshold" and r["margin"] > -0.05
    ]
    assert sorted(row.measured for row in close) == sorted(row["measured"] for row in near)
    filtered = [c["broker"] for row in places for c in row["candidates"] if c["removed_by"] is not None]
    assert sorted(row.broker for row in removed) == sorted(filtered) != []
