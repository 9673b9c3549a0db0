"""The clusters on which Pulsar's tests of TransferShedder run.

Those tests build the shedder without a broker, so that it asks no policy and no filter: `Answers` without a function
stands for that. Its tests about policies hand in policies or a filter of their own, and so do ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from evenkeel.cycle.top_lists import top_bundles
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BrokerLoadData, BrokerReport, ExtensibleLoad, Policies, TopBundle
from evenkeel.model.usage import ExtensibleAverages
from evenkeel.settings import Settings
from evenkeel.shed.strategies.transfer_shedder import Transfers, TransferState, find_bundles_for_unloading
from tests.pulsar_unit.given import NOW, published, report, settings, stats, usage

AVERAGE, DEVIATION, DELTA = 0.36400000000000005, 0.3982762860126121, 1e-5
HALVES = ("0x00000000_0x0FFFFFFF", "0x0FFFFFFF_0xFFFFFFFF")
FIFTHS = (
    "0x00000000_0x1FFFFFFF",
    "0x1FFFFFFF_0x2FFFFFFF",
    "0x2FFFFFFF_0x3FFFFFFF",
    "0x3FFFFFFF_0x4FFFFFFF",
    "0x4FFFFFFF_0x5FFFFFFF",
)
A, B, C, D, E = (f"my-tenant/my-namespace{letter}" for letter in "ABCDE")
D1, D2, E1, E2 = (f"{namespace}/{half}" for namespace in (D, E) for half in HALVES)
HELD = settings(
    loadBalancerDebugModeEnabled=True,
    loadBalancerSheddingBundlesWithPoliciesEnabled=False,
    loadBalancerSheddingConditionHitCountThreshold=0,
)


def id_of(n: int) -> str:
    """The broker id of number n."""
    return f"broker{n}:8080"


class Answers:
    """Policies that a function answers for: bundle -> why it may not leave, or None. Without one nothing is refused."""

    def __init__(self, answer: Callable[[str], str | None] = lambda _: None) -> None:
        self._answer = answer

    def refusal(self, bundle: str, destination: str) -> str | None:
        """Why the bundle may not go there; the destination plays no part."""
        return self._answer(bundle)


def tops(namespace: str, *flows: float) -> tuple[TopBundle, ...]:
    """The top list of a namespace's bundles with these outgoing throughputs (byte/s)."""
    edges = FIFTHS if len(flows) == 5 else HALVES
    found = {f"{namespace}/{edge}": stats(throughput_out=float(flow)) for edge, flow in zip(edges, flows, strict=False)}
    return top_bundles(found, max(len(flows), 2), PoliciesPresent(Policies()), settings())


@dataclass
class Cluster:
    """Load data as Pulsar's tests put it together, and what the shedder keeps from round to round."""

    loads: dict[str, BrokerLoadData] = field(default_factory=dict)
    top: dict[str, tuple[TopBundle, ...]] = field(default_factory=dict)
    available: tuple[int, ...] = (1, 2, 3, 4, 5)
    held: Settings = HELD
    state: TransferState = field(default_factory=TransferState)
    policies: Any = field(default_factory=Answers)
    more: dict[str, Any] = field(default_factory=dict)
    made: Transfers | None = None

    def cpu(self, broker: int, percent: float, updated_at: int = NOW) -> None:
        """The broker publishes its first load data: this CPU usage, and the throughput of its top list."""
        listed = self.top.get(id_of(broker))
        out = sum(one.stats.msg_throughput_out for one in listed) if listed is not None else 2.0
        latest = report(
            id_of(broker),
            cpu=usage(percent, 100),
            memory=usage(0, 100),
            direct_memory=usage(0, 100),
            bandwidth_in=usage(0, 100),
            bandwidth_out=usage(0, 100),
            msg_throughput_in=1.0,
            msg_throughput_out=out,
            msg_rate_in=3.0,
            msg_rate_out=4.0,
        )
        after = ExtensibleAverages().updated(latest, self.held)
        self.loads[id_of(broker)] = published(after, latest, updated_at)

    def lists(self, broker: int, namespace: str, *flows: float) -> None:
        """The broker publishes a top list: bundles of the namespace with these throughputs (byte/s)."""
        self.top[id_of(broker)] = tops(namespace, *flows)

    def load(self) -> ExtensibleLoad:
        """What the shedder is given."""
        brokers = {id_of(n): BrokerReport(id_of(n), version="3.0.0") for n in self.available}
        return ExtensibleLoad(brokers, self.loads, self.top, **self.more)

    def shed(self) -> dict[str, tuple[str, str | None, str]]:
        """One round: bundle -> (source, destination, reason)."""
        self.made = find_bundles_for_unloading(self.load(), self.state, self.policies, self.held, now=NOW)
        self.state = self.made.state
        return {one.bundle: (one.source, one.destination, one.reason) for one in self.made.transfers}

    def setting(self, **values: Any) -> None:
        """Sets keys from now on."""
        self.held = self.held.with_values(values)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Why the last round skipped, in Pulsar's words."""
        assert self.made is not None
        return self.made.notes

    def assert_load(self, mean: float = AVERAGE, std: float = DEVIATION) -> None:
        """The last round saw this mean load and standard deviation."""
        assert self.made is not None
        assert self.made.mean == pytest.approx(mean, abs=DELTA)
        assert self.made.std == pytest.approx(std, abs=DELTA)


def five() -> Cluster:
    """Brokers at 2, 4, 6, 80 and 90 % of CPU, each with two bundles."""
    found = Cluster()
    for n, space, flows in (
        (1, A, (1e6, 2e6)),
        (2, B, (1e6, 3e6)),
        (3, C, (2e6, 4e6)),
        (4, D, (2e6, 6e6)),
        (5, E, (2e6, 7e6)),
    ):
        found.lists(n, space, *flows)
    for n, percent in ((1, 2), (2, 4), (3, 6), (4, 80), (5, 90)):
        found.cpu(n, percent)
    return found


def moved(source: int, destination: int | None, reason: str = "Overloaded") -> tuple[str, str | None, str]:
    """A transfer as `Cluster.shed` shows it, by the brokers' numbers."""
    return id_of(source), None if destination is None else id_of(destination), reason
