"""What the planner has to keep in the judge's scenarios, each a line where it is missed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.judged_run import Measure, Outcome, absorbed_with_time
from benchmarks.judged_scenarios import BOOKS
from benchmarks.judged_target import MARGIN
from benchmarks.judged_variants import SHEDDERS

MOST_MOVED = 1.3
"""Times the floor of what it aims for."""
UNDER_POLICY = ("reserved", "isolation")
"""The floor does not ask for what mends a breach, nor for evening out brokers beside those that a policy crowds."""
AS_EVEN = 0.01
BOOK_ROUNDS, BOOK_MINUTES = 2, 5.0
"""In the book's cases a shock is absorbed within so many cycles that act, and minutes."""


def missed(name: str, asked: Sequence[Measure], found: Mapping[tuple[str, str], Sequence[Outcome]]) -> list[str]:
    """The goals that the planner misses in a scenario."""
    planner = found["planner", ""]
    return [f"{name}: {fault}" for fault in (*_of_planner(name, asked, planner), *_beaten_by(planner, found))]


def _of_planner(name: str, asked: Sequence[Measure], planner: Sequence[Outcome]) -> Iterator[str]:
    aim = _mean([_aim(one) for one in asked])
    ratio = _mean([one.ratio for one in planner])
    if ratio > max(MARGIN, aim):
        yield f"max/U* {ratio:.3f}, goal {max(MARGIN, aim):.3f}"
    moved, *floors = (_mean([one.moved_over_floor[n] for one in planner]) for n in range(3))
    least = max(floors)
    if moved > MOST_MOVED * least and name not in UNDER_POLICY:
        times = f"{moved / least:.2f}" if least > 0 else "any number of"
        yield f"moved load {times} times the floor, goal {MOST_MOVED}"
    for counted in ("bounces", "returns", "over_budget"):
        count = sum(getattr(one, counted) for one in planner)
        if count:
            yield f"{count} {counted.replace('_', ' ')}, goal 0"
    yield from _absorbed(asked, planner)
    if name in BOOKS:
        yield from _of_book(planner)


def _aim(asked: Measure) -> float:
    """The target over the evenly used cluster, mean of the scored cycles, as ratios are."""
    cycles = zip(asked.aim, asked.even, asked.scored, strict=True)
    return _mean([aim / even for aim, even, is_scored in cycles if is_scored])


def _absorbed(asked: Sequence[Measure], planner: Sequence[Outcome]) -> Iterator[str]:
    """Shocks that took too many acting cycles, but for those that the next one follows too soon for a perfect plan."""
    shocks = absorbed_with_time(asked, planner)
    late = sum(absorbed is None or absorbed[1] > cycles for cycles, absorbed in shocks)
    if late:
        yield f"{late} of {len(shocks)} shocks not absorbed in time"


def _of_book(planner: Sequence[Outcome]) -> Iterator[str]:
    for outcome in planner:
        for absorbed in outcome.absorbed:
            if absorbed is None or absorbed[0] > BOOK_MINUTES or absorbed[1] > BOOK_ROUNDS:
                yield f"absorbed after {absorbed}, goal {BOOK_MINUTES:.0f} min and {BOOK_ROUNDS} rounds"
    count = sum(one.over_unloaded for one in planner)
    if count:
        yield f"{count} brokers unloaded too far, goal 0"


def _beaten_by(planner: Sequence[Outcome], found: Mapping[tuple[str, str], Sequence[Outcome]]) -> Iterator[str]:
    uneven, moves = _mean([one.max_over_mean for one in planner]), _mean([one.moves for one in planner])
    for shedder in SHEDDERS:
        tuned = found.get((shedder, "tuned"), ())
        if tuned and _mean([one.max_over_mean for one in tuned]) <= uneven + AS_EVEN:
            fewer = _mean([one.moves for one in tuned])
            if fewer < moves:
                yield f"{shedder} is as even with {fewer:g} moves, the planner needs {moves:g}"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
