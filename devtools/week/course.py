"""The course of a generated cluster: traffic of day and night, its own shedder, and the incident.

The rules of Pulsar's modular manager steer each of them (Evenkeel's own rounds, without guards), and the next moment
shows its moves and splits done.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from devtools.week.documents import GeneratedMoment
from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.model.bundles import boundary_text, bundle_name, bundle_of, initial_boundaries, namespace_of, ranges_of
from evenkeel.model.topics import topic_hash
from evenkeel.replay.fold import goes_to
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.settings import resolve

AS_A_BROKER: Mapping[str, Any] = {"evenkeelPulsarVersion": "4", "evenkeelGuardsEnabled": False}
MESSAGE_BYTES = 1_024.0
NOISE = 0.04
_DAY_SWING, _WEEKEND = 0.45, 0.6
_BUSIEST_HOUR = 14.0


@dataclass(frozen=True, slots=True)
class Surge:
    """From `first` to `last`, hours since the week began, the topics of a bundle carry `factor` times their traffic;
    it comes and goes within an eighth of the time."""

    bundle: str
    first: float
    last: float
    factor: float

    def level(self, hours: float) -> float:
        """The factor at a moment."""
        if not self.first <= hours <= self.last:
            return 1.0
        edge = (self.last - self.first) / 8.0
        full = min(1.0, (hours - self.first) / edge, (self.last - hours) / edge)
        return 1.0 + (self.factor - 1.0) * full


@dataclass(frozen=True, slots=True)
class GeneratedCluster:
    """A generated cluster and its events.

    `namespaces`: name -> (bundles at first, byte/s of the whole namespace in and out at the mean of a week).
    `overrides`: (hours since the week began, settings from then on), the first at 0. `down`: (broker, first hour, last
    hour). `topics`: of each bundle at first.
    """

    name: str
    brokers: tuple[str, ...]
    namespaces: Mapping[str, tuple[int, float]]
    overrides: Sequence[tuple[float, Mapping[str, Any]]] = ((0.0, {}),)
    surges: Sequence[Surge] = ()
    down: Sequence[tuple[str, float, float]] = ()
    topics: int = 3
    capacity: float = 120e6
    seed: int = 1


@dataclass
class _Life:
    """A cluster under way."""

    spec: GeneratedCluster
    drawn: random.Random
    names: list[str] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    born_in: list[str] = field(default_factory=list)


def course(spec: GeneratedCluster, moments: Sequence[datetime]) -> Iterator[GeneratedMoment]:
    """Yield the snapshot of each of the moments, in order; hours count from the first."""
    life, cluster = _begin(spec)
    state: list[Any] = []
    shown: Mapping[str, Any] | None = None
    for number, at in enumerate(moments):
        hours = (at - moments[0]) / timedelta(hours=1)
        settings_now = [settings for since, settings in spec.overrides if since <= hours][-1]
        settings = resolve(observed=None, overrides={**settings_now, **AS_A_BROKER})
        traffic = _traffic(life, at, hours)
        cluster.observe(at, traffic, _down(spec, hours), settings.settings)
        usage = {broker: min(0.99, busy * _about_one(life.drawn, 0.01)) for broker, busy in cluster.usage().items()}
        yield _moment(life, cluster, number, at, traffic, usage, settings_now if settings_now is not shown else None)
        shown = settings_now
        row = reading.cycle_row(
            spec.name, at, settings.to_json(), settings.digest, manager="modular", mode="auto", acts=cluster.acts
        )
        decided = whole.decide(SharedRows(cluster.rows(settings.settings), acts_only=True), row, state)
        state = list(decided.rows[whole.STATE])
        asked = [{**command, "command_id": f"{number}-{command['step']}"} for command in decided.rows["commands"]]
        cluster.carry_out(zip(asked, map(goes_to, decided.plan.asked), strict=True), _homeless(cluster))


def _begin(spec: GeneratedCluster) -> tuple[_Life, Cluster]:
    life = _Life(spec, random.Random(spec.seed))
    owner: dict[str, str | None] = {}
    edges = {namespace: initial_boundaries(bundles) for namespace, (bundles, _) in spec.namespaces.items()}
    for namespace, (_, byte_rate) in spec.namespaces.items():
        names = [bundle_name(namespace, piece) for piece in ranges_of(edges[namespace])]
        owner |= {bundle: spec.brokers[n % len(spec.brokers)] for n, bundle in enumerate(names)}
        weights = {bundle: life.drawn.lognormvariate(0.0, 0.7) for bundle in names}
        left = dict.fromkeys(names, spec.topics)
        number = 0
        while any(left.values()):
            topic = f"persistent://{namespace}/events-{number:04d}"
            number += 1
            bundle = bundle_name(namespace, bundle_of(edges[namespace], topic_hash(topic)))
            if left[bundle]:
                left[bundle] -= 1
                life.names.append(topic)
                life.born_in.append(bundle)
                share = weights[bundle] / math.fsum(weights.values()) / spec.topics
                life.mean.append(byte_rate * share * life.drawn.uniform(0.5, 1.5))
    cluster = Cluster(
        name=spec.name,
        fits=dict.fromkeys(spec.brokers, UsageFit(0.06, 0.8 / spec.capacity)),
        topics=[
            Topic(namespace_of(bundle), topic_hash(topic), MESSAGE_BYTES)
            for topic, bundle in zip(life.names, life.born_in, strict=True)
        ],
        boundaries=edges,
        owner=owner,
    )
    return life, cluster


def _traffic(life: _Life, at: datetime, hours: float) -> list[float]:
    """Return byte/s of each topic: day and night, the weekend, surges, and some noise."""
    clock = at.hour + at.minute / 60.0
    level = 1.0 + _DAY_SWING * math.cos((clock - _BUSIEST_HOUR) * math.pi / 12.0)
    level *= _WEEKEND if at.weekday() >= 5 else 1.0
    surges = {surge.bundle: surge.level(hours) for surge in life.spec.surges}
    return [
        mean * level * surges.get(bundle, 1.0) * _about_one(life.drawn, NOISE)
        for mean, bundle in zip(life.mean, life.born_in, strict=True)
    ]


def _moment(
    life: _Life,
    cluster: Cluster,
    number: int,
    at: datetime,
    traffic: Sequence[float],
    usage: Mapping[str, float],
    settings: Mapping[str, Any] | None,
) -> GeneratedMoment:
    bundles: dict[str, list[str]] = {bundle: [] for bundle in sorted(cluster.owner)}
    for topic, name in zip(cluster.topics, life.names, strict=True):
        bundles[bundle_name(topic.namespace, bundle_of(cluster.boundaries[topic.namespace], topic.hash))].append(name)
    return GeneratedMoment(
        number,
        at,
        {bundle: owner for bundle, owner in cluster.owner.items() if owner is not None},
        dict(zip(life.names, traffic, strict=True)),
        usage,
        {namespace: [boundary_text(edge) for edge in edges] for namespace, edges in cluster.boundaries.items()},
        bundles,
        settings,
    )


def _down(spec: GeneratedCluster, hours: float) -> list[str]:
    return [broker for broker, first, last in spec.down if first <= hours <= last]


def _homeless(cluster: Cluster) -> list[tuple[str, str]]:
    """Bundles without an owner go to the brokers that own the fewest, as clients look them up."""
    counts = dict.fromkeys(sorted(cluster.alive), 0)
    for owner in cluster.owner.values():
        if owner in counts:
            counts[owner] += 1
    homeless = []
    for bundle in sorted(bundle for bundle, owner in cluster.owner.items() if owner is None):
        broker = min(counts, key=lambda name: (counts[name], name))
        counts[broker] += 1
        homeless.append((bundle, broker))
    return homeless


def _about_one(drawn: random.Random, noise: float) -> float:
    return drawn.uniform(1.0 - noise, 1.0 + noise)
