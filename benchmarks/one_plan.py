"""One plan of the whole: from random owners to the target, and what it moves for it.

`python -m benchmarks one_plan [--size 100x10000 …] [--seed N]`. Loads are Pareto (1.5), a bundle at most half of what a
broker has on average, brokers alike. Goals: the target is reached, with at most 1.25 times the load that has to move
for it, in at most 8 s of processor time (30 s with a million bundles).
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Sequence

from benchmarks.machine import description
from evenkeel.planner.desired import OwnedBundle, desired_placement
from evenkeel.planner.floor import fewest_moves, floor_of
from evenkeel.planner.target import BundleKind, UsageLine, target_of

SIZES = ("100x10000", "1000x100000")
MOST_OVER_FLOOR = 1.25
MOST_SECONDS, MOST_SECONDS_OF_A_MILLION = 8.0, 30.0
MILLION = 1_000_000
MEAN_USAGE = 0.5


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per size; 0 if the goals were met by all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks one_plan")
    parser.add_argument("--size", nargs="+", default=[*SIZES], metavar="BROKERSxBUNDLES")
    parser.add_argument("--seed", type=int, default=19)
    given = parser.parse_args(list(arguments))
    print(f"  {description()}, seed {given.seed}", flush=True)
    return max(_measure(*map(int, size.split("x")), seed=given.seed) for size in given.size)


def _measure(brokers: int, bundles: int, *, seed: int) -> int:
    curves, made = start(brokers, bundles, seed)
    carried: dict[str, float] = dict.fromkeys(curves, 0.0)
    own: dict[str, list[float]] = {name: [] for name in curves}
    for one in made:
        assert one.owner is not None
        carried[one.owner] += one.loads[0]
        own[one.owner].append(one.loads[0])
    total = math.fsum(one.loads[0] for one in made)
    target = target_of(curves, [BundleKind(frozenset(curves), total)])
    floor = floor_of(curves, carried, target.usage)
    began = time.process_time()
    found = desired_placement({name: (line,) for name, line in curves.items()}, made, target.usage)
    took = time.process_time() - began
    load = {one.name: one.loads[0] for one in made}
    moved = math.fsum(load[move.bundle] for move in found.moves)
    before = max(carried.values())
    for move in found.moves:
        assert move.source is not None
        carried[move.source] -= load[move.bundle]
        carried[move.destination] += load[move.bundle]
    mean, busiest = total / brokers, max(carried.values())
    most = MOST_SECONDS_OF_A_MILLION if bundles >= MILLION else MOST_SECONDS
    is_met = not found.over and moved <= MOST_OVER_FLOOR * floor.load and took <= most
    print(
        f"    {brokers:,} x {bundles:,}: busiest over mean {before / mean:.2f} -> {busiest / mean:.3f} (target "
        f"{target.usage / MEAN_USAGE:.2f}), moved {100 * moved / total:.1f} % of the load ({moved / floor.load:.2f} x "
        f"the floor), {len(found.moves):,} moves (floor {fewest_moves(floor.excess, own):,}), {took:.2f} CPU s"
        f"{'' if is_met else '  missed'}",
        flush=True,
    )
    return int(not is_met)


def start(brokers: int, bundles: int, seed: int) -> tuple[dict[str, UsageLine], list[OwnedBundle]]:
    """Brokers alike, half used on average, and bundles with random owners."""
    chance = random.Random(seed)
    names = [f"broker-{n:04}.example:8080" for n in range(brokers)]
    drawn = [chance.paretovariate(1.5) for _ in range(bundles)]
    most = 0.5 * math.fsum(drawn) / brokers
    loads = [min(load, most) for load in drawn]
    slope = MEAN_USAGE * brokers / math.fsum(loads)
    every = frozenset(names)
    made = [OwnedBundle(f"bundle-{n:07}", chance.choice(names), (load,), every) for n, load in enumerate(loads)]
    return {name: UsageLine(0.0, slope) for name in names}, made
