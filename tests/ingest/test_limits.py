"""Snapshots beyond a limit, many clusters in one run: each says which limit, and none stops another.

Test plan: every limit is one cluster; what is beyond it is a row in `rejected`, and where the snapshot as a whole is
meant, the cluster is skipped. Beside them one whose answers are large and within every limit.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.ingest import task as ingest
from evenkeel.lake.store import Lake
from evenkeel.pulsar.limits import Limits
from tests.pulsar.small_cluster import FULL, SmallCluster, topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.snapshot_lines import land_lines

pytestmark = pytest.mark.spark

MIB = 1 << 20
AT = "2026-03-01T12:00:05.000000+00:00"
TOPICS = "/admin/v2/broker-stats/topics"
REPORT = "/admin/v2/broker-stats/load-report"
DEEP = "[" * 100_000 + "]" * 100_000
MANY = {f"persistent://shop/orders/t{n}": topic() for n in range(40)}
LONG_TOPICS = 30_000


def cycle(cluster: str, path: Path, **limits: int) -> ClusterCycle:
    return ClusterCycle(cluster, AT, Snapshot(str(path), AT), {}, limits=Limits(**limits).to_dict())


def lines_of(small: SmallCluster, folder: Path) -> Path:
    """The snapshot in the layout that is written while answers arrive."""
    return land_lines(small.document(), folder / "0000.jsonl.gz")


def large(folder: Path) -> ClusterCycle:
    """A broker's figures are larger than a text may be where a reader of JSON bounds it by itself."""
    topics = {f"persistent://shop/orders/topic-{n:06d}": topic(note="n" * 400) for n in range(LONG_TOPICS)}
    return cycle("large", lines_of(SmallCluster(cluster="large").topics("b1:8080", topics), folder / "large"))


def deep(folder: Path) -> ClusterCycle:
    """Answers nested 100,000 deep: a report, figures as a whole, one topic; and one that its own setting refuses."""
    small = SmallCluster(4, cluster="deep")
    small.reply(REPORT, f'{{"lastStats": {DEEP}}}', broker="b2:8080")
    small.reply(TOPICS, DEEP, broker="b2:8080")
    one = json.dumps({"shop/orders": {FULL: {"persistent": {"persistent://shop/orders/deep": "HERE", **MANY}}}})
    small.reply(TOPICS, one.replace('"HERE"', DEEP), broker="b3:8080")
    small.reply(REPORT, {"lastStats": {"a": [[[[[[[1]]]]]]]}}, broker="b4:8080")
    return cycle("deep", small.land(folder / "deep"), json_depth=8)


def cut(folder: Path) -> ClusterCycle:
    small = SmallCluster(cluster="cut")
    small.reply(REPORT, json.dumps({"note": "x" * 2 * MIB}), broker="b2:8080")
    return cycle("cut", small.land(folder / "cut"), small_answer_mib=1)


def left_out(folder: Path) -> list[ClusterCycle]:
    bomb = folder / "bomb.json.gz"
    head = b'{"format": 1, "finished_at": "2026-03-01T12:00:05Z", "requests": ['
    bomb.write_bytes(gzip.compress(head) + gzip.compress(b" " * MIB) * 400 + gzip.compress(b"]}"))
    pipe = folder / "0001.jsonl"
    os.mkfifo(pipe)
    many = SmallCluster(cluster="topics").topics("b1:8080", MANY)
    lists = SmallCluster(cluster="lists").reply("/admin/v2/persistent/shop/orders", [*MANY])
    wide = SmallCluster(cluster="rows")
    wide.reply("/admin/v2/brokers/rows/b2:8080/ownedNamespaces", {f"a/b/{n}": {} for n in range(40)}, broker="b2:8080")
    names = SmallCluster(cluster="names").reply("/admin/v2/namespaces/shop", [f"shop/{n}" for n in range(40)])
    tiny = SmallCluster(cluster="tiny").document()
    tiny["requests"] += [{} for _ in range(2_000)]
    (folder / "tiny.json").write_text(json.dumps(tiny))
    values = SmallCluster(cluster="values").reply(REPORT, {"note": [0] * 3_000}, broker="b2:8080")
    texts = SmallCluster(cluster="texts")
    for name in ("x", "y"):
        texts.reply(f"/admin/v2/namespaces/shop/{name}", json.dumps("x" * 900_000))
    return [
        cycle("bomb", bomb),
        cycle("pipe", pipe),
        cycle("lines", lines_of(SmallCluster(cluster="lines"), folder / "lines"), requests=5),
        cycle("topics", many.land(folder / "topics"), topics=30),
        cycle("lists", lists.land(folder / "lists"), topics=30),
        cycle("rows", wide.land(folder / "rows"), rows=30),
        cycle("names", names.land(folder / "names"), rows=30),
        cycle("tiny", folder / "tiny.json", requests=1_000),
        cycle("values", values.land(folder / "values"), json_values=2_000),
        cycle("texts", texts.land(folder / "texts"), small_answers_mib=1),
    ]


REASONS = {
    "bomb": "the document is larger than 67,108,864 bytes, unpacked, beyond the limit of 64 MiB (`document_mib`",
    "pipe": "0001.jsonl is not a regular file",
    "lines": "requests and more, beyond the limit of 5 (`requests`",
    "topics": "its answers name 40 topics, beyond the limit of 30 (`topics`",
    "lists": "its answers name 40 topics, beyond the limit of 30 (`topics`",
    "rows": "rows of bundle_ownership, beyond the limit of 30 (`rows`",
    "names": "come to 41 rows of namespace_bundles, beyond the limit of 30 (`rows`",
    "tiny": "tiny.json has 1,001 requests and more, beyond the limit of 1,000 (`requests`",
    "values": "values of JSON and more, beyond the limit of 2,000 (`json_values`",
    "texts": "bytes and more, beyond the limit of 1 MiB (`small_answers_mib`",
}


@dataclass
class Ingested:
    handover: Handover
    tables: dict[str, list[Any]]

    def rows(self, table: str, cluster: str) -> list[Any]:
        return [row for row in self.tables.get(table, []) if row["cluster"] == cluster]


@pytest.fixture(scope="module")
def ingested(
    spark: SparkSession, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Ingested:
    folder = tmp_path_factory.mktemp("limits")
    lake = Lake(str(empty_lake(folder / "lake")))
    good = cycle("good", SmallCluster(cluster="good").land(folder / "good"))
    cycles = [*left_out(folder), deep(folder), cut(folder), large(folder), good]
    handover = ingest.run(spark, Handover(str(folder / "lake"), Run("cli", "test"), tuple(cycles)))
    names = {write.table for write in handover.writes}
    tables = {}
    for name in names:
        rows = lake.read(spark, name, handover.writes_of(name))
        if name == "topic_stats":
            rows = rows.select("cluster", "topic", "broker")
        if name == "raw_answers":
            rows = rows.select("cluster", "path")
        tables[name] = rows.collect()
    return Ingested(handover, tables)


def test_a_snapshot_beyond_a_limit_is_skipped_and_says_which(ingested: Ingested) -> None:
    found = {one.cluster: one for one in ingested.handover.cycles if one.status != "open"}
    assert found.keys() == REASONS.keys()
    for cluster, words in REASONS.items():
        assert found[cluster].status == "skipped"
        assert words in str(found[cluster].reason)
        rejected = {row["rule"]: row["reason"] for row in ingested.rows("rejected", cluster)}
        rule = "unreadable_snapshot" if cluster == "pipe" else "beyond_limit"
        assert words in rejected[rule]
        if rule == "beyond_limit":
            assert "set in [limits] or [clusters.NAME.limits] of the configuration file" in rejected[rule]
        assert ingested.rows("topic_stats", cluster) == [] or cluster in ("rows", "names")


def test_the_clusters_beside_it_are_decided_on(ingested: Ingested) -> None:
    assert len(ingested.rows("topic_stats", "good")) == 1
    assert ingested.rows("rejected", "good") == []


def test_a_broker_may_have_more_figures_than_a_reader_of_json_takes_by_itself(ingested: Ingested) -> None:
    assert len(ingested.rows("topic_stats", "large")) == LONG_TOPICS
    assert ingested.rows("rejected", "large") == []


def test_an_answer_nested_too_deep_costs_itself_only(ingested: Ingested) -> None:
    states = {
        row["broker"]: (row["state"], row["has_topic_figures"]) for row in ingested.rows("broker_reports", "deep")
    }
    assert states["b1:8080"] == ("reported", True)
    assert states["b2:8080"] == ("unreadable", False)
    assert states["b4:8080"][0] == "unreadable"
    refused = {(row["rule"], row["place"]): row["reason"] for row in ingested.rows("rejected", "deep")}
    assert "nested too deep: more than 8 levels" in refused["beyond_limit", f"b2:8080 {REPORT}"]
    assert "nested too deep: more than 8 levels" in refused["beyond_limit", f"b4:8080 {REPORT}"]
    assert ("unreadable_json", f"b2:8080 {TOPICS}") in refused
    assert any("b3:8080" in place for _, place in refused), "a topic, or the answer that it stands in"


def test_an_answer_beyond_its_limit_is_unknown_and_the_cluster_goes_on(ingested: Ingested) -> None:
    states = {row["broker"]: row["state"] for row in ingested.rows("broker_reports", "cut")}
    assert states == {"b1:8080": "reported", "b2:8080": "unreadable"}
    (row,) = ingested.rows("rejected", "cut")
    assert (row["rule"], row["place"]) == ("beyond_limit", f"b2:8080 {REPORT}")
    assert "it has 2,097,164 bytes, beyond the limit" in row["reason"]
    assert "`small_answer_mib`" in row["reason"]


def test_limits_enter_no_digest_of_settings(ingested: Ingested) -> None:
    digests = {one.cluster: one.settings_digest for one in ingested.handover.cycles}
    assert digests["deep"] == digests["cut"] == digests["good"]


def test_limits_travel_with_the_hand_over(ingested: Ingested) -> None:
    again = Handover.from_json(ingested.handover.to_json())
    assert [one.limits for one in again.cycles] == [one.limits for one in ingested.handover.cycles]
    without = json.loads(ingested.handover.to_json())
    for one in without["cycles"]:
        del one["limits"]
    assert {one.limits for one in Handover.from_json(json.dumps(without)).cycles} == {None}
