"""The scenes of `make e2e` on a modelled cluster instead of real brokers: what the loop comes to, within seconds.

Every broker's usage is a base and a slope of its traffic; `part` is how much of an evenly loaded broker's usage is due
to traffic. The base of each broker is off by chance in every cycle, with a deviation of `noise` (fraction of a
machine). A cycle's commands are carried out before the next, two minutes later. Clients of a bundle reconnect once for
each of its topics and both ends where it is unloaded, also as a part of a split.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from devtools.lab.conf import STATS_SECONDS
from devtools.lab.layout import Layout, skewed
from devtools.lab.settings import MANAGERS
from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.model.bundles import bundle_name, initial_boundaries, ranges_of, topic_hash
from evenkeel.replay.fold import goes_to
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.settings import EffectiveSettings, resolve
from tests.e2e.beside import Played, PlayedCycle
from tests.e2e.scene import BOLD, LOADS, SETTINGS, TENANT

BROKERS = ("127.0.0.1:8080", "127.0.0.2:8080", "127.0.0.3:8080")
BEGIN = datetime(2026, 11, 27, 12, tzinfo=UTC)
EVERY = timedelta(minutes=2, seconds=10)
EVEN_USAGE = 0.55
LAB = {"statsUpdateFrequencyInSecs": STATS_SECONDS, "loadBalancerAutoUnloadSplitBundlesEnabled": False}
"""What brokers of the lab say of themselves."""
CYCLES = 4
ENDS = 2


def sketched(
    variant: str, manager: str, part: float, more: Mapping[str, Any], *, noise: float = 0.0, seed: int = 0
) -> Played:
    """What a variant comes to: a dry run, then cycles that may act."""
    layout = skewed(TENANT, BROKERS, **LOADS[manager])
    flows = [2.0 * topic.rate * layout.message_bytes for bundle in layout.bundles for topic in bundle.topics]
    overrides = {**BOLD, **SETTINGS[manager], "loadManagerClassName": MANAGERS[manager], "evenkeelManager": manager}
    settings = resolve(observed=None, overrides={**overrides, **LAB, **more})
    cluster = _cluster(layout, manager, math.fsum(flows), part)
    played: list[PlayedCycle] = []
    state: list[Any] = []
    reconnects = 0
    fits, chance = cluster.fits, Random(seed)
    for number in range(CYCLES + 1):
        cluster.fits = {name: UsageFit(fit.base + chance.gauss(0.0, noise), fit.per_byte) for name, fit in fits.items()}
        cluster.observe(BEGIN + number * EVERY, flows, (), settings.settings)
        even = _max_over_mean(cluster)
        made = _decided(cluster, settings, state, "auto" if number else "dry_run")
        state = list(made.rows[whole.STATE])
        if number:
            kinds = [one.command["kind"] for one in made.plan.asked]
            played.append(PlayedCycle(even, kinds.count("unload"), kinds.count("split")))
            reconnects += _carry_out(cluster, made, number)
    cluster.observe(BEGIN + (CYCLES + 1) * EVERY, flows, (), settings.settings)
    each = reconnects // ENDS
    return Played(variant, played, _max_over_mean(cluster), each, each, 0, 0, 0, 0, 0, 0.0)


def _cluster(layout: Layout, manager: str, flow: float, part: float) -> Cluster:
    fit = UsageFit((1.0 - part) * EVEN_USAGE, part * EVEN_USAGE * len(BROKERS) / flow)
    boundaries = {namespace: tuple(initial_boundaries(count)) for namespace, count in layout.bundle_counts.items()}
    owner: dict[str, str | None] = {bundle.name: bundle.broker for bundle in layout.bundles}
    for namespace, edges in boundaries.items():
        for one in ranges_of(edges):
            owner.setdefault(bundle_name(namespace, one), BROKERS[0])
    topics = [
        Topic(bundle.namespace, topic_hash(topic.name), layout.message_bytes)
        for bundle in layout.bundles
        for topic in bundle.topics
    ]
    return Cluster("lab", dict.fromkeys(BROKERS, fit), topics, dict(boundaries), owner, manager)


def _decided(cluster: Cluster, settings: EffectiveSettings, state: list[Any], mode: str) -> whole.DecidedCycle:
    assert cluster.at is not None
    cycle = reading.cycle_row(
        cluster.name,
        cluster.at,
        settings.to_json(),
        settings.digest,
        manager=cluster.manager,
        mode=mode,
        acts=cluster.acts,
    )
    return whole.decide(cluster.rows(settings.settings), cycle, state)


def _carry_out(cluster: Cluster, made: whole.DecidedCycle, number: int) -> int:
    """Lets the commands take effect; how often clients reconnect for them."""
    asked = made.plan.asked
    unloaded = [one.command for one in asked if one.command["kind"] == "unload" or one.command["unload_children"]]
    reconnects = sum(ENDS * cluster.trusted[command["bundle"]].topics for command in unloaded)
    commands = [{**row, "command_id": f"{number:03d}-{row['step']:03d}"} for row in made.rows["commands"]]
    cluster.carry_out(zip(commands, map(goes_to, asked), strict=True), [])
    return reconnects


def _max_over_mean(cluster: Cluster) -> float:
    usage = cluster.usage()
    carried = [cluster.fits[broker].per_byte and usage[broker] - cluster.fits[broker].base for broker in usage]
    return max(carried) * len(carried) / math.fsum(carried)
