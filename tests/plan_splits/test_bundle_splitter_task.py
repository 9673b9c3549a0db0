"""The modular rule of when to split: its limits, and a chosen bundle's guards, cut, children and unload flag."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from devtools.conformance.leader_round import histories_after_splits
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.model.averages import default_history, updated
from evenkeel.model.bundles import initial_boundaries
from evenkeel.model.consideration import Considered
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.load import RATES, BrokerReport, BundleHistory, BundleStats, IsolationPolicy, LoadData, Policies
from evenkeel.model.split_algorithms.split_option import BundleTopics
from evenkeel.plan_splits.round import decide_modular, plan, wishes_cut_by_topics
from evenkeel.plan_splits.rules.apply_splits import SplitRound, carry_out
from evenkeel.plan_splits.rules.bundle_splitter_task import (
    BELOW_LIMITS,
    MAXIMUM_BUNDLES,
    TOO_FEW_TOPICS,
    Bounds,
    Limit,
    bandwidth_limit,
    decide_splits,
    find_bundles_to_split,
)
from evenkeel.settings import Settings
from tests.cycle import rows as cycle_rows

FULL = "t/n/0x00000000_0xffffffff"
BOUNDARIES = {"t/n": initial_boundaries(1)}


def reports(bundle: str = FULL, topics: int = 1001) -> dict[str, BrokerReport]:
    stats = {bundle: BundleStats(topics=topics)}
    return {
        "b1:8080": BrokerReport("b1:8080", stats=stats, bundles=frozenset(stats)),
        "b2:8080": BrokerReport("b2:8080"),
    }


def split(
    brokers: dict[str, BrokerReport],
    boundaries: dict[str, tuple[int, ...]] | None = None,
    *,
    hashes: dict[str, list[int]] | None = None,
    policies: Policies = Policies(),  # noqa: B008 (frozen)
    **values: Any,
) -> SplitRound:
    settings = Settings().with_values(values)
    plan = decide_splits(brokers, {}, {"t/n": 1}, settings)
    gates = unload_gates(LoadData(brokers), policies, settings)
    topics = {bundle: BundleTopics(found) for bundle, found in (hashes or {}).items()}
    return carry_out(plan, BOUNDARIES if boundaries is None else boundaries, topics, gates, settings)


def refusals(done: SplitRound) -> list[str]:
    assert done.splits == ()
    return [row.rule for row in done.considered if row.outcome == "refused"]


def test_a_bundle_with_too_many_topics_is_cut_in_the_middle() -> None:
    (found,) = split(reports()).splits
    assert found.children == ("t/n/0x00000000_0x7fffffff", "t/n/0x7fffffff_0xffffffff")
    assert found.cuts == (0x7FFFFFFF,)
    assert found.unload
    assert found.reason.sentence() == f"{FULL} is split: its 1,001 topics are over the limit of 1,000."


def test_exactly_the_limit_is_not_split() -> None:
    (row,) = split(reports(topics=1000)).considered
    assert (row.outcome, row.rule, row.margin) == ("kept", "below_limits", 0)


def test_a_limit_of_no_sessions_is_off() -> None:
    stats = {FULL: BundleStats(topics=10, consumers=1_000, producers=1)}
    brokers = {**reports(), "b1:8080": BrokerReport("b1:8080", stats=stats, bundles=frozenset(stats))}
    (row,) = split(brokers).considered
    assert (row.outcome, row.rule, row.measured, row.threshold) == ("split", "sessions_over_limit", 1_001, 1_000)
    for limit in (0, -1):
        done = split(brokers, loadBalancerNamespaceBundleMaxSessions=limit)
        assert done.splits == ()
        (row,) = done.considered
        assert (row.rule, row.setting, row.measured) == ("below_limits", "loadBalancerNamespaceBundleMaxTopics", 10)
        assert row.numbers == {"topics": 10, "rate": 0, "throughput": 0}


def test_topics_are_read_where_a_wished_splits_algorithm_needs_them() -> None:
    by_topics, by_range = "topic_count_equally_divide", "range_equally_divide"
    for default in (by_topics, by_range):
        settings = Settings().with_values({"defaultNamespaceBundleSplitAlgorithm": default})
        for algorithm, needs in ((by_topics, True), (by_range, False), (None, default == by_topics)):
            assert wishes_cut_by_topics(settings, [{"kind": "split", "algorithm": algorithm}]) is needs
        assert not wishes_cut_by_topics(settings, [{"kind": "unload", "algorithm": None}])


def test_a_bundle_that_is_gone_is_refused_and_keeps_its_history() -> None:
    boundaries = {"t/n": initial_boundaries(2)}
    assert refusals(split(reports(), boundaries)) == ["bundle_gone"]
    plan = decide_splits(reports(), {}, {"t/n": 1}, Settings())
    histories = {FULL: default_history()}
    assert histories_after_splits(histories, plan, boundaries) == histories
    assert histories_after_splits(histories, plan, BOUNDARIES) == {}


def test_a_bundle_of_width_1_is_refused() -> None:
    narrow = "t/n/0x00000000_0x00000001"
    assert refusals(split(reports(narrow), {"t/n": (0, 1, 0xFFFFFFFF)})) == ["too_narrow"]


def test_topic_count_cuts_by_the_hashes_of_all_topics() -> None:
    by_topics = {"defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide"}
    (found,) = split(reports(), hashes={FULL: [10, 20, 40, 50]}, **by_topics).splits
    assert found.cuts == (30,)
    assert refusals(split(reports(), hashes={FULL: [10]}, **by_topics)) == ["nothing_to_cut"]
    assert refusals(split(reports(), hashes={FULL: [0, 0, 7]}, **by_topics)) == ["cut_outside_bundle"]


def test_a_default_algorithm_that_lacks_what_it_cuts_by_is_refused_by_its_own_reason() -> None:
    for algorithm, rule in (
        ("specified_positions_divide", "no_positions"),
        ("flow_or_qps_equally_divide", "too_few_busy_topics"),
    ):
        done = split(reports(), hashes={FULL: [10, 20]}, defaultNamespaceBundleSplitAlgorithm=algorithm)
        assert refusals(done) == [rule]
        assert all(row.sentence().endswith(".") for row in done.considered)


def test_children_stay_where_switched_off_or_no_other_broker_is_allowed() -> None:
    (found,) = split(reports(), loadBalancerAutoUnloadSplitBundlesEnabled=False).splits
    assert not found.unload
    policies = Policies(isolation={"p": IsolationPolicy(("t/n",), ("b1",))})
    (found,) = split(reports(), policies=policies).splits
    assert not found.unload


def test_evenkeels_own_switch_stops_splitting_and_the_brokers_one_does_not() -> None:
    done = split(reports(), evenkeelSplitEnabled=False)
    assert [row.rule for row in done.considered] == ["switched_off"]
    assert len(split(reports(), loadBalancerAutoBundleSplitEnabled=False).splits) == 1


def test_a_bundle_in_two_reports_is_split_once() -> None:
    brokers = reports()
    twice = {name: BrokerReport(name, stats=brokers["b1:8080"].stats) for name in brokers}
    done = split(twice)
    assert [(s.bundle, s.broker) for s in done.splits] == [(FULL, "b2:8080")]
    assert [row.rule for row in done.considered] == ["reported_by_two_brokers", "topics_over_limit"]


def test_the_bandwidth_limit_overflows_as_in_pulsar() -> None:
    limits = {
        mib: bandwidth_limit(Settings().with_values({"loadBalancerNamespaceBundleMaxBandwidthMbytes": mib}))
        for mib in (100, 2047, 2048, 4096)
    }
    assert limits == {100: 104_857_600, 2047: 2_146_435_072, 2048: -2_147_483_648, 4096: 0}


def hot(topics: int, rate: float = 0.0) -> dict[str, BundleStats]:
    return {"t/n/0x00000000_0x80000000": BundleStats(topics=topics, msg_rate_in=rate)}


def to_split(latest: dict[str, BundleStats], past: dict[str, BundleStats], count: int = 2, **values: int) -> list[str]:
    brokers = {
        "b1:8080": BrokerReport("b1:8080", stats=latest, bundles=frozenset(latest)),
        "b2:8080": BrokerReport("b2:8080"),
    }
    histories = {bundle: updated(None, stats) for bundle, stats in past.items()}
    return list(find_bundles_to_split(brokers, histories, {"t/n": count}, Settings().with_values(values)).splits)


def test_administration_a_bundle_is_split_above_each_limit_and_not_at_it() -> None:
    assert to_split(hot(1_000), {}) == []
    assert to_split(hot(1_001), {}) == list(hot(0))


def test_article_topics_count_as_they_are_now_and_rates_as_they_have_long_been() -> None:
    """The article judges all by "load"; Pulsar takes topics and sessions as last reported, and rates from averages."""
    assert to_split(hot(5, rate=90_000.0), hot(5, rate=10.0)) == []
    assert to_split(hot(5, rate=10.0), hot(5, rate=30_001.0)) == list(hot(0))


def test_article_a_namespace_at_its_maximum_of_bundles_is_left_alone() -> None:
    """Bundles chosen in the same round count too, which the article leaves out."""
    assert to_split(hot(2_000), {}, count=127) != []
    assert to_split(hot(2_000), {}, count=128) == []
    two = {**hot(2_000), "t/n/0x80000000_0xffffffff": BundleStats(topics=2_000)}
    assert len(to_split(two, {}, count=127)) == 1


# The rule word for word: every bundle, one after the other, by all of its figures.


def word_for_word(
    brokers: Mapping[str, BrokerReport],
    histories: Mapping[str, BundleHistory],
    counts: Mapping[str, int],
    settings: Settings,
) -> Iterator[Considered]:
    chosen: Counter[str] = Counter()
    for broker in sorted(brokers):
        for bundle in sorted(brokers[broker].stats):
            stats = brokers[broker].stats[bundle]
            if stats.topics < 2:
                yield TOO_FEW_TOPICS.about_bundle(bundle, broker, measured=stats.topics, threshold=2, unit="count")
                continue
            past = histories[bundle].long_term if bundle in histories else None
            bounds = Bounds(settings)
            limits = bounds.limits(bounds.measured(stats, past.rate if past else 0.0, past.throughput if past else 0.0))
            numbers = {limit.name: limit.measured for limit in limits}
            exceeded = [limit for limit in limits if limit.exceeded]
            limit, rule = (exceeded[0], exceeded[0].rule) if exceeded else (max(limits, key=share), BELOW_LIMITS)
            measured, threshold, setting, unit = limit.measured, limit.threshold, limit.setting, limit.unit
            if exceeded:
                namespace = bundle.rpartition("/")[0]
                bundles = counts.get(namespace, 1) + chosen[namespace]
                numbers["bundles_of_namespace"] = bundles
                if bundles < settings.loadBalancerNamespaceMaximumBundles:
                    chosen[namespace] += 1
                else:
                    rule, measured, unit = MAXIMUM_BUNDLES, bundles, "count"
                    setting = "loadBalancerNamespaceMaximumBundles"
                    threshold = settings.loadBalancerNamespaceMaximumBundles
            yield rule.about_bundle(
                bundle, broker, setting=setting, measured=measured, threshold=threshold, unit=unit, numbers=numbers
            )


def share(limit: Limit) -> float:
    return limit.measured / limit.threshold if limit.threshold > 0 else limit.measured + 1.0


usual = st.sampled_from([0.0, 10.0, 15_000.0, 15_000.5, 30_000.0, 30_001.0, 52_428_800.0, 52_428_801.0])
hostile = st.sampled_from([-0.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 1e308]) | st.floats(width=64)
figure = usual | hostile
count = st.sampled_from([0, 1, 2, 3, 500, 501, 1_000, 1_001, 2**53 + 1, 2**63, 10**30])
names = st.tuples(st.sampled_from(["t/n", "t/m", "t/n-0"]), st.integers(0, 9)).map(
    lambda one: f"{one[0]}/0x{one[1]:08x}_0x{one[1] + 1:08x}"
)
some_stats = st.builds(BundleStats, count, count, count, figure, figure, figure, figure)
some_brokers = st.dictionaries(
    st.sampled_from(["b1:8080", "b2:8080", "b10:8080"]), st.dictionaries(names, some_stats, max_size=8), max_size=3
).map(lambda found: {name: BrokerReport(name, stats=stats) for name, stats in found.items()})
some_settings = st.fixed_dictionaries(
    {
        "loadBalancerNamespaceBundleMaxTopics": st.sampled_from([1_000, 2, 0, -1]),
        "loadBalancerNamespaceBundleMaxSessions": st.sampled_from([1_000, 0, -1]),
        "loadBalancerNamespaceBundleMaxMsgRate": st.sampled_from([30_000, 0, -1]),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": st.sampled_from([100, 0, 2048]),
        "loadBalancerNamespaceMaximumBundles": st.sampled_from([128, 3, 1]),
    }
).map(lambda found: Settings().with_values(found))


@given(
    brokers=some_brokers,
    past=st.dictionaries(names, some_stats, max_size=8),
    counts=st.dictionaries(st.sampled_from(["t/n", "t/m"]), st.integers(1, 4)),
    settings=some_settings,
)
def test_looking_at_bundles_over_a_limit_first_changes_no_verdict(
    brokers: dict[str, BrokerReport], past: dict[str, BundleStats], counts: dict[str, int], settings: Settings
) -> None:
    histories = {bundle: updated(None, stats) for bundle, stats in past.items()}
    expected = tuple(word_for_word(brokers, histories, counts, settings))
    found = find_bundles_to_split(brokers, histories, counts, settings)
    assert found.considered == expected
    assert [row.sentence() for row in found.considered] == [row.sentence() for row in expected]
    chosen = {row.subject: row.broker for row in expected if row.outcome == "split"}
    assert [*found.splits.items()] == sorted(chosen.items())


NULLABLE = ("topics", "consumers", "producers", *(f"used_{name}" for name in RATES))


@given(
    spoilt=st.lists(
        st.tuples(
            st.fixed_dictionaries({}, optional=dict.fromkeys(NULLABLE, st.none())),
            st.fixed_dictionaries({}, optional={f"long_{name}": figure for name in RATES}),
            st.sampled_from(["b1:8080", "b2:8080", None]),
            st.sampled_from([2_000, 5, 1]),
            st.sampled_from([0, 1, 10]),
        ),
        max_size=12,
    )
)
def test_rows_with_nulls_are_judged_word_for_word_and_acts_alone_are_the_same(spoilt: list[Any]) -> None:
    bundles = [
        cycle_rows.bundle(n, owner, **{"topics": topics, "long_samples": samples, **averages, **nulls})
        for n, (nulls, averages, owner, topics, samples) in enumerate(spoilt)
    ]
    rows = cycle_rows.rows([cycle_rows.report("b1:8080", 50.0), cycle_rows.report("b2:8080", 50.0)], bundles)
    found = plan(rows)
    settings, brokers = reading.settings_of(rows), reading.broker_reports(rows)
    assert found.considered == tuple(
        word_for_word(brokers, reading.histories(rows), reading.bundle_counts(rows), settings)
    )
    every = decide_modular({}, rows)["split_decisions"]
    few = decide_modular({}, SharedRows(rows, acts_only=True))["split_decisions"]
    assert few == [row for row in every if row["outcome"] in ("split", "refused")]
