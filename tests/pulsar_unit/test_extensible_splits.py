"""Restates the tests of the extensible manager's automatic splits (Pulsar 4.2.4)."""

from collections.abc import Mapping

import pytest

from devtools.conformance.reading import following_switches
from evenkeel.model.load import BundleStats
from evenkeel.plan_splits.rules.default_namespace_bundle_split_strategy import (
    ExtensibleSplits,
    State,
    View,
    decide_splits,
)
from evenkeel.settings import Settings, resolve
from tests.pulsar_unit.given import EXTENSIBLE, report, settings, stats
from tests.pulsar_unit.mirror import mirrors

SPLIT = "extensions.strategy.DefaultNamespaceBundleSplitStrategyTest"
BROKER = "broker-1"
WHOLE, PART = "tenant/namespace/0x00000000_0xFFFFFFFF", "tenant/namespace/0x00000000_0x0FFFFFFF"
CHILDREN = {
    WHOLE: {"0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"},
    PART: {"0x00000000_0x07ffffff", "0x07ffffff_0x0fffffff"},
}
LIMITS = settings(
    loadBalancerNamespaceMaximumBundles=100,
    loadBalancerNamespaceBundleMaxTopics=100,
    loadBalancerNamespaceBundleMaxSessions=100,
    loadBalancerNamespaceBundleMaxMsgRate=100,
    loadBalancerNamespaceBundleMaxBandwidthMbytes=100,
    loadBalancerMaxNumberOfBundlesToSplitPerCycle=1,
    loadBalancerNamespaceBundleSplitConditionHitCountThreshold=3,
)
AT_ONCE = LIMITS.with_values({"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0})
BUSY = stats(topics=5, rate_in=101.0)


def decide(
    figures: Mapping[str, BundleStats], held: Settings = AT_ONCE, state: State | None = None, **view: object
) -> ExtensibleSplits:
    """One round of the sole broker; `view`: fields of `View`."""
    seen = View(**({"bundle_counts": {"tenant/namespace": 0}} | view))  # type: ignore[arg-type]
    return decide_splits({BROKER: report(BROKER, stats=figures)}, state or {}, seen, held)


def children(decided: ExtensibleSplits) -> dict[str, set[str]]:
    """Bundle that is split -> the ranges of its children."""
    return {one.bundle: {child.rpartition("/")[2] for child in one.children} for one in decided.splits}


@mirrors(SPLIT, "testNamespaceBundleSplitConditionThreshold")
def test_split_at_the_first_hit() -> None:
    assert len(decide({WHOLE: BUSY, PART: BUSY}).splits) == 1


@mirrors(SPLIT, "testNotEnoughTopics")
def test_no_split_of_bundles_with_one_topic() -> None:
    alone = BUSY._replace(topics=1)
    assert decide({WHOLE: alone, PART: alone}).splits == ()


@mirrors(SPLIT, "testNamespaceMaximumBundles")
def test_no_split_at_the_namespaces_maximum() -> None:
    assert decide({WHOLE: BUSY, PART: BUSY}, bundle_counts={"tenant/namespace": 100}).splits == ()


@mirrors(SPLIT, "testEmptyBundleStats")
def test_no_split_without_figures() -> None:
    assert decide({}).splits == ()


@mirrors(SPLIT, "testNoBundleOwner")
def test_no_split_of_bundles_that_another_broker_owns() -> None:
    made = decide({WHOLE: BUSY, PART: BUSY}, not_owned={WHOLE, PART})
    assert (made.splits, made.failures) == ((), 0)


@mirrors(SPLIT, "testSplittingBundle")
def test_no_split_next_to_a_bundle_that_is_being_split() -> None:
    made = decide({WHOLE: BUSY, PART: BUSY}, splitting=[WHOLE])
    assert (made.splits, made.failures) == ((), 0)


OVER = {
    "testMaxMsgRate": (stats(topics=5, rate_in=51.0, rate_out=51.0), "rate_over_limit"),
    "testMaxTopics": (stats(topics=101), "topics_over_limit"),
    "testMaxSessions": (stats(topics=5, producers=51, consumers=51), "sessions_over_limit"),
    "testMaxBandwidthMbytes": (
        stats(topics=5, throughput_in=100 * 1024 * 1024 // 2 + 1, throughput_out=100 * 1024 * 1024 // 2 + 1),
        "throughput_over_limit",
    ),
}


BY_NAME = (
    "order of Pulsar's map: its test puts the two bundles into a LinkedHashMap and expects the whole range to be split "
    "in the fourth round, the part in the fifth, as the cap of one split per cycle takes them in that order; Evenkeel "
    "takes bundles by name, so the part goes first"
)


def five_rounds(figures: BundleStats) -> list[ExtensibleSplits]:
    """Five rounds in a row over both bundles, which have the same figures; one split per round at most."""
    state: State = {}
    rounds = []
    for _ in range(5):
        rounds.append(decide({WHOLE: figures, PART: figures}, LIMITS, state))
        state = rounds[-1].state
    return rounds


@pytest.mark.parametrize(
    ("figures", "rule"),
    [pytest.param(*case, marks=mirrors(SPLIT, method, differs=BY_NAME), id=method) for method, case in OVER.items()],
)
def test_a_bundle_over_a_limit_is_split_at_the_fourth_hit_and_equal_ones_by_name(
    figures: BundleStats, rule: str
) -> None:
    rounds = five_rounds(figures)
    assert PART < WHOLE
    assert [children(one) for one in rounds] == [{}, {}, {}, {PART: CHILDREN[PART]}, {WHOLE: CHILDREN[WHOLE]}]
    assert [one.failures for one in rounds] == [0] * 5
    assert {split.reason.rule for one in rounds for split in one.splits} == {rule}


@mirrors("extensions.scheduler.SplitSchedulerTest", "testDisableLoadBalancer")
@pytest.mark.parametrize("key", ["loadBalancerEnabled", "loadBalancerAutoBundleSplitEnabled"])
def test_no_bundle_is_split_while_a_switch_is_off(key: str) -> None:
    """Only where the brokers' switches are followed; those of a live cluster never switch Evenkeel."""
    figures = {WHOLE: stats(topics=5_000)}
    assert len(decide(figures, switched()).splits) == 1
    assert decide(figures, switched(key)).splits == ()


def switched(*off: str) -> Settings:
    """The settings of an extensible cluster that has these keys off, and that splits at the first hit."""
    observed = {"loadManagerClassName": f"org.apache.pulsar.broker.loadbalance.extensions.{EXTENSIBLE}"}
    observed |= dict.fromkeys(off, "false")
    held = following_switches(resolve(observed=observed, overrides=None).settings, observed)
    return held.with_values({"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0})
