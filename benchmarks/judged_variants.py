"""Who steers the judge's clusters: Pulsar's five shedders with its defaults, with guards, and tuned on other seeds.

Tuned is each shedder for each scenario, under guards, over a grid around what Pulsar's pages recommend. The best has
the least usage of the busiest broker against an evenly used cluster (to 0.01), then the fewest moves and splits. All of
the grid plays the first seed, the best quarter the second, and the two best of those the other three.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.judged_run import Measure, Outcome, measure, play
from benchmarks.judged_scenarios import JudgedScenario
from evenkeel.settings import EffectiveSettings, resolve

TUNED_FILE = Path(__file__).with_name("judged_tuned.json")
TUNING_SEEDS = (101, 102, 103, 104, 105)
ROUNDS = ((101,), (102,), (103, 104, 105))
"""Seeds of the rounds of tuning."""

Overrides = Mapping[str, Any]
NOBODY: Overrides = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
GUARDS_OFF: Overrides = {"evenkeelGuardsEnabled": False}
SHEDDERS: Mapping[str, Overrides] = {
    "ThresholdShedder": {"loadBalancerLoadSheddingStrategy": "ThresholdShedder"},
    "OverloadShedder": {"loadBalancerLoadSheddingStrategy": "OverloadShedder"},
    "UniformLoadShedder": {"loadBalancerLoadSheddingStrategy": "UniformLoadShedder"},
    "AvgShedder": {
        "loadBalancerLoadSheddingStrategy": "AvgShedder",
        "loadBalancerLoadPlacementStrategy": "AvgShedder",
    },
    "TransferShedder": {
        "evenkeelManager": "extensible",
        "loadManagerClassName": "ExtensibleLoadManagerImpl",
        "loadBalancerLoadSheddingStrategy": "TransferShedder",
        "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
    },
}
"""Shedder -> what it takes to have it, under its own load manager."""

PLANNER: Overrides = {"evenkeelPlanner": "on"}
"""Evenkeel's own planner, with its defaults and with guards."""

AXES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "ThresholdShedder": {
        "loadBalancerBrokerThresholdShedderPercentage": (5, 10),
        "loadBalancerHistoryResourcePercentage": (0.0, 0.5, 0.9),
        "loadBalancerLoadPlacementStrategy": ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight"),
    },
    "OverloadShedder": {"loadBalancerBrokerOverloadedThresholdPercentage": (55, 65, 85)},
    "UniformLoadShedder": {
        "loadBalancerMsgRateDifferenceShedderThreshold": (10.0, 20.0, 50.0),
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": (1.2, 2.0, 4.0),
        "maxUnloadPercentage": (0.2, 0.5),
    },
    "AvgShedder": {
        "loadBalancerAvgShedderLowThreshold": (5, 10, 15),
        "loadBalancerAvgShedderHitCountLowThreshold": (2, 4, 8),
    },
    "TransferShedder": {
        "loadBalancerBrokerLoadTargetStd": (0.02, 0.05, 0.1, 0.25),
        "loadBalancerSheddingConditionHitCountThreshold": (0, 3),
    },
}
"""Shedder -> the values that are tried of its keys, each with each."""
ALWAYS_TUNED: Mapping[str, Overrides] = {
    "UniformLoadShedder": {"minUnloadMessage": 0, "minUnloadMessageThroughput": 0},
}


@dataclass(frozen=True, slots=True)
class JudgedVariant:
    """A shedder and how it is set; nothing set of the one who leaves the cluster alone."""

    shedder: str
    how: str
    effective: EffectiveSettings
    tuned: Overrides = field(default_factory=dict)


def settings_with(*overrides: Overrides) -> EffectiveSettings:
    """The settings in force with these overrides, later ones before earlier ones."""
    return resolve(observed=None, overrides={key: value for one in overrides for key, value in one.items()})


def grid_of(shedder: str) -> list[dict[str, Any]]:
    """Everything that is tried of a shedder."""
    axes = AXES[shedder]
    return [
        {**ALWAYS_TUNED.get(shedder, {}), **dict(zip(axes, values, strict=True))} for values in product(*axes.values())
    ]


def variants_for(scenario: str) -> Iterator[JudgedVariant]:
    """All that are judged in a scenario; tuned ones as far as they have been tuned for it."""
    yield JudgedVariant("nobody", "", settings_with(NOBODY))
    yield JudgedVariant("planner", "", settings_with(PLANNER))
    tuned = json.loads(TUNED_FILE.read_text(encoding="utf-8")) if TUNED_FILE.exists() else {}
    for shedder, own in SHEDDERS.items():
        yield JudgedVariant(shedder, "defaults, no guards", settings_with(own, GUARDS_OFF))
        yield JudgedVariant(shedder, "defaults", settings_with(own))
        found = tuned.get(scenario, {}).get(shedder)
        if found is not None:
            yield JudgedVariant(shedder, "tuned", settings_with(own, found["settings"]), found["settings"])


Make = Callable[[int], JudgedScenario]
"""A scenario, given its seed."""


def tune(make: Make) -> dict[str, dict[str, Any]]:
    """Shedder -> its best settings for a scenario, and what they came to on the seeds of tuning."""
    played = {seed: make(seed) for seed in TUNING_SEEDS}
    asked = {seed: measure(scenario, settings_with(NOBODY)) for seed, scenario in played.items()}
    return {shedder: _best(shedder, played, asked) for shedder in SHEDDERS}


def _best(shedder: str, played: Mapping[int, JudgedScenario], asked: Mapping[int, Measure]) -> dict[str, Any]:
    left = [(overrides, list[Outcome]()) for overrides in grid_of(shedder)]
    for number, seeds in enumerate(ROUNDS):
        for overrides, outcomes in left:
            effective = settings_with(SHEDDERS[shedder], overrides)
            outcomes += [play(played[seed], effective, asked[seed]) for seed in seeds]
        left.sort(key=lambda one: rank(one[1]))
        left = left[: max(2, math.ceil(len(left) / 4))] if number == 0 else left[:2]
    overrides, outcomes = left[0]
    ratio, changes = rank(outcomes)
    return {"settings": overrides, "ratio": ratio, "moves_and_splits": changes}


def rank(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """What tuned settings are chosen by, the least first: the busiest broker (to 0.01), then moves and splits."""
    count = len(outcomes)
    ratio = math.fsum(one.ratio for one in outcomes) / count
    return round(ratio, 2), sum(one.moves + one.splits for one in outcomes) / count
