import html
import re
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from evenkeel.report.chapters import Chapter, build_model, usage_limit
from evenkeel.report.gather import COURSE_CYCLES, gather
from evenkeel.report.page import render
from tests.lakes.plausible import (
    ACTING,
    HOT,
    LAB,
    LAB_FIRST,
    LARGE,
    MIB,
    NEXT,
    SKIPPED,
    SPREAD,
    A,
    B,
    C,
    broker_load,
    bundle_load,
    candidate,
    decision,
    kept,
    placement,
    policies,
    settings,
)
from tests.lakes.small_lake import Row, SmallLake, moment

AT = moment("2026-11-21T08:00:00")
THRESHOLD, OVERLOADED = (
    "loadBalancerBrokerThresholdShedderPercentage",
    "loadBalancerBrokerOverloadedThresholdPercentage",
)


def chapter_now(lake: Path, cluster: str = LAB, cycle: str | None = None) -> Chapter:
    (only,) = build_model(lake, gather(lake, cluster=cluster, cycle=cycle)).chapters
    return only


@cache
def chapter(lake: Path, cluster: str = LAB, cycle: str | None = None) -> Chapter:
    """The same one for all tests; for the shared lake, which nobody writes to."""
    return chapter_now(lake, cluster, cycle)


def small(tmp_path: Path, tables: dict[str, list[Row]], **manifest: object) -> Chapter:
    SmallLake(tmp_path).add(LAB, AT, tables, **manifest)
    return chapter_now(tmp_path)


def at(number: int) -> str:
    return (LAB_FIRST + timedelta(minutes=number)).isoformat()


def test_without_a_time_the_newest_cycle_that_decides_is_shown_and_the_newest_is_named(lake: Path) -> None:
    shown = chapter(lake)

    assert shown.cycle_at == LAB_FIRST + timedelta(minutes=ACTING)
    assert shown.newer == "The newest cycle on record is that of 2026-11-21 08:31:23 UTC; it would change nothing."


def test_the_headline_says_what_would_be_done_and_what_it_changes(lake: Path) -> None:
    headline = chapter(lake).headline

    assert headline.mode == "Dry run: nothing was sent"
    assert headline.text == f"Evenkeel would unload 2 bundles from {A} and split 1 bundle."
    assert headline.effect == (
        "That moves 11.8 % of the cluster's traffic. By share of traffic, the busiest broker would go from 1.45 to "
        "1.21 times the mean usage. 1 further act was refused."
    )


def test_a_quiet_cycle_gives_the_sentence_of_the_broker_that_came_nearest(lake: Path) -> None:
    headline = chapter(lake, cycle=at(0)).headline

    assert headline.text == "Evenkeel would leave this cluster as it is."
    assert (
        headline.effect == f"{A} at 22.0 % is 2.3 points over the cluster's average of 19.7 %; the limit is 10 points."
    )


def test_a_cycle_whose_shedder_was_not_due_says_so(lake: Path) -> None:
    headline = chapter(lake, SPREAD, cycle="2026-11-21T09:10:05").headline
    assert headline.effect == "Shedding is due once a minute; the last one was 18 s ago."


def test_a_skipped_cycle_gives_its_reason_and_what_to_do(lake: Path) -> None:
    shown = chapter(lake, cycle=at(SKIPPED))

    assert (shown.status, shown.decided) == ("skipped", False)
    assert shown.headline.text == "This cycle was skipped: nothing was decided."
    assert shown.headline.effect == "acme/ns1 has a hole from 0x40000000 to 0x60000000."
    assert shown.headline.advice[0].startswith(
        "acme/ns1 has a hole from 0x40000000 to 0x60000000: a split may be under"
    )
    assert shown.decisions.considered_count == 0


def test_a_failed_cycle_names_the_run_whose_log_to_read(tmp_path: Path) -> None:
    shown = small(tmp_path, {}, status="failed", reason="shed: Spark went away", run_id="manual__7")

    assert shown.headline.effect == "shed: Spark went away."
    assert "rebalance / manual__7" in shown.headline.advice[0]


def test_a_withheld_plan_is_said_to_be_held_back(tmp_path: Path) -> None:
    split = decision(LARGE, "bundle", "split", "topics_over_limit", "It is split.", broker=B)
    for table in ("commands", "outcomes"):
        SmallLake(tmp_path).append(table, [])
    shown = small(
        tmp_path, {"split_decisions": [split]}, status="withheld", reason="older than 20 minutes", mode="auto"
    )

    assert shown.headline.mode == "Mode auto"
    assert shown.headline.text == "Evenkeel decided to split 1 bundle, and held it back."
    assert shown.headline.effect == "older than 20 minutes."


def test_the_forecast_moves_traffic_and_usage_with_the_bundles(lake: Path) -> None:
    before = {line.broker: line for line in chapter(lake).brokers}
    hot, following = 0.31 * MIB, 0.17 * MIB

    moved = before[A].traffic_before - before[A].traffic_after
    assert moved == pytest.approx(hot + following)
    assert before[C].traffic_after - before[C].traffic_before == pytest.approx(hot)
    assert before[A].usage_after == pytest.approx(0.40 * (1 - moved / before[A].traffic_before))
    assert sum(line.usage_after or 0.0 for line in before.values()) == pytest.approx(0.40 + 0.24 + 0.19)
    assert (before[A].bundles_before - before[A].bundles_after, before[A].resource) == (2, "CPU")
    assert sum(line.share_after or 0.0 for line in before.values()) == pytest.approx(1.0)


def test_a_broker_that_did_not_answer_has_no_usage_instead_of_none_at_all(lake: Path) -> None:
    shown = chapter(lake, SPREAD)
    silent = next(line for line in shown.brokers if line.broker == C)

    assert (silent.usage_before, silent.usage_after, silent.state, silent.resource) == (None, None, "no_answer", "")
    assert shown.state[0].value == "2 of 3 reported"
    assert shown.state[0].note == f"{C}: no answer"


def test_unloads_come_with_their_broker_their_reason_and_their_candidates(lake: Path) -> None:
    (shedding,) = chapter(lake).decisions.sheddings

    assert shedding.broker == A
    assert shedding.sentence.startswith(f"{A} at 39.5 % is 12.0 points over the cluster's average of 27.5 %")
    by_bundle = {unload["subject"]: unload for unload in shedding.unloads}
    assert by_bundle.keys() == {HOT, NEXT}
    placed = by_bundle[HOT]["placement"]
    assert placed is not None
    assert (placed["destination"], by_bundle[HOT]["traffic"]) == (C, pytest.approx(0.31 * MIB))
    assert (placed["scored"], placed["unit"]) == ("Long-term rate", "msg/s")
    assert [(c.broker, c.verdict, c.score) for c in placed["candidates"]] == [
        (C, "chosen", 412.7),
        (B, "possible, busier", 655.2),
        (A, "ruled out: source", None),
    ]


def test_a_placement_that_anti_affinity_changed_names_where_it_would_have_gone(lake: Path) -> None:
    shown = chapter(lake, SPREAD)
    (placed,) = shown.decisions.ownerless

    assert shown.headline.text == "Evenkeel would place 1 bundle that has no owner."
    assert (placed["changed_by_anti_affinity"], placed["destination"], placed["without_anti_affinity"]) == (True, A, B)
    assert placed["candidates"][1].verdict == "ruled out: more of its anti-affinity group there"
    assert [verdict["rule"] for verdict in shown.decisions.refusals] == ["no_candidate"]


def test_an_unload_without_a_destination_does_not_count_as_done(tmp_path: Path) -> None:
    tables = {
        "broker_load": [broker_load(A, 0.7), broker_load(B, 0.2)],
        "bundle_load": [bundle_load(HOT, A, MIB)],
        "unload_decisions": [decision(HOT, "bundle", "unload", "heaviest_first", "It leaves.", broker=A)],
        "placement_decisions": [placement(HOT, None, "shed", "Nowhere to go.", [candidate(B, None, "isolation")])],
    }
    shown = small(tmp_path, tables)

    assert shown.headline.text == "Evenkeel would leave this cluster as it is."
    assert shown.headline.effect == "Nowhere to go."
    assert shown.brokers[0].traffic_after == shown.brokers[0].traffic_before
    assert [unload["subject"] for unload in shown.decisions.unloads] == [HOT]


def test_a_wish_that_was_refused_is_answered_in_the_first_sentences(tmp_path: Path) -> None:
    answers = [
        decision(bundle, "bundle", "refused", "wish_no_such_bundle", f"{bundle} does not exist.", strategy="wish")
        for bundle in (HOT, NEXT)
    ]
    calm = kept(A, 0.2, 0.19)
    one = small(tmp_path / "one", {"unload_decisions": [calm, answers[0]]})
    assert one.headline.text == "Evenkeel would leave this cluster as it is."
    assert one.headline.effect == f"{calm['sentence']} {HOT} does not exist."
    two = small(tmp_path / "two", {"unload_decisions": [calm, *answers]})
    assert two.headline.effect == f"{calm['sentence']} 2 requests were refused, each with its reason below."

    acting = {
        "broker_load": [broker_load(A, 0.7), broker_load(B, 0.2)],
        "bundle_load": [bundle_load(LARGE, A, MIB)],
        "split_decisions": [
            decision(LARGE, "bundle", "split", "topics_over_limit", "It is cut."),
            decision(NEXT, "bundle", "refused", "at_maximum", "There are enough."),
            answers[0],
        ],
    }
    with_both = small(tmp_path / "both", acting)
    assert with_both.headline.effect == f"1 further act was refused. {HOT} does not exist."


def test_a_split_shows_its_cuts_in_hexadecimal_and_its_children(lake: Path) -> None:
    (split,) = chapter(lake).decisions.splits

    assert (split["subject"], split["cuts"], split["unload_children"]) == (LARGE, ["0x10000000"], True)
    assert split["children"] == ["acme/ns2/0x00000000_0x10000000", "acme/ns2/0x10000000_0x20000000"]


def test_what_was_considered_is_listed_brokers_first_then_nearest_to_the_limit(lake: Path) -> None:
    gathered = gather(lake, cluster=LAB)
    considered = build_model(lake, gathered).chapters[0].decisions.considered

    assert [verdict["subject"] for verdict in considered[:2]] == [B, C]
    figures = [verdict for verdict in considered if verdict["kind"] == "split"]
    assert figures[0]["subject"] == HOT
    assert (figures[0]["measured"], figures[0]["threshold"]) == (31.0, 60.0)
    assert '<td class="num">31</td><td class="num">60</td>' in render(build_model(lake, gathered))


def test_more_was_considered_than_is_listed(tmp_path: Path) -> None:
    rows = [
        decision(f"acme/ns/0x{n:08x}_0x{n + 1:08x}", "bundle", "kept", "below_limits", "Fine.", measured=float(n),
                 threshold=900.0, unit="count")
        for n in range(300)
    ]  # fmt: skip
    made = small(tmp_path, {"split_decisions": rows}).decisions

    assert (made.considered_count, len(made.considered)) == (300, 200)
    assert made.considered[0]["measured"] == 299.0


def test_failed_rules_come_first_and_the_gravest_of_them_at_the_top(lake: Path) -> None:
    assert [check["rule"] for check in chapter(lake).checks_failed] == ["report_not_old"]
    assert len(chapter(lake).checks_passed) == 3
    skipped = chapter(lake, cycle=at(SKIPPED)).checks_failed
    assert [(check["severity"], check["sample"]) for check in skipped] == [("quarantine", ["acme/ns1"])]


def test_records_set_aside_are_counted_by_rule_with_their_place(lake: Path) -> None:
    (rejection,) = chapter(lake).rejections

    assert (rejection.table, rejection.rule, rejection.count) == ("topic_stats", "rates_not_negative", 1)
    place, reason, record = rejection.samples[0]
    assert place.startswith("0006.json.gz, topic persistent://acme/ns1/<script>")
    assert reason == "msgRateIn is -3.5: a rate is not negative. The topic is left out."
    assert record == '{"msgRateIn": -3.5}'


def test_settings_are_told_apart_by_their_origin(lake: Path) -> None:
    found = chapter(lake).settings

    assert [(line["key"], line["value"]) for line in found["override"]] == [
        ("loadBalancerBundleUnloadMinThroughputThreshold", "0.01"),
        ("loadBalancerHistoryResourcePercentage", "0.2"),
        ("loadBalancerNamespaceBundleMaxTopics", "60"),
    ]
    assert "loadBalancerBrokerThresholdShedderPercentage" in {line["key"] for line in found["observed"]}
    assert len(found["default"]) > 50


def test_the_course_has_a_gap_where_a_cycle_was_skipped_and_the_band_where_the_shedder_lets_be(lake: Path) -> None:
    course = chapter(lake).course

    assert [point.attempt.decided for point in course.points] == [n != SKIPPED for n in range(8)]
    assert course.points[SKIPPED].usage == {}
    assert course.points[SKIPPED].limit is None
    acting = course.points[ACTING]
    assert acting.is_shown
    assert acting.limit == pytest.approx((acting.mean or 0.0) + 0.1)
    assert course.is_remembered
    assert acting.compared[A] == pytest.approx(0.3953, abs=1e-3)
    assert acting.usage[A] == 0.40
    assert course.brokers == (A, B, C)


@pytest.mark.parametrize(
    ("strategy", "labelled"),
    [("ThresholdShedder", ["now 1.0 MiB/s", "short-term average 2.0 MiB/s"]), ("TransferShedder", ["now 1.0 MiB/s"])],
)
def test_an_average_beside_a_present_figure_says_which_it_is(
    tmp_path: Path, strategy: str, labelled: list[str]
) -> None:
    unload = decision(
        HOT, "bundle", "unload", "heaviest_first", "It goes.", broker=A, strategy=strategy,
        numbers={"bundle_throughput": 2 * MIB, "rank": 1.0},
    )  # fmt: skip
    tables = {"bundle_load": [bundle_load(HOT, A, MIB)], "unload_decisions": [unload]}
    SmallLake(tmp_path).add(LAB, AT, tables, plan_id="0" * 64, unloads=1)
    page = render(build_model(tmp_path, gather(tmp_path)))
    assert re.findall(r'<span class="small">((?:now|short-term average) [^<]*)</span>', page) == labelled


def test_the_course_shows_shares_of_traffic_where_every_usage_is_0(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    flows = ({A: 3.0, B: 1.0}, {A: 0.0, B: 0.0}, {A: 1.0, B: 1.0})
    for n, flow in enumerate(flows):
        loads = [
            broker_load(broker, 0.0, msg_throughput_in=value, msg_throughput_out=value, cpu_weight=0.0)
            for broker, value in flow.items()
        ]
        overrides = settings({"loadBalancerCPUResourceWeight": 0.0})
        lake.add(LAB, AT + timedelta(minutes=n), {"broker_load": loads, "settings": overrides}, plan_id=f"{n:064x}")
    course = chapter_now(tmp_path).course

    assert course.is_share
    assert course.threshold is None
    assert [point.compared for point in course.points] == [{A: 0.75, B: 0.25}, {}, {A: 0.5, B: 0.5}]
    assert [point.mean for point in course.points] == [0.5, None, 0.5]
    page = render(build_model(tmp_path, gather(tmp_path)))
    assert "Each broker's share of the traffic" in html.unescape(page)
    assert "Share of the traffic of 2 brokers over 3 cycles" in page


def test_the_course_lists_what_was_decided_in_each_cycle(lake: Path) -> None:
    (acting,) = chapter(lake, cycle=at(0)).course.acting

    assert {(act["kind"], act["outcome"]) for act in acting.acts} == {
        ("split", "split"), ("split", "refused"), ("unload", "unload"), ("placement", "placed"),
    }  # fmt: skip


def test_a_long_history_is_cut_to_a_course_around_the_shown_cycle(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    with lake.one_commit():
        for n in range(COURSE_CYCLES + 20):
            lake.add(LAB, AT + timedelta(minutes=n), {})
    first = chapter_now(tmp_path, cycle=AT.isoformat()).course
    newest = chapter_now(tmp_path, cycle="latest").course

    assert (len(first.points), first.earlier, first.later) == (COURSE_CYCLES, 0, 20)
    assert (len(newest.points), newest.earlier, newest.later) == (COURSE_CYCLES, 20, 0)
    assert newest.points[-1].is_shown


def test_a_transfer_shedders_course_shows_the_averages_it_compares(tmp_path: Path) -> None:
    state = [
        {"strategy": "TransferShedder", "subject": broker, "name": "weighted_max_ema", "value": value}
        for broker, value in ((A, 0.5), (B, 0.3))
    ]
    tables = {"broker_load": [broker_load(A, 0.7), broker_load(B, 0.2)], "strategy_state": state}
    course = small(tmp_path, tables | {"settings": settings({})}, shedder="TransferShedder").course
    (point,) = course.points
    assert (course.is_remembered, course.threshold) == (True, None)
    assert (point.compared, point.mean) == ({A: 0.5, B: 0.3}, 0.4)


def test_an_overload_shedder_has_no_band_around_the_mean(tmp_path: Path) -> None:
    tables = {"broker_load": [broker_load(A, 0.7), broker_load(B, 0.2)], "settings": settings({})}
    assert small(tmp_path, tables, shedder="OverloadShedder").course.threshold is None


def about(broker: str, setting: str | None, threshold: float | None, unit: str = "fraction", **more: object) -> Row:
    row = decision(broker, "broker", "kept", "below_threshold", "It stays.", measured=0.5, threshold=threshold)
    return row | {"setting": setting, "unit": unit, **more}


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ([about(A, THRESHOLD, 0.66), about(B, THRESHOLD, 0.66)], (0.66, "ThresholdShedder", THRESHOLD)),
        ([about(A, OVERLOADED, 0.85, strategy="OverloadShedder")], (0.85, "OverloadShedder", OVERLOADED)),
        ([about(A, THRESHOLD, 0.22), about(B, THRESHOLD, 0.66)], (0.66, "ThresholdShedder", THRESHOLD)),
        ([about(A, "loadBalancerAvgShedderHighThreshold", 40.0, "percent", strategy="AvgShedder")], None),
        ([about(A, "loadBalancerBundleUnloadMinThroughputThreshold", 10.0, "byte/s")], None),
        ([about(A, THRESHOLD, 0.66) | {"subject_kind": "cluster"}, about(B, None, None)], None),
        ([], None),
    ],
)
def test_the_limit_is_the_one_that_the_shedder_held_brokers_against(
    rows: list[Row], limit: tuple[float, str, str] | None
) -> None:
    row = usage_limit(rows)
    assert (None if row is None else (row["threshold"], row["strategy"], row["setting"])) == limit


def test_a_plan_that_was_not_sent_whole_says_why_in_its_first_sentences(tmp_path: Path) -> None:
    why = "jo approved the plan without its splits at 2026-11-21T08:01:00+00:00"
    tables = {"unload_decisions": [decision(HOT, "bundle", "unload", "largest_first", "It goes.", broker=A)],
              "placement_decisions": [placement(HOT, B, "shed", "It goes there.", [], broker=A)],
              "broker_load": [broker_load(A, 0.8), broker_load(B, 0.2)]}  # fmt: skip
    found = small(tmp_path, tables, mode="approve", plan_id="p" * 64, reason=why, unloads=1)
    assert f"{why}." in found.headline.effect


def test_provenance_names_plan_attempt_predecessor_and_every_write(lake: Path) -> None:
    provenance = chapter(lake).provenance
    facts = {fact.name: fact.value for fact in provenance.facts}

    assert facts["Plan"].startswith("069f1c")
    assert facts["Attempt"].startswith("1 (live), ")
    assert facts["State taken over from"] == "cycle of 2026-11-21 08:29:23 UTC"
    assert [write["table"] for write in provenance.writes] == sorted(write["table"] for write in provenance.writes)
    assert {"broker_load", "unload_decisions", "settings"} <= {write["table"] for write in provenance.writes}


def test_a_missing_predecessor_is_named(tmp_path: Path) -> None:
    expected = {"predecessor_status": "missing", "predecessor_cycle_at": None, "predecessor_expected_at": AT}
    facts = {fact.name: fact.value for fact in small(tmp_path, {}, **expected).provenance.facts}
    assert facts["State taken over from"] == "none; expected was 2026-11-21 08:00:00 UTC, which is not on record"


def test_a_table_whose_rows_have_expired_leaves_the_rest_of_the_report_standing(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    tables = {"bundle_load": [bundle_load(HOT, A, MIB)], "broker_load": [broker_load(A, 0.3)]}
    SmallLake(root).add(LAB, AT, tables | {"unload_decisions": [kept(A, 0.3, 0.3)]})
    (root / "bundle_load").rename(tmp_path / "gone")
    shown = chapter_now(root)

    assert list(shown.missing) == ["bundle_load"]
    assert shown.brokers[0].usage_before == 0.3
    assert shown.headline.effect.startswith(f"{A} at 30.0 %")


def test_the_same_rows_give_the_same_model_twice(lake: Path) -> None:
    assert build_model(lake, gather(lake)) == build_model(lake, gather(lake))


def test_a_recording_with_logs_is_compared_with_the_cycles_of_its_snapshots(tmp_path: Path) -> None:
    import gzip

    recording = tmp_path / "own-shedder"
    recording.mkdir()
    at_round = AT + timedelta(seconds=7)
    with gzip.open(recording / "broker-logs.txt.gz", "wt") as log:
        stamp = at_round.strftime("broker-2 %Y-%m-%dT%H:%M:%S,000+00:00 INFO  X [t]")
        log.write(f"{stamp} [ThresholdShedder] Unloading bundle: {HOT} from broker {A} to dest broker {B}\n")
    tables = {
        "bundle_load": [bundle_load(HOT, A, 0.31 * MIB)],
        "broker_load": [broker_load(A, 0.4), broker_load(B, 0.2)],
        "cluster_policies": [policies([A, B], AT)],
        "settings": settings({}),
        "unload_decisions": [
            kept(A, 0.36, 0.3) | {"numbers": {"mean_usage": 0.3}},
            decision(HOT, "bundle", "unload", "heaviest_first", "It leaves.", broker=A),
        ],
        "placement_decisions": [placement(HOT, B, "shed", "To B.", [candidate(B, 1.0)], broker=A)],
    }
    shown = small(tmp_path / "lake", tables, snapshot=str(recording / "0003.json.gz"), unloads=1)

    assert shown.comparison is not None
    (verdict,) = shown.comparison.verdicts
    assert verdict.agrees
    assert verdict.sentences[1] == f"Both take {HOT} from {A} to {B}."
    assert replace(shown.comparison, verdicts=()).alone == ()


def test_what_the_plan_changes_comes_first_after_brokers_of_unknown_load(lake: Path) -> None:
    from evenkeel.report.chapters import foremost

    (line, *_) = chapter(lake).brokers
    same = {"usage_after": 0.9, "traffic_after": line.traffic_before, "bundles_after": line.bundles_before}
    busiest = replace(line, broker="busiest", usage_before=0.9, **same)
    quiet = replace(line, broker="quiet", usage_before=0.1, **same)
    changed = replace(line, broker="changed", usage_before=0.2)
    silent = replace(quiet, broker="silent", usage_before=None)

    assert [each.broker for each in foremost([quiet, busiest, changed, silent])] == [
        "silent", "changed", "busiest", "quiet",
    ]  # fmt: skip


def test_of_bundles_without_owner_those_that_anti_affinity_moved_come_first(tmp_path: Path) -> None:
    bundles = [f"acme/ns{n}/0x00000000_0xffffffff" for n in range(3)]
    rows = [placement(bundle, A, "no_owner", "To A.", [candidate(A, 1.0)]) for bundle in bundles]
    rows[2] |= {"changed_by_anti_affinity": True, "without_anti_affinity": B}
    found = small(tmp_path, {"placement_decisions": rows}).decisions.ownerless

    assert [each["subject"] for each in found] == [bundles[2], bundles[0], bundles[1]]
