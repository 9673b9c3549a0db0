"""Wishes through the real tasks: taken once, taken again by a re-run, waiting while a cycle fails."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.cli.wish import read_wishes
from evenkeel.errors import BadInput
from evenkeel.handover import PULSAR_ADMIN, Run
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.ingest.wish_intake import Maker, wish_row, with_wishes
from evenkeel.lake.record import Attempt, read_attempts, read_rows
from evenkeel.lake.store import Lake
from evenkeel.lake.wishes import append_wishes
from evenkeel.model.topics import topic_hash
from evenkeel.pipeline import aggregate, ingest, run_cycle, validate
from tests import planned
from tests.planned import SNAPSHOTS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CALM = {"evenkeelSplitEnabled": False, "evenkeelSheddingEnabled": False}


def request(lake: Path, snapshot: int, **more: Any) -> CycleRequest:
    return planned.request(lake, snapshot, **{"overrides": CALM, **more})


def run(spark: Any, lake: Path, snapshot: int, **more: Any) -> None:
    run_cycle(spark, request(lake, snapshot, **more), lambda *_: None)


def wished(lake: Path, attempt: Attempt) -> dict[str, dict[str, Any]]:
    """Rows that a wish stands behind: kind of table and wish to row."""
    tables = ("split_decisions", "unload_decisions", "placement_decisions")
    return {
        f"{table.partition('_')[0]} {row['wish_id'][:6]}": row
        for table in tables
        for row in read_rows(lake, attempt, table)
        if row["wish_id"] is not None
    }


def make(spark: Any, lake: Path, at: int = 0, number: int = 0, **wish: Any) -> None:
    """Record a wish, also before the first cycle, which the command refuses."""
    append_wishes(spark, Lake(str(lake)), [wish_row(wish, "lab", Maker("ann", SNAPSHOTS[at].cycle_at), number)])


@pytest.fixture(scope="module")
def some_bundle(spark: Any, empty_lake: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The bundle with most topics that have traffic in the second snapshot; in the first one there is none."""
    lake = Lake(str(empty_lake(tmp_path_factory.mktemp("look"))))
    handover = open_cycles(spark, request(Path(lake.root), 1))
    for task in (ingest, validate, aggregate):
        handover = task(spark, handover)
    topics, loads = (
        [row.asDict() for row in lake.read(spark, name, handover.writes_of(name)).collect()]
        for name in ("topic_stats", "bundle_load")
    )
    loads = [row for row in loads if row["owner"] and not row["is_system"]]
    return max(loads, key=lambda row: (len(busy_hashes(row, topics)), row["bundle"]))


def busy_hashes(bundle: dict[str, Any], topics: list[dict[str, Any]]) -> list[int]:
    """Hashes of the bundle's topics that its owner has loaded and that have traffic, ascending."""
    return sorted({
        topic["hash"]
        for topic in topics
        if topic["namespace"] == bundle["namespace"] and topic["broker"] == bundle["owner"]
        and bundle["lower"] <= topic["hash"] < bundle["upper"]
        and (topic["msg_rate_in"] or 0) + (topic["msg_rate_out"] or 0) > 0
    })  # fmt: skip


@pytest.mark.exhaustive
def test_wishes_are_taken_by_one_cycle_and_again_by_its_re_run(
    spark: Any, engine: Any, new_lake: Path, some_bundle: dict[str, Any], monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    namespace, found = some_bundle["namespace"], some_bundle["bundle"].rpartition("/")[2]
    asked = {"namespace": namespace, "bundle": found}
    by_count = {"splitAlgorithmName": "topic_count_equally_divide", "unload": True}
    make(spark, new_lake, kind="split", namespace=namespace, bundle="LARGEST", **by_count)
    make(spark, new_lake, kind="unload", destinationBroker="nobody:1", **asked)
    make(spark, new_lake, at=1, kind="split", **asked)
    run(spark, new_lake, 0)
    (first,) = read_attempts(new_lake)
    assert len(first.planned["wishes"]) == 2
    rows = wished(new_lake, first)
    assert {(row["outcome"], row["rule"]) for row in rows.values()} == {
        ("split", "wish"), ("refused", "wish_no_such_broker"),
    }  # fmt: skip
    commands = spark.read.format("delta").load(f"{new_lake}/commands").collect()
    assert [(row["kind"], row["unload_children"]) for row in commands] == [("split", True)]

    words = ["wish", "split", namespace, "-b", found, "--lake", str(new_lake), "--cluster", "lab"]
    assert main([*words, "--at", SNAPSHOTS[0].cycle_at]) == 0
    run(spark, new_lake, 0)
    (again,) = read_attempts(new_lake)
    assert (again.plan_id, again.attempt_id) == (first.plan_id, first.attempt_id)
    run(spark, new_lake, 1)
    _, second = read_attempts(new_lake)
    assert len(second.planned["wishes"]) == 2
    assert not set(second.planned["wishes"]) & set(first.planned["wishes"])
    (third,) = open_cycles(spark, request(new_lake, 2)).cycles
    assert third.wishes == ()
    running = [replace(third, source=PULSAR_ADMIN)]
    (taking,) = with_wishes(spark, Lake(str(new_lake)), running, Run("rebalance", "scheduled__1"), ())
    assert len(taking.wishes) == 4, "what cycles of a recording took is left to the cluster that runs"

    assert [wish["taken_at"] for wish in read_wishes(new_lake)].count(first.cycle_at) == 2
    capsys.readouterr()
    assert main(["wish", "list", "--lake", str(new_lake)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 4
    assert any("LARGEST -san topic_count_equally_divide -u" in line for line in listed)
    assert not any(line.endswith("waiting") for line in listed)


@pytest.mark.exhaustive
def test_wishes_of_a_run_are_carried_out_by_it_and_wait_where_it_fails(
    spark: Any, new_lake: Path, some_bundle: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel.shed import task as shed

    found = some_bundle["bundle"].rpartition("/")[2]
    asked = ({"kind": "unload", "namespace": some_bundle["namespace"], "bundle": found},)

    def broken(*_args: Any) -> None:
        raise RuntimeError("the disk is full\nsecond line")

    with monkeypatch.context() as patched:
        patched.setattr(shed, "run", broken)
        with pytest.raises(RuntimeError):
            run(spark, new_lake, 0, wishes=asked, run_id="manual__1")
    (failed,) = read_attempts(new_lake)
    assert (failed.status, failed.plan_id, failed.planned["wishes"]) == ("failed", None, [])
    assert failed.reason == "shed failed: RuntimeError: the disk is full"
    assert [wish["taken_at"] for wish in read_wishes(new_lake)] == [None]

    run(spark, new_lake, 0, wishes=asked, run_id="manual__1")
    done = read_attempts(new_lake)[-1]
    assert len(read_wishes(new_lake)) == 1
    assert {key.partition(" ")[0] for key in wished(new_lake, done)} == {"unload", "placement"}
    (command,) = spark.read.format("delta").load(f"{new_lake}/commands").collect()
    assert (command["kind"], command["bundle"], command["destination"]) == ("unload", some_bundle["bundle"], None)
    with pytest.raises(BadInput, match="a backfill carries no wishes out"):
        run(spark, new_lake, 0, wishes=asked, kind="backfill")


@pytest.mark.exhaustive
def test_a_topics_unload_is_a_command_that_is_explained_shown_verified_and_replayed(
    spark: Any, engine: Any, new_lake: Path, some_bundle: dict[str, Any], monkeypatch: Any, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    space = f"persistent://{some_bundle['namespace']}"
    names = (f"{space}/t-{number}" for number in range(10_000))
    topic = next(name for name in names if some_bundle["lower"] <= topic_hash(name) < some_bundle["upper"])
    make(spark, new_lake, kind="unload_topic", topic=topic)
    run(spark, new_lake, 0)
    (first,) = read_attempts(new_lake)
    (row,) = wished(new_lake, first).values()
    assert (row["subject"], row["subject_kind"], row["rule"]) == (topic, "topic", "wish_topic")
    assert first.planned["unloads"] == 0
    (command,) = spark.read.format("delta").load(f"{new_lake}/commands").collect()
    assert (command["kind"], command["topic"], command["bundle"]) == ("unload_topic", topic, some_bundle["bundle"])
    local = topic.rpartition("/")[2]
    assert command["request"] == f"PUT /admin/v2/persistent/{some_bundle['namespace']}/{local}/unload"
    capsys.readouterr()
    assert main(["wish", "list", "--lake", str(new_lake)]) == 0
    assert f"unload_topic {topic}  {first.cycle_at.isoformat()}" in capsys.readouterr().out
    assert main(["explain", topic, "--at", SNAPSHOTS[0].cycle_at, "--lake", str(new_lake)]) == 0
    told = capsys.readouterr().out
    assert row["sentence"] in " ".join(told.split())
    assert f"unload of {topic} from {row['broker']}" in told
    assert (
        main(["report", "--cycle", SNAPSHOTS[0].cycle_at, "--lake", str(new_lake), "--out", str(tmp_path / "p")]) == 0
    )
    assert "connects again" in (tmp_path / "p").read_text()
    assert main(["verify", "--lake", str(new_lake)]) == 0
    assert main(["replay", "--lake", str(new_lake)]) == 0
    out = capsys.readouterr().out
    assert "1 of 1" in out, out


@pytest.mark.exhaustive
def test_traffic_cuts_a_wished_bundle_by_what_its_owner_has_loaded(
    spark: Any, new_lake: Path, some_bundle: dict[str, Any]
) -> None:
    flow = {"defaultNamespaceBundleSplitAlgorithm": "flow_or_qps_equally_divide",
            "loadBalancerNamespaceBundleMaxMsgRate": 1}  # fmt: skip
    asked = ({"kind": "split", "namespace": some_bundle["namespace"],
              "bundle": some_bundle["bundle"].rpartition("/")[2]},)  # fmt: skip
    run(spark, new_lake, 1, wishes=asked, overrides=CALM | flow)
    (attempt,) = read_attempts(new_lake)
    (row,) = wished(new_lake, attempt).values()
    assert (row["rule"], row["algorithm"]) == ("wish", "flow_or_qps_equally_divide"), row["sentence"]
    busy = busy_hashes(some_bundle, read_rows(new_lake, attempt, "topic_stats"))
    assert all(busy[0] < cut <= busy[-1] for cut in row["cuts"])
    assert len(row["children"]) == len(row["cuts"]) + 1 > 1
