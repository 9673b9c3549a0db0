"""Usage of a broker: percent in 32-bit arithmetic, and the weighted maximum that decisions use.

Pulsar: ResourceUsage.percentUsage, LocalBrokerData.getMaxResourceUsageWithWeight (modular), BrokerLoadData
(extensible). Keys: loadBalancerCPUResourceWeight, loadBalancerDirectMemoryResourceWeight,
loadBalancerBandwidth{In,Out}ResourceWeight, for the extensible manager also loadBalancerMemoryResourceWeight and
loadBalancerHistoryResourcePercentage.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from evenkeel.model.load import BrokerReport, ResourceUsage
from evenkeel.settings import Settings

WEIGHT_KEYS = (
    "loadBalancerCPUResourceWeight",
    "loadBalancerDirectMemoryResourceWeight",
    "loadBalancerBandwidthInResourceWeight",
    "loadBalancerBandwidthOutResourceWeight",
)
"""The settings that `weighted_maximum` reads."""

TICK_S = 5.0
"""Seconds between two updates of a broker's own averages (loadBalancerReportUpdateMinIntervalMillis at its default)."""

_FLOAT = struct.Struct("<f")


def float32(x: float) -> float:
    """Return `x` rounded to 32 bits, as a Java cast to float does (too large becomes infinite)."""
    try:
        (rounded,) = _FLOAT.unpack(_FLOAT.pack(x))
    except OverflowError:
        return math.copysign(math.inf, x)
    return float(rounded)


def percent(resource: ResourceUsage) -> float:
    """Return usage in percent of the limit, computed in 32 bits like Pulsar (30 of 100 is 30.000002); 0 without a
    limit.

    It may exceed 100. The 32 bits matter at thresholds: doubles would decide differently.
    """
    if not resource.limit > 0:
        return 0.0
    usage, limit = float32(resource.usage), float32(resource.limit)
    if limit == 0.0:
        share = math.nan if usage == 0.0 or math.isnan(usage) else math.copysign(math.inf, usage)
    else:
        share = float32(usage / limit)
    return float32(share * 100)


def weighted_maximum(report: BrokerReport, settings: Settings) -> float:
    """Return the highest weighted usage as a fraction (1.0 = full), without heap: the figure of modular decisions."""
    return _highest(_weighted(report, settings)) / 100


def overload_usage(report: BrokerReport, settings: Settings) -> float:
    """Return the usage that Pulsar compares with the overload limit, as a fraction.

    Pulsar before 4.0 takes `LocalBrokerData.getMaxResourceUsage`, the highest usage without weights, in 32 bits; from
    4.0 on it is the weighted maximum (OverloadShedder, LeastLongTermMessageRate, ModularLoadManagerImpl.selectBroker).
    """
    if not settings.is_before("4.0"):
        return weighted_maximum(report, settings)
    return float32(_highest(map(percent, _MEASURED(report))) / 100)


def weighted_maximum_extensible(report: BrokerReport, settings: Settings) -> float:
    """Return the highest weighted usage as a fraction, heap memory included by its (deprecated) weight."""
    heap = percent(report.memory) * settings.loadBalancerMemoryResourceWeight
    return _highest((*_weighted(report, settings), heap)) / 100


@dataclass(frozen=True, slots=True)
class ExtensibleAverages:
    """The two averages that an extensible broker publishes. Before its first update a broker counts as full (1.0)."""

    weighted_maximum: float = 1.0
    msg_throughput: float = 0.0
    started: bool = False

    def updated(self, report: BrokerReport, settings: Settings) -> ExtensibleAverages:
        """Return the averages one report tick (5 s) later."""
        now, throughput = weighted_maximum_extensible(report, settings), report.throughput
        if not self.started:
            return ExtensibleAverages(now, throughput, True)
        past = settings.loadBalancerHistoryResourcePercentage
        return ExtensibleAverages(
            self.weighted_maximum * past + (1 - past) * now, self.msg_throughput * past + (1 - past) * throughput, True
        )

    def advanced(self, report: BrokerReport, elapsed_s: float, settings: Settings) -> ExtensibleAverages:
        """Return the averages after `elapsed_s` seconds of ticks with the figures of this report."""
        now, throughput = weighted_maximum_extensible(report, settings), report.throughput
        past = settings.loadBalancerHistoryResourcePercentage
        history = (self.weighted_maximum, self.msg_throughput) if self.started else (None, None)
        return ExtensibleAverages(
            advanced(history[0], now, elapsed_s, past), advanced(history[1], throughput, elapsed_s, past), True
        )


def advanced(history: float | None, sample: float, elapsed_s: float, weight: float) -> float:
    """Return a moving average after `elapsed_s` seconds with the same sample; a broker updates it every 5 s.

    `weight` is that of the past per tick (loadBalancerHistoryResourcePercentage). Without a history the sample is its
    start. If no time has passed, the average is unchanged. One tick is exactly a broker's own computation.
    """
    if history is None:
        return sample
    past = math.pow(weight, max(0.0, elapsed_s) / TICK_S)
    return history * past + (1 - past) * sample


def _weighted(report: BrokerReport, settings: Settings) -> tuple[float, ...]:
    return (
        percent(report.cpu) * settings.loadBalancerCPUResourceWeight,
        percent(report.direct_memory) * settings.loadBalancerDirectMemoryResourceWeight,
        percent(report.bandwidth_in) * settings.bandwidth_in_weight,
        percent(report.bandwidth_out) * settings.bandwidth_out_weight,
    )


_MEASURED = attrgetter("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")


def _highest(values: Iterable[float]) -> float:
    highest = -math.inf
    for value in values:
        if value > highest:
            highest = value
    return highest
