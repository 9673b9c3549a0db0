"""Ingest over real and broken snapshots: many clusters in one run, each with a trouble of its own.

Test plan: every kind of bad input is one cluster, so that one run of the task shows that none of them stops another.
What each answer becomes row by row is tested without Spark in `tests/pulsar`.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.ingest import ingest_frames
from evenkeel.ingest import task as ingest
from evenkeel.lake.store import Lake
from evenkeel.sources.landed_answers import LongAnswers
from evenkeel.sources.recordings import Recording
from tests.pulsar.small_cluster import SmallCluster, pulsar_hash, topic
from tests.snapshot_lines import land_lines, requests_of
from tests.written_rows import rows_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECORDINGS = Path(__file__).parent.parent / "recordings"
TOPICS = "/admin/v2/broker-stats/topics"
SEGMENT = "segment://shop/orders/clicks/0000-7fff-1"
RUNTIME = "/admin/v2/brokers/configuration/runtime"
HTML = "<html><body>504 Gateway Time-out</body></html>"
ODD_NAMES = ("it's", 'say "hi"', "<script>alert(1)</script>", "Größe-日本-🙂", "back\\slash", "100%25", "x" * 2_000)


def odd(name: str) -> str:
    return f"persistent://shop/orders/{name}"


def cycle(cluster: str, path: Path, **more: Any) -> ClusterCycle:
    at = "2026-03-01T12:00:05.000000+00:00"
    return ClusterCycle(cluster, at, Snapshot(str(path), at, **more), {})


def recorded(cluster: str, recording: str, number: int) -> ClusterCycle:
    snapshot = Recording(RECORDINGS / recording).snapshots[number]
    return ClusterCycle(cluster, snapshot.cycle_at, snapshot, {})


def truncated(folder: Path) -> ClusterCycle:
    """b2's topic figures break off, b3's are a page."""
    small = SmallCluster(4, cluster="truncated")
    body = json.dumps(
        {"shop/orders": {"0x00000000_0xffffffff": {"persistent": {odd("a"): topic(), odd("b"): topic()}}}}
    )
    small.reply(TOPICS, body[:-60], broker="b2:8080").reply(TOPICS, HTML, broker="b3:8080")
    return cycle("truncated", small.land(folder / "truncated", "0000.json.gz"))


def strange(folder: Path) -> ClusterCycle:
    """Topics whose figures are odd or unreadable, one of an unknown namespace, and names that want quoting."""
    small = SmallCluster(2, cluster="strange")
    topics: dict[str, Any] = {odd(name): topic() for name in ODD_NAMES}
    topics |= {odd("nan"): topic("NaN"), odd("negative"): topic(-5.0), odd("bare"): {}}
    topics |= {odd("no-object"): 5, odd("null"): None, odd("texts"): topic("many")}
    topics[SEGMENT] = topic(7.0)
    small.topics("b1:8080", topics)
    small.topics("b2:8080", {"persistent://gone/unknown/t": topic()}, namespace="gone/unknown")
    small.namespace("shop/orders", ["0x00000000", "0x40000000", "0x30000000", "0xffffffff"], '"quoted"')
    return cycle("strange", small.land(folder / "strange"))


def moving(folder: Path) -> ClusterCycle:
    """One topic in two brokers' figures, one in nobody's; a list with names that are none."""
    small = SmallCluster(2, cluster="moving")
    small.topics("b1:8080", {odd("twice"): topic(), odd("once"): topic()})
    small.topics("b2:8080", {odd("twice"): topic(9.0)})
    small.reply("/admin/v2/persistent/shop/orders", [odd("twice"), odd("once"), odd("nowhere"), "not a topic", SEGMENT])
    small.reply("/admin/v2/persistent/shop/returns", HTML)
    # The same question once more, and the answer before it has to stay on record.
    first = {"shop/orders": {"0x00000000_0xffffffff": {"persistent": {odd("once"): topic(note="n" * 3_000)}}}}
    small.answers = {
        ("b1:8080", "first"): {**small.answers["b1:8080", TOPICS], "body": json.dumps(first)},
        **small.answers,
    }
    return cycle("moving", small.land(folder / "moving"))


def lines(folder: Path) -> ClusterCycle:
    """A real snapshot in lines, with a line that is none, one that is malformed in its body, and a long one."""
    source = RECORDINGS / "lost-modular" / "0000.json.gz"
    document = json.loads(gzip.decompress(source.read_bytes()))
    n = len(document["requests"])
    members = {"n": n + 1, "broker": "b9:1", "method": "GET", "path": TOPICS, "status": 200, "body": "x" * 100_000}
    broken = json.dumps(members).replace('xx"}', 'x"x"}')
    long = json.dumps({**members, "n": n + 2, "path": "/admin/v2/persistent/x/y", "status": 500})
    place = land_lines(document, folder / "lines" / "0000.jsonl.gz", ['{"broken', broken, long])
    return ClusterCycle("lines", "2026-03-01T12:00:05.000000+00:00", Snapshot(str(place), "x"), {})


def left_out(folder: Path) -> list[ClusterCycle]:
    """Clusters that cannot be decided on."""
    future = SmallCluster(cluster="future")
    requests = future.requests()
    future.started_at += timedelta(days=1)
    future.finished_at += timedelta(days=1)
    for request in requests:
        request["at"] = "2026-03-01T12:00:05Z"
    page = folder / "page.json"
    page.write_text(HTML)
    middle = SmallCluster(cluster="middle").land(folder / "middle")
    middle.write_text(middle.read_text().replace('"requests": [', '"requests": [}, ', 1))
    silent = SmallCluster(cluster="silent")
    brokers = silent.answers["b1:8080", "/admin/v2/brokers"]
    silent.silent("b1:8080").silent("b2:8080").answers["b1:8080", "/admin/v2/brokers"] = brokers
    return [
        cycle("empty", SmallCluster(0, cluster="empty").land(folder / "empty")),
        cycle("future", future.land(folder / "future")),
        cycle("page", page),
        cycle("middle", middle),
        cycle("silent", silent.land(folder / "silent")),
        replace(
            cycle("misset", SmallCluster(cluster="misset").land(folder / "misset")), overrides={"minUnloadMesage": 5}
        ),
    ]


@dataclass
class Ingested:
    spark: SparkSession
    handover: Handover
    tables: dict[str, list[Any]]

    def rows(self, table: str, cluster: str) -> list[Any]:
        return [row for row in self.tables.get(table, []) if row["cluster"] == cluster]

    def cycle(self, cluster: str) -> ClusterCycle:
        return next(cycle for cycle in self.handover.cycles if cycle.cluster == cluster)

    def refused(self, cluster: str) -> dict[str, Any]:
        return {f"{row['rule']} {row['place']}": row for row in self.rows("rejected", cluster)}


@pytest.fixture(scope="module")
def ingested(
    spark: SparkSession, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Ingested:
    folder = tmp_path_factory.mktemp("ingest")
    lake = Lake(str(empty_lake(folder / "lake")))
    unreadable = (("0003.json.gz", "snapshot", "the gzip file ends too early"),)
    overridden = replace(recorded("lost", "lost-modular", 1), overrides={"minUnloadMessage": 5}, unreadable=unreadable)
    cycles = [
        overridden,
        recorded("renamed", "lost-extensible", 0),
        recorded("closing", "by-hand-4.0.8", 1),
        truncated(folder),
        strange(folder),
        moving(folder),
        lines(folder),
        cycle("single", SmallCluster(1, cluster="single").land(folder / "single")),
        *left_out(folder),
    ]
    handover = ingest.run(spark, Handover(str(folder / "lake"), Run("cli", "test"), tuple(cycles)))
    names = {write.table for write in handover.writes}
    tables = {name: lake.read(spark, name, handover.writes_of(name)).collect() for name in names}
    return Ingested(spark, handover, tables)


def test_only_clusters_that_cannot_be_decided_on_are_left_out_and_each_says_why(ingested: Ingested) -> None:
    left_out = {c.cluster: (c.status, c.reason) for c in ingested.handover.cycles if c.status != "open"}
    words = {
        "empty": ("skipped", "list of brokers is empty"),
        "future": ("skipped", "requests lie outside the snapshot's time"),
        "page": ("skipped", "cannot be read: it is an HTML"),
        "middle": ("skipped", "the JSON is malformed inside"),
        "silent": ("skipped", "none of 2 brokers reported its figures"),
        "misset": ("failed", "minUnloadMessage"),
    }
    assert left_out.keys() == words.keys()
    for cluster, (status, text) in words.items():
        assert left_out[cluster][0] == status
        assert text in str(left_out[cluster][1])
        assert ingested.rows("rejected", cluster), f"{cluster} has no row in rejected"


def test_what_could_be_read_of_a_cluster_left_out_is_on_record(ingested: Ingested) -> None:
    silent = {row["broker"]: row["state"] for row in ingested.rows("broker_reports", "silent")}
    assert silent == {"b1:8080": "no_answer", "b2:8080": "no_answer"}
    assert len(ingested.rows("raw_answers", "future")) == len(SmallCluster().requests())
    assert ingested.rows("raw_answers", "page") == []


def test_every_topic_of_a_real_snapshot_has_its_figures_and_pulsars_hash(ingested: Ingested) -> None:
    expected = {}
    for request in requests_of(RECORDINGS / "lost-modular" / "0006.json.gz"):
        if request["path"] == TOPICS and request["status"] == 200:
            for bundles in json.loads(request["body"]).values():
                for bundle, domains in bundles.items():
                    for name, leaf in next(iter(domains.values())).items():
                        consumers = sum(len(each["consumers"]) for each in leaf["subscriptions"].values())
                        figures = (leaf["msgRateIn"], leaf["msgThroughputOut"], leaf["producerCount"], consumers)
                        expected[name] = (request["broker"], bundle, pulsar_hash(name), *figures, leaf)
    loaded = [row for row in ingested.rows("topic_stats", "lost") if row["observation"] == "loaded"]
    found = {
        row["topic"]: (
            *(row[name] for name in ("broker", "bundle_range", "hash", "msg_rate_in", "msg_throughput_out")),
            *(row[name] for name in ("producers", "consumers")),
            json.loads(row["rest"]),
        )
        for row in loaded
    }
    assert len(loaded) == len(expected) == 195
    assert found == expected


def test_topics_of_a_dead_broker_are_listed_and_their_figures_unknown(ingested: Ingested) -> None:
    listed = [row for row in ingested.rows("topic_stats", "lost") if row["observation"] == "listed"]
    assert len(listed) == 112
    for row in listed:
        assert (row["broker"], row["seen_on"], row["msg_rate_in"], row["producers"], row["rest"]) == (None, 0) + (
            None,
        ) * 3
        assert row["hash"] == pulsar_hash(row["topic"])
        assert row["topic"].startswith(f"{row['domain']}://{row['namespace']}/")
    policies = ingested.rows("cluster_policies", "lost")[0]
    assert policies["topic_lists_age_seconds"] == policies["configuration_age_seconds"] > 0


def test_topics_that_are_nowhere_for_a_moment_are_found_in_the_list_of_an_earlier_snapshot(ingested: Ingested) -> None:
    seen = [row["seen_on"] for row in ingested.rows("topic_stats", "closing")]
    assert (seen.count(1), seen.count(0)) == (286, 40)


def test_settings_are_the_leaders_with_the_operators_values_over_them(ingested: Ingested) -> None:
    rows = {row["key"]: row for row in ingested.rows("settings", "lost")}
    assert (rows["minUnloadMessage"]["value"], rows["minUnloadMessage"]["origin"]) == ("5", "override")
    assert rows["loadBalancerLoadSheddingStrategy"]["origin"] == "observed"
    cycle = ingested.cycle("lost")
    assert {row["settings_digest"] for row in rows.values()} == {cycle.settings_digest}
    assert (cycle.manager, ingested.cycle("renamed").manager) == ("modular", "extensible")


def test_a_snapshot_that_was_unreadable_before_this_one_is_on_record(ingested: Ingested) -> None:
    row = ingested.refused("lost")["unreadable_snapshot snapshot"]
    assert (row["file"], row["reason"]) == ("0003.json.gz", "the gzip file ends too early")


def test_a_cluster_known_by_another_name_is_read_all_the_same(ingested: Ingested) -> None:
    states = {row["broker"].split(":")[0]: row["state"] for row in ingested.rows("broker_reports", "renamed")}
    assert states == {"127.0.0.1": "reported", "127.0.0.2": "not_ready", "127.0.0.3": "reported"}
    assert all(row["is_owned"] for row in ingested.rows("bundle_ownership", "renamed"))


def test_truncated_figures_and_a_page_are_set_aside_and_the_other_brokers_are_kept(ingested: Ingested) -> None:
    assert [row["topic"] for row in ingested.rows("topic_stats", "truncated")] == [odd("t1")]
    refused = ingested.refused("truncated")
    assert set(refused) == {f"unreadable_json b2:8080 {TOPICS}", f"html_page b3:8080 {TOPICS}"}
    assert refused[f"html_page b3:8080 {TOPICS}"]["record"] == HTML
    assert refused[f"html_page b3:8080 {TOPICS}"]["file"].endswith("truncated/0000.json.gz")
    came = {row["broker"]: row["has_topic_figures"] for row in ingested.rows("broker_reports", "truncated")}
    assert came == {"b1:8080": True, "b2:8080": False, "b3:8080": False, "b4:8080": True}
    bodies = {row["broker"]: row["body"] for row in ingested.rows("raw_answers", "truncated") if row["path"] == TOPICS}
    assert bodies["b1:8080"] is None
    assert bodies["b3:8080"] == HTML
    assert bodies["b2:8080"].startswith('{"shop/orders"')


def test_a_topic_that_cannot_be_read_is_set_aside_and_the_others_of_its_bundle_stay(ingested: Ingested) -> None:
    refused = {row["place"].rpartition("/")[2]: row["record"] for row in ingested.rows("rejected", "strange")}
    assert refused.keys() == {"no-object", "null", "texts"}
    assert refused["no-object"] == "5"
    topics = {row["topic"] for row in ingested.rows("topic_stats", "strange")}
    others = {"persistent://gone/unknown/t", SEGMENT}
    assert topics == {odd(name) for name in (*ODD_NAMES, "nan", "negative", "bare")} | others


def test_a_segment_of_a_scalable_topic_is_a_topic_of_its_namespace(ingested: Ingested) -> None:
    (loaded,) = [row for row in ingested.rows("topic_stats", "strange") if row["topic"] == SEGMENT]
    (listed,) = [row for row in ingested.rows("topic_stats", "moving") if row["topic"] == SEGMENT]
    assert (loaded["domain"], loaded["msg_rate_in"], listed["domain"]) == ("persistent", 7.0, "segment")
    for row in (loaded, listed):
        assert (row["namespace"], row["hash"]) == ("shop/orders", pulsar_hash(SEGMENT))


def test_odd_figures_are_kept_as_observed_and_missing_ones_stay_unknown(ingested: Ingested) -> None:
    rows = {row["topic"]: row for row in ingested.rows("topic_stats", "strange")}
    assert math.isnan(rows[odd("nan")]["msg_rate_in"])
    assert rows[odd("negative")]["msg_rate_in"] == -5.0
    bare = rows[odd("bare")]
    assert [bare[name] for name in ("msg_rate_in", "producers", "consumers", "subscriptions", "msg_backlog")] == [
        None
    ] * 5
    ordinary = rows[odd("it's")]
    assert [ordinary[name] for name in ("producers", "consumers", "subscriptions", "msg_backlog", "storage_size")] == [
        *(1, 2, 1, 7, 5)
    ]


def test_odd_names_survive_with_pulsars_hash(ingested: Ingested) -> None:
    rows = {row["topic"]: row for row in ingested.rows("topic_stats", "strange")}
    for name in ODD_NAMES:
        assert rows[odd(name)]["hash"] == pulsar_hash(odd(name))
    assert ingested.rows("namespace_bundles", "strange")[0]["anti_affinity_group"] == '"quoted"'
    assert ingested.rows("namespace_bundles", "strange")[0]["boundaries"] == [
        *("0x00000000", "0x40000000", "0x30000000", "0xffffffff")
    ]


def test_a_topic_seen_twice_has_a_row_for_each_broker_and_says_so(ingested: Ingested) -> None:
    rows = {(row["topic"], row["broker"]): row["seen_on"] for row in ingested.rows("topic_stats", "moving")}
    assert rows == {
        (odd("twice"), "b1:8080"): 2,
        (odd("twice"), "b2:8080"): 2,
        (odd("once"), "b1:8080"): 1,
        (odd("nowhere"), None): 0,
        (SEGMENT, None): 0,
    }
    rules = sorted(row["rule"] for row in ingested.rows("rejected", "moving"))
    assert rules == ["html_page", "unreadable_topic"]


def test_an_answer_that_a_later_one_supersedes_keeps_its_text(ingested: Ingested) -> None:
    rows = [r for r in ingested.rows("raw_answers", "moving") if (r["broker"], r["path"]) == ("b1:8080", TOPICS)]
    bodies = {row["n"]: row["body"] for row in rows}
    assert len(bodies[0]) > 3_000
    assert list(bodies.values()).count(None) == 1


def test_a_snapshot_in_lines_gives_the_rows_of_the_document(ingested: Ingested) -> None:
    assert len(ingested.rows("topic_stats", "lines")) == 309
    assert {row["seen_on"] for row in ingested.rows("topic_stats", "lines")} == {1}
    refused = ingested.refused("lines")
    broken = next(row for key, row in refused.items() if key.startswith("unreadable_request"))
    assert broken["record"] == '{"broken'
    assert f"unreadable_json b9:1 {TOPICS}" in refused, "it is known by what stands before its body"
    (long,) = [row for row in ingested.rows("raw_answers", "lines") if row["path"] == "/admin/v2/persistent/x/y"]
    assert (long["status"], long["body"]) == (500, "x" * 100_000)


def test_one_broker_only_is_taken_in(ingested: Ingested) -> None:
    assert ingested.cycle("single").status == "open"
    assert len(ingested.rows("broker_reports", "single")) == 1


def test_a_snapshot_that_the_server_does_not_see_is_told_in_plain_words(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the Spark server does not see the snapshot"):
        LongAnswers(spark, [tmp_path / "0000.json"]).of([0])


def test_the_same_snapshot_gives_the_same_rows_again(ingested: Ingested) -> None:
    again = replace(recorded("lost", "lost-modular", 1), overrides={"minUnloadMessage": 5})
    start = Handover(ingested.handover.lake, Run("cli", "again"), (again,))
    assert contents(ingested, ingest.run(ingested.spark, start)) == contents(ingested, ingested.handover, "rejected")


def contents(ingested: Ingested, run: Handover, *without: str, cluster: str = "lost") -> dict[str, str]:
    """Table -> the content of what a run wrote of a cluster."""
    own = [write for write in run.writes if write.cluster == cluster and write.table not in without]
    return {write.table: rows_digest(ingested.handover.lake, write) for write in own}


def test_topics_of_a_large_snapshot_give_the_same_rows(ingested: Ingested, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_frames, "_ONE_FILE_CHARACTERS", 1)
    monkeypatch.setattr(ingest_frames, "_PART_CHARACTERS", 1_000)
    monkeypatch.setattr(ingest_frames, "_FEW_CHARACTERS", 0)
    first = ingested.cycle("moving")
    alone = ClusterCycle(first.cluster, first.cycle_at, first.snapshot, {})
    again = ingest.run(ingested.spark, Handover(ingested.handover.lake, Run("cli", "long"), (alone,)))
    known = contents(ingested, ingested.handover, cluster="moving")
    assert contents(ingested, again, cluster="moving") == known
    assert {"topic_stats", "rejected"} <= known.keys()
