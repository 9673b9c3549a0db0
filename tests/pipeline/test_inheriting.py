"""A split's children go on with what their topics showed before, until their own figures can be trusted."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.aggregate import task as aggregate
from evenkeel.handover import Handover
from evenkeel.lake.outbox import as_text
from evenkeel.lake.store import Lake
from evenkeel.publish.manifests import read_before
from tests.builders import NOON, ClusterBuilder, cluster, observed
from tests.steering.commands import split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]
PARENT = "acme/web/0x00000000_0x80000000"
LOWER, UPPER = "acme/web/0x00000000_0x40000000", "acme/web/0x40000000_0x80000000"
WHOLE, CUT = ("0x00000000", "0x80000000", "0xffffffff"), ("0x00000000", "0x40000000", "0x80000000", "0xffffffff")
Rows = dict[str, dict[str, Any]]


def topics_below(edge: int, count: int) -> list[str]:
    """Names whose hash lies in the quarter of the range that ends at the edge."""
    names = (f"persistent://acme/web/t{number}" for number in range(10_000))
    return [name for name in names if edge - 0x40000000 <= zlib.crc32(name.encode()) < edge][:count]


LOW, HIGH = topics_below(0x40000000, 2), topics_below(0x80000000, 3)


def loaded(built: ClusterBuilder, rate: float) -> ClusterBuilder:
    for number, name in enumerate([*LOW, *HIGH]):
        built.topic(name, msg_rate_in=rate + number, msg_throughput_in=100 * rate)
    return built


def before(name: str, *, doubled: bool = False, silent: bool = False) -> ClusterBuilder:
    built = loaded(cluster(name).namespace("acme/web", boundaries=WHOLE), 10.0).owner(PARENT, "b1:8080")
    if doubled:
        built.topic(LOW[0], broker="b2:8080", msg_rate_in=999.0, msg_throughput_in=9e9)
    return built.silent("b1:8080").owner(PARENT, None) if silent else built


def after(name: str, earlier: Handover, at: datetime, outcome: str = "done") -> ClusterBuilder:
    """The namespace is cut, and the children's figures are three times what they should be."""
    times = {"cycle_at": NOON, "expires_at": NOON + timedelta(minutes=20), "seen_at": NOON + timedelta(seconds=20)}
    act = as_text({**split(PARENT, "b1:8080", 0x40000000), **times, "outcome": outcome, "detail": None})
    built = cluster(name, at=at).namespace("acme/web", boundaries=CUT).follows(earlier).acted(act)
    return loaded(built, 30.0).owner(LOWER, "b1:8080").owner(UPPER, "b1:8080")


def aggregated(spark: SparkSession, store: Lake, *built: ClusterBuilder) -> tuple[Handover, dict[str, Rows]]:
    """The hand-over, and each cluster's bundles by name."""
    done = aggregate.run(spark, observed(spark, store.root, *built))
    rows = store.read(spark, "bundle_load", done.writes_of("bundle_load")).collect()
    return done, {one.name: {row.bundle: row.asDict() for row in rows if row.cluster == one.name} for one in built}


@dataclass(frozen=True)
class Cut:
    """Three clusters before a split and a minute after it: each one's bundles by name."""

    lake: Lake
    first: Handover
    second: Handover
    rows: dict[str, Rows]


@pytest.fixture(scope="module")
def cut(spark: SparkSession, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Cut:
    """`shop` split a parent that it had measured, `silent` one that it had not, and to `refused` it was denied."""
    store = Lake(str(empty_lake(tmp_path_factory.mktemp("lake"))))
    whole = before("shop", doubled=True), before("silent", silent=True), before("refused")
    first, _ = aggregated(spark, store, *whole)
    at = NOON + timedelta(minutes=1)
    parts = [after("shop", first, at), after("silent", first, at), after("refused", first, at, outcome="refused")]
    return Cut(store, first, *aggregated(spark, store, *parts))


def used(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["used_reason"], row["used_msg_rate_in"], row["used_msg_throughput_in"], row["measured_gap"]


def test_children_take_over_what_their_topics_showed_and_keep_it_until_they_have_settled(
    spark: SparkSession, cut: Cut
) -> None:
    rows = cut.rows["shop"]
    assert used(rows[LOWER]) == ("inherited", 10.0 + 11.0, 2_000.0, "unsettled")
    assert used(rows[UPPER]) == ("inherited", 12.0 + 13.0 + 14.0, 3_000.0, "unsettled")
    assert rows[LOWER]["measured_msg_rate_in"] == 30.0 + 31.0
    assert rows[LOWER]["trusted_at"].isoformat() == NOON.replace(tzinfo=None).isoformat()
    assert rows[LOWER]["long_samples"] == 0
    assert "topic_stats" in read_before(cut.second.cycles[0])
    assert "topic_stats" not in read_before(cut.first.cycles[0])

    third, later = aggregated(spark, cut.lake, after("shop", cut.second, NOON + timedelta(minutes=2)))
    assert used(later["shop"][LOWER]) == ("carried", 10.0 + 11.0, 2_000.0, "unsettled")

    _, later = aggregated(spark, cut.lake, after("shop", third, NOON + timedelta(minutes=5)))
    assert used(later["shop"][LOWER]) == ("measured", 30.0 + 31.0, 6_000.0, None)


def test_nothing_is_taken_over_from_a_parent_that_was_not_trusted_itself(cut: Cut) -> None:
    assert used(cut.rows["silent"][LOWER]) == ("measured", 30.0 + 31.0, 6_000.0, None)


def test_a_split_that_was_refused_upsets_nothing(cut: Cut) -> None:
    assert used(cut.rows["refused"][LOWER])[0] == "measured"
