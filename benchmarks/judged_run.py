"""One cluster of the judge steered by one variant: what it came to, held against targets and floors that no variant
changes.

Scores leave out the cycles after a shock that even a perfect plan would need: ceil(floor / tightest budget) + 2 acting
cycles, with settling between them. The floor, in load and in moves, is that of the cluster that nobody steers, the same
for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from benchmarks.judged_cluster import ONE_MINUTE, JudgedCluster
from benchmarks.judged_scenarios import BEGIN, STEPS_SETTLE, JudgedScenario
from benchmarks.judged_target import MARGIN, Target
from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.model.past_commands import FormerOwners
from evenkeel.planner.round import bundles_wanted_split
from evenkeel.planner.target import fewest_moves, floor_of
from evenkeel.publish.plan import max_over_mean
from evenkeel.replay.fold import goes_to
from evenkeel.settings import EffectiveSettings, Settings

CLUSTER = "judged"
DAY_MS = 86_400_000
STOP = 1.0 + Settings().evenkeelPlannerStopAtPercent / 100.0
"""What the planner brings brokers down to, times the evenly used cluster."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What a scenario asks of whoever steers: targets by cycle and resource, and whether a cycle is scored."""

    targets: Sequence[Mapping[str, Target]]
    scored: Sequence[bool]
    even: Sequence[float]
    """The usage of the evenly used cluster by cycle, of its busiest resource."""
    aim: Sequence[float]
    """The target by cycle, of the resource whose target is highest."""
    has_time: Sequence[bool] = ()
    """By shock: whether there are scored cycles before the next."""


@dataclass
class Outcome:
    """What a variant came to. Loads are shares of the cluster's, of the resource that had most to move."""

    ratios: list[float] = field(default_factory=list)
    uneven: list[float] = field(default_factory=list)
    moves: int = 0
    splits: int = 0
    placed: int = 0
    moved: dict[str, float] = field(default_factory=dict)
    floor: dict[str, float] = field(default_factory=dict)
    time: list[int] = field(default_factory=list)
    """By shock: acting cycles that even a perfect plan would need, and two more."""
    kept_floor: dict[str, float] = field(default_factory=dict)
    """By resource, summed over the shocks: the most that the owners then would have had above `STOP` in any cycle that
    is scored. Who wants to be there in all of them has to move as much."""
    bounces: int = 0
    returns: int = 0
    held: int = 0
    unserved: float = 0.0
    """Load of bundles without owner in scored cycles, summed up: nobody's usage shows it."""
    over_budget: int = 0
    rounds: int = 0
    """Cycles that unloaded."""
    last_round: list[float] = field(default_factory=list)
    """By shock: minutes until the last cycle that unloaded, 0 without one."""
    over_unloaded: int = 0
    """Brokers that a cycle unloaded until they had less than the evenly used cluster by more than the margin."""
    absorbed: list[tuple[float, int] | None] = field(default_factory=list)
    """By shock: minutes and acting cycles until the busiest broker was within the target, None where it never was."""

    def score(self, usages: Mapping[str, float], even: float) -> None:
        """Takes a cycle into the means; `usages`: of each broker's busiest resource, `even`: of the evenly used
        cluster."""
        self.ratios.append(max(usages.values()) / even)
        self.uneven.append(max_over_mean(usages.values()) or 1.0)

    @property
    def ratio(self) -> float:
        """The busiest broker's usage over that of the evenly used cluster, mean of the scored cycles."""
        return math.fsum(self.ratios) / len(self.ratios) if self.ratios else math.nan

    @property
    def max_over_mean(self) -> float:
        """The busiest broker's usage over the mean of all, mean of the scored cycles."""
        return math.fsum(self.uneven) / len(self.uneven) if self.uneven else math.nan

    @property
    def moved_over_floor(self) -> tuple[float, float, float]:
        """Moved load, the sum of the floors at the shocks and that of the kept ones, as shares, of the resource with
        the largest floor."""
        resource = max(sorted(self.floor), key=lambda one: self.floor[one])
        return self.moved.get(resource, 0.0), self.floor[resource], self.kept_floor[resource]


def cycles_to_absorb(share: float, moves: Mapping[str, int]) -> int:
    """Acting cycles in which a floor is to be moved by the tightest of guards' default budgets, and two more.

    `share`: of the cluster's load; `moves`: by broker the fewest bundles that have to leave it.
    """
    limits = Settings()
    needed = (
        100.0 * share / limits.evenkeelMaxMovedTrafficPercent,
        sum(moves.values()) / limits.evenkeelMaxUnloadsPerCycle,
        max(moves.values(), default=0) / limits.evenkeelMaxUnloadsFromBroker,
    )
    return math.ceil(max(needed)) + 2


def absorbed_with_time(
    asked: Sequence[Measure], outcomes: Sequence[Outcome]
) -> list[tuple[int, tuple[float, int] | None]]:
    """Of each shock that the next one follows late enough: the acting cycles that it may take, and how it was absorbed
    (see `Outcome.absorbed`)."""
    return [
        (cycles, absorbed)
        for measured, outcome in zip(asked, outcomes, strict=True)
        for has_time, cycles, absorbed in zip(measured.has_time, outcome.time, outcome.absorbed, strict=True)
        if has_time
    ]


def level(target: Target, margin: float) -> float:
    """The usage that a target would be with another margin."""
    return max(margin * target.even, margin * target.ruled, target.atomic)


def measure(scenario: JudgedScenario, settings: EffectiveSettings) -> Measure:
    """Targets of every cycle, and which are scored; `settings`: those under which nobody sheds."""
    targets = [scenario.targets(n) for n in range(scenario.cycles)]
    even = [max(target.even for target in found.values()) for found in targets]
    aim = [max(target.usage for target in found.values()) for found in targets]
    asked = Measure(targets, [False] * scenario.cycles, even, aim)
    time = play(scenario, settings, asked).time
    steps = STEPS_SETTLE if scenario.every <= ONE_MINUTE else 1
    begins = {n: n + steps * cycles for n, cycles in zip(scenario.shocks, time, strict=True)}
    scored = [n >= begins[max(shock for shock in scenario.shocks if shock <= n)] for n in range(scenario.cycles)]
    ends = [*scenario.shocks[1:], scenario.cycles]
    has_time = [any(scored[n:end]) for n, end in zip(scenario.shocks, ends, strict=True)]
    return Measure(targets, scored, even, aim, has_time)


def play(scenario: JudgedScenario, effective: EffectiveSettings, asked: Measure) -> Outcome:
    """Steers the cluster through the scenario by these settings."""
    settings = effective.settings
    cluster, found = scenario.cluster(CLUSTER, settings.manager), Outcome()
    text, former, day = effective.to_json(), FormerOwners(), _Day()
    state: list[Any] = []
    past: list[Mapping[str, Mapping[str, float]]] = []
    shock = _Shock(0)
    for n in range(scenario.cycles):
        at = BEGIN + n * scenario.every
        cluster.observe(at, scenario.factors[n], scenario.down(n), settings)
        past.append(cluster.demand)
        if n in scenario.shocks:
            shock.end(found)
            shock = _Shock(n)
            _add_floor(found, cluster, asked.targets[n])
            _add_kept_floor(found, cluster, scenario, asked, n)
            day.forget()
        unserved = cluster.unserved()
        busiest = busiest_of([past[k] for k in scenario.windows(n)])
        if asked.scored[n]:
            found.unserved += unserved
            found.score(busiest, asked.even[n])
        if shock.absorbed is None and not unserved and max(busiest.values()) <= asked.aim[n]:
            shock.absorbed = ((n - shock.begin) * scenario.every / timedelta(minutes=1), shock.acted)
        cycle = reading.cycle_row(
            CLUSTER, at, text, effective.digest, manager=settings.manager, mode="auto", acts=cluster.acts
        )
        observed = {**cluster.rows(settings), "topic_hashes": cluster.topic_hashes(bundles_wanted_split(state))}
        made = whole.decide(SharedRows(observed, acts_only=True), cycle, state)
        state = list(made.rows[whole.STATE])
        shock.acted += bool(made.plan.asked)
        gave = _carry_out(cluster, made, n, found, former, day)
        if gave:
            found.rounds += 1
            shock.last_round = (n - shock.begin) * scenario.every / timedelta(minutes=1)
            found.over_unloaded += _over_unloaded(cluster, scenario, asked, n, gave)
    shock.end(found)
    return found


@dataclass
class _Shock:
    """What has been seen since a shock."""

    begin: int
    acted: int = 0
    absorbed: tuple[float, int] | None = None
    last_round: float = 0.0

    def end(self, found: Outcome) -> None:
        """Notes it, but for the shock before the first."""
        if found.time:
            found.absorbed.append(self.absorbed)
            found.last_round.append(self.last_round)


class _Day:
    """Who had a bundle in the last 24 hours, as long as nothing broke that would justify its return."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], int] = {}

    def returns(self, bundle: str, source: str | None, destination: str | None, at: int) -> bool:
        """Whether the bundle comes back; the move is noted."""
        before = self._left.get((bundle, destination or ""))
        self._left[bundle, source or ""] = at
        return before is not None and at - before <= DAY_MS

    def forget(self) -> None:
        """Something broke."""
        self._left.clear()


def busiest_of(window: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """Broker -> the usage of its busiest resource, each a mean over the window (resource -> broker -> usage)."""
    last = window[-1]
    brokers = next(iter(last.values()))
    return {b: max(math.fsum(one[r][b] for one in window) / len(window) for r in last) for b in brokers}


def _add_floor(found: Outcome, cluster: JudgedCluster, targets: Mapping[str, Target]) -> None:
    """The least that has to move now, by resource."""
    cycles = []
    for resource, carried in cluster.carried().items():
        curves = {broker: cluster.machines[broker].curves()[resource] for broker in carried}
        floor = floor_of(curves, carried, targets[resource].usage)
        own = cluster.bundles_of(resource)
        moves = {broker: fewest_moves({broker: above}, own) for broker, above in floor.excess.items()}
        cycles.append(cycles_to_absorb(floor.share, moves))
        found.floor[resource] = found.floor.get(resource, 0.0) + floor.share
    found.time.append(max(cycles))


def _add_kept_floor(
    found: Outcome, cluster: JudgedCluster, scenario: JudgedScenario, asked: Measure, shock: int
) -> None:
    """The most that stands above what is aimed for in a scored cycle until the next shock, if owners stay."""
    end = min((n for n in scenario.shocks if n > shock), default=scenario.cycles)
    shares: dict[str, list[float]] = {resource: [0.0] for resource in asked.targets[shock]}
    for n in range(shock, end):
        if asked.scored[n]:
            for resource, carried in cluster.carried_with(scenario.mean_factors(n)).items():
                curves = {broker: cluster.machines[broker].curves()[resource] for broker in carried}
                shares[resource].append(floor_of(curves, carried, level(asked.targets[n][resource], STOP)).share)
    for resource, own in shares.items():
        found.kept_floor[resource] = found.kept_floor.get(resource, 0.0) + max(own)


def _over_unloaded(
    cluster: JudgedCluster, scenario: JudgedScenario, asked: Measure, n: int, gave: Iterable[str]
) -> int:
    """How many of the brokers that gave bundles away have far too little now."""
    carried = cluster.carried_with(scenario.mean_factors(n))

    def is_far_below(broker: str) -> bool:
        curves = cluster.machines[broker].curves()
        return max(curves[r].usage(own[broker]) for r, own in carried.items()) < asked.even[n] / MARGIN

    return sum(is_far_below(broker) for broker in sorted(set(gave) & cluster.alive))


def _carry_out(
    cluster: JudgedCluster, made: whole.DecidedCycle, n: int, found: Outcome, former: FormerOwners, day: _Day
) -> list[str]:
    """Lets the plan take effect, and counts it; the brokers that it unloads come back."""
    assert cluster.at is not None
    at = round(cluster.at.timestamp() * 1_000)
    former.forget(at)
    asked = made.plan.asked
    moves = [one for one in asked if one.command["kind"] == "unload"]
    totals = {resource: math.fsum(loads.values()) for resource, loads in cluster.carried().items()}
    traffic = 0.0
    for one in moves:
        bundle, source, destination = one.command["bundle"], one.command["from_broker"], goes_to(one)
        found.bounces += former.is_bounce(bundle, destination, at)
        if source is not None:
            former.left(bundle, source, at)
        found.returns += day.returns(bundle, source, destination, at)
        for resource, load in cluster.load_of(bundle).items():
            found.moved[resource] = found.moved.get(resource, 0.0) + load / totals[resource]
        traffic += cluster.throughput_share(bundle)
    found.moves += len(moves)
    found.splits += sum(one.command["kind"] == "split" for one in asked)
    found.held += int(made.plan.figures["held"])
    found.over_budget += _over_budget([(m.command["from_broker"], goes_to(m)) for m in moves], traffic)
    lost = [
        (row["subject"], row["destination"])
        for row in made.rows["placement_decisions"]
        if row["cause"] == "no_owner" and row["outcome"] == "placed"
    ]
    # Children that stay where their parent was are not placed by anybody.
    apart = [row for row in made.rows["commands"] if row["kind"] == "split" and row["unload_children"]]
    children = sum(len(row["cuts"]) + 1 for row in apart if row["cuts"])
    found.placed += len(lost) + children
    # A plan of acts alone has no id that ids of commands could rest on.
    commands = [{**row, "command_id": f"{n:06d}-{row['step']:04d}"} for row in made.rows["commands"]]
    cluster.carry_out(zip(commands, [goes_to(one) for one in asked], strict=True), lost)
    return [one.command["from_broker"] for one in moves if one.command["from_broker"] is not None]


def _over_budget(moves: Sequence[tuple[str | None, str | None]], traffic: float) -> bool:
    """Whether a cycle unloads more than the guards' default budgets allow."""
    limits = Settings()
    sources, targets = ([move[end] for move in moves] for end in (0, 1))
    return (
        len(moves) > limits.evenkeelMaxUnloadsPerCycle
        or max(map(sources.count, sources), default=0) > limits.evenkeelMaxUnloadsFromBroker
        or max(map(targets.count, targets), default=0) > limits.evenkeelMaxUnloadsToBroker
        or (len(moves) > 1 and 100.0 * traffic > limits.evenkeelMaxMovedTrafficPercent + 1e-9)
    )
