"""The planner with one part off after the other, in the judge's scenarios: what each part is good for.

`python -m benchmarks ablations [--size small] [--seeds 3 4] [--scenario NAME ...] [--part NAME ...] [--series FILE]
[--cloudwatch FOLDER]` prints a table with a line for each part. Parts have no settings, since nobody should run without
them, and no parameters, which their callers would have to hand on: here alone they are replaced by name (`PARTS`), for
as long as a cluster is played. No goal.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks.judged_run import Measure, Outcome, absorbed_with_time, measure, play
from benchmarks.judged_scenarios import MEANINGS, SIZES, JudgedScenario, judged_scenario
from benchmarks.judged_series import PublicFiles
from benchmarks.judged_variants import NOBODY, PLANNER, settings_with
from benchmarks.machine import description
from evenkeel.plan_splits import planner_wishes
from evenkeel.planner import figures, plan, reconciler, relief, usage_model, view
from evenkeel.settings import Settings

TOLD_FROM = 0.01
"""A scenario is named where its max/U* changed by so much."""
STOP_PERCENT = Settings().evenkeelPlannerStopAtPercent


@dataclass(frozen=True, slots=True)
class Part:
    """How a part is taken out: what is put in its place (owner, name, value), and settings."""

    replaced: tuple[tuple[Any, str, Any], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()


def _wherever(one: Any, *, may_return: bool) -> frozenset[str]:
    """`plan._places` without a window."""
    return one.brokers if one.owner is None else one.brokers | {one.owner}


def _within_the_window(one: Any, *, may_return: bool) -> frozenset[str]:
    """`plan._places` without the day."""
    return _PLACES(one, may_return=True)


def _busiest_alone(brokers: Any) -> tuple[str, ...]:
    """`figures._resources` with the busiest resource only."""
    every = [*brokers]
    found = _RESOURCES(every)
    return tuple(sorted(found, key=lambda r: -max(one.usages.get(r, 0.0) for one in every))[:1])


def _averages_alone(memory: Any, _cycles: int) -> float:
    """`figures._latest_part` that expects nothing of the latest figures where load swings."""
    return 0.0 if _SWINGS(memory) else 1.0


def _next_cycle_alone(memory: Any, _cycles: int) -> float:
    """`figures._latest_part` that asks what is still there in the next cycle, and not for how long."""
    return _LATEST_PART(memory, 1)


def _places_nobody(self: Any, moves: Any, bound: str) -> Any:
    """`Reconciler.run` that leaves bundles without owner to the placement strategy in force."""
    return [step for step in _RUN(self, moves, bound) if step.source is not None]


_PLACES, _RESOURCES, _RUN, _SWINGS = plan._places, figures._resources, reconciler.Reconciler.run, figures._swings
_LATEST_PART = figures._latest_part
_NOTHING: Callable[..., Any] = lambda *_, **__: ()  # noqa: E731
_AS_WANTED: Callable[..., Any] = lambda wanted, *_: {**wanted}  # noqa: E731
_NO_SPLITS: Callable[..., Any] = lambda *_: {}  # noqa: E731
_NO: Callable[..., Any] = lambda *_, **__: False  # noqa: E731

PARTS: Mapping[str, Part] = {
    "nothing": Part(),
    "fitted usage": Part(((usage_model.UsageSums, "is_proven", False),)),
    "usage (traffic alone)": Part(((figures, "_resources", _NOTHING),)),
    "messages in a load": Part(((figures, "_message_bytes", lambda *_: 0.0),)),
    "proportion of the last cycles alone": Part(((usage_model, "ANOTHER_LOAD", math.inf),)),
    "all resources but the busiest": Part(((figures, "_resources", _busiest_alone),)),
    "window of no return": Part(((plan, "_places", _wherever),)),
    "day of no return": Part(((plan, "_places", _within_the_window),)),
    "noise margin (act at stop)": Part(
        settings=(("evenkeelPlannerActAbovePercent", STOP_PERCENT), ("evenkeelPlannerLeastGainPoints", 0.0))
    ),
    "least gain": Part(settings=(("evenkeelPlannerLeastGainPoints", 0.0),)),
    "a first look": Part(((figures.SeenLoads, "is_steady", True),)),
    "two settled cycles": Part(((plan, "CYCLES_ABOVE", 1),)),
    "at once from far above": Part(settings=(("evenkeelPlannerActAtOnceAbovePercent", 1_000.0),)),
    "settled figures": Part(((view.PlannerView, "is_settled", True),)),
    "waiting for steady load": Part(((figures, "MOST_UNSTEADY", 0),)),
    "averages where load swings": Part(((figures, "_swings", _NO),)),
    "the latest figures beside averages": Part(((figures, "_latest_part", _averages_alone),)),
    "a narrower band for averages": Part(((figures, "NARROWER", 1.0),)),
    "how long a difference lasts": Part(((figures, "_latest_part", _next_cycle_alone),)),
    "saving moves": Part(((relief, "_is_worth_it", _NO),)),
    "making room": Part(((relief, "room_is_made", _NO),)),
    "filling idle brokers": Part(((figures.SeenLoads, "idle", _NOTHING),)),
    "placing by target": Part(((reconciler.Reconciler, "run", _places_nobody),)),
    "asking for splits": Part(((plan, "_too_hot", _NO_SPLITS), (plan, "stuck", _NO_SPLITS))),
    "cuts where parts have room (Pulsar's algorithms)": Part(((plan, "with_rooms", _AS_WANTED),)),
    "parts of any split stay": Part(((planner_wishes, "places_children", _NO),)),
    "falling back": Part(((plan, "MOST_MISSES", math.inf),)),
    "least usage for a load": Part(((figures, "with_least_usage", lambda models, *_: models),)),
    "mending breaches": Part(((plan, "MENDS", "within_band"),)),
}
"""Part -> what is the planner without it."""


@contextmanager
def without(part: Part) -> Iterator[None]:
    """Takes a part out for a while."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in part.replaced]
    try:
        for owner, name, value in part.replaced:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


Played = Mapping[str, Sequence[Outcome]]
"""Scenario -> what the planner came to, by seed."""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the table."""
    given = _given(arguments)
    began = time.process_time()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {description()}", flush=True)
    public = PublicFiles.given(given)
    names = public.scenarios(given.scenario, MEANINGS)
    made = {name: [judged_scenario(name, SIZES[given.size], seed, public) for seed in given.seeds] for name in names}
    asked = {name: [measure(one, settings_with(NOBODY)) for one in own] for name, own in made.items()}
    print(f"size {given.size}, seeds {', '.join(map(str, given.seeds))}; {len(names)} scenarios\n")
    print(f"| off | {' | '.join(COLUMNS)} |\n|---{'|---' * len(COLUMNS)}|", flush=True)
    whole: Played = {}
    for name in dict.fromkeys(["nothing", *(given.part or PARTS)]):
        found = played_without(PARTS[name], made, asked)
        whole = whole or found
        print(f"| {name} | {' | '.join(_cells(found, whole, asked))} |", flush=True)
    print(f"\n{time.process_time() - began:.0f} CPU s")
    return 0


def _given(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablations")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4])
    parser.add_argument("--scenario", nargs="+", choices=MEANINGS, default=[])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=[])
    PublicFiles.add_to(parser)
    return parser.parse_args(list(arguments))


def played_without(
    part: Part, made: Mapping[str, Sequence[JudgedScenario]], asked: Mapping[str, Sequence[Measure]]
) -> dict[str, list[Outcome]]:
    """What the planner comes to without a part."""
    effective = settings_with(PLANNER, dict(part.settings))
    with without(part):
        return {
            name: [play(one, effective, m) for one, m in zip(own, asked[name], strict=True)]
            for name, own in made.items()
        }


COLUMNS = (
    "max/U*", "moves", "moved load", "÷ kept", "bounces", "returns", "absorbed", "in time", "over budget", "held",
    "scenarios that change",
)  # fmt: skip


def _cells(found: Played, whole: Played, asked: Mapping[str, Sequence[Measure]]) -> list[str]:
    every = [outcome for own in found.values() for outcome in own]
    moved, _, kept = (math.fsum(one.moved_over_floor[n] for one in every) / len(every) for n in range(3))
    shocks = [one for name, own in found.items() for one in absorbed_with_time(asked[name], own)]
    absorbed = [(cycles, one) for cycles, one in shocks if one is not None]
    in_time = sum(one[1] <= cycles for cycles, one in absorbed)
    return [
        f"{_mean([one.ratio for one in every]):.3f}",
        f"{_mean([one.moves for one in every]):.1f}",
        f"{100 * moved:.1f} %",
        f"{moved / kept:.2f}",
        *(str(sum(getattr(one, name) for one in every)) for name in ("bounces", "returns")),
        f"{len(absorbed)} of {len(shocks)}",
        str(in_time),
        *(str(sum(getattr(one, name) for one in every)) for name in ("over_budget", "held")),
        _changed(found, whole),
    ]


def _changed(found: Played, whole: Played) -> str:
    """The scenarios in which the busiest broker is another, with the difference, the largest first."""
    differences = {
        name: _mean([one.ratio for one in own]) - _mean([one.ratio for one in whole[name]])
        for name, own in found.items()
    }
    told = sorted((name for name, by in differences.items() if abs(by) >= TOLD_FROM), key=lambda n: -differences[n])
    return ", ".join(f"{name} {differences[name]:+.2f}" for name in told) or "–"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
