"""What the extensible load manager's leader knows when it decides.

Rates are msg/s, throughputs byte/s, times epoch milliseconds. Pulsar: BrokerLoadData, TopBundlesLoadData,
BrokerLookupData, LoadManagerContext.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.decisions.load import BrokerReport, BundleStats


@dataclass(frozen=True, slots=True)
class BrokerLoadData:
    """The load that one broker published last. A broker never updated counts as full (1.0 = 100 %).

    `weighted_max_ema`: moving average of the weighted usage, a fraction. `msg_throughput_ema`: of in and out, byte/s.
    `topics` are the loaded ones. `updated_at`: when the broker measured this, epoch ms.
    """

    weighted_max_ema: float = 1.0
    msg_throughput_ema: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    topics: int = 0
    updated_at: int = 0

    @property
    def throughput(self) -> float:
        """byte/s in and out, the latest."""
        return self.msg_throughput_in + self.msg_throughput_out


@dataclass(frozen=True, slots=True)
class TopBundle:
    """One bundle of a broker's top list, with its latest figures."""

    bundle: str
    stats: BundleStats

    @property
    def throughput(self) -> float:
        """byte/s in and out, the latest."""
        return self.stats.msg_throughput_in + self.stats.msg_throughput_out


@dataclass(frozen=True, slots=True)
class ExtensibleLoad:
    """All that decides transfers and placement under the extensible manager.

    `brokers`: the available brokers, with what they registered (of a report: version, load manager, topic domains).
    `loads`: published load data; a broker may have none, and load data may outlive its broker.
    `top_bundles`: broker -> its busiest bundles, the lightest of them first.
    `not_owned`: bundles in a top list whose broker owns them no longer.
    `recently_unloaded`: bundle -> when its unload was done (epoch ms).
    `wished`: bundles that an operator's wish unloads in this cycle; the shedder leaves them to it.
    """

    brokers: Mapping[str, BrokerReport]
    loads: Mapping[str, BrokerLoadData]
    top_bundles: Mapping[str, tuple[TopBundle, ...]] = field(default_factory=dict)
    not_owned: frozenset[str] = frozenset()
    recently_unloaded: Mapping[str, int] = field(default_factory=dict)
    wished: frozenset[str] = frozenset()
