"""Sums over topics made without Spark are Spark's to the bit, or are not made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenkeel.aggregate.local_sums import COLUMNS, MOST_TOPICS, sums_of, whole_numbers
from evenkeel.aggregate.topic_sums import Namespace, ranges_of, sums_in_thousandths
from evenkeel.cycle.runner import local_frame
from evenkeel.lake.schemas import TABLES
from evenkeel.model.load import RATES
from evenkeel.spark.column_types import type_of
from evenkeel.spark.rows import arrow_type, tick_of
from evenkeel.spark.sql import MOST_THOUSANDTHS
from tests.builders import NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST = 0xFFFFFFFF
SPACES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("acme/web", (0, 1 << 30, 1 << 31, LAST)),
    ("acme/odd", (7, 1 << 20, (1 << 31) + 1, LAST - 1)),
    ("acme/none", (0, LAST)),
)
SCHEMA = pa.schema(
    [(c.name, arrow_type(type_of(c.type))) for c in TABLES["topic_stats"].columns if c.name in COLUMNS]
    + [("cluster", pa.string()), ("topic", pa.string()), ("broker", pa.string())]
)
PLAIN: dict[str, Any] = {
    **{"cluster": "shop", "cycle_at": NOON, "namespace": "acme/web", "topic": "t", "broker": "b", "hash": 5},
    **{"seen_on": 1, "observation": "loaded", "domain": "persistent", "producers": 1, "consumers": 2, "msg_backlog": 3},
    **dict.fromkeys(RATES, 0.5),
}


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**PLAIN, **row} for row in rows], SCHEMA)


def sums(rows: Sequence[dict[str, Any]], spaces: Any = SPACES, at: datetime = NOON) -> list[dict[str, Any]] | None:
    topics = whole_numbers(table(rows))
    assert topics is not None
    return sums_of([topics], tick_of(at.isoformat()), spaces)


def bits(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as text that tells doubles apart, by bundle."""
    return sorted(repr(sorted(row.items())) for row in rows)


EDGES = sorted({edge + near for _, own in SPACES for edge in own for near in (-1, 0, 1) if 0 <= edge + near <= LAST})
FIGURE = st.one_of(
    st.none(),
    st.integers(-1000, 1000).map(lambda n: n / 1000),
    st.integers(-MOST_THOUSANDTHS + 1, MOST_THOUSANDTHS - 1).map(lambda n: n / 1000),
    st.sampled_from([0.0, -0.0, 0.1, 0.125, 1e5]),
)
TOPIC = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["acme/web", "acme/odd", "acme/gone"]),
        "hash": st.one_of(st.sampled_from(EDGES), st.integers(0, LAST)),
        "seen_on": st.sampled_from([0, 1]),
        "observation": st.sampled_from(["loaded", "listed"]),
        "domain": st.sampled_from(["persistent", "non-persistent"]),
        **{name: st.one_of(st.none(), st.integers(0, 10**9)) for name in ("producers", "consumers", "msg_backlog")},
        **dict.fromkeys(RATES, FIGURE),
    }
)


@pytest.mark.spark
@given(cycles=st.lists(st.lists(TOPIC, max_size=12), min_size=1, max_size=12), cut=st.integers(0, 12))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_are_those_of_spark_to_the_bit(spark: SparkSession, cycles: list[list[dict[str, Any]]], cut: int) -> None:
    """Of many cycles in one file, and of one cycle whose topics lie in two."""
    moments = [NOON + timedelta(minutes=5 * n) for n in range(len(cycles))]
    rows = [{**topic, "cycle_at": at} for at, own in zip(moments, cycles, strict=True) for topic in own]
    spaces = [Namespace("shop", at.isoformat(), name, edges) for at in moments for name, edges in SPACES]
    expected = sums_in_thousandths(local_frame(spark, table(rows)), ranges_of(spaces))
    assert not any(expected.column("is_odd").to_pylist())
    by_moment: dict[datetime, list[dict[str, Any]]] = {at: [] for at in moments}
    for row in expected.drop_columns(["is_odd", "cluster"]).to_pylist():
        by_moment[row.pop("cycle_at").astimezone(UTC)].append(row)
    whole = whole_numbers(table(rows))
    assert whole is not None
    begin = 0
    for at, own in zip(moments, cycles, strict=True):
        first = min(cut, len(own))
        parts = [whole.part(begin, first), whole.part(begin + first, len(own) - first)]
        for topics in ([whole.part(begin, len(own))], parts):
            found = sums_of(topics, tick_of(at.isoformat()), SPACES)
            assert found is not None
            assert bits(found) == bits(by_moment[at])
        begin += len(own)


def test_sums_by_hand() -> None:
    rows = [
        {"hash": 0, "msg_rate_in": 0.1, "msg_rate_out": None},
        {"hash": (1 << 30) - 1, "msg_rate_in": 0.2, "observation": "listed", "msg_backlog": None},
        {"hash": 1 << 30, "observation": "listed", "msg_rate_out": -0.0, "producers": None, "domain": "non-persistent"},
        {"hash": LAST, "domain": "non-persistent", "msg_backlog": None},
        {"namespace": "acme/odd", "hash": 6},
        {"namespace": "acme/odd", "hash": LAST - 1},
        {"namespace": "acme/gone", "hash": 5},
    ]
    found = {row["bundle"]: row for row in sums(rows) or ()}
    assert sorted(found) == [
        f"acme/web/0x{n}" for n in ("00000000_0x40000000", "40000000_0x80000000", "80000000_0xffffffff")
    ]
    first, second, third = (found[name] for name in sorted(found))
    assert (first["topics"], first["listed_topics"], first["consumers"], first["msg_backlog"]) == (1, 2, 4, 3)
    assert (first["msg_rate_in"], first["msg_rate_out"], first["all_known"]) == (0.3, 0.5, False)
    assert (second["topics"], second["producers"], second["has_non_persistent"]) == (0, None, False)
    assert math.copysign(1.0, second["msg_rate_out"]) == 1.0
    assert second["all_known"] is True
    assert (third["msg_backlog"], third["has_non_persistent"]) == (None, True)


@pytest.mark.parametrize(
    "odd",
    [
        {"seen_on": 2},
        {"msg_rate_in": math.nan},
        {"msg_rate_in": math.inf},
        {"msg_rate_out": -math.inf},
        {"msg_throughput_in": 1 / 3},
        {"msg_throughput_out": 0.0005},
        {"msg_rate_in": MOST_THOUSANDTHS / 1000},
        {"msg_rate_in": -MOST_THOUSANDTHS / 1000},
        {"msg_rate_in": 1.7e308},
        {"producers": MOST_THOUSANDTHS},
        {"msg_backlog": -MOST_THOUSANDTHS},
        {"msg_backlog": -(2**63)},
        {"hash": -1},
        {"hash": LAST + 1},
        {"hash": None},
        {"namespace": None},
        {"observation": None},
        {"domain": None},
        {"cycle_at": NOON + timedelta(microseconds=1)},
        {"cycle_at": None},
    ],
    ids=repr,
)
def test_what_is_rare_is_left_to_spark(odd: dict[str, Any]) -> None:
    assert sums([{}, {}]) is not None
    assert sums([{}, odd]) is None


@pytest.mark.parametrize(
    "spaces",
    [
        (("acme/web", (0, LAST)), ("acme/web", (0, LAST))),
        (("acme/web", (0, 1 << 31, 1 << 30, LAST)),),
        (("acme/web", (0, 0, LAST)),),
    ],
    ids=["twice", "out of order", "empty"],
)
def test_boundaries_that_may_give_a_topic_two_bundles_are_left_to_spark(spaces: Any) -> None:
    assert sums([{}], spaces) is None


def test_no_topics_are_no_sums_and_too_many_are_left_to_spark() -> None:
    assert sums([]) == []
    assert sums([{"namespace": "acme/gone"}]) == []
    assert sums([{}], ()) == []
    assert sums_of([], 0, SPACES) == []
    many = whole_numbers(pa.concat_tables([table([{}] * 1024)] * (MOST_TOPICS // 1024)))
    assert many is not None
    at = tick_of(NOON.isoformat())
    (row,) = sums_of([many], at, SPACES) or ()
    assert (row["topics"], row["msg_rate_in"]) == (MOST_TOPICS, MOST_TOPICS / 2)
    assert sums_of([many, many.part(0, 1)], at, SPACES) is None


def test_a_file_without_a_column_of_today_is_left_to_spark() -> None:
    assert whole_numbers(table([{}]).drop_columns(["seen_on"])) is None
