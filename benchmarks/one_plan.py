"""One plan of the whole: from random owners to the target, and what it moves for it.

`python -m benchmarks one_plan [--size 100x10000 …] [--seed N] [--rebalancer PYTHON [--seconds S]] [--round]`. Loads are
Pareto (1.5), a bundle at most half of what a broker has on average, brokers alike. Beside a plan's moves stand two
bounds of `moves_needed`: the fewest moves of any plan that moves as much load as this one, and of any within 1.25 times
the load that has to move. Goals: the target is reached, with at most 1.25 times the load that has to move for it, in at
most 8 s of processor time (30 s with a million bundles); and once it is reached and one bundle in a hundred has another
load, in 1 s (5 s with a million).

`--rebalancer`: an interpreter that has Meta's Rebalancer (PyPI `rebalancer`, Python ≥ 3.12) plans the same with the
target as its bound on a broker, by each of the goals of `_rebalancer`. `--round`: the planner's whole round over the
rows of such a cluster, from the rows of loads to those of its tables; at most 20 s at 1,000 x 100,000.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.judged_target import target_of
from benchmarks.machine import description
from benchmarks.moves_needed import moves_needed
from evenkeel.cycle.memo import SharedRows
from evenkeel.model.bundles import bundle_name, initial_boundaries, ranges_of
from evenkeel.planner import round as planner_round
from evenkeel.planner.placement_search import DesiredPlacement, OwnedBundle
from evenkeel.planner.target import BundleKind, UsageLine, floor_of
from evenkeel.planner.target_placement import desired_placement
from tests.cycle.rows import bundle, cycle, report, rows

SIZES = ("100x10000", "1000x100000", "1000x1000000")
MOST_OVER_FLOOR = 1.25
MOST_SECONDS, MOST_SECONDS_AGAIN, MOST_SECONDS_OF_ROUND = 8.0, 1.0, 20.0
SECONDS_OF_A_MILLION, SECONDS_AGAIN_OF_A_MILLION = 30.0, 5.0
MILLION = 1_000_000
MEAN_USAGE = 0.5
CHANGED = 0.01
REBALANCER_GOALS = ("capacity", "moves", "load")
BUNDLES_PER_NAMESPACE = 1_000


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a few lines per size; 0 if the goals were met by all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks one_plan")
    parser.add_argument("--size", nargs="+", default=[*SIZES], metavar="BROKERSxBUNDLES")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--rebalancer", metavar="PYTHON", help="an interpreter that has Meta's Rebalancer")
    parser.add_argument("--seconds", type=int, default=300, help="the most that one of its searches may take")
    parser.add_argument("--round", action="store_true", help="the planner's whole round as well")
    given = parser.parse_args(list(arguments))
    print(f"  {description()}, seed {given.seed}", flush=True)
    missed = 0
    for size in given.size:
        brokers, bundles = map(int, size.split("x"))
        one = Instance(brokers, bundles, given.seed)
        missed += one.plan() + one.plan_again()
        for goal in REBALANCER_GOALS if given.rebalancer else ():
            one.beside(given.rebalancer, goal, given.seconds)
        missed += whole_round(one) if given.round else 0
    return min(missed, 1)


class Instance:
    """Brokers and bundles, the target, and its floor."""

    def __init__(self, brokers: int, bundles: int, seed: int) -> None:
        self.curves, self.bundles = start(brokers, bundles, seed)
        self.seed, self.size = seed, f"{brokers:,} x {bundles:,}"
        self.is_large = bundles >= MILLION
        self.total = math.fsum(one.loads[0] for one in self.bundles)
        self.usage = target_of(self.curves, [BundleKind(frozenset(self.curves), self.total)]).usage
        self.own: dict[str, list[float]] = {name: [] for name in self.curves}
        for one in self.bundles:
            self.own[one.owner or ""].append(one.loads[0])
        self.carried = {name: math.fsum(loads) for name, loads in self.own.items()}
        self.rooms = [line.load_within(self.usage) - self.carried[name] for name, line in self.curves.items()]
        self.floor = floor_of(self.curves, self.carried, self.usage).load
        self.fewest = moves_needed(self.rooms, [*self.own.values()], MOST_OVER_FLOOR * self.floor)
        self.owners = {one.name: one.owner or "" for one in self.bundles}

    def plan(self) -> int:
        """Plans from the start; 1 if a goal was missed."""
        found, took = self._planned(self.bundles)
        self.owners = {**self.owners, **{move.bundle: move.destination for move in found.moves}}
        moved = self._told("planner", {move.bundle: move.destination for move in found.moves}, took)
        most = SECONDS_OF_A_MILLION if self.is_large else MOST_SECONDS
        return self._missed(not found.over and moved <= MOST_OVER_FLOOR * self.floor and took <= most)

    def plan_again(self) -> int:
        """Plans where the bundles are by the plan, once one in a hundred has another load; 1 if it took too long."""
        chance, loads = random.Random(self.seed), [one.loads[0] for one in self.bundles]
        changed = set(chance.sample(range(len(loads)), math.ceil(CHANGED * len(loads))))
        now = [
            replace(one, owner=self.owners[one.name], loads=(chance.choice(loads),) if n in changed else one.loads)
            for n, one in enumerate(self.bundles)
        ]
        found, took = self._planned(now)
        print(f"      one bundle in 100 changed: {len(found.moves):,} moves, {took:.2f} CPU s", flush=True)
        most = SECONDS_AGAIN_OF_A_MILLION if self.is_large else MOST_SECONDS_AGAIN
        return self._missed(not found.over and took <= most)

    def beside(self, python: str, goal: str, seconds: int) -> None:
        """What Rebalancer comes to from the same start."""
        place = {name: n for n, name in enumerate(self.curves)}
        names = [*self.curves]
        given = {
            "brokers": len(names),
            "owners": [place[one.owner or ""] for one in self.bundles],
            "loads": [one.loads[0] for one in self.bundles],
            "bound": next(iter(self.curves.values())).load_within(self.usage),
        }
        with TemporaryDirectory() as folder:
            instance = Path(folder) / "instance.json"
            instance.write_text(json.dumps(given), encoding="utf-8")
            script = Path(__file__).with_name("_rebalancer.py")
            command = [python, str(script), str(instance), goal, str(seconds)]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = json.loads(answer.strip().splitlines()[-1])
        self._told(f"Rebalancer, {goal}", {self.bundles[n].name: names[at] for n, at in found["moves"]}, found["cpu"])

    def _planned(self, bundles: Sequence[OwnedBundle]) -> tuple[DesiredPlacement, float]:
        began = time.process_time()
        found = desired_placement({name: (line,) for name, line in self.curves.items()}, bundles, self.usage)
        return found, time.process_time() - began

    def _told(self, who: str, moves: Mapping[str, str], took: float) -> float:
        """Prints what the moves come to; returns the load that they move."""
        carried, moved = dict(self.carried), []
        for one in self.bundles:
            if one.name in moves:
                carried[one.owner or ""] -= one.loads[0]
                carried[moves[one.name]] += one.loads[0]
                moved.append(one.loads[0])
        mean, load = self.total / len(carried), math.fsum(moved)
        fewest = moves_needed(self.rooms, [*self.own.values()], load)
        print(
            f"    {self.size}, {who}: busiest over mean {max(self.carried.values()) / mean:.2f} -> "
            f"{max(carried.values()) / mean:.3f} (target {self.usage / MEAN_USAGE:.2f}), moved "
            f"{100 * load / self.total:.1f} % of the load ({load / self.floor:.2f} x the floor), {len(moved):,} moves "
            f"(at least {fewest:,.0f} with this load, {self.fewest:,.0f} within {MOST_OVER_FLOOR} x the floor), "
            f"{took:.2f} CPU s",
            flush=True,
        )
        return load

    @staticmethod
    def _missed(is_met: bool) -> int:
        if not is_met:
            print("      missed", flush=True)
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


def whole_round(one: Instance) -> int:
    """The planner's round over rows of the cluster, in cycles one after the other; 1 if it took too long."""
    found: list[dict[str, Any]] = [{}]
    took = []
    for _ in range(2):
        given = SharedRows(_rows(one, found[-1].get("strategy_state", ())))
        began = time.process_time()
        found.append(dict(planner_round.decide({"cluster": "lab"}, given)))
        took.append(time.process_time() - began)
    state, targets = (len(found[-1][table]) for table in ("strategy_state", "planner_targets"))
    print(
        f"      the planner's round: {took[0]:.2f} and, with what it remembers, {took[1]:.2f} CPU s; {targets:,} rows "
        f"of planner_targets, {state:,} of strategy_state",
        flush=True,
    )
    return Instance._missed(one.is_large or max(took) <= MOST_SECONDS_OF_ROUND)


def _rows(one: Instance, state: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows that the round is given, of a planner that is on."""
    ranges = ranges_of(initial_boundaries(BUNDLES_PER_NAMESPACE))
    mean = one.total / len(one.curves)
    loads = []
    for n, own in enumerate(one.bundles):
        name = bundle_name(f"acme/ns{n // BUNDLES_PER_NAMESPACE:04}", ranges[n % BUNDLES_PER_NAMESPACE])
        row = bundle(0, own.owner, 1e6 * own.loads[0] / mean, topics=4) | {"bundle": name}
        loads.append(row | {f"{term}_msg_rate_in": 1e3 * own.loads[0] / mean for term in ("used", "short", "long")})
    moment = cycle(evenkeelPlanner="on") | {"steering": json.dumps({"acts": [], "pauses": []})}
    reports = [report(name, 50.0 * load / mean, is_listed=True) for name, load in one.carried.items()]
    given = rows(reports, loads, cycle=[moment])
    for row in given["broker_load"]:
        row |= {"weighted_usage": None, "msg_throughput_in": None, "msg_throughput_out": None}
    kept = [{**row, "at": row["at"].isoformat() if row["at"] else None} for row in state]
    return {**given, "state": kept}
