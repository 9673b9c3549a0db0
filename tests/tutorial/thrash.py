"""The cluster of the tutorial: one bundle that makes any broker the busiest, and settings that chase it around.

Its own ThresholdShedder steers it, in rounds of ten minutes. Until somebody changes three settings it leaves the uneven
load alone; from then on it moves the hot bundle in every round. What is moved is what Pulsar's rules say about the
figures (Evenkeel's `rounds`, without guards), and the next moment shows the move done. The same seed, the same course.
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.model.bundles import boundary_text, bundle_name, bundle_of, initial_boundaries, namespace_of, ranges_of
from evenkeel.model.topics import topic_hash
from evenkeel.replay.fold import goes_to
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.settings import resolve

SEED = 17
CLUSTER = "shop"
BROKERS = tuple(f"broker-{n}.shop.example:8080" for n in (1, 2, 3))
SHARES = {"shop/catalog": (3, 3, 2), "shop/checkout": (2, 2, 3), "shop/tracking": (3, 2, 3)}
"""Bundles of a namespace on each broker, without the hot one. Pulsar spreads a namespace evenly before it looks at
load, so the hot bundle of `shop/checkout` has one candidate: of the first two brokers the one that it is not on."""
NAMESPACES = tuple(SHARES)
BUNDLES_PER_NAMESPACE = 8
TOPICS_PER_BUNDLE = 3
HOT = "shop/checkout/0x40000000_0x60000000"

TUESDAY = datetime(2026, 11, 17, 13, 0, tzinfo=UTC)
EVERY = timedelta(minutes=10)
MOMENTS = 12
CHANGED_AT = 3
"""The first moment at which the brokers have the changed settings."""

ALWAYS: Mapping[str, Any] = {"loadBalancerSheddingIntervalMinutes": 10}
BEFORE: Mapping[str, Any] = {**ALWAYS, "loadBalancerBrokerThresholdShedderPercentage": 25}
AFTER: Mapping[str, Any] = {
    **ALWAYS,
    "loadBalancerBrokerThresholdShedderPercentage": 10,
    "loadBalancerHistoryResourcePercentage": 0.0,
    "loadBalancerSheddingGracePeriodMinutes": 0,
}

AS_A_BROKER: Mapping[str, Any] = {"evenkeelPulsarVersion": "4", "evenkeelGuardsEnabled": False}
"""The brokers decide by Pulsar 4's defaults, and know no guards."""

MESSAGE_BYTES = 4_096.0
HOT_BYTES = 71e6
REST_BYTES = 76e6
"""What each broker carries besides the hot bundle, byte/s in and out."""
BASE_USAGE = 0.05
USAGE_PER_BYTE = 0.45 / 100e6
SWING = 0.12
"""All traffic goes up and down by so much once in the afternoon, as traffic does."""
TRAFFIC_NOISE, USAGE_NOISE = 0.02, 0.003


@dataclass(frozen=True, slots=True)
class Moment:
    """What a snapshot shows: who owns what, byte/s in and out per topic, usage (fraction) per broker, settings."""

    number: int
    at: datetime
    owners: Mapping[str, str]
    traffic: Mapping[str, float]
    usage: Mapping[str, float]
    settings: Mapping[str, Any]


def boundaries() -> list[str]:
    """The boundaries of every namespace, as Pulsar writes them."""
    return [boundary_text(edge) for edge in initial_boundaries(BUNDLES_PER_NAMESPACE)]


def topics_of() -> dict[str, list[str]]:
    """Bundle -> its topics: of numbered names those whose hash falls into it, the first few."""
    edges = initial_boundaries(BUNDLES_PER_NAMESPACE)
    found: dict[str, list[str]] = {}
    for namespace in NAMESPACES:
        own: dict[str, list[str]] = {bundle_name(namespace, one): [] for one in ranges_of(edges)}
        number = 0
        while any(len(names) < TOPICS_PER_BUNDLE for names in own.values()):
            topic = f"persistent://{namespace}/orders-{number:03d}"
            names = own[bundle_name(namespace, bundle_of(edges, topic_hash(topic)))]
            if len(names) < TOPICS_PER_BUNDLE:
                names.append(topic)
            number += 1
        found |= own
    return found


def course(seed: int = SEED) -> Iterator[Moment]:
    """The moments in order of time."""
    drawn = random.Random(seed)
    known = topics_of()
    owners = _first_owners(drawn, sorted(known))
    mean = _mean_traffic(drawn, known, owners)
    topics = list(mean)
    cluster = _cluster(known, owners)
    state: list[Any] = []
    for number in range(MOMENTS):
        at = TUESDAY + number * EVERY
        own = BEFORE if number < CHANGED_AT else AFTER
        settings = resolve(observed=None, overrides={**own, **AS_A_BROKER})
        level = 1.0 + SWING * math.sin(2.0 * math.pi * number / MOMENTS)
        traffic = {topic: mean[topic] * level * _about_one(drawn, TRAFFIC_NOISE) for topic in topics}
        cluster.observe(at, [*traffic.values()], (), settings.settings)
        usage = {broker: busy * _about_one(drawn, USAGE_NOISE) for broker, busy in cluster.usage().items()}
        yield Moment(number, at, {b: str(owner) for b, owner in cluster.owner.items()}, traffic, usage, own)
        row = reading.cycle_row(
            CLUSTER, at, settings.to_json(), settings.digest, manager="modular", mode="auto", acts=cluster.acts
        )
        made = whole.decide(SharedRows(cluster.rows(settings.settings), acts_only=True), row, state)
        state = list(made.rows[whole.STATE])
        asked = [{**command, "command_id": f"{number}-{command['step']}"} for command in made.rows["commands"]]
        cluster.carry_out(zip(asked, map(goes_to, made.plan.asked), strict=True), ())


def _about_one(drawn: random.Random, noise: float) -> float:
    return drawn.uniform(1.0 - noise, 1.0 + noise)


def _first_owners(drawn: random.Random, names: list[str]) -> dict[str, str]:
    """The hot bundle on the first broker, the others at random, as many of each namespace as `SHARES` says."""
    owners = {HOT: BROKERS[0]}
    for namespace, shares in SHARES.items():
        own = [name for name in names if name.startswith(f"{namespace}/") and name != HOT]
        drawn.shuffle(own)
        dealt = [broker for broker, share in zip(BROKERS, shares, strict=True) for _ in range(share)]
        owners |= dict(zip(own, dealt, strict=True))
    return owners


def _mean_traffic(drawn: random.Random, known: Mapping[str, list[str]], owners: Mapping[str, str]) -> dict[str, float]:
    """Topic -> byte/s: uneven shares of what its broker carries, and of the hot bundle."""
    weights = {bundle: drawn.uniform(0.6, 1.4) for bundle in sorted(known)}
    found: dict[str, float] = {}
    for bundle, names in sorted(known.items()):
        owner = owners[bundle]
        own = math.fsum(w for other, w in weights.items() if owners[other] == owner and other != HOT)
        carried = HOT_BYTES if bundle == HOT else REST_BYTES * weights[bundle] / own
        shares = [drawn.uniform(0.5, 1.5) for _ in names]
        found |= {topic: carried * share / math.fsum(shares) for topic, share in zip(names, shares, strict=True)}
    return found


def _cluster(known: Mapping[str, list[str]], owners: Mapping[str, str]) -> Cluster:
    topics = [
        Topic(namespace_of(bundle), topic_hash(topic), MESSAGE_BYTES)
        for bundle, names in sorted(known.items())
        for topic in names
    ]
    return Cluster(
        name=CLUSTER,
        fits={broker: UsageFit(BASE_USAGE, USAGE_PER_BYTE) for broker in BROKERS},
        topics=topics,
        boundaries={namespace: initial_boundaries(BUNDLES_PER_NAMESPACE) for namespace in NAMESPACES},
        owner=dict(owners),
    )
