"""Conditions of a round of TransferShedder: gates before loads are compared, and the distribution of the loads.

Gates stop a round, and policies forbid transfers of bundles. Keys: loadBalanceSheddingDelayInSeconds,
loadBalancerBrokerLoadDataTTLInSeconds. Times are epoch milliseconds.

Pulsar: TransferShedder.LoadStats, isUnderLoaded, isOverLoaded: mean, standard deviation, over- and underloaded brokers.
Keys: loadBalancerBrokerLoadTargetStd, loadBalancerBrokerOverloadedThresholdPercentage. Divisions and roots behave as in
Java, with infinities and not-a-number where Python would raise. Comparisons with not-a-number are false, and that
decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import Rule, Unit, by_figure
from evenkeel.model.filters.broker_filters import BrokerFilters
from evenkeel.model.filters.isolation import PoliciesPresent, draining
from evenkeel.model.load import BrokerLoadData, ExtensibleLoad
from evenkeel.settings import Settings
from evenkeel.shed.strategies.transfer_shedder import rules

DELAY_KEY = "loadBalanceSheddingDelayInSeconds"
TTL_KEY = "loadBalancerBrokerLoadDataTTLInSeconds"


@dataclass(frozen=True, slots=True)
class Gate:
    """The round stops: `reason` is Pulsar's word. `broker` is the one that cools down, or the first without data.

    `elapsed`: ms from that broker's last unload to its load data. `count`: brokers that have no load data.
    """

    reason: str
    recently_unloaded: Mapping[str, int]
    broker: str | None = None
    elapsed: int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Passed:
    """The pass: the loads, in name order of their brokers, and the unloads that are still remembered."""

    counted: list[float]
    recently_unloaded: Mapping[str, int]


def gate(load: ExtensibleLoad, recently_unloaded: Mapping[str, int], settings: Settings, now: int) -> Gate | Passed:
    """Return the gate that stops the round, or the pass.

    Loads can be compared if no broker has just given bundles away, and every available one has load data. Brokers are
    checked in name order up to the first that cools down; brokers whose delay is over are removed from the state.
    """
    remembered = dict(recently_unloaded)
    counted = []
    for broker, data in sorted(load.loads.items()):
        if is_outdated(data, settings, now):
            continue
        if broker in remembered:
            elapsed = data.updated_at - remembered[broker]
            if elapsed < settings.loadBalanceSheddingDelayInSeconds * 1_000:
                return Gate("CoolDown", remembered, broker, elapsed)
            del remembered[broker]
        counted.append(data.weighted_max_ema)
    if not counted:
        return Gate("OutDatedData" if load.loads else "NoBrokers", remembered)
    missing = sorted(load.brokers.keys() - load.loads.keys())
    if missing:
        return Gate("NoLoadData", remembered, missing[0], count=len(missing))
    return Passed(counted, remembered)


def is_outdated(data: BrokerLoadData, settings: Settings, now: int) -> bool:
    """Return True if load data is older than it may be."""
    return now - data.updated_at > settings.loadBalancerBrokerLoadDataTTLInSeconds * 1_000


# Whether a bundle may be transferred at all, by policies and broker filters (Pulsar: TransferShedder.isTransferable).
#
# Key: loadBalancerSheddingBundlesWithPoliciesEnabled.

WITH_POLICIES_KEY = "loadBalancerSheddingBundlesWithPoliciesEnabled"


class TransferPolicies:
    """Policies and filters of one round, asked about one bundle and the broker it would go to."""

    def __init__(self, filters: BrokerFilters, present: PoliciesPresent, settings: Settings) -> None:
        self._filters = filters
        self._present = present
        self._with_policies = settings.loadBalancerSheddingBundlesWithPoliciesEnabled

    def refusal(self, bundle: str, destination: str) -> str | None:
        """Return None if the bundle may go to the broker, else why not: its policy's kind, "unreadable_version", or the
        filter.

        The destination must be a candidate even if bundles are only freed and get their broker later.
        """
        if not self._with_policies:
            policy = self._present.policy(namespace_of(bundle))
            if policy is not None:
                return policy
        if self._filters.unreadable_version:
            return "unreadable_version"
        return self._filters.why_not(bundle, destination)


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
