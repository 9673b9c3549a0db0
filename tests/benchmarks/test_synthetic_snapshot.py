"""The synthetic snapshot: a cluster whose figures fit together, the same for the same seed."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthetic_snapshot import Shape, write_snapshot
from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.observed_rows import observe
from evenkeel.pulsar.snapshot import SnapshotView, times_that_do_not_fit
from evenkeel.sources.recordings import Recording, cluster_name
from evenkeel.sources.snapshot_files import utc
from tests.pulsar.small_cluster import pulsar_hash
from tests.snapshot_lines import requests_of

SHAPE = Shape(topics=600, bundles=70, brokers=4, seed=3)


@pytest.fixture
def requests(tmp_path: Path) -> list[dict[str, Any]]:
    write_snapshot(tmp_path / "0000.jsonl.gz", SHAPE)
    return list(requests_of(tmp_path / "0000.jsonl.gz"))


def test_every_topic_lies_in_the_bundle_of_its_hash_and_shows_on_one_broker(requests: list[dict[str, Any]]) -> None:
    shown = []
    for request in requests:
        if request["path"].endswith("/broker-stats/topics"):
            for namespace, bundles in json.loads(request["body"]).items():
                for bundle, domains in bundles.items():
                    lower, upper = (int(edge, 16) for edge in bundle.split("_"))
                    for name in domains["persistent"]:
                        assert name.startswith(f"persistent://{namespace}/")
                        assert lower <= pulsar_hash(name) < upper
                        shown.append(name)
    assert len(shown) == len(set(shown)) == SHAPE.topics


def test_reports_sum_their_topics_and_every_bundle_has_one_owner(requests: list[dict[str, Any]]) -> None:
    figures = {request["broker"]: request["body"] for request in requests if request["path"].endswith("stats/topics")}
    own = Answers(Answer(r["n"], r["broker"], r["path"], r["status"], r["body"], utc(r["at"]), None) for r in requests)
    view = SnapshotView("bench", "0000", utc(requests[0]["at"]), utc("2026-01-01T00:00:00Z"), own, Answers(()), None)
    observed = observe(view)
    assert observed.rejections == ()
    assert times_that_do_not_fit(view, 0.0) is None
    for row in observed.rows["broker_reports"]:
        topics = [
            leaf
            for bundles in json.loads(figures[row["broker"]]).values()
            for domains in bundles.values()
            for leaf in domains["persistent"].values()
        ]
        assert (row["state"], row["topics"]) == ("reported", len(topics))
        # Pulsar cuts a topic's rate to three decimals, never rounds it up.
        cut = sum(leaf["msgRateIn"] for leaf in topics)
        assert cut <= row["msg_rate_in"] <= cut + 0.001 * len(topics) + 1e-9
    owned = [row["bundle"] for row in observed.rows["bundle_ownership"] if row["is_owned"]]
    assert len(owned) == len(set(owned)) == SHAPE.bundles


def test_the_same_seed_writes_the_same_requests(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "0000.jsonl.gz", SHAPE)
    write_snapshot(tmp_path / "0001.jsonl.gz", SHAPE)
    write_snapshot(tmp_path / "0002.jsonl.gz", Shape(topics=600, bundles=70, brokers=4, seed=4))
    first, second, other = (list(requests_of(tmp_path / f"000{number}.jsonl.gz")) for number in range(3))
    assert first == second
    assert first != other


def test_it_is_a_recording(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "0000.jsonl.gz", SHAPE)
    snapshot = Recording(tmp_path).snapshots[0]
    assert (cluster_name(snapshot), snapshot.configuration_path) == ("bench", snapshot.path)
