"""What a broker's answers make of it: reported, no answer, not ready, unreadable; unknown figures stay unknown."""

import math
from typing import Any

import pytest

from evenkeel.pulsar.broker_reports import brokers_of
from evenkeel.pulsar.observed_rows import observe
from tests.pulsar.small_cluster import EXTENSIBLE, SmallCluster, load_report

REPORT = "/admin/v2/broker-stats/load-report"
METRICS = "/admin/v2/broker-stats/metrics"
TOPICS = "/admin/v2/broker-stats/topics"
HTML = "<html><body>502 Bad Gateway</body></html>"
FIGURES = ("cpu_usage", "cpu_limit", "memory_usage", "msg_rate_in", "topics", "bundles", "weighted_max_ema")


def rows(cluster: SmallCluster) -> dict[str, dict[str, Any]]:
    return {broker.name: broker.row for broker in brokers_of(cluster.view())}


def test_a_modular_broker_reports_usage_and_limits_of_its_load_report() -> None:
    row = rows(SmallCluster())["b1:8080"]
    assert (row["state"], row["state_reason"], row["manager"]) == ("reported", None, "modular")
    assert (row["cpu_usage"], row["cpu_limit"], row["resource_origin"]) == (30.0, 200.0, "load_report")
    assert row["report_at"] == SmallCluster().started_at
    assert row["bundles"] == ["shop/orders/0x00000000_0xffffffff"]
    assert (row["is_leader"], row["is_listed"], row["owned_bundles"], row["has_topic_figures"]) == (True, True, 2, True)
    assert row["rest"] == '{"loadReportType":"LocalBrokerData"}'


def test_an_extensible_broker_reports_percents_of_its_metrics_and_its_own_sums() -> None:
    row = rows(SmallCluster(manager=EXTENSIBLE))["b1:8080"]
    assert (row["state"], row["manager"], row["resource_origin"]) == ("reported", "extensible", "metrics_percent")
    assert (row["cpu_usage"], row["cpu_limit"], row["weighted_max_ema"]) == (25.5, 100.0, 0.19)
    assert (row["msg_rate_in"], row["msg_throughput_out"], row["consumers"]) == (6.0, 300.0, 4)
    assert row.get("topics") is None


@pytest.mark.parametrize(
    ("status", "body", "state", "words"),
    [
        (0, "ConnectionRefusedError: [Errno 111]", "no_answer", "no HTTP answer (ConnectionRefusedError"),
        (200, HTML, "no_answer", "HTML page"),
        (502, HTML, "no_answer", "502 with an HTML page"),
        (503, '{"reason":"Message: not now\\n\\nStacktrace:\\n at x"}', "no_answer", "answered 503: not now"),
        (401, '{"reason":"super-user"}', "no_answer", "answered 401: super-user"),
        (307, "", "no_answer", "redirected"),
        (200, '{"cpu": {"usage": 1', "unreadable", "ends too early"),
        (200, "[]", "unreadable", "an array where an object is due"),
        (200, "", "unreadable", "not JSON"),
    ],
)
def test_a_broker_without_a_readable_report_has_no_figures(status: int, body: str, state: str, words: str) -> None:
    row = rows(SmallCluster().reply(REPORT, body, status, broker="b2:8080"))["b2:8080"]
    assert row["state"] == state
    assert words in row["state_reason"]
    assert [row.get(name) for name in FIGURES] == [None] * len(FIGURES)


def test_an_extensible_broker_that_owns_nothing_is_not_ready_and_its_figures_are_unknown() -> None:
    cluster = SmallCluster(manager=EXTENSIBLE)
    cluster.reply("/admin/v2/brokers/lab/b2:8080/ownedNamespaces", {}, broker="b2:8080")
    row = rows(cluster)["b2:8080"]
    assert row["state"] == "not_ready"
    assert "load manager is not ready" in row["state_reason"]
    assert (row["owned_bundles"], row["has_topic_figures"]) == (None, False)
    assert [row.get(name) for name in FIGURES] == [None] * len(FIGURES)


def test_a_modular_broker_may_own_nothing() -> None:
    cluster = SmallCluster().reply("/admin/v2/brokers/lab/b2:8080/ownedNamespaces", {}, broker="b2:8080")
    row = rows(cluster)["b2:8080"]
    assert (row["state"], row["owned_bundles"]) == ("reported", 0)


def test_a_dead_extensible_broker_keeps_its_manager_from_the_configuration_of_an_earlier_snapshot() -> None:
    earlier, now = SmallCluster(manager=EXTENSIBLE), SmallCluster(manager=EXTENSIBLE).silent("b2:8080")
    now.never_asked("/admin/v2/brokers/configuration/runtime", "b2:8080")
    view = now.view()
    object.__setattr__(view, "lent", earlier.view().own)
    dead = {broker.name: broker for broker in brokers_of(view)}["b2:8080"]
    assert (dead.state, dead.manager) == ("no_answer", "extensible")


def test_a_leader_that_is_no_longer_listed_still_has_a_row() -> None:
    row = rows(SmallCluster().reply("/admin/v2/brokers/leaderBroker", {"brokerId": "gone:8080"}))["gone:8080"]
    assert (row["is_leader"], row["is_listed"], row["state"]) == (True, False, "no_answer")


def test_a_broker_listed_twice_counts_once_and_is_set_aside() -> None:
    view = SmallCluster().reply("/admin/v2/brokers", ["b1:8080", "b2:8080", "b1:8080"]).view()
    observed = observe(view)
    assert observed.policies["brokers"] == ["b1:8080", "b2:8080"]
    assert [(r.rule, r.record) for r in observed.rejections] == [("duplicated_broker", "b1:8080")]
    assert "is 2 times" in observed.rejections[0].reason


def test_a_figure_of_another_type_is_unknown_and_set_aside_while_the_others_stay() -> None:
    report = load_report([]) | {"cpu": {"usage": "much", "limit": 200.0}, "numTopics": 1.5}
    cluster = SmallCluster().reply(REPORT, report, broker="b2:8080")
    observed = observe(cluster.view())
    row = next(row for row in observed.rows["broker_reports"] if row["broker"] == "b2:8080")
    assert (row["state"], row["cpu_usage"], row["cpu_limit"], row["topics"]) == ("reported", None, 200.0, None)
    assert sorted(r.place for r in observed.rejections) == [
        "b2:8080 load-report cpu usage",
        "b2:8080 load-report numTopics",
    ]


def test_nan_and_infinite_figures_alone_are_set_aside_and_negative_ones_are_kept() -> None:
    report = load_report([]) | {"cpu": {"usage": 5.0, "limit": -1.0}, "memory": {"usage": "NaN", "limit": "-Infinity"}}
    observed = observe(SmallCluster().reply(REPORT, report | {"msgRateIn": math.inf}, broker="b2:8080").view())
    (row,) = (row for row in observed.rows["broker_reports"] if row["broker"] == "b2:8080")
    assert (row["state"], row["cpu_usage"], row["cpu_limit"]) == ("reported", 5.0, -1.0)
    assert [row[name] for name in ("memory_usage", "memory_limit", "msg_rate_in")] == [None] * 3
    assert {(r.rule, r.place) for r in observed.rejections} == {
        ("unreadable_figure", f"b2:8080 load-report {name}") for name in ("memory usage", "memory limit", "msgRateIn")
    }


def test_topic_figures_that_did_not_come_are_told_from_no_topics() -> None:
    cluster = SmallCluster(3).reply(TOPICS, HTML, 500, broker="b2:8080")
    observed = observe(cluster.view())
    came = {row["broker"]: row["has_topic_figures"] for row in observed.rows["broker_reports"]}
    assert came == {"b1:8080": True, "b2:8080": False, "b3:8080": True}
    assert [(r.rejected_from, r.rule, r.place) for r in observed.rejections] == [
        ("topic_stats", "html_page", f"b2:8080 {TOPICS}")
    ]


def test_a_cluster_half_migrated_is_mixed() -> None:
    cluster = SmallCluster()
    extensible = SmallCluster(manager=EXTENSIBLE)
    for (broker, path), answer in extensible.answers.items():
        if broker == "b2:8080":
            cluster.answers[broker, path] = answer
    assert observe(cluster.view()).policies["manager"] == "mixed"


@pytest.mark.parametrize(
    ("body", "words"), [([], "its list of brokers is empty"), (HTML, "no list of its brokers could be read")]
)
def test_a_cluster_without_brokers_is_left_out(body: Any, words: str) -> None:
    observed = observe(SmallCluster().reply("/admin/v2/brokers", body).view())
    assert observed.left_out is not None
    assert words in observed.left_out.reason
    assert observed.left_out in observed.rejections


def test_a_cluster_whose_brokers_are_all_silent_is_left_out() -> None:
    cluster = SmallCluster()
    listed = cluster.answers["b1:8080", "/admin/v2/brokers"]
    cluster.silent("b1:8080").silent("b2:8080")
    cluster.answers["b1:8080", "/admin/v2/brokers"] = listed
    left_out = observe(cluster.view()).left_out
    assert left_out is not None
    assert left_out.reason.startswith("none of 2 brokers reported its figures (b1:8080: no HTTP answer")


def test_one_broker_only_is_a_cluster() -> None:
    observed = observe(SmallCluster(1).view())
    assert observed.left_out is None
    assert [row["state"] for row in observed.rows["broker_reports"]] == ["reported"]
