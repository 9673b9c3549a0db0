"""Each rule over several tables: what it lets pass, what it finds, and what it says."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evenkeel.cycle.frames import place_of
from evenkeel.lake.schemas import TABLES
from evenkeel.validate.bundle_rules import unknown_namespaces
from evenkeel.validate.judging import CROSS_RULES, check_cluster, refused_records
from evenkeel.validate.suites import SEVERITIES, Finding
from tests.builders import NOON, ClusterBuilder, cluster
from tests.validate.seen import seen

TOPIC = "persistent://acme/web/orders"


def sound(brokers: int = 3) -> ClusterBuilder:
    built = cluster(brokers=brokers).namespace("acme/web", bundles=4)
    for n in range(8):
        built.topic(f"persistent://acme/web/t{n}", msg_rate_in=10.0 + n, msg_rate_out=1.0)
    return built


def failed(built: ClusterBuilder) -> dict[str, Finding]:
    return {finding.rule.name: finding for finding in check_cluster(seen(built)) if not finding.passed}


def only(built: ClusterBuilder, rule: str) -> Finding:
    """The finding of `rule`, which must be the only one that failed."""
    found = failed(built)
    assert set(found) == {rule}
    return found[rule]


def test_every_rule_names_an_observed_table_a_severity_and_what_to_do() -> None:
    for each in CROSS_RULES:
        assert each.rule.severity in SEVERITIES
        assert TABLES[each.rule.table].layer == "observed"
        assert each.rule.advice
    assert len({each.rule.name for each in CROSS_RULES}) == len(CROSS_RULES)


def test_rules_that_reject_say_which_records() -> None:
    by_topic = {"topics_have_a_namespace", "loaded_topics_have_rates"}
    rejecting = {each.rule.name for each in CROSS_RULES if each.rule.severity == "reject"}
    assert {each.rule.name for each in CROSS_RULES if each.refuse} | by_topic == rejecting


def test_finding_becomes_a_row_of_validation_results() -> None:
    columns = {column.name for column in TABLES["validation_results"].body_columns()} - {"cluster", "cycle_at"}
    for finding in check_cluster(seen(sound())):
        assert set(finding.row()) == columns


@pytest.mark.parametrize(
    ("boundaries", "words"),
    [
        (("0x00000000", "0x40000000"), "hole: the last boundary is 0x40000000"),
        (("0x00000000", "0x80000000", "0x40000000", "0xffffffff"), "overlap: boundary 0x40000000 follows 0x80000000"),
        ((), "fewer than two boundaries"),
    ],
)
def test_boundaries_with_hole_or_overlap_quarantine_the_cluster(boundaries: tuple[str, ...], words: str) -> None:
    facts = seen(cluster().row("namespace_bundles", namespace="acme/web", boundaries=list(boundaries), bundles=1))
    found = {finding.rule.name: finding for finding in check_cluster(facts)}["boundaries_are_whole"]
    assert not found.passed
    assert found.rule.severity == "quarantine"
    assert words in found.row()["detail"]
    assert found.row()["sample"] == ["acme/web"]


OLD, TWO_DAYS = NOON - timedelta(seconds=1_500), NOON - timedelta(days=2)
LIMIT = NOON - timedelta(seconds=1_200)
GONE = "persistent://acme/gone"
WHOLE = "0x00000000_0xffffffff"
PARENT = "acme/web/0x00000000_0x80000000"
ODD = "acme/<script>alert('x')</script>\"ü" + "n" * 2_000


def first() -> str:
    return sound().bundles()[0]


def claimed_twice() -> ClusterBuilder:
    other = next(name for name in ("b1:8080", "b2:8080") if name != sound().owner_of(first()))
    return sound().bundle(first(), other, is_owned=True)


def elsewhere() -> ClusterBuilder:
    """A topic that is shown in a bundle that its hash does not lie in."""
    wrong = next(part for part in sound().bundles() if part != sound().bundle_of_topic(TOPIC))
    return sound().topic(TOPIC, broker="b1:8080", bundle_range=wrong.rpartition("/")[2])


def without_figures() -> ClusterBuilder:
    built = cluster(brokers=1).namespace("t/n").broker("b1:8080", has_topic_figures=False).owner(f"t/n/{WHOLE}", None)
    return built.bundle(f"t/n/{WHOLE}", "b1:8080", is_owned=True, msg_rate_in=500.0, msg_rate_out=0.0)


@pytest.mark.parametrize(
    ("built", "rule", "expected"),
    [
        (
            sound().row("namespace_bundles", namespace="acme/more", boundaries=["0x00000000", "0xffffffff"], bundles=5),
            *("bundle_counts_agree", {"severity": "warn", "sample": ["acme/more"]}),
        ),
        (claimed_twice(), "bundles_have_one_owner", {"severity": "warn", "sample": [first()], "failed_rows": 1}),
        (sound().bundle(first(), "stranger:8080", is_owned=False), "owners_are_known", {"severity": "reject"}),
        (sound().bundle(PARENT, "b1:8080", is_owned=True), "claimed_bundles_exist", {"sample": [PARENT]}),
        (
            sound().topic(f"{GONE}/a", broker="b1:8080").topic("persistent://acme/gone/b", broker="b1:8080"),
            *("topics_have_a_namespace", {"severity": "reject", "failed_rows": 2, "sample": ["acme/gone"]}),
        ),
        (
            sound().topic(TOPIC, broker="b1:8080", bundle_range=WHOLE),
            *("shown_ranges_exist", {"severity": "warn", "sample": [f"acme/web/{WHOLE}"]}),
        ),
        (elsewhere(), "topics_lie_in_their_range", {"severity": "quarantine"}),
        (sound().topic(TOPIC, msg_rate_in=None), "loaded_topics_have_rates", {"severity": "reject", "failed_rows": 1}),
        (
            sound().broker("b2:8080", report_at=OLD),
            "reports_are_fresh",
            {"severity": "reject", "measured": 1_500.0, "threshold": 1_200.0, "sample": ["b2:8080"]},
        ),
        (
            sound().broker("b2:8080", report_at=NOON + timedelta(seconds=301)),
            *("reports_are_not_ahead", {"measured": 301.0, "threshold": 300.0, "sample": ["b2:8080"]}),
        ),
        (
            sound().silent("b3:8080").silent("b2:8080"),
            "enough_brokers_answered",
            {
                "severity": "quarantine",
                "measured": pytest.approx(200 / 3),
                "threshold": 34.0,
                "sample": ["b2:8080", "b3:8080"],
            },
        ),
        (
            sound().policies(brokers=["b1:8080", "b1:8080", "b2:8080", "b3:8080"]),
            *("brokers_are_listed_once", {"severity": "warn", "sample": ["b1:8080"]}),
        ),
        (
            sound().policies(snapshot_started_at=NOON - timedelta(seconds=61)),
            *("snapshot_is_short", {"severity": "quarantine", "measured": 61.0, "threshold": 60.0, "unit": "s"}),
        ),
        (
            sound().broker("b1:8080", cpu_usage=210.0, cpu_limit=100.0),
            *("usage_is_within_limits", {"severity": "warn", "measured": 210.0, "sample": ["b1:8080 cpu"]}),
        ),
        (without_figures(), "topic_figures_came", {"sample": ["b1:8080"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_breaks_one_rule_is_found_by_it_alone(built: ClusterBuilder, rule: str, expected: dict[str, Any]) -> None:
    row = only(built, rule).row()
    assert {name: row[name] for name in expected} == expected


NOTHING = (None, None)
FIGURES: dict[str, tuple[int, float | None, float | None]] = {
    "snapshot_is_short": (1, 1.0, 60.0),
    "cluster_has_brokers": (3, 3.0, 1.0),
    "brokers_are_listed_once": (3, *NOTHING),
    "a_broker_is_usable": (3, 3.0, 1.0),
    "enough_brokers_answered": (3, 0.0, 34.0),
    "reports_are_fresh": (3, 5.0, 1_200.0),
    "reports_are_not_ahead": (3, -5.0, 300.0),
    "usage_is_within_limits": (15, 30.0, 105.0),
    "brokers_do_not_hang": (3, *NOTHING),
    "topic_figures_came": (3, *NOTHING),
    "cluster_has_namespaces": (1, *NOTHING),
    "boundaries_are_whole": (1, *NOTHING),
    "bundle_counts_agree": (1, *NOTHING),
    "bundles_have_one_owner": (5, *NOTHING),
    "owners_are_known": (5, *NOTHING),
    "claimed_bundles_exist": (4, *NOTHING),
    "topics_have_a_namespace": (9, *NOTHING),
    "shown_ranges_exist": (4, *NOTHING),
    "topics_lie_in_their_range": (5, *NOTHING),
    "loaded_topics_have_rates": (9, *NOTHING),
    "topic_sums_agree": (4, 0.0, 10.0),
    "broker_totals_agree": (3, 0.0, 10.0),
    "namespaces_have_two_parts": (2, *NOTHING),
    "policies_name_brokers": (0, *NOTHING),
    "expressions_can_be_read": (0, *NOTHING),
    "domains_name_brokers_once": (0, *NOTHING),
    "groups_fit_domains": (0, *NOTHING),
}
"""How many the rules check in a sound cluster with a broker's own bundle, what they measure, and their limits."""


def figures(built: ClusterBuilder) -> dict[str, tuple[int, float | None, float | None]]:
    found = [finding.row() for finding in check_cluster(seen(built))]
    return {row["rule"]: (row["checked_rows"], row["measured"], row["threshold"]) for row in found}


@pytest.mark.parametrize(
    ("built", "changed"),
    [
        pytest.param(sound(), {}, id="sound"),
        pytest.param(sound().policies(snapshot_started_at=None), {"snapshot_is_short": (0, None, 60.0)}, id="no start"),
        pytest.param(
            sound().policies(snapshot_finished_at=None),
            {
                "snapshot_is_short": (0, None, 60.0),
                "reports_are_fresh": (0, None, 1_200.0),
                "reports_are_not_ahead": (0, None, 300.0),
            },
            id="no end",
        ),
        pytest.param(
            sound().broker(
                "b2:8080", cpu_usage=None, memory_limit=None, bandwidth_in_limit=0.0, bandwidth_out_limit=-1.0
            ),
            {"usage_is_within_limits": (11, 30.0, 105.0)},
            id="usage or limit is unknown",
        ),
        pytest.param(
            sound().broker("b2:8080", cpu_usage=0.5, cpu_limit=0.5),
            {"usage_is_within_limits": (15, 100.0, 105.0)},
            id="a limit below one",
        ),
        pytest.param(
            sound().broker("b2:8080", report_at=None),
            {"reports_are_fresh": (2, 5.0, 1_200.0), "reports_are_not_ahead": (2, -5.0, 300.0)},
            id="a report without a time is usable",
        ),
    ],
)
def test_rules_say_how_many_they_checked_what_they_measured_and_their_limit(
    built: ClusterBuilder, changed: dict[str, tuple[int, float | None, float | None]]
) -> None:
    built.bundle(f"pulsar/b1:8080/{WHOLE}", "b1:8080", is_owned=True)
    built.topic("persistent://pulsar/b1:8080/healthcheck", broker="b1:8080", bundle_range=WHOLE)
    assert figures(built) == FIGURES | changed
    assert failed(built) == {}


@pytest.mark.parametrize(
    ("built", "usable"),
    [
        (sound().broker("b2:8080", report_at=LIMIT), 3),
        (sound().broker("b2:8080", report_at=LIMIT - timedelta(seconds=1)), 2),
        (sound().broker("b2:8080", report_at=NOON + timedelta(seconds=300)), 3),
        (sound().broker("b2:8080", report_at=NOON + timedelta(seconds=301)), 2),
        (sound().broker("b2:8080", state="hung"), 2),
    ],
)
def test_reports_are_usable_within_their_time(built: ClusterBuilder, usable: int) -> None:
    found = figures(built)
    assert found["a_broker_is_usable"] == (3, usable, 1.0)
    assert found["enough_brokers_answered"] == (3, pytest.approx(100 * (3 - usable) / 3), 34.0)
    facts = seen(built)
    without = replace(facts, unusable=(facts.brokers[0],))
    rows = {finding.rule.name: finding.row() for finding in check_cluster(without)}
    assert rows["a_broker_is_usable"]["measured"] == usable - 1, "nor one that breaks a rule of its suite"


def own(namespace: str) -> ClusterBuilder:
    """With a broker's own namespace, which needs no boundaries."""
    built = sound().bundle(f"{namespace}/{WHOLE}", "b1:8080", is_owned=True)
    return built.topic(f"persistent://{namespace}/healthcheck", broker="b1:8080", namespace=namespace)


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(sound(), id="sound"),
        pytest.param(sound(brokers=1), id="one broker"),
        pytest.param(sound().bundle(first(), "b3:8080", is_owned=False, is_reported=True), id="reported, not owned"),
        *(pytest.param(own(name), id=name) for name in ("pulsar/b1:8080", "pulsar/lab/b1:8080", "sla-monitor/b1:8080")),
        pytest.param(sound().listed("persistent://acme/web/asleep"), id="listed, not loaded"),
        pytest.param(sound().broker("b2:8080", report_at=LIMIT), id="just as old as allowed"),
        pytest.param(
            sound().broker("b2:8080", report_at=OLD).settings(evenkeelMaxReportAgeSeconds=1_600.0), id="may be older"
        ),
        pytest.param(sound().silent("b3:8080"), id="one silent of three"),
        pytest.param(sound().broker("b1:8080", cpu_usage=105.0, cpu_limit=100.0), id="a little above its limit"),
        pytest.param(sound().broker("b2:8080", report_at=NOON + timedelta(seconds=300)), id="as far ahead as allowed"),
        pytest.param(sound().policies(snapshot_started_at=NOON - timedelta(seconds=60)), id="as long as allowed"),
        pytest.param(
            sound(2).silent("b2:8080").settings(evenkeelMissingBrokersToleratedPercent=50.0), id="one silent of two"
        ),
        pytest.param(sound().broker("b1:8080", bandwidth_in_usage=-1.0, bandwidth_in_limit=-1.0), id="no limit"),
    ],
)
def test_what_is_in_order_breaks_no_rule(built: ClusterBuilder) -> None:
    assert failed(built) == {}
    assert refused_records(seen(built)) == []


def test_what_is_refused_is_named_with_its_place() -> None:
    (record,) = refused_records(seen(sound().bundle(first(), "stranger:8080", is_owned=False)))
    assert (record.table, record.rule.name) == ("bundle_ownership", "owners_are_known")
    assert place_of(record.table, record.row).endswith(" on broker stranger:8080")
    old = seen(sound().broker("b2:8080", report_at=OLD))
    assert [record.row["broker"] for record in refused_records(old)] == ["b2:8080"]
    assert unknown_namespaces(seen(sound().topic(f"{GONE}/a", broker="b1:8080"))) == ["acme/gone"]


def test_sentences_name_what_helps() -> None:
    assert f"{first()} (b1:8080, b2:8080)" in only(claimed_twice(), "bundles_have_one_owner").row()["detail"]
    assert "topicBundleAssignmentStrategy" in only(elsewhere(), "topics_lie_in_their_range").sentence()


def test_topic_with_the_highest_hash_lies_in_the_last_bundle() -> None:
    built = cluster().namespace("t/n", bundles=2).topic("persistent://t/n/SO0aSc")
    assert seen(built).topics[0]["highest_hash"] == 0xFFFFFFFF
    assert failed(built) == {}


def test_clusters_without_usable_brokers_are_quarantined() -> None:
    old = sound().broker("b2:8080", report_at=TWO_DAYS).broker("b3:8080", report_at=TWO_DAYS)
    assert "enough_brokers_answered" in failed(old)
    mute = cluster(brokers=2).namespace("acme/web").silent("b1:8080").silent("b2:8080").owner("acme/web", None)
    assert {"a_broker_is_usable", "enough_brokers_answered"} <= set(failed(mute))
    empty = failed(cluster(brokers=0))
    assert empty["cluster_has_brokers"].rule.severity == "quarantine"
    assert "The cluster lists no broker." in empty["cluster_has_brokers"].sentence()
    assert "cluster_has_namespaces" in empty


def test_topic_sum_must_miss_both_tolerances_to_warn() -> None:
    def apart(rate: float, own: float) -> dict[str, Finding]:
        shown = {"msg_rate_in": rate * 0.75, "msg_rate_out": rate * 0.25}
        built = cluster(brokers=1).namespace("t/n").topic("persistent://t/n/a", broker="b1:8080", **shown)
        rates = {"msg_rate_in": own * 0.25, "msg_rate_out": own * 0.75}
        built.owner(f"t/n/{WHOLE}", None).bundle(f"t/n/{WHOLE}", "b1:8080", is_owned=True, is_reported=True, **rates)
        return failed(built)

    assert apart(1.0, 9.0) == {}  # 8 msg/s apart: far in percent, nothing in msg/s
    assert apart(1_000.0, 1_200.0) == {}  # 200 msg/s apart, but within 25 %
    (found,) = apart(1_000.0, 3_000.0).values()
    assert (found.row()["rule"], found.row()["measured"]) == ("topic_sums_agree", 2_000.0)
    assert "In 1 of 1 bundles the topics' rates do not add up" in found.sentence()
    assert f"t/n/{WHOLE} on b1:8080: 1000.0 msg/s from its topics, 3000.0 msg/s by the broker." in found.sentence()
    without_topics = (
        cluster(brokers=1).namespace("t/n").bundle(f"t/n/{WHOLE}", "b1:8080", msg_rate_in=7.0, msg_rate_out=4.0)
    )
    assert only(without_topics, "topic_sums_agree").row()["measured"] == 11.0


def test_a_brokers_totals_are_compared_with_what_its_bundles_carry() -> None:
    def apart(carried: float, total: float) -> dict[str, Finding]:
        built = cluster(brokers=1).namespace("t/n").broker("b1:8080", msg_rate_in=total, msg_rate_out=0.0)
        rates = {"msg_rate_in": carried, "msg_rate_out": 0.0}
        built.owner(f"t/n/{WHOLE}", None).bundle(f"t/n/{WHOLE}", "b1:8080", is_owned=True, is_reported=True, **rates)
        return {rule: found for rule, found in failed(built).items() if rule != "topic_sums_agree"}

    assert apart(9.0, 0.0) == apart(1_000.0, 1_200.0) == {}
    (found,) = apart(3_000.0, -5.0).values()
    assert (found.row()["rule"], found.row()["measured"], found.row()["sample"]) == (
        *("broker_totals_agree", 3_005.0),
        ["b1:8080"],
    )
    assert "the bundles' rates do not add up to the broker's own total" in found.sentence()
    assert "b1:8080: 3000.0 msg/s from its bundles, -5.0 msg/s by the broker." in found.sentence()


OLD_FORM = "acme/use/ns1"


def policy(*primary: str) -> dict[str, Any]:
    return {"matched": {"namespaces": [["acme/web"]], "primary": [[*primary]], "secondary": []}}


REFUSED = {"matched": {"namespaces": [["acme/web"]], "primary": [None], "secondary": []}}


@pytest.mark.parametrize(
    ("built", "rule", "sample"),
    [
        (
            sound().topic(f"persistent://{OLD_FORM}/a", broker="b1:8080", namespace=OLD_FORM),
            "namespaces_have_two_parts",
            OLD_FORM,
        ),
        (
            sound().policies(isolation_policies=json.dumps({"near": policy("b1"), "port": policy()})),
            *("policies_name_brokers", "port"),
        ),
        (
            sound().policies(isolation_policies=json.dumps({"near": policy("b1"), "odd": REFUSED})),
            *("expressions_can_be_read", "odd"),
        ),
        (
            sound().policies(failure_domains=[("d1", ["b1:8080", "b2:8080"]), ("d2", ["b2:8080"])]),
            *("domains_name_brokers_once", "b2:8080"),
        ),
        (sound().policies(failure_domains=[("d1", ["b1:8080"] * 2)]), "domains_name_brokers_once", "b1:8080"),
        (
            sound().policies(anti_affinity_groups=[*((f"a/{n}", "large") for n in range(4)), ("a/5", "small")]),
            *("groups_fit_domains", "large"),
        ),
        (
            sound()
            .settings(failureDomainsEnabled=True)
            .policies(
                anti_affinity_groups=[("a/1", "large"), ("a/2", "large"), ("a/3", "small")],
                failure_domains=[("d1", ["b1:8080"]), ("empty", [])],
            ),
            *("groups_fit_domains", "large"),
        ),
    ],
)
def test_what_is_configured_in_vain_is_told_and_nothing_else(built: ClusterBuilder, rule: str, sample: str) -> None:
    found = only(built, rule)
    assert found.row()["sample"] == [sample]
    assert found.rule.severity == "warn"


def test_names_with_markup_quotes_and_great_length_are_shown_shortened_and_unchanged() -> None:
    built = sound().topic(f"persistent://{ODD}/a", broker="b1:8080", namespace=ODD)
    (sample,) = only(built, "topics_have_a_namespace").row()["sample"]
    assert sample.startswith("acme/<script>alert('x')</script>\"ü")
    assert len(sample) < 220
