"""Clusters of one run, each odd in one thing: the sound one is decided as if it were alone."""

import gzip
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthetic_snapshot import Shape, write_document
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import read_table
from evenkeel.pipeline import run_cycle

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AT = datetime(2026, 3, 2, 8, tzinfo=UTC)
EAGER = {"loadBalancerLoadSheddingStrategy": "OverloadShedder", "loadBalancerBrokerOverloadedThresholdPercentage": 1}
FAILOVER = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}


def policy(namespaces: str, primary: str) -> dict[str, Any]:
    return {"namespaces": [namespaces], "primary": [primary], "secondary": [], "auto_failover_policy": FAILOVER}


POLICIES: Mapping[str, Mapping[str, Any]] = {
    "sound": {},
    "bad_range": {"old": policy("legacy/.*", "test-broker1[45-46].west.*")},
    "no_policy": {"gone": None},
    "no_list": {"odd": {**policy("legacy/.*", "b"), "primary": 7}},
    "no_number": {"odd": {**policy("legacy/.*", "b"), "auto_failover_policy": {"parameters": {"min_limit": "few"}}}},
    "java_only": {
        "quoted": policy(r"\Qlegacy/app.v1\E", r"broker-\p{Digit}{9}.*"),
        "taken": policy("[^/]+/[^/]++", "broker-000[0-9&&[^01]].*"),
    },
}
"""Cluster -> its isolation policies, as its broker answers."""
REPORTS: Mapping[str, Mapping[str, Any]] = {
    "virtual_machines": {
        "bandwidthIn": {"usage": 5.0, "limit": -1000.0},
        "bandwidthOut": {"usage": 5.0, "limit": -1.0},
    },
    "no_heap": {"memory": {"usage": "NaN", "limit": 100.0}},
    "great_totals": {"msgRateIn": 1e6},
}
"""Cluster -> what its brokers' load reports say otherwise."""


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory, empty_lake: Callable[[Path], Path]) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    lines = []
    for name in (*POLICIES, *REPORTS):
        (folder / name).mkdir()
        file = folder / name / "0.json.gz"
        write_document(file, Shape(topics=24, bundles=6, brokers=3), n=0, finished_at=AT)
        body = json.loads(gzip.decompress(file.read_bytes()))
        for request in body["requests"]:
            if POLICIES.get(name) and request["path"].endswith("/namespaceIsolationPolicies"):
                request |= {"status": 200, "body": json.dumps(POLICIES[name])}
            if request["path"].endswith("/load-report"):
                request["body"] = json.dumps(json.loads(request["body"]) | REPORTS.get(name, {}))
        file.write_bytes(gzip.compress(json.dumps(body).encode()))
        lines.append(f'[clusters.{name}]\nrecording = "{folder / name}"\n')
    (folder / "clusters.toml").write_text("\n".join(lines))
    lake = empty_lake(folder / "lake")
    request = CycleRequest(str(lake), "", configuration=str(folder / "clusters.toml"), overrides=EAGER)
    run_cycle(spark, request, lambda *_: None)
    return lake


def rows(lake: Path, table: str, cluster: str) -> list[dict[str, Any]]:
    return [row for row in read_table(lake, table) if row["cluster"] == cluster]


def decided(lake: Path, cluster: str) -> list[tuple[Any, ...]]:
    """Subject, outcome and destination of each bundle that shedding or placement considered."""
    tables = ("unload_decisions", "placement_decisions")
    told = (row for table in tables for row in rows(lake, table, cluster))
    return sorted((row["subject"], row["outcome"], row.get("destination")) for row in told if row["namespace"])


@pytest.mark.parametrize("cluster", [name for name in POLICIES if name not in ("sound", "java_only")])
def test_a_policy_that_cannot_be_used_is_named_and_leaves_the_cluster_as_it_is(lake: Path, cluster: str) -> None:
    assert any(outcome == "placed" for _, outcome, _ in decided(lake, cluster))
    assert decided(lake, cluster) == decided(lake, "sound")
    (told,) = rows(lake, "rejected", cluster)
    assert told["rule"] == ("refused_expression" if cluster == "bad_range" else "unreadable_policy")
    (name,) = POLICIES[cluster]
    assert told["place"].startswith(f"isolation policy {name}")


@pytest.mark.parametrize("cluster", REPORTS)
def test_a_report_with_an_odd_figure_serves_with_the_others(lake: Path, cluster: str) -> None:
    loads = rows(lake, "broker_load", cluster)
    assert [row["state"] for row in loads] == ["reported"] * 3
    assert all(row["weighted_usage"] is not None for row in loads)
    assert decided(lake, cluster) == decided(lake, "sound")
    told = [(row["rule"], row["place"].partition(" ")[2]) for row in rows(lake, "rejected", cluster)]
    assert told == ([("unreadable_figure", "load-report memory usage")] * 3 if cluster == "no_heap" else [])
    broken = {row["rule"] for row in rows(lake, "validation_results", cluster) if not row["passed"]}
    assert ("broker_totals_agree" in broken) == (cluster == "great_totals")


def test_expressions_mean_what_java_takes_them_for(lake: Path) -> None:
    """By Python, `[0-9&&[^01]]` asks for a bracket, and the others cannot be read."""
    (row,) = rows(lake, "cluster_policies", "java_only")
    matched = {name: body["matched"] for name, body in json.loads(row["isolation_policies"]).items()}
    assert matched == {
        "quoted": {"namespaces": [[]], "primary": [[]], "secondary": []},
        "taken": {
            "namespaces": [["bench/ns0000"]],
            "primary": [["broker-0002.bench", "broker-0002.bench:8080"]],
            "secondary": [],
        },
    }
    placed = {to for _, outcome, to in decided(lake, "java_only") if outcome == "placed"}
    assert placed == {"broker-0002.bench:8080"}
