"""The extensible manager's rule of when to split: hits over rounds, caps, and what is refused."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.bundles import bundle_name, initial_boundaries, range_of, ranges_of
from evenkeel.model.load import BrokerReport, BundleStats
from evenkeel.model.split_algorithms.split_option import BundleTopics, TopicLoads
from evenkeel.plan_splits.rules.default_namespace_bundle_split_strategy import (
    HITS,
    ExtensibleSplits,
    View,
    decide_splits,
    without_gone,
)
from evenkeel.settings import Settings
from tests.cycle.clusters import Cluster, clusters, shuffled
from tests.examples import reached, reaching

BUNDLES = [bundle_name("t/n", found) for found in ranges_of(initial_boundaries(4))]
COUNTS = {"t/n": 4}
BUSY = BundleStats(topics=1_001)
CALM = BundleStats(topics=5)


def decide(
    stats: dict[str, BundleStats], hits: dict[str, float] | None = None, view: View | None = None, **values: Any
) -> ExtensibleSplits:
    settings = Settings().with_values({"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0} | values)
    around = replace(view or View(), bundle_counts=COUNTS)
    return decide_splits({"b1:8080": BrokerReport("b1:8080", stats=stats)}, {HITS: hits or {}}, around, settings)


def rule(made: ExtensibleSplits) -> tuple[str, str]:
    (row,) = made.considered
    assert "None" not in row.sentence()
    return row.outcome, row.rule


def test_the_fourth_round_over_a_limit_splits_and_forgets_the_hits() -> None:
    threshold = {"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 3}
    waiting = decide({BUNDLES[0]: BUSY}, {BUNDLES[0]: 2}, **threshold)
    assert rule(waiting) == ("kept", "over_limit_too_briefly")
    assert waiting.state == {HITS: {BUNDLES[0]: 3}}
    done = decide({BUNDLES[0]: BUSY}, {BUNDLES[0]: 3}, **threshold)
    assert rule(done) == ("split", "topics_over_limit")
    assert done.state == {HITS: {}}
    assert done.splits[0].children == ("t/n/0x00000000_0x20000000", "t/n/0x20000000_0x40000000")
    assert not done.splits[0].unload


def test_a_calm_round_forgets_the_hits_and_one_with_too_few_topics_keeps_them() -> None:
    assert decide({BUNDLES[0]: CALM}, {BUNDLES[0]: 2}).state == {HITS: {}}
    assert decide({BUNDLES[0]: BundleStats(topics=1)}, {BUNDLES[0]: 2}).state == {HITS: {BUNDLES[0]: 2}}
    not_owned = View(not_owned={BUNDLES[0]})
    assert decide({BUNDLES[0]: BUSY}, {BUNDLES[0]: 2}, not_owned).state == {HITS: {BUNDLES[0]: 2}}
    assert decide({}, {BUNDLES[0]: 2}).state == {HITS: {}}


def test_a_bundle_that_moved_is_counted_anew() -> None:
    threshold = {"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 3}
    made = decide({BUNDLES[0]: BUSY}, {BUNDLES[0]: 3}, View(moved={BUNDLES[0]}), **threshold)
    assert made.state == {HITS: {BUNDLES[0]: 1}}


def test_rates_are_the_latest_and_not_averages() -> None:
    rate = BundleStats(topics=2, msg_rate_in=30_000.0)
    assert rule(decide({BUNDLES[0]: rate})) == ("kept", "below_limits")
    assert rule(decide({BUNDLES[0]: rate._replace(msg_rate_out=0.5)})) == ("split", "rate_over_limit")


def test_a_broker_stops_at_its_cap_leaves_hits_alone_and_a_cap_of_0_is_none() -> None:
    stats = dict.fromkeys(BUNDLES, BUSY)
    made = decide(stats, {BUNDLES[3]: 7}, loadBalancerMaxNumberOfBundlesToSplitPerCycle=2)
    assert [one.bundle for one in made.splits] == BUNDLES[:2]
    assert [row.rule for row in made.considered[2:]] == ["enough_splits", "enough_splits"]
    assert made.state == {HITS: {BUNDLES[3]: 7}}
    assert len(decide(stats, loadBalancerMaxNumberOfBundlesToSplitPerCycle=0).splits) == 4


def test_a_namespace_is_not_split_beyond_its_maximum_and_keeps_its_hits() -> None:
    made = decide(dict.fromkeys(BUNDLES, BUSY), loadBalancerNamespaceMaximumBundles=6)
    assert [row.rule for row in made.considered] == ["topics_over_limit"] * 2 + ["maximum_bundles"] * 2
    assert made.state == {HITS: {BUNDLES[2]: 1, BUNDLES[3]: 1}}


def test_a_neighbour_in_splitting_holds_a_bundle_back_also_that_of_a_namespace_with_a_longer_name() -> None:
    for other in ("t/n/0x00000000_0x80000000", "t/n/0x10000000_0x40000000", "t/n2/0x00000000_0x80000000"):
        made = decide({BUNDLES[0]: BUSY}, view=View(splitting=[other]))
        assert rule(made) == ("refused", "splitting_already"), other
        assert made.failures == 0
    for other in ("t/n/0x10000000_0x80000000", "x/n/0x00000000_0x80000000"):
        assert rule(decide({BUNDLES[0]: BUSY}, view=View(splitting=[other])))[0] == "split", other


def test_several_cuts_are_refused_and_count_as_a_failure() -> None:
    loads = [(number << 24, 240.0, 0.0) for number in range(1, 5)]
    topics = {BUNDLES[0]: BundleTopics([found for found, _, _ in loads], TopicLoads.of(loads))}
    values = {"defaultNamespaceBundleSplitAlgorithm": "flow_or_qps_equally_divide"}
    several = decide({BUNDLES[0]: BUSY}, None, View(topics=topics), loadBalancerNamespaceBundleMaxMsgRate=300, **values)
    assert rule(several) == ("refused", "more_than_one_cut")
    assert (several.failures, several.state) == (1, {HITS: {BUNDLES[0]: 1}})
    single = decide({BUNDLES[0]: BUSY}, None, View(topics=topics), loadBalancerNamespaceBundleMaxMsgRate=500, **values)
    assert rule(single) == ("split", "topics_over_limit")
    none = decide({BUNDLES[0]: BUSY}, None, View(topics=topics), **values)
    assert (rule(none), none.failures) == (("refused", "traffic_below_gate"), 1)


def test_a_cut_on_the_edge_is_refused_and_does_not_end_the_round() -> None:
    edge = View(topics={BUNDLES[0]: BundleTopics([0, 0, 7]), BUNDLES[1]: BundleTopics([0x50000000, 0x60000000])})
    values = {"defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide"}
    made = decide({BUNDLES[0]: BUSY, BUNDLES[1]: BUSY}, view=edge, **values)
    assert [(row.outcome, row.rule) for row in made.considered] == [
        ("refused", "cut_outside_bundle"),
        ("split", "topics_over_limit"),
    ]


def test_a_threshold_below_0_splits_bundles_over_no_limit() -> None:
    made = decide({BUNDLES[0]: CALM}, loadBalancerNamespaceBundleSplitConditionHitCountThreshold=-1)
    assert rule(made) == ("split", "no_condition")


def test_a_bundle_that_is_gone_is_chosen_as_in_pulsar_and_not_split() -> None:
    chosen = decide(dict.fromkeys(BUNDLES[:2], BUSY))
    made = without_gone(chosen, {"t/n": (0, 0x40000000, 0xFFFFFFFF)})
    assert [one.bundle for one in made.splits] == BUNDLES[:1]
    assert [row.rule for row in made.considered] == ["topics_over_limit", "bundle_gone"]
    assert made.state == chosen.state
    assert without_gone(chosen, {"t/n": initial_boundaries(4)}) == chosen


def test_with_the_switch_off_the_state_stays() -> None:
    made = decide({BUNDLES[0]: BUSY}, {BUNDLES[0]: 2}, evenkeelSplitEnabled=False)
    assert (made.splits, made.state) == ((), {HITS: {BUNDLES[0]: 2}})


def of_cluster(cluster: Cluster, hits: dict[str, float]) -> ExtensibleSplits:
    counts = {namespace: len(bounds) - 1 for namespace, bounds in cluster.boundaries.items()}
    settings = cluster.settings.with_values(
        {"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 1, "loadBalancerNamespaceMaximumBundles": 128}
    )
    return decide_splits(cluster.load.brokers, {HITS: hits}, View(bundle_counts=counts), settings)


@reaching()
@given(cluster=clusters(lopsided=True), data=st.data())
def test_for_any_cluster_rows_splits_and_state_agree_and_order_changes_nothing(
    cluster: Cluster, data: st.DataObject
) -> None:
    bundles = sorted(bundle for report in cluster.load.brokers.values() for bundle in report.stats)
    hits = {bundle: 1.0 for bundle in bundles if data.draw(st.booleans())}
    made = of_cluster(cluster, hits)
    reached(bool(made.splits))
    assert of_cluster(shuffled(data, cluster), dict(reversed(hits.items()))) == made
    assert sorted(row.subject for row in made.considered) == bundles
    assert {row.subject for row in made.considered if row.outcome == "split"} == {one.bundle for one in made.splits}
    assert all(one.bundle in hits and one.bundle not in made.state[HITS] for one in made.splits)
    assert made.state[HITS].keys() <= set(bundles)
    for one in made.splits:
        parent, (left, right) = range_of(one.bundle), map(range_of, one.children)
        assert (left.lower, left.upper, right.upper) == (parent.lower, right.lower, parent.upper)
