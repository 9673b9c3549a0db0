"""Bundles of the most loaded broker that go to the least loaded one, and bundles that come back in exchange.

Pulsar: TransferShedder.findBundlesForUnloading, from one pair of brokers on. Keys: loadBalancerTransferEnabled,
loadBalancerDebugModeEnabled, loadBalancerSheddingExcludedNamespaces. Bundles are taken lightest first until the next
one would be more than half the difference in load, in terms of throughput; the last bundle of a top list never goes. If
the next one is too much, lighter bundles of the receiving broker may come back for it (a swap). Before Pulsar 3.3 a
bundle without traffic goes too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import LEFT_TO_REQUEST, Rule
from evenkeel.model.load import ExtensibleLoad, TopBundle
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import NO_TRAFFIC, RECENTLY_UNLOADED
from evenkeel.shed.strategies.transfer_shedder import rules
from evenkeel.shed.strategies.transfer_shedder.conditions import TransferPolicies, quotient

SWAP_LIMIT = 0.75
"""After a swap the giving broker must be below this share of its throughput."""


class Looked(NamedTuple):
    """The outcome for one bundle of a pair: it left for the other broker, stayed, or was passed over.

    `before`: throughput (byte/s) marked to leave before this bundle, minus the throughput that comes back.
    """

    bundle: str
    source: str
    by: Rule
    throughput: float
    before: float

    @property
    def leaves(self) -> bool:
        """Return True if the bundle goes to the other broker of the pair."""
        return self.by.outcome == "unload"


@dataclass(slots=True)
class TransferPair:
    """The offload from one broker to another as it builds up: loads are fractions, the rest byte/s.

    `wanted`: half the difference in load, as a part of the giver's throughput. `gained` counts only in debug mode, as
    in Pulsar.
    """

    giver: str
    receiver: str
    giver_load: float
    receiver_load: float
    giver_throughput: float
    receiver_throughput: float
    wanted: float
    marked: float = 0.0
    gained: float = 0.0
    looked: list[Looked] = field(default_factory=list)

    @property
    def net(self) -> float:
        """Return the throughput that leaves for good, as far as it is counted."""
        return self.marked - self.gained

    @property
    def moved_load(self) -> float:
        """The giver's load (a fraction) that goes with the marked throughput."""
        return quotient(self.net * self.giver_load, self.giver_throughput)


def pair_of(load: ExtensibleLoad, giver: str, receiver: str) -> TransferPair:
    """The pair before anything is marked."""
    high, low = load.loads[giver], load.loads[receiver]
    half = (high.weighted_max_ema - low.weighted_max_ema) / 2
    return TransferPair(
        giver=giver,
        receiver=receiver,
        giver_load=high.weighted_max_ema,
        receiver_load=low.weighted_max_ema,
        giver_throughput=high.throughput,
        receiver_throughput=low.throughput,
        wanted=quotient(high.throughput * half, high.weighted_max_ema),
    )


class TransferSelection:
    """Selects bundles for one pair after the other."""

    def __init__(self, load: ExtensibleLoad, policies: TransferPolicies, settings: Settings) -> None:
        self._load = load
        self._policies = policies
        self._excluded = settings.loadBalancerSheddingExcludedNamespaces
        self._transfer = settings.loadBalancerTransferEnabled
        self._debug = settings.loadBalancerDebugModeEnabled
        self._keeps_idle = not settings.is_before("3.3")

    def fill(self, pair: TransferPair) -> None:
        """Mark the bundles that leave the giver, and note the outcome for each of its top bundles."""
        listed = self._load.top_bundles[pair.giver]
        coming_back = iter(self._load.top_bundles.get(pair.receiver, ()))
        remaining = len(listed)
        stopped: Rule | None = None
        for listed_bundle in listed:
            rule = stopped or self._passed_over(listed_bundle, pair, remaining)
            if rule is rules.LAST_OF_TOP_BUNDLES:
                stopped = rules.NOT_REACHED
            if rule is not None:
                self._note(pair, listed_bundle, pair.giver, rule)
                continue
            if not pair.net + listed_bundle.throughput > pair.wanted:
                rule = rules.LIGHTEST_FIRST
            elif self._swap(listed_bundle, pair, coming_back):
                rule = rules.WITH_SWAP
            else:
                stopped = rules.NOT_REACHED
                self._note(pair, listed_bundle, pair.giver, rules.TOO_HEAVY)
                continue
            self._note(pair, listed_bundle, pair.giver, rule)
            pair.marked += listed_bundle.throughput
            remaining -= 1

    def _passed_over(self, bundle: TopBundle, pair: TransferPair, remaining: int) -> Rule | None:
        """Return the reason why the bundle stays whatever its weight; None if it may go."""
        if bundle.bundle in self._load.not_owned:
            return rules.NOT_OWNED
        if namespace_of(bundle.bundle) in self._excluded:
            return rules.EXCLUDED_NAMESPACE
        if bundle.bundle in self._load.recently_unloaded:
            return RECENTLY_UNLOADED
        if bundle.bundle in self._load.wished:
            return LEFT_TO_REQUEST
        refusal = self._policies.refusal(bundle.bundle, pair.receiver)
        if refusal is not None:
            return rules.REFUSALS[refusal]
        if remaining <= 1:
            return rules.LAST_OF_TOP_BUNDLES
        return NO_TRAFFIC if bundle.throughput == 0 and self._keeps_idle else None

    def _swap(self, bundle: TopBundle, pair: TransferPair, coming_back: Iterator[TopBundle]) -> bool:
        """Return True if bundles of the receiver make up for one that is too heavy; each is tried once."""
        if not self._transfer:
            return False
        giver = pair.giver_throughput - pair.marked + pair.gained - bundle.throughput
        receiver = pair.receiver_throughput + pair.marked - pair.gained + bundle.throughput
        back: list[TopBundle] = []
        for other in coming_back:
            if other.bundle in self._load.wished:
                continue
            if other.throughput == 0 and self._keeps_idle:
                continue
            if self._policies.refusal(other.bundle, pair.giver) is not None:
                continue
            giver_then, receiver_then = giver + other.throughput, receiver - other.throughput
            if not (giver_then < pair.giver_throughput and receiver_then < pair.giver_throughput):
                continue
            giver, receiver = giver_then, receiver_then
            back.append(other)
            if receiver <= giver < pair.giver_throughput * SWAP_LIMIT:
                self._take_back(back, pair)
                return True
        return False

    def _take_back(self, back: list[TopBundle], pair: TransferPair) -> None:
        total = 0.0
        for other in back:
            total += other.throughput
            self._note(pair, other, pair.receiver, rules.SWAPPED_BACK)
        if self._debug:
            pair.gained += total

    def _note(self, pair: TransferPair, bundle: TopBundle, source: str, by: Rule) -> None:
        pair.looked.append(Looked(bundle.bundle, source, by, bundle.throughput, pair.net))
