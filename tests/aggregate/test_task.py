"""Aggregate over several clusters and two cycles: who owns what, what is measured, what is carried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.aggregate import task as aggregate
from evenkeel.cycle import frames, runner
from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.validate import task as validate
from tests.builders import NOON, ClusterBuilder, cluster, observed
from tests.written_rows import rows_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LATER = NOON + timedelta(minutes=5)
FULL = "0x00000000_0xffffffff"
Rows = dict[tuple[str, str], dict[str, Any]]


def single(namespace: str) -> str:
    """The one bundle of a namespace that has one."""
    return f"{namespace}/{FULL}"


def busy(at: Any = NOON, rate: float = 100.0) -> ClusterBuilder:
    """Four namespaces of one bundle each, on three brokers in turn."""
    built = cluster("busy", at=at)
    for n in range(4):
        built.namespace(f"acme/n{n}")
        in_ = {"msg_rate_in": rate, "msg_throughput_in": 1_000.0}
        built.topic(f"persistent://acme/n{n}/a", **in_, consumers=2, producers=1, msg_backlog=40)
        built.topic(f"persistent://acme/n{n}/b", msg_rate_out=0.1, msg_throughput_out=0.2, msg_backlog=2)
        built.listed(f"persistent://acme/n{n}/asleep")
    return built


def first() -> list[ClusterBuilder]:
    odd = cluster("odd", brokers=2).namespace("t/ok").namespace("t/bad")
    odd.topic("persistent://t/ok/a", msg_rate_in=7.0)
    odd.topic("persistent://t/bad/a", msg_rate_in=7.0).topic("persistent://t/bad/nan", msg_rate_in=math.nan)
    odd.broker("b2:8080", report_at=NOON - timedelta(days=2)).settings(evenkeelMissingBrokersToleratedPercent=50.0)
    heart = "pulsar/b1:8080"
    odd.bundle(single(heart), "b1:8080", is_owned=True, is_reported=True)
    odd.topic(f"persistent://{heart}/healthcheck", broker="b1:8080", bundle_range=FULL)
    bare = cluster("bare", brokers=2).broker("b2:8080", bundles=[single("t/gone")])
    free = cluster("free", brokers=1).policies(manager="extensible").namespace("t/n")
    free.topic("persistent://t/n/a", msg_rate_in=3.0).broker("b1:8080", bundles=None, memory_usage=90.0)
    free.settings(loadBalancerMemoryResourceWeight=1.0)
    asked_again = free.rows()["broker_reports"][0] | {"asked_at": NOON + timedelta(seconds=1), "cpu_usage": 50.0}
    return [busy(), odd, bare, free.row("broker_reports", **asked_again)]


def second(before: Handover) -> ClusterBuilder:
    """Five minutes later: n0 has just moved and shows nothing, n1 is shown twice, n2's broker is silent, n3 is free."""
    built = cluster("busy", at=LATER).follows(before).silent("b3:8080")
    for n in range(4):
        built.namespace(f"acme/n{n}")
    built.owner(single("acme/n0"), "b2:8080")
    built.owner(single("acme/n1"), "b2:8080").bundle(single("acme/n1"), "b1:8080", is_owned=True)
    built.topic("persistent://acme/n1/a", broker="b1:8080", msg_rate_in=30.0, msg_throughput_in=1.0)
    built.topic("persistent://acme/n1/a", broker="b2:8080", msg_rate_in=90.0, msg_throughput_in=2.0)
    built.owner(single("acme/n2"), None).owner(single("acme/n3"), "b1:8080")
    # The owner's figures count even if another broker still shows larger ones.
    built.topic("persistent://acme/n3/a", broker="b1:8080", msg_rate_in=10.0)
    built.topic("persistent://acme/n3/a", broker="b2:8080", msg_rate_in=500.0, msg_throughput_in=9e9)
    return built.topic("non-persistent://acme/n3/np", broker="b1:8080", msg_rate_in=1.0)


@dataclass(frozen=True)
class Aggregated:
    spark: SparkSession
    lake: Lake
    before: Handover
    first: Handover
    second: Handover

    def rows(self, handover: Handover, table: str, key: str) -> Rows:
        found = self.lake.read(self.spark, table, handover.writes_of(table)).collect()
        rows = {(row.cluster, row[key]): row.asDict(recursive=True) for row in found}
        assert len(rows) == len(found)
        return rows


@pytest.fixture(scope="module")
def done(
    spark: SparkSession, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Aggregated:
    folder = str(empty_lake(tmp_path_factory.mktemp("lake")))
    before = validate.run(spark, observed(spark, folder, *first()))
    one = aggregate.run(spark, before)
    two = aggregate.run(spark, observed(spark, folder, second(one)))
    return Aggregated(spark, Lake(folder), before, one, two)


@pytest.fixture(scope="module")
def bundles(done: Aggregated) -> Rows:
    return done.rows(done.first, "bundle_load", "bundle")


@pytest.fixture(scope="module")
def bundles_later(done: Aggregated) -> Rows:
    return done.rows(done.second, "bundle_load", "bundle")


@pytest.fixture(scope="module")
def brokers(done: Aggregated) -> Rows:
    return done.rows(done.first, "broker_load", "broker")


@pytest.fixture(scope="module")
def brokers_later(done: Aggregated) -> Rows:
    return done.rows(done.second, "broker_load", "broker")


def test_every_bundle_of_the_boundaries_has_a_row_and_brokers_own_ones_too(bundles: Rows) -> None:
    expected = {("busy", single(f"acme/n{n}")) for n in range(4)}
    expected |= {("free", single("t/n"))}
    expected |= {("odd", single(name)) for name in ("t/ok", "t/bad", "pulsar/b1:8080")}
    assert set(bundles) == expected
    assert [key[1] for key, row in bundles.items() if row["is_system"]] == [single("pulsar/b1:8080")]


def test_bundle_sums_its_topics_and_starts_its_averages(bundles: Rows) -> None:
    row = bundles["busy", single("acme/n0")]
    assert (row["owner"], row["ownership"], row["last_owner"]) == ("b1:8080", "owned", "b1:8080")
    assert (row["topics"], row["listed_topics"], row["consumers"], row["producers"]) == (2, 3, 3, 2)
    assert (row["measured_msg_rate_in"], row["measured_msg_rate_out"]) == (100.0, 0.1)
    assert (row["measured_msg_throughput_in"], row["measured_msg_throughput_out"]) == (1_000.0, 0.2)
    assert (row["used_msg_rate_in"], row["used_reason"], row["measured_gap"]) == (100.0, "measured", None)
    assert row["trusted_at"].isoformat() == NOON.replace(tzinfo=None).isoformat()
    assert (row["short_samples"], row["long_samples"], row["long_msg_rate_in"]) == (1, 1, 100.0)
    assert (row["reported_msg_rate_in"], row["reported_topics"]) == (100.0, 2)


def test_bundle_has_the_backlog_of_its_topics_and_what_it_had_in_the_cycle_before(
    bundles: Rows, bundles_later: Rows
) -> None:
    row, later = bundles["busy", single("acme/n0")], bundles_later["busy", single("acme/n3")]
    assert row["msg_backlog"] == 42
    assert [row[f"{name}_before"] for name in ("producers", "consumers", "msg_backlog")] == [None] * 3
    assert [later[f"{name}_before"] for name in ("producers", "consumers", "msg_backlog")] == [2, 3, 42]
    assert (later["producers"], later["consumers"]) == (2, 2)
    assert later["msg_backlog"] is None, "of a loaded topic it is not known"
    assert bundles_later["busy", single("acme/n0")]["msg_backlog"] is None, "it has just moved"


def test_bundle_that_lost_a_topic_to_a_rejection_is_not_measured(bundles: Rows) -> None:
    row = bundles["odd", single("t/bad")]
    assert (row["measured_gap"], row["topics"], row["measured_msg_rate_in"]) == ("topics_rejected", None, None)
    assert (row["used_reason"], row["used_msg_rate_in"]) == ("unknown", None)
    # Pulsar's figures for a bundle it has never seen, and no sample.
    assert (row["short_samples"], row["short_msg_rate_in"], row["short_msg_throughput_in"]) == (0, 50.0, 50_000.0)
    assert bundles["odd", single("t/ok")]["measured_msg_rate_in"] == 7.0


def test_broker_row_has_percents_weights_and_sums(brokers: Rows) -> None:
    row = brokers["busy", "b1:8080"]
    assert row["cpu_percent"] == 30.000001907348633
    assert (row["cpu_weight"], row["memory_weight"], row["bandwidth_in_weight"]) == (1.0, 0.0, 1.0)
    assert row["weighted_usage"] == 30.000001907348633 / 100
    # b1 owns n0 and n3.
    assert (row["bundles"], row["topics"], row["msg_rate_in"], row["msg_rate_out"]) == (2, 4, 200.0, 0.2)
    assert (row["reported_msg_rate_in"], row["reported_topics"]) == (200.0, 4)
    assert (row["long_msg_rate_in"], row["short_msg_throughput_out"]) == (200.0, 0.4)


def test_broker_whose_report_was_set_aside_keeps_a_row_with_nothing_known(brokers: Rows) -> None:
    row = brokers["odd", "b2:8080"]
    assert row["state"] == "rejected"
    assert [row[name] for name in ("cpu_percent", "weighted_usage", "reported_msg_rate_in", "long_msg_rate_in")] == [
        None
    ] * 4
    assert row["bundles"] == 1


def test_heartbeat_bundle_counts_with_its_own_figures_not_with_the_defaults(brokers: Rows) -> None:
    row = brokers["odd", "b1:8080"]
    assert (row["bundles"], row["long_msg_rate_in"]) == (2, 7.0)


def test_broker_without_bundles_carries_nothing_and_that_is_known(brokers: Rows) -> None:
    row = brokers["bare", "b1:8080"]
    assert (row["bundles"], row["msg_rate_in"], row["long_msg_rate_in"], row["topics"]) == (0, 0.0, 0.0, 0)


def test_bundle_named_in_a_report_that_is_not_known_counts_with_pulsars_defaults(brokers: Rows) -> None:
    row = brokers["bare", "b2:8080"]
    assert (row["bundles"], row["msg_rate_in"]) == (0, 0.0)
    assert (row["long_msg_rate_in"], row["short_msg_throughput_out"]) == (50.0, 50_000.0)


def test_broker_without_a_list_in_its_report_averages_what_it_owns_and_its_heap_counts(brokers: Rows) -> None:
    row = brokers["free", "b1:8080"]
    assert (row["long_msg_rate_in"], row["memory_weight"]) == (3.0, 1.0)
    assert row["weighted_usage"] == row["memory_percent"] / 100 == 0.9


def test_broker_asked_twice_has_one_row_with_its_last_answer(brokers: Rows) -> None:
    assert brokers["free", "b1:8080"]["cpu_percent"] == 50.0


def test_bundle_that_just_moved_and_shows_nothing_carries_its_last_figures(bundles_later: Rows) -> None:
    row = bundles_later["busy", single("acme/n0")]
    assert (row["owner"], row["measured_gap"], row["measured_msg_rate_in"]) == ("b2:8080", "just_moved", None)
    assert (row["used_msg_rate_in"], row["used_reason"], row["topics"]) == (100.0, "carried", None)
    assert row["trusted_at"].isoformat() == NOON.replace(tzinfo=None).isoformat()
    assert (row["long_samples"], row["long_msg_rate_in"]) == (1, 100.0)


def test_topic_shown_twice_without_a_decided_owner_counts_once_with_the_larger_figures(bundles_later: Rows) -> None:
    row = bundles_later["busy", single("acme/n1")]
    assert (row["owner"], row["ownership"], row["last_owner"]) == (None, "doubled", "b2:8080")
    assert (row["topics"], row["listed_topics"], row["measured_msg_rate_in"]) == (1, 1, 90.0)
    assert (row["long_samples"], row["long_msg_rate_in"]) == (2, (100.0 + 90.0) / 2)


def test_bundle_that_nobody_claims_while_a_broker_is_silent_is_unknown_not_free(bundles_later: Rows) -> None:
    row = bundles_later["busy", single("acme/n2")]
    assert (row["owner"], row["ownership"], row["last_owner"]) == (None, "unknown", "b3:8080")
    assert (row["measured_gap"], row["used_reason"], row["used_msg_rate_in"]) == ("not_owned", "carried", 100.0)


def test_owners_figures_count_for_a_topic_shown_twice(bundles_later: Rows) -> None:
    row = bundles_later["busy", single("acme/n3")]
    assert (row["measured_msg_rate_in"], row["measured_msg_throughput_in"]) == (11.0, 0.0)
    assert row["has_non_persistent"] is True


def test_silent_broker_has_a_row_and_nothing_of_it_is_known(brokers_later: Rows) -> None:
    row = brokers_later["busy", "b3:8080"]
    assert (row["state"], row["weighted_usage"], row["msg_rate_in"], row["long_msg_rate_in"]) == (
        "no_answer",
        None,
        None,
        None,
    )


def test_aggregating_again_gives_the_same_bits_from_compacted_topics_too(done: Aggregated) -> None:
    done.spark.sql(f"OPTIMIZE delta.`{done.lake.path('topic_stats')}`").collect()
    again = aggregate.run(done.spark, done.before)
    for table in ("bundle_load", "broker_load"):
        assert [rows_digest(done.before.lake, write) for write in again.writes_of(table)] == [
            rows_digest(done.before.lake, write) for write in done.first.writes_of(table)
        ]


@pytest.mark.parametrize("way", [pytest.param("fetched by Spark", marks=pytest.mark.exhaustive), "by workers"])
def test_rows_from_files_from_spark_and_in_workers_give_the_same_bits(
    spark: SparkSession, new_lake: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    calm = cluster("calm").namespace("t/n").topic("persistent://t/n/a", msg_rate_in=0.125)
    built = [busy(), calm]
    before = validate.run(spark, observed(spark, str(new_lake), *built))
    here = aggregate.run(spark, before)
    if way == "by workers":
        monkeypatch.setattr(frames, "MOST_HERE", 0)
    else:
        monkeypatch.setattr(runner, "rows_at_hand", lambda *_: None)
    by_spark = aggregate.run(spark, before)
    for table in ("bundle_load", "broker_load"):
        assert [(write.rows, rows_digest(before.lake, write)) for write in here.writes_of(table)] == [
            (write.rows, rows_digest(before.lake, write)) for write in by_spark.writes_of(table)
        ]


def test_run_without_open_clusters_writes_nothing(done: Aggregated) -> None:
    closed = done.before.leave_out({cycle.key: "left out" for cycle in done.before.open_cycles()})
    assert aggregate.run(done.spark, closed) == closed
