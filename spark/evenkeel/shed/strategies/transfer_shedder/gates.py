"""Gates that stop a round of TransferShedder before loads are compared, and policies on transfers of bundles.

Keys: loadBalanceSheddingDelayInSeconds, loadBalancerBrokerLoadDataTTLInSeconds. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.broker_filters import BrokerFilters
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BrokerLoadData, ExtensibleLoad
from evenkeel.settings import Settings

DELAY_KEY = "loadBalanceSheddingDelayInSeconds"
TTL_KEY = "loadBalancerBrokerLoadDataTTLInSeconds"


@dataclass(frozen=True, slots=True)
class Gate:
    """The round stops: `reason` is Pulsar's word. `broker` is the one that cools down, or the first without data.

    `elapsed`: ms from that broker's last unload to its load data. `count`: brokers concerned.
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
                return Gate("CoolDown", remembered, broker, elapsed, 1)
            del remembered[broker]
        counted.append(data.weighted_max_ema)
    if not counted:
        return Gate("OutDatedData" if load.loads else "NoBrokers", remembered, count=len(load.loads))
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
