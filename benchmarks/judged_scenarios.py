"""What the judge puts clusters through: drawn from a seed, the same for whoever steers, and balanced at every size but
for the one that nobody can mend.

No topic has more than 0.3 of a broker's mean, so that a placement within the target exists; `unmendable` has one with
half as much again as the whole mean. Bundles begin wherever chance put them. A *shock* is a cycle in which the cluster
begins or something breaks; on both sides of it scores are told apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import numpy as np

from benchmarks.judged_cluster import (
    CPU,
    FULL_BYTES,
    FULL_CONNECTIONS,
    FULL_MESSAGES,
    LASTING,
    NOISE,
    ONE_MINUTE,
    Array,
    JudgedCluster,
    Machine,
    TopicTraffic,
)
from benchmarks.judged_series import PublicFiles, measured_factors, public_measures, public_series, series_traffic
from benchmarks.judged_target import Target, target_of
from evenkeel.cycle.reading import Row
from evenkeel.model.bundles import HIGHEST_HASH, bundle_name, initial_boundaries, ranges_of
from evenkeel.planner.target import BundleKind
from evenkeel.replay.modelled_cluster import Topic

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
NO_FILES = PublicFiles()
PARETO, LARGEST, LARGEST_THAT_GROWS = 1.5, 0.3, 0.1
"""The tail of the topics' traffic, and the most that one of them has of a broker's mean (at first, where it grows)."""
UNMENDABLE = 1.5
"""What the one topic that nobody can mend has of a broker's mean."""
HOT, HOT_TOPICS, HOT_MESSAGE_BYTES, HOT_CONNECTIONS = 1.4, 32, 3_400.0, 20.0
"""What the one hot bundle has of a broker's mean, its topics, and of each of these bytes of a message and connections,
so that byte/s, msg/s and sessions stay below Pulsar's limits for a bundle."""
GROWING = frozenset({"flash-crowd", "growing-days", "series", "cloudwatch"})
BUSY = 0.5
"""Work for each standard broker at the start, in standard brokers: CPU is some 44 % of an even cluster."""
TOPICS_PER_BUNDLE, BUNDLES_PER_NAMESPACE = 4, 12
CLIENTS, TOPICS_PER_BROKER = 10, 48
"""Producers, and as many consumers, of a topic with the mean traffic; fewer where a broker has more topics."""
TRAFFIC_NOISE, TRAFFIC_LASTS = 0.05, 0.8
HALF_AN_HOUR = timedelta(minutes=30)
STEPS_SETTLE = 3
"""Cycles of a minute from one acting cycle to the next whose figures are settled."""
QUARTER_OF_AN_HOUR = timedelta(minutes=15)
CYCLE_LENGTHS = {"growing-days": HALF_AN_HOUR, "series": QUARTER_OF_AN_HOUR, "cloudwatch": QUARTER_OF_AN_HOUR}
"""How long a cycle is, where it is not a minute."""
WINDOWS = {"on-off": 10, "series": 4, "cloudwatch": 4}
"""Over how many cycles usage is judged, where it is not one."""
BOOK = (0.620, 0.614, 0.345, 0.685, 0.419)
"""Usage of the five brokers where the book's chapter 4.2 begins."""
BOOK_LEFT, BOOK_REMOVED = 0.658, (2, 4)
"""Where two of them have gone: mean usage of the three that are left, and which two."""
BOOK_STRONG = 2
"""Which of them is twice as strong where hardware is mixed."""
BOOKS = ("book", "book-removed", "book-mixed")
BROKERS = {**dict.fromkeys(BOOKS, len(BOOK)), "five-to-ten": 10}
"""How many brokers a scenario has at every size."""
DOUBLED = ("five-to-ten", "doubled")
SAID, LATE = (0.25, 0.5), 4
"""The part of its CPU that a lying broker reports, by the parity of the seed; how many cycles a slow one's reports are
old."""
ZIPF = 1.1

MEANINGS: Mapping[str, str] = {
    "uneven": "bundles lie where chance put them, and traffic stays as it is",
    "book": "five brokers at 62.0, 61.4, 34.5, 68.5 and 41.9 %, as the book's case begins",
    "book-removed": "the book's brokers, of which two leave after a third of the time; the others are at 65.8 % then",
    "book-mixed": "the book's brokers, that at 34.5 % twice as strong as the others",
    "mixed-hardware": "a third of the brokers is twice as strong, another third half as strong",
    "two-removed": "two brokers are removed after a third of the time",
    "two-added": "two brokers join after a third of the time",
    "lost-and-back": "a broker is lost after a third of the time, and back after two thirds",
    "rolling-restart": "from a third of the time on one broker after the other is away for two minutes",
    "flash-crowd": "after a third of the time one namespace has four times its traffic, for a sixth of the time",
    "on-off": "half of the namespaces are on and off by the minute; judged by means over ten minutes",
    "growing-days": "two days of tides, one namespace growing to two and a half times its traffic",
    "two-resources": "half of the namespaces fill the network, the others the CPU",
    "reserved": "a quarter of the namespaces belongs on a third of the brokers, the others on the rest",
    "unmendable": "one topic has half as much again as a broker's mean: no placement is even",
    "hot-bundle": "one bundle of many topics has 1.4 of a broker's mean, below all limits of Pulsar's own "
    "splits: no placement is even before it is split",
    "isolation": "as reserved, but all bundles begin where chance put them",
    "groups": "half of the namespaces are in two anti-affinity groups",
    "lying-broker": "one broker reports half of its CPU, or a quarter of it",
    "slow-report": "the reports of one broker are four minutes old",
    "five-to-ten": "five brokers join five others after a third of the time",
    "doubled": "as many brokers as there are join after a third of the time",
    "zipf": "the n-th topic has 1 / n to the power of 1.1 of the first one's traffic, however much that is",
    "series": "a day of a public trace of invocations (--series FILE); judged by means over an hour",
    "cloudwatch": "a day of public measures of machines in a cloud (--cloudwatch FOLDER); judged by means over an hour",
}


@dataclass(frozen=True, slots=True)
class JudgedSize:
    """How large a cluster is, and for how many minutes it is watched."""

    brokers: int
    bundles: int
    minutes: int


SIZES: Mapping[str, JudgedSize] = {
    "small": JudgedSize(6, 72, 60),
    "medium": JudgedSize(20, 2_000, 60),
    "large": JudgedSize(100, 10_000, 30),
}


@dataclass(frozen=True, eq=False)
class JudgedScenario:
    """A cluster at its start and what happens to it.

    `factors`: on every topic's traffic, a row for each cycle. `down(n)`: brokers that are away in cycle n. `may_own`:
    namespace -> the brokers that its bundles may go to, by `policies`. `shocks`: cycles in which it begins or something
    breaks. `window`: cycles over whose mean usage is judged. `said`, `late`: as those of
    `JudgedCluster`.
    """

    name: str
    every: timedelta
    machines: Mapping[str, Machine]
    traffic: TopicTraffic
    factors: Array
    boundaries: Mapping[str, tuple[int, ...]]
    owners: Mapping[str, str | None]
    noise: Mapping[str, Array]
    down: Callable[[int], frozenset[str]]
    shocks: tuple[int, ...]
    may_own: Mapping[str, frozenset[str]]
    policies: tuple[Row, ...] = ()
    window: int = 1
    said: Mapping[str, float] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)

    @property
    def cycles(self) -> int:
        """How many cycles it lasts."""
        return len(self.factors)

    def cluster(self, name: str, manager: str) -> JudgedCluster:
        """The cluster before its first cycle, under one of Pulsar's load managers."""
        return JudgedCluster(
            name=name,
            fits=dict.fromkeys(self.machines),
            topics=self.traffic.topics,
            boundaries=dict(self.boundaries),
            owner=dict(self.owners),
            manager=manager,
            machines=self.machines,
            traffic=self.traffic,
            noise=self.noise,
            policies=self.policies,
            every=self.every,
            said=self.said,
            late=self.late,
        )

    def windows(self, n: int) -> range:
        """The cycles over whose mean cycle n is judged: those before it too, as long as the same brokers were there."""
        first = n
        while first > max(0, n - self.window + 1) and self.down(first - 1) == self.down(n):
            first -= 1
        return range(first, n + 1)

    def mean_factors(self, n: int) -> Array:
        """The factors by which cycle n is judged."""
        cycles = self.windows(n)
        means: Array = self.factors[cycles.start : cycles.stop].mean(axis=0)
        return means

    def targets(self, n: int) -> dict[str, Target]:
        """Resource -> the target of cycle n, which no placement changes: a bundle may be split down to one topic."""
        alive = [broker for broker in self.machines if broker not in self.down(n)]
        factors = self.mean_factors(n)
        kinds: dict[frozenset[str], list[int]] = {}
        for number, topic in enumerate(self.traffic.topics):
            kinds.setdefault(self.may_own.get(topic.namespace, frozenset(self.machines)), []).append(number)
        found = {}
        for resource, loads in self.traffic.loads(factors).items():
            curves = {broker: self.machines[broker].curves()[resource] for broker in alive}
            own = [BundleKind(brokers, math.fsum(loads[numbers])) for brokers, numbers in kinds.items()]
            whole = [(brokers, float(max(loads[numbers]))) for brokers, numbers in kinds.items()]
            found[resource] = target_of(curves, own, whole)
        return found


def judged_scenario(name: str, size: JudgedSize, seed: int, public: PublicFiles = NO_FILES) -> JudgedScenario:
    """A scenario by its name; the same seed draws the same one. `public`: for those that draw from public series."""
    drawn = Random(f"{seed} {name}")
    count = BROKERS.get(name, 2 * size.brokers if name == "doubled" else size.brokers)
    machines = _machines(name, count)
    boundaries = _boundaries(size.bundles if name == "doubled" else size.bundles * count // size.brokers)
    every = CYCLE_LENGTHS.get(name, ONE_MINUTE)
    cycles = 96 if every > ONE_MINUTE else size.minutes
    if name == "series":
        count = TOPICS_PER_BUNDLE * sum(len(bounds) - 1 for bounds in boundaries.values())
        own = series_traffic(public_series(public.series), list(boundaries), count, cycles, drawn)
        topics, traffic = own.topics, _traffic(name, own.topics, own.weights, machines, list(boundaries), drawn)
        shape = own.factors
    else:
        topics = _topics(boundaries, drawn)
        hot = _hot_topics(name, boundaries, drawn)
        topics += hot
        weights = [drawn.paretovariate(PARETO) for _ in topics]
        if name == "zipf":
            weights = [1.0 / n**ZIPF for n in range(1, len(topics) + 1)]
            drawn.shuffle(weights)
        traffic = _traffic(name, topics, weights, machines, list(boundaries), drawn, len(hot))
        if name == "cloudwatch":
            shape = measured_factors(public_measures(public.cloudwatch), len(topics), cycles, drawn)
        else:
            shape = _shape(name, topics, cycles, drawn)
    may_own, policies = _policies(name, list(boundaries), sorted(machines))
    down, shocks = _down(name, sorted(machines), cycles)
    chance = np.random.default_rng(drawn.getrandbits(64))
    factors = shape * np.exp(_lasting(chance, cycles, len(topics), TRAFFIC_NOISE, TRAFFIC_LASTS))
    lasting = LASTING if every <= ONE_MINUTE else 0.0
    noise = _lasting(chance, cycles, len(machines), NOISE, lasting)
    made = JudgedScenario(
        name=name,
        every=every,
        machines=machines,
        traffic=traffic,
        factors=factors,
        boundaries=boundaries,
        owners={},
        noise={broker: noise[:, n] for n, broker in enumerate(sorted(machines))},
        down=down,
        shocks=shocks,
        may_own=may_own,
        policies=policies,
        window=WINDOWS.get(name, 1),
        said={sorted(machines)[seed % count]: SAID[seed % 2]} if name == "lying-broker" else {},
        late={sorted(machines)[seed % count]: LATE} if name == "slow-report" else {},
    )
    return _with_owners(made, drawn)


def _machines(name: str, brokers: int) -> dict[str, Machine]:
    strengths = (2.0, 1.0, 0.5) if name == "mixed-hardware" else (1.0,)
    network = 88e6 if name == "two-resources" else 400e6
    kinds = [Machine(strength, 0.06, network * strength) for strength in strengths]
    found = {f"broker-{n:03}.judged:8080": kinds[n % len(kinds)] for n in range(1, brokers + 1)}
    if name == "book-mixed":
        found[sorted(found)[BOOK_STRONG]] = Machine(2.0, 0.06, 2.0 * network)
    return found


def _boundaries(bundles: int) -> dict[str, tuple[int, ...]]:
    namespaces = max(2, round(bundles / BUNDLES_PER_NAMESPACE))
    counts = [bundles // namespaces + (n < bundles % namespaces) for n in range(namespaces)]
    return {f"shop/ns{n:03}": initial_boundaries(count) for n, count in enumerate(counts)}


def _topics(boundaries: Mapping[str, tuple[int, ...]], drawn: Random) -> list[Topic]:
    return [
        Topic(namespace, drawn.randint(edges.lower, min(edges.upper, HIGHEST_HASH - 1) - 1))
        for namespace, bounds in boundaries.items()
        for edges in ranges_of(bounds)
        for _ in range(TOPICS_PER_BUNDLE)
    ]


def _hot_topics(name: str, boundaries: Mapping[str, tuple[int, ...]], drawn: Random) -> list[Topic]:
    """The topics that make one bundle hot, where the scenario has one."""
    if name != "hot-bundle":
        return []
    namespace = drawn.choice(sorted(boundaries))
    edges = drawn.choice(ranges_of(boundaries[namespace])[:-1])
    return [Topic(namespace, drawn.randint(edges.lower, edges.upper - 1)) for _ in range(HOT_TOPICS)]


def _traffic(
    name: str,
    topics: list[Topic],
    weights: list[float],
    machines: Mapping[str, Machine],
    namespaces: list[str],
    drawn: Random,
    hot_topics: int = 0,
) -> TopicTraffic:
    """Traffic by these weights, so much of it that the cluster is busy; messages are alike within a namespace. The last
    `hot_topics` are those of the hot bundle."""
    weights = _capped(weights, name, len(machines))
    if name == "unmendable":
        hot = drawn.randrange(len(weights))
        weights[hot] = 0.0
        weights[hot] = UNMENDABLE * sum(weights) / (len(machines) - UNMENDABLE)
    if hot_topics:
        rest = math.fsum(weights[:-hot_topics])
        weights[-hot_topics:] = _parts_of(HOT * rest / (len(machines) - HOT), hot_topics, drawn)
    message = {namespace: 2_000.0 * math.exp(drawn.gauss(0.0, 0.8)) for namespace in namespaces}
    fan_out = {namespace: float(drawn.choice((1, 1, 2, 3))) for namespace in namespaces}
    if name == "two-resources":
        for n, namespace in enumerate(namespaces):
            message[namespace], fan_out[namespace] = (16_000.0, 6.0) if n % 2 else (700.0, 1.0)
    size = np.array([message[topic.namespace] for topic in topics])
    out = np.array([fan_out[topic.namespace] for topic in topics])
    mean = sum(weights) / len(weights)
    clients = CLIENTS * min(1.0, TOPICS_PER_BROKER * len(machines) / len(topics))
    connections = np.array(
        [2.0 * max(1, round(clients * math.sqrt(weight / mean) * drawn.uniform(0.5, 2.0))) for weight in weights]
    )
    if hot_topics:
        size[-hot_topics:], out[-hot_topics:], connections[-hot_topics:] = HOT_MESSAGE_BYTES, 1.0, HOT_CONNECTIONS
    # Weights are of work, so that no topic works a broker more than its weight says, whatever its messages are like.
    work = np.array(weights) * (1.0 - float(connections.sum()) / FULL_CONNECTIONS / (BUSY * _strength(machines)))
    per_byte = (1.0 + out) * (1.0 / FULL_BYTES + 1.0 / size / FULL_MESSAGES)
    came_in = work * BUSY * _strength(machines) / float(np.sum(weights)) / per_byte
    return TopicTraffic(topics, came_in, out, size, connections)


def _parts_of(whole: float, count: int, drawn: Random) -> list[float]:
    """So many parts of different size that sum up to the whole."""
    parts = [drawn.uniform(0.5, 1.5) for _ in range(count)]
    return [whole * part / math.fsum(parts) for part in parts]


def _strength(machines: Mapping[str, Machine]) -> float:
    return math.fsum(machine.strength for machine in machines.values())


def _capped(weights: list[float], name: str, brokers: int) -> list[float]:
    """The weights, none of them above what a topic of this scenario may have of a broker's mean."""
    largest = LARGEST_THAT_GROWS if name in GROWING else math.inf if name == "zipf" else LARGEST
    for _ in range(50):
        most = largest * math.fsum(weights) / brokers
        if max(weights) <= most * 1.000_001:
            break
        weights = [min(weight, most) for weight in weights]
    return weights


def _lasting(chance: np.random.Generator, cycles: int, count: int, deviation: float, lasts: float) -> Array:
    """Noise of which `lasts` is there a cycle later, a row for each cycle."""
    steps = chance.standard_normal((cycles, count)) * deviation
    for n in range(1, cycles):
        steps[n] = lasts * steps[n - 1] + math.sqrt(1.0 - lasts * lasts) * steps[n]
    return steps


def _shape(name: str, topics: Sequence[Topic], cycles: int, drawn: Random) -> Array:
    """Factors on the topics' traffic, by namespace."""
    namespaces = sorted({topic.namespace for topic in topics})
    factor_of = np.ones((cycles, len(namespaces)))
    hot = drawn.randrange(len(namespaces))
    time = np.arange(cycles)
    if name == "flash-crowd":
        factor_of[cycles // 3 : cycles // 2, hot] = 4.0
    elif name == "on-off":
        for n in range(0, len(namespaces), 2):
            factor_of[:, n] = np.where([drawn.random() < 0.5 for _ in time], 1.6, 0.4)
    elif name == "growing-days":
        for n in range(len(namespaces)):
            factor_of[:, n] = 1.0 + 0.3 * np.sin(2.0 * math.pi * time / 48.0 + drawn.uniform(0.0, 2.0))
        factor_of[:, hot] *= 1.0 + 1.5 * time / cycles
    number = {namespace: n for n, namespace in enumerate(namespaces)}
    return factor_of[:, [number[topic.namespace] for topic in topics]]


def _policies(
    name: str, namespaces: list[str], brokers: list[str]
) -> tuple[dict[str, frozenset[str]], tuple[Row, ...]]:
    """An isolation policy that reserves a third of the brokers for a quarter of the namespaces; or two groups."""
    policies: dict[str, Row] = {}
    may_own: dict[str, frozenset[str]] = {}
    groups: dict[str, str] = {}
    if name in ("reserved", "isolation"):
        reserved = frozenset(brokers[: max(1, len(brokers) // 3)])
        inside = set(namespaces[: max(1, len(namespaces) // 4)])
        policies["reserved"] = {
            "namespaces": sorted(inside),
            "primary": [broker.rpartition(":")[0].replace(".", r"\.") for broker in sorted(reserved)],
            "secondary": [],
            "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
        }
        others = frozenset(brokers) - reserved
        may_own = {namespace: reserved if namespace in inside else others for namespace in namespaces}
    elif name == "groups":
        groups = {namespace: f"group-{n % 2}" for n, namespace in enumerate(namespaces[: len(namespaces) // 2])}
    else:
        return {}, ()
    row = {"isolation_policies": json.dumps(policies), "anti_affinity_groups": groups, "failure_domains": {}}
    return may_own, (row,)


def _down(name: str, brokers: list[str], cycles: int) -> tuple[Callable[[int], frozenset[str]], tuple[int, ...]]:
    """Who is away when, and the shocks: cycles in which the brokers are others than before."""
    third, two_thirds, half = cycles // 3, 2 * cycles // 3, cycles // 2
    away: dict[str, range] = {}
    if name == "two-removed":
        away = dict.fromkeys(brokers[1:3], range(third, cycles))
    elif name == "book-removed":
        away = dict.fromkeys((brokers[n] for n in BOOK_REMOVED), range(third, cycles))
    elif name in DOUBLED:
        away = dict.fromkeys(brokers[len(brokers) // 2 :], range(third))
    elif name == "two-added":
        away = dict.fromkeys(brokers[-2:], range(third))
    elif name == "lost-and-back":
        away = {brokers[1]: range(third, two_thirds)}
    elif name == "rolling-restart":
        pause = max(3, (cycles - third - 10) // len(brokers))
        away = {broker: range(third + n * pause, third + n * pause + 2) for n, broker in enumerate(brokers)}
    changes = [n for n in range(1, cycles) if _away(away, n) != _away(away, n - 1)]
    if name == "flash-crowd":
        changes = [third, half]
    return partial(_away, away), (0, *changes)


def _away(away: Mapping[str, range], n: int) -> frozenset[str]:
    return frozenset(broker for broker, cycles in away.items() if n in cycles)


def _with_owners(made: JudgedScenario, drawn: Random) -> JudgedScenario:
    """Each bundle at a broker that may own it: by chance, in the book's cases so that usage is what it was there."""
    names = [(ns, bundle_name(ns, one)) for ns, edges in made.boundaries.items() for one in ranges_of(edges)]
    alive = [broker for broker in sorted(made.machines) if broker not in made.down(0)]
    if made.name not in BOOKS:
        kept = {} if made.name == "isolation" else made.may_own
        owners = {b: drawn.choice([x for x in alive if x in kept.get(ns, alive)]) for ns, b in names}
        return replace(made, owners=owners)
    curves = {broker: made.machines[broker].curves()[CPU] for broker in alive}
    wanted = {broker: curves[broker].load_within(usage) for broker, usage in zip(alive, BOOK, strict=True)}
    if made.name == "book-removed":
        left = [curves[broker].load_within(BOOK_LEFT) for n, broker in enumerate(alive) if n not in BOOK_REMOVED]
        wanted = {broker: load * math.fsum(left) / math.fsum(wanted.values()) for broker, load in wanted.items()}
    made = _with_work(made, math.fsum(wanted.values()))
    cluster = replace(made, owners=dict.fromkeys((bundle for _, bundle in names), alive[0])).cluster("book", "modular")
    loads = cluster.loads_under(made.factors[0])[CPU]
    owners = {}
    for bundle in sorted(loads, key=lambda one: (-loads[one], one)):
        owners[bundle] = max(alive, key=lambda broker: wanted[broker])
        wanted[owners[bundle]] -= loads[bundle]
    return replace(made, owners=owners)


def _with_work(made: JudgedScenario, work: float) -> JudgedScenario:
    """The scenario with so much traffic that it begins with this work, in standard brokers."""
    traffic = made.traffic
    idle = float(traffic.connections.sum()) / FULL_CONNECTIONS
    now = float(traffic.loads(made.factors[0])[CPU].sum())
    return replace(made, traffic=replace(traffic, bytes_in=traffic.bytes_in * ((work - idle) / (now - idle))))
