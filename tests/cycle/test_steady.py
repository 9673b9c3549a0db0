"""What an operator sees of a strategy over many cycles: who gets work, whether it ends, whether bundles come back.

The model of a cluster is steered by each shedder of the modular manager, from several seeds. Pulsar's strategies
promise little of it. The first plan gives work to an empty broker alone: it is the idlest one to `AvgShedder`'s pairs
and to placement. Later plans may move bundles between the others, and under a load that stays the same plans may go on:
no strategy looks back. What keeps a bundle from going back, and plans from going on, is Evenkeel's guard on bounces.
Where something is not promised, a test shows a case of it.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from evenkeel.replay.closed_loop import TOTAL_BYTES_PER_S, ModelSteering, Scenario, Size, scenario, simulate
from evenkeel.settings import resolve

pytestmark = pytest.mark.slow

TO_THE_IDLEST = ("UniformLoadShedder", "AvgShedder")
BY_A_MARK = ("OverloadShedder", "ThresholdShedder")
# Marks so low, and counts so short, that each strategy acts.
EAGER: dict[str, object] = {
    "evenkeelSplitEnabled": False,
    "loadBalancerBrokerOverloadedThresholdPercentage": 60,
    "loadBalancerBrokerThresholdShedderPercentage": 5,
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "loadBalancerAvgShedderHitCountHighThreshold": 1,
    "loadBalancerMsgRateDifferenceShedderThreshold": 10,
    "loadBalancerSheddingGracePeriodMinutes": 0,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.0,
    "minUnloadMessage": 0,
    "minUnloadMessageThroughput": 0,
}
NO_GUARDS: dict[str, object] = {"evenkeelGuardsEnabled": False}
NEVER_BACK: dict[str, object] = {"evenkeelBounceWindowMinutes": 30, "evenkeelBounceGainPoints": 100.0}
WINDOW = timedelta(minutes=30)
BOUNDED = settings(max_examples=12, phases=(Phase.generate,))
SEEDS = st.integers(1, 10_000)


def asked(played: Scenario, shedder: str, **more: object) -> list[dict[str, Any]]:
    """Every unload that is asked for, in the order of time."""
    overrides = {**EAGER, "loadBalancerLoadSheddingStrategy": shedder, **more}
    rows = simulate(played, ModelSteering("one", (resolve(observed=None, overrides=overrides),), 0.85))
    return [row for table, row in rows if table == "replay_decisions" and row["outcome"] == "asked"]


def with_an_empty_broker(brokers: int, bundles: int, seed: int) -> tuple[Scenario, str]:
    """Old brokers with equal shares of equal bundles, and a new one that has none."""
    found = scenario("zipf", Size(brokers + 1, brokers * bundles, 20), seed)
    *old, new = sorted(found.fits)
    owners = {bundle: old[n % len(old)] for n, bundle in enumerate(sorted(found.owners))}
    equal = [TOTAL_BYTES_PER_S / len(found.topics)] * len(found.topics)
    return replace(found, owners=owners, throughputs=lambda n: equal), new


def returns(unloads: Iterable[dict[str, Any]]) -> int:
    """How many of them bring a bundle back to a broker that it left within the window."""
    left: dict[str, dict[str, Any]] = defaultdict(dict)
    count = 0
    for one in unloads:
        before = left[one["bundle"]].get(one["destination"])
        count += before is not None and one["cycle_at"] - before <= WINDOW
        left[one["bundle"]][one["from_broker"]] = one["cycle_at"]
    return count


@pytest.mark.parametrize("guards", [{}, NO_GUARDS], ids=["guards", "no-guards"])
@pytest.mark.parametrize("shedder", [*TO_THE_IDLEST, "ThresholdShedder"])
@BOUNDED
@given(brokers=st.integers(2, 5), bundles=st.integers(8, 10), seed=SEEDS)
def test_a_broker_that_is_added_empty_gets_all_that_the_first_plan_moves(
    shedder: str, guards: dict[str, object], brokers: int, bundles: int, seed: int
) -> None:
    found, new = with_an_empty_broker(brokers, bundles, seed)
    moves = asked(found, shedder, **guards)
    assert {one["destination"] for one in moves if one["cycle_at"] == moves[0]["cycle_at"]} == {new}


@pytest.mark.parametrize(("shedder", "brokers"), [("ThresholdShedder", 3), ("AvgShedder", 5)])
def test_later_plans_may_move_bundles_between_old_brokers(shedder: str, brokers: int) -> None:
    found, new = with_an_empty_broker(brokers, 8, 1)
    destinations = {one["destination"] for one in asked(found, shedder, **NO_GUARDS)}
    assert new in destinations
    assert destinations - {new}


@pytest.mark.parametrize("shedder", [*TO_THE_IDLEST, *BY_A_MARK])
@BOUNDED
@given(brokers=st.integers(2, 4), seed=SEEDS)
def test_with_the_guard_on_bounces_no_bundle_goes_back_within_the_window(shedder: str, brokers: int, seed: int) -> None:
    found = scenario("zipf", Size(brokers, brokers * 8, 50), seed)
    assert returns(asked(found, shedder, **NEVER_BACK)) == 0


@pytest.mark.parametrize(("shedder", "seed"), [("OverloadShedder", 3), ("ThresholdShedder", 1), ("AvgShedder", 6)])
def test_without_guards_bundles_bounce_under_load_that_stays_the_same(shedder: str, seed: int) -> None:
    assert returns(asked(scenario("zipf", Size(3, 24, 60), seed), shedder, **NO_GUARDS)) > 0


@pytest.mark.parametrize("shedder", [*TO_THE_IDLEST, *BY_A_MARK])
@BOUNDED
@given(brokers=st.integers(2, 4), seed=SEEDS)
def test_with_the_guard_on_bounces_plans_come_to_an_end(shedder: str, brokers: int, seed: int) -> None:
    """A bundle has one move that needs no gain, so a load that stays the same is done after one for each."""
    found = scenario("zipf", Size(brokers, brokers * 8, 40), seed)
    one_move = {**NEVER_BACK, "evenkeelFreeMovesPerBundlePerDay": 1}
    moved = [one["bundle"] for one in asked(found, shedder, **one_move)]
    assert len(moved) == len(set(moved))


@pytest.mark.parametrize(("shedder", "seed"), [("AvgShedder", 7175), ("ThresholdShedder", 1)])
def test_without_guards_plans_go_on_under_a_load_that_stays_the_same(shedder: str, seed: int) -> None:
    found = scenario("zipf", Size(3, 24, 40), seed)
    steady = found.throughputs(0)
    moves = asked(replace(found, throughputs=lambda n: steady), shedder, **NO_GUARDS)
    assert moves[-1]["cycle_at"] > found.moments[27]
