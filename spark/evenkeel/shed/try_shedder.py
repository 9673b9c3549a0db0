"""Run of one shedder of the modular load manager on a few brokers, without a lake: for tests and custom strategies.

The round is the same as in a cycle (`run_shedding`): number of brokers, grace period and excluded namespaces hold.
There are no policies, and the interval between rounds has always passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.errors import BadInput
from evenkeel.model.averages import broker_averages, update_histories
from evenkeel.model.bundles import range_of
from evenkeel.model.consideration import Considered
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.load import BrokerReport, BundleStats, LoadData, Policies, ResourceUsage
from evenkeel.settings import Settings
from evenkeel.settings.key import Value
from evenkeel.shed.schedule import run_shedding
from evenkeel.shed.shedder import ModularShedder, ShedderState
from evenkeel.shed.strategies import shedder_named

BEGIN = 1_700_000_000_000
"""The moment of the first round, epoch ms."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The last round. `unloads`: (bundle, the broker that it leaves), in the order of selection.

    `destinations`: bundle -> broker, if the shedder chose one. `considered`: a verdict for every broker and every
    checked bundle. `state`: the shedder's state for the next round.
    """

    unloads: tuple[tuple[str, str], ...]
    destinations: Mapping[str, str]
    considered: tuple[Considered, ...]
    state: ShedderState

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the sentence of every verdict."""
        return tuple(row.sentence() for row in self.considered)


def broker(name: str, cpu: float, bundles: Mapping[str, tuple[float, float]]) -> BrokerReport:
    """Return a broker's report. `cpu`: percent. `bundles`: `tenant/namespace/range` -> (msg/s, byte/s), all of it
    inbound.

    `BadName` or `BadRange` for text that is not the name of a bundle.
    """
    stats: dict[str, BundleStats] = {}
    for bundle, (rate, throughput) in bundles.items():
        range_of(bundle)  # raises for text that is not a bundle's name
        stats[bundle] = BundleStats(topics=1, msg_rate_in=rate, msg_throughput_in=throughput)
    return BrokerReport(
        name,
        cpu=ResourceUsage(cpu, 100.0),
        msg_rate_in=sum(figures.msg_rate_in for figures in stats.values()),
        msg_throughput_in=sum(figures.msg_throughput_in for figures in stats.values()),
        topics=len(stats),
        bundles=frozenset(stats),
        stats=stats,
    )


def try_shedder(
    shedder: str | ModularShedder,
    brokers: Iterable[BrokerReport],
    settings: Mapping[str, Value] | None = None,
    *,
    rounds: int = 1,
) -> Tried:
    """Return the shedder's result on these brokers, after `rounds` rounds in which nothing moves.

    `shedder`: its class name, or the record of one that is in no registry. `settings`: Pulsar's keys that differ from
    the values compiled into Pulsar 4.x. `SettingsError` for a name that the modular load manager does not have,
    `BadInput` for two reports of one broker or no round at all.
    """
    if rounds < 1:
        raise BadInput(f"rounds = {rounds}: at least one round has to be run")
    reports: dict[str, BrokerReport] = {}
    for report in brokers:
        if report.broker in reports:
            raise BadInput(f"{report.broker}: two reports of one broker; give one for each")
        reports[report.broker] = report
    decides = shedder_named(shedder) if isinstance(shedder, str) else shedder
    held = Settings().with_values({**(settings or {}), "loadBalancerLoadSheddingStrategy": decides.name})
    histories = update_histories({}, reports)
    averages = {name: broker_averages(report.stats, histories) for name, report in reports.items()}
    load = LoadData(reports, histories, averages=averages)
    gates = unload_gates(load, Policies(), held)
    state: ShedderState = {}
    for number in range(rounds):
        now = BEGIN + number * 60_000
        decided = run_shedding(load, state, gates, held, now=now, last_shed_at=None, shedder=decides)
        state = decided.state
    return Tried(decided.unloads, decided.destinations, decided.considered, state)
