"""Transfer bundles from the most loaded brokers to the least loaded ones (Pulsar: TransferShedder).

Keys: loadBalancerBrokerLoadTargetStd, loadBalancerBrokerOverloadedThresholdPercentage,
loadBalancerSheddingConditionHitCountThreshold, loadBalancerMaxNumberOfBrokerSheddingPerCycle,
loadBalanceSheddingDelayInSeconds, loadBalancerBrokerLoadDataTTLInSeconds, loadBalancerTransferEnabled, and those of its
parts. It acts after several rounds in a row with one of these conditions: the deviation of loads is above the target;
the least loaded broker is far below the mean; the most loaded one is far above it. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.model.consideration import Considered
from evenkeel.model.load import ExtensibleLoad
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import EXCLUDED_KEY
from evenkeel.shed.shedder import Shedder
from evenkeel.shed.strategies.transfer_shedder import rules
from evenkeel.shed.strategies.transfer_shedder.gates import (
    DELAY_KEY,
    TTL_KEY,
    WITH_POLICIES_KEY,
    Gate,
    TransferPolicies,
    gate,
)
from evenkeel.shed.strategies.transfer_shedder.load_stats import OVERLOADED_KEY, STD_KEY, LoadStats, Trigger
from evenkeel.shed.strategies.transfer_shedder.report import (
    HITS_KEY,
    Comparison,
    PairAttempt,
    report,
    report_of_gate,
)
from evenkeel.shed.strategies.transfer_shedder.transfer_pairs import TransferPair, TransferSelection, pair_of


@dataclass(frozen=True, slots=True)
class TransferState:
    """State of TransferShedder: rounds in a row that called for shedding, and when brokers gave bundles away.

    `recently_unloaded`: broker -> when an unload from it was done (epoch ms). The code that executes unloads adds to
    it.
    """

    hits: int = 0
    recently_unloaded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One bundle that is to leave `source`; `destination` None: it is freed and gets its broker at its next look-up."""

    bundle: str
    source: str
    destination: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Transfers:
    """The decisions of one round. `notes`: the notes of Pulsar's counter ("Skip:HitCount").

    `mean` and `std` of the loads (fractions) before any move; None if a gate stopped the round earlier. `considered`:
    the cluster, every broker, and every checked bundle.
    """

    transfers: tuple[Transfer, ...]
    notes: tuple[str, ...]
    considered: tuple[Considered, ...]
    state: TransferState
    mean: float | None
    std: float | None


def find_bundles_for_unloading(
    load: ExtensibleLoad, state: TransferState, policies: TransferPolicies, settings: Settings, *, now: int
) -> Transfers:
    """Return the bundles to transfer now, and the state for the next round."""
    passed = gate(load, state.recently_unloaded, settings, now)
    if isinstance(passed, Gate):
        rows = report_of_gate(load, passed, settings, now)
        left = TransferState(state.hits, passed.recently_unloaded)
        return Transfers((), (f"Skip:{passed.reason}",), rows, left, None, None)
    stats = LoadStats(dict(sorted(load.loads.items())), passed.counted, settings)
    mean, std = stats.mean, stats.std
    called = stats.trigger()
    hits = state.hits + 1 if called else 0
    attempts: list[PairAttempt] = []
    if hits > settings.loadBalancerSheddingConditionHitCountThreshold:
        attempts = _even_out(load, stats, TransferSelection(load, policies, settings), settings)
        reason = "" if any(_moved(attempt) for attempt in attempts) else _nothing_found(attempts)
    else:
        reason = "HitCount"
    transfers = _transfers(attempts, settings)
    rows = report(load, stats, Comparison(called, hits, mean, std), attempts, settings, now)
    left = TransferState(0 if transfers else hits, passed.recently_unloaded)
    return Transfers(transfers, (f"Skip:{reason}",) if reason else (), rows, left, mean, std)


def _even_out(
    load: ExtensibleLoad, stats: LoadStats, selection: TransferSelection, settings: Settings
) -> list[PairAttempt]:
    """Pair the most loaded broker with the least loaded one until enough pairs gave something or all is even.

    A giver is taken once, whatever its result; a receiver stays first until something was moved to it.
    """
    attempts: list[PairAttempt] = []
    pairs = 0
    while pairs < settings.loadBalancerMaxNumberOfBrokerSheddingPerCycle and stats.lowest < stats.highest:
        trigger = stats.trigger()
        if trigger is None:
            break
        giver, receiver = stats.by_load[stats.highest], stats.by_load[stats.lowest]
        stats.highest -= 1
        attempt = _attempt(load, trigger, pair_of(load, giver, receiver), selection)
        attempts.append(attempt)
        if attempt.pair.marked > 0:
            stats.offload(attempt.pair.giver_load, attempt.pair.receiver_load, attempt.pair.moved_load)
            stats.next_receiver()
            pairs += 1
    return attempts


def _attempt(load: ExtensibleLoad, trigger: Trigger, pair: TransferPair, selection: TransferSelection) -> PairAttempt:
    listed = len(load.top_bundles.get(pair.giver, ()))
    if listed <= 1:
        return PairAttempt(trigger, pair, rules.NO_TOP_BUNDLES if listed == 0 else rules.SOLE_TOP_BUNDLE)
    selection.fill(pair)
    return PairAttempt(trigger, pair, None if pair.marked > 0 else rules.NO_MOVABLE_BUNDLE)


def _moved(attempt: PairAttempt) -> bool:
    return any(looked.leaves for looked in attempt.pair.looked)


def _nothing_found(attempts: list[PairAttempt]) -> str:
    """Return Pulsar's word for the reason why nothing is transferred although the condition held."""
    if any(attempt.refusal is rules.NO_TOP_BUNDLES for attempt in attempts):
        return "NoLoadData"
    return "NoBundles" if attempts else "HitCount"


def _transfers(attempts: list[PairAttempt], settings: Settings) -> tuple[Transfer, ...]:
    """Return the transfers in the order decided; bundles that come back in a swap go to the giver."""
    transfers = []
    for attempt in attempts:
        pair = attempt.pair
        for looked in pair.looked:
            if looked.leaves:
                other = pair.receiver if looked.source == pair.giver else pair.giver
                destination = other if settings.loadBalancerTransferEnabled else None
                transfers.append(Transfer(looked.bundle, looked.source, destination, attempt.trigger.reason))
    return tuple(transfers)


SHEDDER = Shedder(
    "TransferShedder",
    find_bundles_for_unloading,
    keys=(
        STD_KEY,
        OVERLOADED_KEY,
        HITS_KEY,
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
        DELAY_KEY,
        TTL_KEY,
        "loadBalancerTransferEnabled",
        "loadBalancerDebugModeEnabled",
        EXCLUDED_KEY,
        WITH_POLICIES_KEY,
    ),
    rules=rules.RULES,
    remembers=("hits", "unloaded_at"),
)
