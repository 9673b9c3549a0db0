"""Resource quotas: whose count, what is set aside, and what is said where they may not be read."""

import json
from typing import Any

import pytest

from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.observed_rows import ObservedRows, observe
from evenkeel.pulsar.snapshot import SnapshotView
from tests.pulsar.small_cluster import FINISHED_AT, FULL, STARTED_AT, SmallCluster

BUNDLE = f"shop/orders/{FULL}"
OTHER = f"shop/returns/{FULL}"
ROOT = "/admin/v2/resource-quotas"
DEFAULT = {
    **{"msgRateIn": 40.0, "msgRateOut": 120.0, "bandwidthIn": 100000.0, "bandwidthOut": 300000.0},
    **{"memory": 80.0, "dynamic": True},
}
OWN = DEFAULT | {"msgRateIn": 5000, "bandwidthIn": 2e6, "dynamic": False}


def asked(*quotas: tuple[str, Any], default: Any = DEFAULT, status: int = 200) -> SmallCluster:
    """A cluster that was asked for its default quota and for these."""
    cluster = SmallCluster().reply(ROOT, default, status)
    for bundle, quota in quotas:
        cluster.reply(f"{ROOT}/{bundle}", quota)
    return cluster


def faults(found: ObservedRows) -> list[tuple[str, str]]:
    return [(one.rejected_from, one.rule) for one in found.rejections]


def test_a_quota_of_its_own_is_a_row_in_messages_and_bytes_per_second() -> None:
    found = observe(asked((BUNDLE, OWN), (OTHER, DEFAULT)).view())
    assert found.rows["resource_quotas"] == [
        {
            **{"bundle": BUNDLE, "namespace": "shop/orders", "msg_rate_in": 5000.0, "msg_rate_out": 120.0},
            **{"msg_throughput_in": 2e6, "msg_throughput_out": 300000.0, "memory": 80.0, "is_dynamic": False},
            "age_seconds": 0.0,
        }
    ]
    assert faults(found) == []


def test_the_default_counts_as_none_whatever_an_operator_made_of_it() -> None:
    """Pulsar's load manager never looks at the default; its admin API answers with it."""
    found = observe(asked((BUNDLE, OWN), (OTHER, DEFAULT), default=OWN).view())
    assert [row["bundle"] for row in found.rows["resource_quotas"]] == [OTHER]


def test_a_snapshot_that_did_not_ask_has_none_and_says_nothing() -> None:
    found = observe(SmallCluster().view())
    assert (found.rows["resource_quotas"], faults(found)) == ([], [])


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({key: value for key, value in OWN.items() if key != "msgRateIn"}, "member msgRateIn is missing"),
        (OWN | {"bandwidthOut": None}, "member bandwidthOut is missing"),
        (OWN | {"msgRateOut": -1.0}, "member msgRateOut is -1.0 where a number from 0 to 1e+12 is due"),
        (OWN | {"msgRateOut": "NaN"}, 'member msgRateOut is "NaN"'),
        (OWN | {"msgRateOut": 10**400}, "member msgRateOut is 1000"),
        (OWN | {"bandwidthIn": "many"}, 'member bandwidthIn is "many"'),
        (OWN | {"bandwidthIn": True}, "member bandwidthIn is true"),
        (OWN | {"bandwidthIn": {"a": 1}}, 'member bandwidthIn is {"a": 1}'),
    ],
)
def test_a_quota_that_cannot_be_one_is_set_aside_and_the_others_stay(body: Any, fault: str) -> None:
    found = observe(asked((BUNDLE, body), (OTHER, OWN)).view())
    assert [row["bundle"] for row in found.rows["resource_quotas"]] == [OTHER]
    (one,) = found.rejections
    assert (one.rejected_from, one.rule) == ("resource_quotas", "unreadable_quota")
    assert fault in one.reason
    assert "counts as one without a quota in this cycle" in one.reason
    assert one.record == json.dumps(body, ensure_ascii=False)[:2000]
    assert found.left_out is None


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[1, 2]", "unreadable_json"),
        ('{"msgRateIn": 1', "unreadable_json"),
        ("<html>x</html>", "html_page"),
        ('{"msgRateIn": NaN, "msgRateOut": 1, "bandwidthIn": 1, "bandwidthOut": 1}', "unreadable_quota"),
        ('{"msgRateIn": Infinity, "msgRateOut": 1, "bandwidthIn": 1, "bandwidthOut": 1}', "unreadable_quota"),
    ],
)
def test_text_that_is_no_quota_is_set_aside(text: str, rule: str) -> None:
    found = observe(asked((BUNDLE, text), (OTHER, OWN)).view())
    assert [row["bundle"] for row in found.rows["resource_quotas"]] == [OTHER]
    assert faults(found) == [("resource_quotas", rule)]


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "answered 403"), (404, "answered 404"), (401, "answered 401"), (500, "answered 500"), (0, "no HTTP answer")],
)
def test_where_quotas_may_not_be_read_there_are_none_and_one_record_says_so(status: int, words: str) -> None:
    found = observe(asked(default={"reason": "no"}, status=status).view())
    assert found.rows["resource_quotas"] == []
    (one,) = found.rejections
    assert (one.rejected_from, one.rule, one.record) == ("resource_quotas", "unknown_quotas", None)
    assert words in one.reason
    assert "superuser" in one.reason
    assert found.left_out is None
    assert len(found.rows["broker_reports"]) == 2


def test_a_default_that_cannot_be_read_leaves_nothing_to_judge_by() -> None:
    found = observe(asked((BUNDLE, OWN), default={"msgRateIn": "x"}).view())
    assert found.rows["resource_quotas"] == []
    assert faults(found) == [("resource_quotas", "unreadable_quota")]


def test_bundles_that_are_gone_have_none_and_those_without_an_answer_are_one_record() -> None:
    cluster = asked((BUNDLE, OWN))
    for n, status in enumerate((404, 412, 500, 0)):
        cluster.reply(f"{ROOT}/shop/n{n}/{FULL}", "gone", status)
    found = observe(cluster.view())
    assert [row["bundle"] for row in found.rows["resource_quotas"]] == [BUNDLE]
    (one,) = found.rejections
    assert one.rule == "unknown_quotas"
    assert "those of 2 bundles, the first shop/n2/" in one.reason


def told(requests: list[dict[str, Any]]) -> Answers:
    return Answers(
        Answer(n, r["broker"], r["path"], r["status"], r["body"], FINISHED_AT, r["location"], r["method"])
        for n, r in enumerate(requests)
    )


def lent(own: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> ObservedRows:
    return observe(SnapshotView("lab", "0001.json", STARTED_AT, FINISHED_AT, told(own), told(earlier), 300.0))


def test_what_an_earlier_snapshot_lends_counts_where_this_one_did_not_ask() -> None:
    before = asked((BUNDLE, OWN), (OTHER, OWN)).requests()
    found = {row["bundle"]: row for row in lent(SmallCluster().requests(), before).rows["resource_quotas"]}
    assert {bundle: row["age_seconds"] for bundle, row in found.items()} == {BUNDLE: 300.0, OTHER: 300.0}
    changed = asked((BUNDLE, OWN | {"msgRateIn": 7.0}), (OTHER, DEFAULT)).requests()
    (row,) = lent(changed, before).rows["resource_quotas"]
    assert (row["bundle"], row["msg_rate_in"], row["age_seconds"]) == (BUNDLE, 7.0, 0.0)
