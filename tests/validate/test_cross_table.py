"""Each rule over several tables: what it lets pass, what it finds, and what it says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from evenkeel.lake.rejected_records import place_of
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


def test_sound_cluster_breaks_no_rule() -> None:
    assert failed(sound()) == {}


def test_cluster_of_one_broker_breaks_no_rule() -> None:
    assert failed(sound(brokers=1)) == {}


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
        (("0x10000000", "0xffffffff"), "hole: the first boundary is 0x10000000"),
        (("0x00000000", "0x80000000", "0x40000000", "0xffffffff"), "overlap: boundary 0x40000000 follows 0x80000000"),
        (("0x00000000", "0x80000000", "0x80000000", "0xffffffff"), "overlap: boundary 0x80000000 follows 0x80000000"),
        (("0x00000000", "nonsense", "0xffffffff"), "'nonsense' is not a boundary"),
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


def test_number_of_bundles_that_does_not_fit_the_boundaries_warns() -> None:
    built = sound()
    built.row("namespace_bundles", namespace="acme/more", boundaries=["0x00000000", "0xffffffff"], bundles=5)
    assert only(built, "bundle_counts_agree").row()["sample"] == ["acme/more"]


def test_bundle_claimed_by_two_brokers_only_warns() -> None:
    built = sound()
    bundle = built.bundles()[0]
    other = next(name for name in ("b1:8080", "b2:8080") if name != built.owner_of(bundle))
    row = only(built.bundle(bundle, other, is_owned=True), "bundles_have_one_owner").row()
    assert (row["severity"], row["sample"], row["failed_rows"]) == ("warn", [bundle], 1)
    assert f"{bundle} (b1:8080, b2:8080)" in row["detail"]


def test_bundle_that_a_broker_reports_but_does_not_own_is_no_second_owner() -> None:
    built = sound()
    assert failed(built.bundle(built.bundles()[0], "b3:8080", is_owned=False, is_reported=True)) == {}


def test_claim_of_a_broker_that_nobody_lists_is_set_aside() -> None:
    built = sound()
    built.bundle(built.bundles()[0], "stranger:8080", is_owned=False)
    assert only(built, "owners_are_known").rule.severity == "reject"
    (record,) = refused_records(seen(built))
    assert (record.table, record.rule.name) == ("bundle_ownership", "owners_are_known")
    assert place_of(record.table, record.row).endswith(" on broker stranger:8080")


def test_claim_of_a_bundle_outside_the_boundaries_warns() -> None:
    parent = "acme/web/0x00000000_0x80000000"
    assert only(sound().bundle(parent, "b1:8080", is_owned=True), "claimed_bundles_exist").row()["sample"] == [parent]


@pytest.mark.parametrize("namespace", ["pulsar/b1:8080", "pulsar/lab/b1:8080", "sla-monitor/b1:8080"])
def test_brokers_own_namespaces_need_no_boundaries(namespace: str) -> None:
    built = sound().bundle(f"{namespace}/0x00000000_0xffffffff", "b1:8080", is_owned=True)
    built.topic(f"persistent://{namespace}/healthcheck", broker="b1:8080", namespace=namespace)
    assert failed(built) == {}


def test_topics_of_an_unknown_namespace_are_found_by_namespace() -> None:
    built = (
        sound().topic("persistent://acme/gone/a", broker="b1:8080").topic("persistent://acme/gone/b", broker="b1:8080")
    )
    row = only(built, "topics_have_a_namespace").row()
    assert (row["severity"], row["failed_rows"], row["sample"]) == ("reject", 2, ["acme/gone"])
    assert unknown_namespaces(seen(built)) == ["acme/gone"]


def test_range_that_was_split_meanwhile_warns() -> None:
    built = sound().topic(TOPIC, broker="b1:8080", bundle_range="0x00000000_0xffffffff")
    assert only(built, "shown_ranges_exist").row()["sample"] == ["acme/web/0x00000000_0xffffffff"]


def test_topic_shown_in_a_bundle_that_its_hash_does_not_lie_in_quarantines() -> None:
    built = sound()
    wrong = next(part for part in built.bundles() if part != built.bundle_of_topic(TOPIC))
    found = only(
        built.topic(TOPIC, broker="b1:8080", bundle_range=wrong.rpartition("/")[2]), "topics_lie_in_their_range"
    )
    assert found.rule.severity == "quarantine"
    assert "topicBundleAssignmentStrategy" in found.sentence()


def test_topic_with_the_highest_hash_lies_in_the_last_bundle() -> None:
    built = cluster().namespace("t/n", bundles=2).topic("persistent://t/n/SO0aSc")
    assert seen(built).topics[0]["highest_hash"] == 0xFFFFFFFF
    assert failed(built) == {}


def test_loaded_topic_without_a_rate_is_found_and_a_listed_one_is_not() -> None:
    assert failed(sound().listed("persistent://acme/web/asleep")) == {}
    row = only(sound().topic(TOPIC, msg_rate_in=None), "loaded_topics_have_rates").row()
    assert (row["severity"], row["failed_rows"]) == ("reject", 1)


def test_report_older_than_allowed_is_set_aside_and_its_age_named() -> None:
    built = sound().broker("b2:8080", report_at=NOON - timedelta(seconds=1_500))
    row = only(built, "reports_are_fresh").row()
    assert (row["severity"], row["measured"], row["threshold"], row["sample"]) == (
        "reject",
        1_500.0,
        1_200.0,
        ["b2:8080"],
    )
    assert [record.row["broker"] for record in refused_records(seen(built))] == ["b2:8080"]


def test_report_exactly_as_old_as_allowed_passes() -> None:
    assert failed(sound().broker("b2:8080", report_at=NOON - timedelta(seconds=1_200))) == {}


def test_age_follows_the_snapshot_and_the_setting_not_the_clock() -> None:
    built = sound().broker("b2:8080", report_at=NOON - timedelta(seconds=1_500))
    assert failed(built.settings(evenkeelMaxReportAgeSeconds=1_600.0)) == {}


def test_report_from_the_future_is_set_aside() -> None:
    built = sound().broker("b2:8080", report_at=NOON + timedelta(seconds=301))
    row = only(built, "reports_are_not_ahead").row()
    assert (row["measured"], row["threshold"], row["sample"]) == (301.0, 300.0, ["b2:8080"])


def test_one_silent_broker_of_three_is_tolerated_and_two_are_not() -> None:
    assert failed(sound().silent("b3:8080")) == {}
    row = only(sound().silent("b3:8080").silent("b2:8080"), "enough_brokers_answered").row()
    assert (row["severity"], round(row["measured"], 1), row["threshold"]) == ("quarantine", 66.7, 34.0)
    assert row["sample"] == ["b2:8080", "b3:8080"]


def test_broker_whose_report_is_too_old_counts_as_missing() -> None:
    old = NOON - timedelta(days=1)
    found = failed(sound().broker("b2:8080", report_at=old).broker("b3:8080", report_at=old))
    assert "enough_brokers_answered" in found


def test_cluster_in_which_no_broker_answered_is_quarantined() -> None:
    found = failed(cluster(brokers=2).namespace("acme/web").silent("b1:8080").silent("b2:8080").owner("acme/web", None))
    assert {"a_broker_is_usable", "enough_brokers_answered"} <= set(found)


def test_empty_cluster_is_quarantined_with_a_plain_word() -> None:
    found = failed(cluster(brokers=0))
    assert found["cluster_has_brokers"].rule.severity == "quarantine"
    assert "The cluster lists no broker." in found["cluster_has_brokers"].sentence()
    assert "cluster_has_namespaces" in found


def test_broker_listed_twice_warns() -> None:
    built = sound().policies(brokers=["b1:8080", "b1:8080", "b2:8080", "b3:8080"])
    assert only(built, "brokers_are_listed_once").row()["sample"] == ["b1:8080"]


def test_slow_snapshot_is_quarantined() -> None:
    built = sound().policies(snapshot_started_at=NOON - timedelta(seconds=61))
    row = only(built, "snapshot_is_short").row()
    assert (row["severity"], row["measured"], row["threshold"], row["unit"]) == ("quarantine", 61.0, 60.0, "s")


def test_usage_above_its_limit_warns_and_a_little_above_does_not() -> None:
    assert failed(sound().broker("b1:8080", cpu_usage=104.0, cpu_limit=100.0)) == {}
    row = only(sound().broker("b1:8080", cpu_usage=210.0, cpu_limit=100.0), "usage_is_within_limits").row()
    assert (row["severity"], row["measured"], row["sample"]) == ("warn", 210.0, ["b1:8080 cpu"])


def test_usage_without_a_limit_is_not_compared() -> None:
    assert failed(sound().broker("b1:8080", bandwidth_in_usage=-1.0, bandwidth_in_limit=-1.0)) == {}


def test_topic_sum_must_miss_both_tolerances_to_warn() -> None:
    def apart(rate: float, own: float) -> set[str]:
        built = cluster(brokers=1).namespace("t/n").topic("persistent://t/n/a", broker="b1:8080", msg_rate_in=rate)
        built.owner("t/n/0x00000000_0xffffffff", None)
        built.bundle(
            *("t/n/0x00000000_0xffffffff", "b1:8080"),
            is_owned=True,
            is_reported=True,
            msg_rate_in=own,
            msg_rate_out=0.0,
        )
        return set(failed(built))

    assert apart(1.0, 9.0) == set()  # 8 msg/s apart: far in percent, nothing in msg/s
    assert apart(1_000.0, 1_200.0) == set()  # 200 msg/s apart, but within 25 %
    assert apart(1_000.0, 2_000.0) == {"topic_sums_agree"}


def test_sums_are_not_compared_where_the_topic_figures_did_not_come() -> None:
    built = cluster(brokers=1).namespace("t/n").broker("b1:8080", has_topic_figures=False)
    built.owner("t/n/0x00000000_0xffffffff", None)
    built.bundle("t/n/0x00000000_0xffffffff", "b1:8080", is_owned=True, msg_rate_in=500.0, msg_rate_out=0.0)
    assert only(built, "topic_figures_came").row()["sample"] == ["b1:8080"]


def test_names_with_markup_quotes_and_great_length_are_shown_shortened_and_unchanged() -> None:
    odd = "acme/<script>alert('x')</script>\"ü" + "n" * 2_000
    built = sound().topic(f"persistent://{odd}/a", broker="b1:8080", namespace=odd)
    (sample,) = only(built, "topics_have_a_namespace").row()["sample"]
    assert sample.startswith("acme/<script>alert('x')</script>\"ü")
    assert len(sample) < 220
