"""Placing many bundles one after the other: seconds for a whole round, per placement strategy.

`python -m benchmarks placement [--bundles 10000] [--brokers 1000]`. The brokers that are left after a large failure
take over what has lost its owner, each bundle counting for the next one; a quarter of the namespaces is in an
anti-affinity group over four failure domains, and one has an isolation policy. Seeded. Goal: 10,000
bundles on 1,000 brokers in at most 5 s of processor time with every strategy.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

from benchmarks.machine import description
from evenkeel.model.bundles import bundle_name, initial_boundaries, ranges_of
from evenkeel.model.load import BrokerAverages, BrokerReport, IsolationPolicy, LoadData, Policies, ResourceUsage
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.strategies import MODULAR
from evenkeel.settings import Settings

MOST_SECONDS = 5.0
BUNDLES_PER_NAMESPACE = 20
DOMAINS = 4


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per strategy; 0 if the goal was met by all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks placement")
    parser.add_argument("--bundles", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=1_000)
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    load, policies, ownerless = failure(given.bundles, given.brokers)
    return max(_measure(strategy, load, policies, ownerless) for strategy in MODULAR)


def failure(bundles: int, brokers: int) -> tuple[LoadData, Policies, list[str]]:
    """A cluster that owns nine bundles for each one that has lost its owner, its policies, and those bundles."""
    chance = random.Random("placement")
    names = [f"broker-{n:04}.example:8080" for n in range(brokers)]
    namespaces = [f"tenant/ns-{n:05}" for n in range(max(1, 10 * bundles // BUNDLES_PER_NAMESPACE))]
    ranges = ranges_of(initial_boundaries(BUNDLES_PER_NAMESPACE))
    every = [bundle_name(namespace, found) for namespace in namespaces for found in ranges]
    ownerless = set(chance.sample(every, bundles))
    owned: dict[str, list[str]] = {name: [] for name in names}
    for bundle in every:
        if bundle not in ownerless:
            owned[chance.choice(names)].append(bundle)
    reports = {name: _report(name, owned[name], chance) for name in names}
    averages = {name: BrokerAverages(long_term_rate_in=chance.uniform(0, 50_000)) for name in names}
    policies = Policies(
        groups={namespace: f"group-{n % 50}" for n, namespace in enumerate(namespaces) if n % 4 == 0},
        domains={f"zone-{zone}": tuple(names[zone::DOMAINS]) for zone in range(DOMAINS)},
        isolation={"reserved": IsolationPolicy((namespaces[0],), ("broker-000.*",), (), 1)},
    )
    return LoadData(reports, averages=averages), policies, sorted(ownerless)


def _report(name: str, bundles: list[str], chance: random.Random) -> BrokerReport:
    return BrokerReport(
        name,
        cpu=ResourceUsage(chance.uniform(10.0, 80.0), 100.0),
        msg_rate_in=1_000.0,
        topics=10 * len(bundles),
        bundles=frozenset(bundles),
        version="4.2.4",
    )


def _measure(strategy: str, load: LoadData, policies: Policies, ownerless: list[str]) -> int:
    values = {
        "loadBalancerLoadPlacementStrategy": strategy,
        "failureDomainsEnabled": True,
        "preferLaterVersions": True,
    }
    begin, begin_cpu = time.perf_counter(), time.process_time()
    placed = PlacementRound(load, policies, Settings().with_values(values)).place_ownerless(ownerless)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    used = len({one.destination for one in placed})
    print(
        f"    {strategy:<30}{cpu:6.2f} s of processor, {seconds:6.2f} s elapsed: {len(placed):,} bundles on "
        f"{used:,} of {len(load.brokers):,} brokers",
        flush=True,
    )
    return int(cpu > MOST_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
