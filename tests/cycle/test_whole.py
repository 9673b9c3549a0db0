"""Whole cycles in memory: whoever is asked for acts alone, or shares what was worked out, comes to the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.cycle import whole
from evenkeel.replay.closed_loop import Size, scenario
from evenkeel.replay.modelled_cluster import Cluster
from evenkeel.rounds import reading
from evenkeel.rounds.memo import SharedRows
from evenkeel.settings import EffectiveSettings, resolve

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
EAGER = {
    "loadBalancerSheddingIntervalMinutes": 1,
    "evenkeelAssumeUnloadsSucceed": True,
    "loadBalancerNamespaceBundleMaxTopics": 8,
    "loadBalancerBrokerThresholdShedderPercentage": 5,
    "loadBalancerBrokerOverloadedThresholdPercentage": 50,
    "loadBalancerMsgRateDifferenceShedderThreshold": 10,
    "loadBalancerAvgShedderLowThreshold": 5,
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "loadBalancerAvgShedderHitCountHighThreshold": 1,
    "loadBalancerSheddingConditionHitCountThreshold": 0,
    "loadBalancerBrokerLoadTargetStd": 0.02,
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 1,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "ThresholdShedder": {"loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight"},
    "OverloadShedder": {"loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector"},
    "UniformLoadShedder": {},
    "AvgShedder": {"loadBalancerLoadPlacementStrategy": "AvgShedder"},
    "TransferShedder": {"evenkeelManager": "extensible"},
}


def cycles(settings: EffectiveSettings, seed: int) -> list[tuple[datetime, dict[str, Any]]]:
    """Some cycles of a cluster that a broker leaves, with topics so unevenly spread that some bundles are too large."""
    played = scenario("broker-loss", Size(brokers=3, bundles=18, cycles=6), seed)
    drawn = random.Random(seed)
    topics = [*played.topics, *(drawn.choice(played.topics[:20]) for _ in range(60))]
    cluster = Cluster(
        "lab", played.fits, topics, dict(played.boundaries), dict(played.owners), settings.settings.manager
    )
    found = []
    for n, at in enumerate(played.moments):
        flows = [drawn.paretovariate(1.2) * 1e5 for _ in topics]
        cluster.observe(at, flows, played.down(n), settings.settings)
        found.append((at + timedelta(0), cluster.rows(settings.settings)))
    return found


def acts(made: whole.DecidedCycle) -> list[tuple[Any, ...]]:
    names = ("kind", "bundle", "from_broker", "destination", "cuts", "step")
    return [tuple(map(str, (row[name] for name in names))) for row in made.rows["commands"]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shedder", VARIANTS)
def test_acts_alone_and_shared_work_change_neither_acts_nor_state(shedder: str, seed: int) -> None:
    overrides = {**EAGER, "loadBalancerLoadSheddingStrategy": shedder, **VARIANTS[shedder]}
    settings = resolve(observed=None, overrides=overrides)
    state: list[Any] = []
    seen = 0
    for at, rows in cycles(settings, seed):
        cycle = reading.cycle_row("lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager)
        thorough = whole.decide(rows, cycle, state)
        shared = SharedRows(rows)
        first = whole.decide(shared, cycle, state)
        few = whole.decide(SharedRows(rows, shared.known, acts_only=True), cycle, state)
        assert first.rows == thorough.rows
        assert first.plan_id == thorough.plan_id != "" == few.plan_id
        assert acts(few) == acts(thorough)
        assert few.rows[whole.STATE] == thorough.rows[whole.STATE]
        without = {"plan_id"}
        assert {k: v for k, v in few.plan.figures.items() if k not in without} == {
            k: v for k, v in thorough.plan.figures.items() if k not in without
        }
        state = list(thorough.rows[whole.STATE])
        seen += len(thorough.plan.commands) + thorough.plan.figures["held"]
    assert seen > 0
