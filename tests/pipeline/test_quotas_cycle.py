"""Resource quotas from the snapshot to the plan, to what the record says of them, and back through verify."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evenkeel.explain import explain
from evenkeel.explain.rendering import as_text
from evenkeel.ingest.open_run import CycleRequest, bundles_with_history
from evenkeel.lake.record import read_attempts, read_rows
from evenkeel.lake.store import Lake
from evenkeel.pipeline import run_cycle
from evenkeel.verify import TOPICS, verify
from tests.pulsar.small_cluster import EXTENSIBLE, FINISHED_AT, MODULAR, Answering, load_report, metrics, pulsar_hash

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

NAMESPACE = "shop/orders"
BUSY, X, Y = (f"{NAMESPACE}/{bounds}" for bounds in (
    "0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xffffffff",
))  # fmt: skip
ROOT = "/admin/v2/resource-quotas"
DEFAULT = {"msgRateIn": 40.0, "msgRateOut": 120.0, "bandwidthIn": 1e5, "bandwidthOut": 3e5, "memory": 80.0}
QUOTAS = {
    BUSY: DEFAULT | {"msgRateIn": 2_000.0, "msgRateOut": 0.0, "bandwidthIn": 7.0},
    X: DEFAULT | {"msgRateIn": 5_000.0, "msgRateOut": 0.0},
    Y: DEFAULT,
}
RATE = 1_000.0
SETTINGS = "loadBalancerDistributeBundlesEvenlyEnabled = false"


def snapshot(minute: int, *, quotas: bool, manager: str = MODULAR) -> Answering:
    """b1 owns BUSY with RATE msg/s. b2 owned X and Y, never told its topics (minute 0), and lost them (minute 1)."""
    found = Answering(["b1:8080", "b2:8080"], finished_at=FINISHED_AT + timedelta(minutes=minute))
    found.namespace(NAMESPACE, ["0x00000000", "0x40000000", "0x80000000", "0xffffffff"])
    held = {"b1:8080": [BUSY], "b2:8080": [X, Y] if minute == 0 else []}
    for broker, bundles in held.items():
        owned = {bundle: {"is_active": True} for bundle in bundles}
        found.reply(f"/admin/v2/brokers/lab/{broker}/ownedNamespaces", owned, broker=broker)
        found.reply("/admin/v2/brokers/version", "4.2.4", broker=broker)
        configuration = {"clusterName": "lab", "loadManagerClassName": manager}
        found.reply("/admin/v2/brokers/configuration/runtime", configuration, broker=broker)
        found.reply("/admin/v2/broker-stats/topics", {}, broker=broker)
        found.reply("/admin/v2/broker-stats/metrics", metrics(), broker=broker)
        if manager == MODULAR:
            reported = load_report(bundles) | {"lastUpdate": int(found.started_at.timestamp() * 1000)}
            found.reply("/admin/v2/broker-stats/load-report", reported, broker=broker)
    name = next(topic for n in count() if pulsar_hash(topic := f"persistent://{NAMESPACE}/t{n}") < 0x40000000)
    figures = {"msgRateIn": RATE, "msgRateOut": 0.0, "msgThroughputIn": 100.0, "msgThroughputOut": 0.0}
    topics = {NAMESPACE: {BUSY.rpartition("/")[2]: {"persistent": {name: {**figures, "subscriptions": {}}}}}}
    found.reply("/admin/v2/broker-stats/topics", topics, broker="b1:8080")
    if minute == 0:
        found.reply("/admin/v2/broker-stats/topics", "refused", 0, broker="b2:8080")
    if quotas:
        found.reply(ROOT, DEFAULT)
        for bundle, quota in QUOTAS.items() if minute == 0 else ():
            found.reply(f"{ROOT}/{bundle}", quota)
    return found


@pytest.fixture(scope="module")
def lake(spark: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cycles of three clusters: one with quotas, one whose brokers were not asked, one that knows none.

    An extensible broker that owns nothing is not ready, so the last one's second cycle is left out.
    """
    folder = tmp_path_factory.mktemp("quotas")
    root, lines = empty_lake(folder / "lake"), []
    kinds: dict[str, dict[str, Any]] = {"quotas": {"quotas": True}, "plain": {"quotas": False}}
    for name, kind in (kinds | {"extensible": {"quotas": True, "manager": EXTENSIBLE}}).items():
        for minute in range(2):
            snapshot(minute, **kind).land(folder / name, f"000{minute}.json")
        lines += [f'[clusters.{name}]\nrecording = "{folder / name}"', f"[clusters.{name}.settings]\n{SETTINGS}"]
    (folder / "evenkeel.toml").write_text("\n".join(lines))
    for minute in range(2):
        at = (FINISHED_AT + timedelta(minutes=minute)).isoformat()
        request = CycleRequest(str(root), configuration=str(folder / "evenkeel.toml"), at=at, run_id=f"run {minute}")
        run_cycle(spark, request, lambda task, seconds: None)
    return root


def loads(lake: Path, cluster: str, cycle: int) -> dict[str, Any]:
    attempt = read_attempts(lake, cluster=cluster)[cycle]
    return {row["bundle"]: row for row in read_rows(lake, attempt, "bundle_load")}


def test_quotas_are_rows_of_their_own_and_the_default_is_none(lake: Path) -> None:
    first, second = read_attempts(lake, cluster="quotas")
    rows = {row["bundle"]: row for row in read_rows(lake, first, "resource_quotas")}
    assert {bundle: row["msg_rate_in"] for bundle, row in rows.items()} == {BUSY: 2_000.0, X: 5_000.0}
    without = [second, *read_attempts(lake, cluster="plain")]
    assert sum(write.rows for one in without for write in one.writes if write.table == "resource_quotas") == 0


def test_averages_begin_from_the_quota_with_ample_history(lake: Path) -> None:
    first, later = loads(lake, "quotas", 0), loads(lake, "quotas", 1)
    busy = first[BUSY]
    assert (busy["short_samples"], busy["long_samples"], busy["samples_since_quota"]) == (10, 1_000, 1)
    assert busy["short_msg_rate_in"] == (9.0 * 2_000.0 + RATE) / 10.0
    assert busy["long_msg_rate_in"] == (999.0 * 2_000.0 + RATE) / 1_000.0
    assert busy["long_msg_throughput_in"] == (999.0 * 7.0 + 100.0) / 1_000.0
    assert later[BUSY]["long_msg_rate_in"] == (999.0 * busy["long_msg_rate_in"] + RATE) / 1_000.0
    assert later[BUSY]["samples_since_quota"] == 2
    for row in (first[X], later[X]):
        assert (row["long_samples"], row["samples_since_quota"], row["long_msg_rate_in"]) == (1_000, 0, 5_000.0)
        assert (row["used_msg_rate_in"], row["used_reason"]) == (None, "unknown")
    assert (first[Y]["long_samples"], first[Y]["samples_since_quota"], first[Y]["long_msg_rate_in"]) == (0, None, 50.0)


def test_without_quotas_and_under_the_extensible_manager_nothing_is_assumed_of_them(lake: Path) -> None:
    for cluster in ("plain", "extensible"):
        rows = loads(lake, cluster, 0)
        assert {row["samples_since_quota"] for row in rows.values()} == {None}
        assert (rows[BUSY]["long_samples"], rows[BUSY]["long_msg_rate_in"]) == (1, RATE)
        assert (rows[X]["long_samples"], rows[X]["long_msg_rate_in"]) == (0, 50.0)


def test_the_quota_of_the_one_sends_the_other_elsewhere(lake: Path) -> None:
    def destinations(cluster: str) -> dict[str, str]:
        attempt = read_attempts(lake, cluster=cluster)[1]
        return {row["subject"]: row["destination"] for row in read_rows(lake, attempt, "placement_decisions")}

    assert destinations("quotas") == {X: "b2:8080", Y: "b1:8080"}
    assert destinations("plain") == {X: "b2:8080", Y: "b2:8080"}


def test_explain_says_where_the_load_comes_from(lake: Path) -> None:
    text = as_text(explain(lake, X, cluster="quotas"))
    assert "It has no history of its own and counts with its resource quota, 5,000 msg/s." in text
    assert "Its averages are its resource quota, as Pulsar's would be: it was not measured since they began." in text
    busy = as_text(explain(lake, BUSY, cluster="quotas"))
    assert "Its averages began from its resource quota, 2 samples ago: 99.8 % of the long-term ones." in busy
    assert "resource quota" not in as_text(explain(lake, Y, cluster="quotas"))


def test_what_has_a_history_need_not_be_asked_about_again(spark: Any, lake: Path) -> None:
    after = datetime(2026, 3, 2, tzinfo=UTC)
    found = bundles_with_history(spark, Lake(str(lake)), ["quotas", "plain", "stranger"], after)
    assert found == {"quotas": frozenset({BUSY}), "plain": frozenset({BUSY})}
    assert bundles_with_history(spark, Lake(str(lake)), ["stranger"], after) == {}


def test_verify_comes_to_the_same_from_the_topics_on(spark: Any, lake: Path) -> None:
    @contextmanager
    def session() -> Iterator[Any]:
        yield spark

    found = verify(str(lake), session)
    assert [fault.sentence() for fault in found.faults] == []
    assert sorted(found.verified.reproduced.values()) == [TOPICS] * 5
