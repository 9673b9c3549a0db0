"""Distribution of the brokers' loads for TransferShedder: mean, standard deviation, over- and underloaded brokers.

Pulsar: TransferShedder.LoadStats, isUnderLoaded, isOverLoaded. Keys: loadBalancerBrokerLoadTargetStd,
loadBalancerBrokerOverloadedThresholdPercentage. Divisions and roots behave as in Java, with infinities and not-a-number
where Python would raise. Comparisons with not-a-number are false, and that decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.consideration import Rule, Unit, by_figure
from evenkeel.model.filters.isolation import draining
from evenkeel.model.load import BrokerLoadData
from evenkeel.settings import Settings
from evenkeel.shed.strategies.transfer_shedder import rules

STD_KEY = "loadBalancerBrokerLoadTargetStd"
OVERLOADED_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class Trigger:
    """One comparison that can start shedding. `reason` is Pulsar's word for it, `broker` the compared one, if any.

    `measured` and `threshold` are in `unit`; both as they were compared.
    """

    rule: Rule
    reason: str
    broker: str | None
    setting: str
    measured: float
    threshold: float
    unit: Unit


class LoadStats:
    """The brokers by load, and the standard deviation as it will be after the offloads of this round.

    `loads` in name order, outdated ones included; `counted` are the loads that make up mean and deviation.
    `mean` and `std` are fractions; `std` may be not-a-number where all loads are (nearly) equal, as in Pulsar.
    """

    def __init__(self, loads: Mapping[str, BrokerLoadData], counted: list[float], settings: Settings) -> None:
        total = squares = 0.0
        for load in counted:
            total += load
            squares += load * load
        self._squares = squares
        self._count = len(counted)
        self.mean = total / self._count
        self.std = root(squares / self._count - self.mean * self.mean)
        self.loads = loads
        self.by_load = sorted(loads, key=by_figure({broker: load.weighted_max_ema for broker, load in loads.items()}))
        self._draining = draining(loads, settings)
        self.lowest = -1
        self.highest = len(self.by_load) - 1
        self.next_receiver()
        self.target_std = settings.loadBalancerBrokerLoadTargetStd
        self._overloaded_at = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
        self._share = min(0.5, max(0.0, self.target_std / 2.0))

    def next_receiver(self) -> None:
        """Go on to the next broker that may be given load: brokers that are being emptied are passed over."""
        self.lowest += 1
        while self.lowest < self.highest and self.by_load[self.lowest] in self._draining:
            self.lowest += 1

    def trigger(self) -> Trigger | None:
        """The first comparison that calls for shedding: deviation, least loaded broker, most loaded broker."""
        least, most = self.by_load[self.lowest], self.by_load[self.highest]
        checks = (self._uneven, lambda: self._underloaded(least, most), lambda: self._overloaded(most))
        return next((cause for check in checks if (cause := check()) is not None), None)

    def offload(self, giver_load: float, receiver_load: float, moved: float) -> None:
        """Load moves from one broker to the other (fractions): the deviation follows, the mean stays as it was."""
        self._squares -= giver_load * giver_load + receiver_load * receiver_load
        giver = not_below_zero(giver_load - moved)
        receiver = receiver_load + moved
        self._squares += giver * giver + receiver * receiver
        self.std = root(abs(self._squares / self._count - self.mean * self.mean))

    def _uneven(self) -> Trigger | None:
        if not self.std > self.target_std:
            return None
        return Trigger(rules.STD_OVER_TARGET, "Overloaded", None, STD_KEY, self.std, self.target_std, "fraction")

    def _underloaded(self, broker: str, most: str) -> Trigger | None:
        load = self.loads[broker]
        least = self.mean * self._share
        if load.weighted_max_ema < least:
            return Trigger(
                rules.LOAD_UNDER_MEAN, "Underloaded", broker, STD_KEY, load.weighted_max_ema, least, "fraction"
            )
        flow, little = load.msg_throughput_ema, self.loads[most].msg_throughput_ema * self._share
        if flow < little:
            return Trigger(rules.THROUGHPUT_UNDER_HIGHEST, "Underloaded", broker, STD_KEY, flow, little, "byte/s")
        return None

    def _overloaded(self, broker: str) -> Trigger | None:
        load = self.loads[broker].weighted_max_ema
        most = self.mean + self.target_std
        if not (load > self._overloaded_at and load > most):
            return None
        limit, setting = max((self._overloaded_at, OVERLOADED_KEY), (most, STD_KEY))
        return Trigger(rules.LOAD_OVER_MEAN, "Overloaded", broker, setting, load, limit, "fraction")


def quotient(a: float, b: float) -> float:
    """a / b as Java divides doubles: by zero it is infinite, and 0 / 0 is not a number."""
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def root(x: float) -> float:
    """The square root, not-a-number below zero."""
    return math.nan if x < 0 else math.sqrt(x)


def not_below_zero(x: float) -> float:
    """The larger of 0 and x; not-a-number stays one."""
    return x if math.isnan(x) else max(0.0, x)
