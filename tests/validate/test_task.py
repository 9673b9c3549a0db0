"""Validate over several clusters at once: one run, looked at from all sides."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.cycle.frames import read_checked
from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.spark.sql import iso
from evenkeel.validate import facts, judging
from evenkeel.validate import task as validate
from evenkeel.validate.facts import AT, facts_at_hand, fetch
from evenkeel.validate.suites import read_suites
from tests.builders import NOON, ClusterBuilder, cluster, observed
from tests.written_rows import rows_digest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ODD = [
    'persistent://acme/web/it\'s "quoted"',
    "persistent://acme/web/<script>alert(1)</script>",
    "persistent://acme/web/тема-日本-🚢",
    "persistent://acme/web/%2F\nsecond line",
    "persistent://acme/web/" + "n" * 2_000,
]
STRANGER = "b9:8080"


def web(name: str) -> ClusterBuilder:
    built = cluster(name).namespace("acme/web", bundles=4)
    for n in range(6):
        built.topic(f"persistent://acme/web/t{n}", msg_rate_in=5.0 + n)
    return built


def sound() -> ClusterBuilder:
    built = web("sound")
    for topic in ODD:
        built.topic(topic, msg_rate_in=1.0)
    return built


def dirty() -> ClusterBuilder:
    built = web("dirty")
    built.topic("persistent://acme/web/nan", broker="b1:8080", msg_rate_in=math.nan)
    built.topic("persistent://acme/web/endless", broker="b1:8080", msg_throughput_out=math.inf)
    built.topic("persistent://acme/web/negative", broker="b1:8080", msg_rate_out=-3.0, consumers=-1)
    built.topic("persistent://acme/web/rateless", broker="b1:8080", msg_throughput_in=None)
    built.topic("persistent://acme/gone/stray", broker="b2:8080")
    built.topic("persistent://acme/gone/<b>'stray'</b>", broker="b2:8080")
    built.broker("b3:8080", report_at=NOON - timedelta(hours=1), cpu_usage=math.nan)
    built.bundle(built.bundles()[0], STRANGER).bundle(built.bundles()[1], STRANGER)
    built.settings(evenkeelMissingBrokersToleratedPercent=50.0)
    return built


def holed() -> ClusterBuilder:
    return web("holed").namespace("acme/hole", boundaries=["0x00000000", "0x40000000"])


def moving() -> ClusterBuilder:
    built = claimed_twice("moving")
    built.topic("persistent://acme/web/moved", broker="b1:8080", msg_rate_in=4.0)
    return built.topic("persistent://acme/web/moved", broker="b2:8080", msg_rate_in=5.0)


def claimed_twice(name: str) -> ClusterBuilder:
    built = web(name)
    return built.bundle(built.bundles()[0], "b3:8080", is_owned=True)


@dataclass(frozen=True)
class Checked:
    spark: SparkSession
    lake: Lake
    before: Handover
    after: Handover
    results: list[dict[str, Any]]
    rejected: list[dict[str, Any]]

    def failed(self, name: str) -> dict[str, dict[str, Any]]:
        return {row["rule"]: row for row in self.results if row["cluster"] == name and not row["passed"]}


@pytest.fixture(scope="module")
def checked(
    spark: SparkSession, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Checked:
    folder = str(empty_lake(tmp_path_factory.mktemp("lake")))
    before = observed(spark, folder, sound(), dirty(), holed(), moving(), cluster("lonely", brokers=1).namespace("t/n"))
    after = validate.run(spark, before)
    lake = Lake(folder)

    def rows(table: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in lake.read(spark, table, after.writes_of(table)).collect()]

    return Checked(spark, lake, before, after, rows("validation_results"), rows("rejected"))


def test_every_rule_has_a_row_for_every_cluster_passed_or_failed(checked: Checked) -> None:
    of_cluster = Counter(row["cluster"] for row in checked.results)
    assert set(of_cluster) == {"sound", "dirty", "holed", "moving", "lonely"}
    assert len(set(of_cluster.values())) == 1
    names = {(row["checked_table"], row["rule"], row["cluster"]) for row in checked.results}
    assert len(names) == len(checked.results)
    assert {row["kind"] for row in checked.results} == {"expectation", "cross_table"}
    assert all(row["detail"] and json.loads(row["definition"])["rule"] == row["rule"] for row in checked.results)


def test_sound_cluster_with_odd_names_and_a_lonely_broker_break_nothing(checked: Checked) -> None:
    assert checked.failed("sound") == {}
    assert checked.failed("lonely") == {}
    topics = {row["rule"]: row for row in checked.results if row["cluster"] == "sound"}["topic_is_named"]
    assert topics["checked_rows"] == 6 + len(ODD)


def test_single_bad_records_are_rejected_with_rule_place_reason_and_record(checked: Checked) -> None:
    found = {(row["rule"], row["place"]): row for row in checked.rejected}
    assert set(found) == {
        ("msg_rate_in_is_a_rate", "topic persistent://acme/web/nan on broker b1:8080"),
        ("msg_throughput_out_is_a_rate", "topic persistent://acme/web/endless on broker b1:8080"),
        ("msg_rate_out_is_a_rate", "topic persistent://acme/web/negative on broker b1:8080"),
        ("consumers_is_a_count", "topic persistent://acme/web/negative on broker b1:8080"),
        ("loaded_topics_have_rates", "topic persistent://acme/web/rateless on broker b1:8080"),
        ("topics_have_a_namespace", "topic persistent://acme/gone/stray on broker b2:8080"),
        ("topics_have_a_namespace", "topic persistent://acme/gone/<b>'stray'</b> on broker b2:8080"),
        ("reports_are_fresh", "broker b3:8080"),
        *(("owners_are_known", f"bundle {bundle} on broker {STRANGER}") for bundle in dirty().bundles()[:2]),
    }
    for row in found.values():
        assert row["cluster"] == "dirty"
        assert row["file"] == "dirty/0000.json.gz"
        assert row["reason"].startswith(row["place"])
    record = json.loads(
        found["msg_rate_out_is_a_rate", "topic persistent://acme/web/negative on broker b1:8080"]["record"]
    )
    assert (record["topic"], record["msg_rate_out"]) == ("persistent://acme/web/negative", -3.0)
    for bundle in dirty().bundles()[:2]:  # they break no rule of their own table
        record = json.loads(found["owners_are_known", f"bundle {bundle} on broker {STRANGER}"]["record"])
        assert (record["cluster"], record["bundle"], record["broker"]) == ("dirty", bundle, STRANGER)


def test_rejections_leave_the_cluster_in_and_are_counted(checked: Checked) -> None:
    assert "dirty" in sorted({cycle.cluster for cycle in checked.after.open_cycles()})
    failed = checked.failed("dirty")
    counts = Counter(row["rule"] for row in checked.rejected)
    for rule in counts:
        assert failed[rule]["failed_rows"] == counts[rule], rule
        assert failed[rule]["severity"] == "reject"


def test_cluster_with_a_hole_is_left_out_with_the_reason_and_the_others_go_on(checked: Checked) -> None:
    assert sorted({cycle.cluster for cycle in checked.after.open_cycles()}) == ["dirty", "lonely", "moving", "sound"]
    (left_out,) = [cycle for cycle in checked.after.cycles if cycle.status != "open"]
    assert (left_out.cluster, left_out.status) == ("holed", "skipped")
    assert left_out.reason is not None
    assert "hole: the last boundary is 0x40000000" in left_out.reason


def test_what_a_move_causes_only_warns(checked: Checked) -> None:
    failed = checked.failed("moving")
    assert {"topic_seen_once", "bundles_have_one_owner"} <= set(failed)
    assert {row["severity"] for row in failed.values()} == {"warn"}
    assert failed["topic_seen_once"]["failed_rows"] == 2


def test_checked_rows_are_those_that_nothing_was_found_against(checked: Checked) -> None:
    rows = read_checked(checked.lake, checked.spark, checked.after, "topic_stats").select("cluster", "topic").collect()
    kept = {row.topic for row in rows if row.cluster == "dirty"}
    assert kept == {f"persistent://acme/web/t{n}" for n in range(6)}
    assert {row.topic for row in rows if row.cluster == "sound"} >= set(ODD)
    assert "holed" not in {row.cluster for row in rows}
    reports = read_checked(checked.lake, checked.spark, checked.after, "broker_reports").collect()
    assert {row.broker for row in reports if row.cluster == "dirty"} == {"b1:8080", "b2:8080"}


def test_run_without_open_clusters_writes_nothing(checked: Checked) -> None:
    closed = checked.before.leave_out({cycle.key: "snapshot cannot be read" for cycle in checked.before.open_cycles()})
    assert validate.run(checked.spark, closed) == closed


def test_checking_again_gives_the_same_rows(checked: Checked) -> None:
    again = validate.run(checked.spark, checked.before)
    assert [rows_digest(checked.before.lake, write) for write in again.writes_of("validation_results")] == [
        rows_digest(checked.before.lake, write) for write in checked.after.writes_of("validation_results")
    ]
    assert [rows_digest(checked.before.lake, write) for write in again.writes_of("rejected")] == [
        rows_digest(checked.before.lake, write) for write in checked.after.writes_of("rejected")
    ]


def test_few_rows_are_judged_without_asking_spark(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(validate, "fetch")
    tables = validate.observed(checked.spark, checked.lake, checked.before)
    assert validate.judged(checked.lake, checked.before, read_suites(), tables).refusals


def test_topics_that_are_too_many_to_be_named_are_counted_and_filtered_by_spark(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "facts_at_hand", lambda *_: None)
    for module, limit, most in ((judging, "MOST_NAMED", 0), (facts, "MOST_TOPICS", 1)):
        monkeypatch.setattr(module, limit, most)
        again = validate.run(checked.spark, checked.before)
        for table in ("validation_results", "rejected"):
            assert [(write.rows, rows_digest(checked.before.lake, write)) for write in again.writes_of(table)] == [
                (write.rows, rows_digest(checked.before.lake, write)) for write in checked.after.writes_of(table)
            ]


def test_what_is_read_here_is_what_spark_reads(spark: SparkSession, new_lake: Path) -> None:
    before = observed(spark, str(new_lake), sound(), claimed_twice("claimed"), cluster("empty", brokers=0))
    suites, lake = read_suites(), Lake(before.lake)
    here = facts_at_hand(lake, before, suites)
    assert here is not None
    tables = validate.observed(spark, lake, before)
    by_spark = fetch(tables, suites, 0, are_few=True)
    for table, found in {**here.small, "topics": here.topics, "topic_rows": here.topic_rows}.items():
        expected = getattr(by_spark, table) if table.startswith("topic") else by_spark.small[table]
        assert found is not None
        columns = expected.rows.column_names
        assert _contents(found.rows.select(columns)) == _contents(expected.rows)


def test_of_what_the_suites_look_at_broken_rows_too_are_read_as_spark_reads_them(checked: Checked) -> None:
    suites = read_suites()
    here = facts_at_hand(checked.lake, checked.before, suites)
    assert here is not None
    for table, suite in suites.items():
        read = checked.lake.read(checked.spark, table, checked.before.writes_of(table))
        rows = here.topic_rows if table == "topic_stats" else here.small[table]
        assert rows is not None
        columns = sorted({"cluster", "cycle_at", *suite.columns()})
        expected = read.select(*columns, iso("cycle_at").alias(AT)).toArrow()
        assert _contents(rows.rows.select([*columns, AT])) == _contents(expected)


def _contents(rows: pa.Table) -> tuple[dict[str, pa.DataType], Counter[str]]:
    """Columns with their types, and rows in no order."""
    names = sorted(rows.column_names)
    found = rows.select(names)
    return {name: found.schema.field(name).type for name in names}, Counter(map(repr, found.to_pylist()))


def test_empty_cluster_alone_is_left_out_with_a_plain_reason(spark: SparkSession, new_lake: Path) -> None:
    before = observed(spark, str(new_lake), cluster("empty", brokers=0))
    after = validate.run(spark, before)
    assert sorted({cycle.cluster for cycle in after.open_cycles()}) == []
    assert after.cycles[0].reason is not None
    assert "The cluster lists no broker." in after.cycles[0].reason
    assert after.writes_of("rejected") == ()
