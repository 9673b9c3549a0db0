"""Closed loop: a strategy's commands take effect in a model of a cluster; and the scenarios for it."""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Row
from evenkeel.errors import BadInput
from evenkeel.model.bundles import HIGHEST_HASH, bundle_name, initial_boundaries, ranges_of
from evenkeel.model.load import BundleHistory
from evenkeel.model.past_commands import FormerOwners
from evenkeel.planner.round import bundles_wanted_split
from evenkeel.publish.plan import Forecast
from evenkeel.replay.fold import Made, goes_to, plan_of, rows_of_plan
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.settings import EffectiveSettings

UNTOUCHED = "untouched"
"""The variant that does nothing: the cluster by itself."""
CLUSTER = "model"


@dataclass(frozen=True, slots=True)
class ModelSteering:
    """The control of the model: settings in force, and the usage (fraction) that counts as over the limit.

    `settings`: of each cycle; the last ones also of all that follow.
    """

    name: str
    settings: Sequence[EffectiveSettings]
    limit: float
    cluster: str = CLUSTER


def simulate(scenario: Scenario, steering: ModelSteering) -> Iterator[Made]:
    """Return the rows of `replay_cycles` and `replay_decisions`, cycle by cycle.

    Usage before and after are both the brokers' usage at that moment: a closed loop needs no forecast.
    """
    cluster = Cluster(
        name=steering.cluster,
        fits=scenario.fits,
        topics=scenario.topics,
        boundaries=dict(scenario.boundaries),
        owner=dict(scenario.owners),
        acts=[dict(act) for act in scenario.acts],
    )
    texts = {in_force.digest: in_force.to_json() for in_force in steering.settings}
    state, former = [*scenario.state], FormerOwners()
    for n, at in enumerate(scenario.moments):
        in_force = steering.settings[min(n, len(steering.settings) - 1)]
        settings, cluster.manager = in_force.settings, in_force.settings.manager
        cluster.observe(at, scenario.throughputs(n), scenario.down(n), settings)
        if n == 0:
            cluster.histories |= scenario.histories
        cycle = reading.cycle_row(
            steering.cluster,
            at,
            texts[in_force.digest],
            in_force.digest,
            manager=settings.manager,
            mode="auto",
            acts=cluster.acts,
        )
        observed = {**cluster.rows(settings), "topic_hashes": cluster.topic_hashes(bundles_wanted_split(state))}
        decided = whole.decide(SharedRows(observed, acts_only=True), cycle, state)
        state = list(decided.rows[whole.STATE])
        yield from _rows_of_cycle(steering, cluster, decided, former)
        destinations = [goes_to(act) for act in decided.plan.asked]
        lost = [
            (row["subject"], row["destination"])
            for row in decided.rows["placement_decisions"]
            if row["cause"] == "no_owner" and row["outcome"] == "placed"
        ]
        # A plan of acts alone has no id from which those of its commands could be made.
        commands = [{**row, "command_id": f"{n:06d}-{row['step']:04d}"} for row in decided.rows["commands"]]
        cluster.carry_out(zip(commands, destinations, strict=True), lost)


def _rows_of_cycle(
    steering: ModelSteering, cluster: Cluster, decided: whole.DecidedCycle, former: FormerOwners
) -> Iterator[Made]:
    assert cluster.at is not None
    at, usage, plan = round(cluster.at.timestamp() * 1_000), cluster.usage(), plan_of(decided)
    former.forget(at)
    stamp = {"cluster": steering.cluster, "cycle_at": cluster.at, "variant": steering.name}
    now = replace(plan, change=Forecast(usage, usage, plan.change.moved_share))
    return rows_of_plan(stamp, now, former, at, steering.limit)


# Clusters and traffic to try strategies on: generated from a seed, so that every variant meets the very same.

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
TOPICS_PER_BUNDLE = 6
BUNDLES_PER_NAMESPACE = 16
ZIPF = 1.1
NOISE = 0.05
BASE_USAGE, MEAN_USAGE = 0.05, 0.45
TOTAL_BYTES_PER_S = 120_000_000.0
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster at its start and its events.

    `moments`: of its cycles. `throughputs(n)`: byte/s of every topic in cycle n. `down(n)`: brokers that are down then.
    At the start: `owners`; after the first cycle's sample, `histories` of bundles; and before it, `state` of strategies
    and `acts`, the commands of the day before.
    """

    name: str
    moments: tuple[datetime, ...]
    fits: Mapping[str, UsageFit]
    boundaries: Mapping[str, tuple[int, ...]]
    topics: Sequence[Topic]
    owners: Mapping[str, str | None]
    throughputs: Callable[[int], Sequence[float]]
    down: Callable[[int], frozenset[str]]
    histories: Mapping[str, BundleHistory] = field(default_factory=dict)
    state: Sequence[Row] = ()
    acts: Sequence[Mapping[str, Any]] = ()


MOST_BROKERS, MOST_BUNDLES, MOST_CYCLES = 10_000, 150_000, 600_000
"""Maxima of a model: as many brokers and bundles as are read of a cluster, and a year of minutes."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a generated cluster, and the time that it is watched."""

    brokers: int = 3
    bundles: int = 96
    cycles: int = 240
    every: timedelta = timedelta(minutes=1)


MEANINGS: Mapping[str, str] = {
    "zipf": "a few topics carry most of the traffic, which stays as it is",
    "diurnal": "traffic swings by the day, each namespace at hours of its own",
    "flash-crowd": "for a tenth of the time one namespace has ten times its traffic",
    "growth": "one namespace grows to twelve times its traffic",
    "broker-loss": "a broker dies after a third of the time, and is back after two thirds",
    "rolling-restart": "one broker after the other is away for three cycles",
}


def check_scenario(name: str, size: Size) -> None:
    """Raise BadInput for an unknown name, with the known ones, and for a size beyond the maxima."""
    if name not in MEANINGS:
        close = difflib.get_close_matches(name, MEANINGS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}? " if close else ""
        raise BadInput(f"unknown scenario {name!r}: {hint}There are {', '.join(MEANINGS)}, and recorded (with --lake)")
    if size.brokers > MOST_BROKERS or size.bundles > MOST_BUNDLES or size.cycles > MOST_CYCLES:
        raise BadInput(
            f"a model of a cluster has {MOST_BROKERS:,} brokers, {MOST_BUNDLES:,} bundles and {MOST_CYCLES:,} cycles "
            "at most: ask for fewer"
        )
    if size.brokers < 2 or size.bundles < size.brokers or size.cycles < 1:
        raise BadInput(
            f"{size.brokers} brokers, {size.bundles} bundles, {size.cycles} cycles: a cluster has two brokers or "
            "more, no fewer bundles than brokers, and is watched for a cycle or more"
        )


def scenario(name: str, size: Size, seed: int) -> Scenario:
    """A scenario by its name; the same seed gives the same one. BadInput as `check_scenario`."""
    check_scenario(name, size)
    drawn = random.Random(f"{seed} cluster")
    brokers = [f"broker-{n}:8080" for n in range(1, size.brokers + 1)]
    full, remainder = divmod(size.bundles, BUNDLES_PER_NAMESPACE)
    sizes = [BUNDLES_PER_NAMESPACE] * full + ([remainder] if remainder else [])
    boundaries = {f"shop/ns{n:03d}": initial_boundaries(count) for n, count in enumerate(sizes)}
    topics = [
        Topic(namespace, drawn.randint(edges.lower, min(edges.upper, HIGHEST_HASH - 1) - 1))
        for namespace, limits in boundaries.items()
        for edges in ranges_of(limits)
        for _ in range(TOPICS_PER_BUNDLE)
    ]
    weights = [1.0 / rank**ZIPF for rank in range(1, len(topics) + 1)]
    drawn.shuffle(weights)
    total = math.fsum(weights)
    weights = [TOTAL_BYTES_PER_S * weight / total for weight in weights]
    names = [bundle_name(namespace, piece) for namespace, limits in boundaries.items() for piece in ranges_of(limits)]
    drawn.shuffle(names)
    per_byte = (MEAN_USAGE - BASE_USAGE) * size.brokers / TOTAL_BYTES_PER_S
    shape = _shape(name, size, list(boundaries), drawn)
    return Scenario(
        name=name,
        moments=tuple(BEGIN + n * size.every for n in range(size.cycles)),
        fits={broker: UsageFit(BASE_USAGE, per_byte) for broker in brokers},
        boundaries=boundaries,
        topics=topics,
        owners={bundle: brokers[n % size.brokers] for n, bundle in enumerate(names)},
        throughputs=lambda n: _throughputs(weights, topics, shape, n, seed),
        down=_down(name, size, brokers),
    )


Shape = Callable[[str, int], float]
"""Namespace and cycle -> factor on its traffic."""


def _throughputs(weights: Sequence[float], topics: Sequence[Topic], shape: Shape, n: int, seed: int) -> list[float]:
    drawn = random.Random(f"{seed} traffic {n}")
    factors: dict[str, float] = {}
    throughputs = []
    for weight, topic in zip(weights, topics, strict=True):
        if topic.namespace not in factors:
            factors[topic.namespace] = shape(topic.namespace, n)
        throughputs.append(weight * factors[topic.namespace] * (1.0 + NOISE * (2.0 * drawn.random() - 1.0)))
    return throughputs


def _shape(name: str, size: Size, namespaces: list[str], drawn: random.Random) -> Shape:
    hot = drawn.choice(namespaces)
    if name == "diurnal":
        phases = {namespace: drawn.uniform(0.0, 2.0 * math.pi) for namespace in namespaces}
        step = 2.0 * math.pi * size.every.total_seconds() / DAY_S
        return lambda namespace, n: 1.0 + 0.8 * math.sin(step * n + phases[namespace])
    if name == "flash-crowd":
        begin, end = size.cycles // 3, size.cycles // 3 + max(1, size.cycles // 10)
        return lambda namespace, n: 10.0 if namespace == hot and begin <= n < end else 1.0
    if name == "growth":
        return lambda namespace, n: 1.0 + 11.0 * n / size.cycles if namespace == hot else 1.0
    return lambda namespace, n: 1.0


def _down(name: str, size: Size, brokers: Sequence[str]) -> Callable[[int], frozenset[str]]:
    if name == "broker-loss":
        return lambda n: frozenset(brokers[1:2]) if size.cycles // 3 <= n < 2 * size.cycles // 3 else frozenset()
    if name == "rolling-restart":
        begin, pause = size.cycles // 4, 10
        away = {begin + number * pause + k: broker for number, broker in enumerate(brokers) for k in range(3)}
        return lambda n: frozenset({away[n]}) if n in away else frozenset()
    return lambda n: frozenset()
