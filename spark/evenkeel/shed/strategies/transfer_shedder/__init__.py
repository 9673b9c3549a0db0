"""Transfer bundles from the most loaded brokers to the least loaded ones (Pulsar: TransferShedder).

Keys: loadBalancerBrokerLoadTargetStd, loadBalancerBrokerOverloadedThresholdPercentage,
loadBalancerSheddingConditionHitCountThreshold, loadBalancerMaxNumberOfBrokerSheddingPerCycle,
loadBalanceSheddingDelayInSeconds, loadBalancerBrokerLoadDataTTLInSeconds, loadBalancerTransferEnabled, and those of its
parts. It acts after several rounds in a row with one of these conditions: the deviation of loads is above the target;
the least loaded broker is far below the mean; the most loaded one is far above it. Times are epoch milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evenkeel.model.consideration import LEFT_TO_REQUEST, Alternative, Considered, Rule, finite
from evenkeel.model.load import ExtensibleLoad
from evenkeel.settings import Settings
from evenkeel.settings.key import VERSION_KEY
from evenkeel.shed.bundle_selection import EXCLUDED_KEY, GRACE_PERIOD_KEY, RECENTLY_UNLOADED
from evenkeel.shed.shedder import Shedder
from evenkeel.shed.strategies.transfer_shedder import rules
from evenkeel.shed.strategies.transfer_shedder.conditions import (
    DELAY_KEY,
    OVERLOADED_KEY,
    STD_KEY,
    TTL_KEY,
    WITH_POLICIES_KEY,
    Gate,
    LoadStats,
    TransferPolicies,
    Trigger,
    gate,
    is_outdated,
)
from evenkeel.shed.strategies.transfer_shedder.transfer_pairs import Looked, TransferPair, TransferSelection, pair_of

HITS_KEY = "loadBalancerSheddingConditionHitCountThreshold"
_KEYS_OF_RULES: Mapping[str, str] = {
    rules.EXCLUDED_NAMESPACE.name: EXCLUDED_KEY,
    RECENTLY_UNLOADED.name: GRACE_PERIOD_KEY,
    **dict.fromkeys(rules.POLICIES, WITH_POLICIES_KEY),
}


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


@dataclass(frozen=True, slots=True)
class PairAttempt:
    """One checked pair of brokers: the trigger, and the refusal if nothing moved (else None)."""

    trigger: Trigger
    pair: TransferPair
    refusal: Rule | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of loads before any move: `called` is None if they are even enough."""

    called: Trigger | None
    hits: int
    mean: float
    std: float


def report_of_gate(load: ExtensibleLoad, stopped: Gate, settings: Settings, now: int) -> tuple[Considered, ...]:
    """The rows of a round that a gate stopped."""
    if stopped.reason == "CoolDown":
        delay = settings.loadBalanceSheddingDelayInSeconds * 1_000
        cluster = rules.COOL_DOWN.about_cluster(
            stopped.broker, setting=DELAY_KEY, measured=stopped.elapsed, threshold=delay, unit="ms"
        )
    elif stopped.reason == "OutDatedData":
        youngest = now - max(data.updated_at for data in load.loads.values())
        ttl = settings.loadBalancerBrokerLoadDataTTLInSeconds * 1_000
        cluster = rules.ALL_OUTDATED.about_cluster(setting=TTL_KEY, measured=youngest, threshold=ttl, unit="ms")
    elif stopped.reason == "NoLoadData":
        cluster = rules.LOAD_DATA_MISSING.about_cluster(stopped.broker, measured=stopped.count, unit="count")
    else:
        cluster = rules.NO_LOAD_DATA_AT_ALL.about_cluster(measured=0, unit="count")
    return (cluster, *_broker_rows(load, {}, None, settings, now))


def report(
    load: ExtensibleLoad,
    stats: LoadStats,
    compared: Comparison,
    attempts: list[PairAttempt],
    settings: Settings,
    now: int,
) -> tuple[Considered, ...]:
    """The rows of a round in which loads were compared."""
    shown = {attempt.pair.giver: _giver_row(attempt, compared.mean) for attempt in attempts}
    for attempt in attempts:
        if attempt.refusal is None:
            rule = rules.RECEIVES if settings.loadBalancerTransferEnabled else rules.LEAST_LOADED
            shown[attempt.pair.receiver] = _receiver_row(attempt.pair, rule, compared.mean)
    bundles = (row for attempt in attempts for row in _bundle_rows(attempt, settings))
    cluster = _cluster_of(stats, compared, attempts, settings)
    return (cluster, *_broker_rows(load, shown, compared.mean, settings, now), *bundles)


def _cluster_of(stats: LoadStats, compared: Comparison, attempts: list[PairAttempt], settings: Settings) -> Considered:
    called, needed = compared.called, settings.loadBalancerSheddingConditionHitCountThreshold
    numbers = {"mean_load": compared.mean, "std": compared.std, "hits": compared.hits}
    if called is None:
        # Where loads are equal to the last digit, Pulsar's own deviation is not a number.
        std = 0.0 if math.isnan(compared.std) else compared.std
        return rules.EVENLY_LOADED.about_cluster(
            setting=STD_KEY, measured=std, threshold=stats.target_std, unit="fraction", numbers=numbers
        )
    if compared.hits <= needed:
        return rules.HIT_COUNT.about_cluster(
            called.broker, setting=HITS_KEY, measured=compared.hits, threshold=needed, unit="count", numbers=numbers
        )
    moved = sum(attempt.refusal is None for attempt in attempts)
    numbers |= {"pairs": moved, "std_after": stats.std}
    rule = called.rule if moved else rules.NOTHING_TO_TRANSFER
    return rule.about_cluster(
        called.broker,
        setting=called.setting,
        measured=called.measured,
        threshold=called.threshold,
        unit=called.unit,
        numbers=numbers,
    )


def _broker_rows(
    load: ExtensibleLoad, shown: Mapping[str, Considered], mean: float | None, settings: Settings, now: int
) -> Iterable[Considered]:
    ttl = settings.loadBalancerBrokerLoadDataTTLInSeconds * 1_000
    for broker in sorted(load.loads.keys() | load.brokers.keys()):
        data = load.loads.get(broker)
        if broker in shown:
            yield shown[broker]
        elif data is None:
            yield rules.NO_LOAD_DATA.about_broker(broker)
        elif is_outdated(data, settings, now):
            age = now - data.updated_at
            yield rules.OUTDATED.about_broker(broker, setting=TTL_KEY, measured=age, threshold=ttl, unit="ms")
        else:
            rule = rules.NOT_COMPARED if mean is None else rules.NOT_PAIRED
            numbers = {} if mean is None else {"mean_load": mean}
            yield rule.about_broker(broker, measured=data.weighted_max_ema, unit="fraction", numbers=numbers)


def _giver_row(attempt: PairAttempt, mean: float) -> Considered:
    trigger, pair = attempt.trigger, attempt.pair
    numbers = {
        "load": pair.giver_load,
        "mean_load": mean,
        "receiver_load": pair.receiver_load,
        "broker_throughput": pair.giver_throughput,
        "to_offload": pair.wanted,
        "offloaded": pair.marked,
        "selected": sum(bundle.leaves and bundle.source == pair.giver for bundle in pair.looked),
    }
    rule = attempt.refusal or trigger.rule
    return rule.about_broker(
        pair.giver,
        setting=trigger.setting,
        measured=trigger.measured,
        threshold=trigger.threshold,
        unit=trigger.unit,
        alternatives=(Alternative(pair.receiver, "best", rules.LEAST_LOADED.name, finite(pair.receiver_load)),),
        numbers=numbers,
    )


def _receiver_row(pair: TransferPair, rule: Rule, mean: float) -> Considered:
    back = sum(bundle.leaves and bundle.source == pair.receiver for bundle in pair.looked)
    return rule.about_broker(
        pair.receiver,
        measured=pair.receiver_load,
        unit="fraction",
        alternatives=(Alternative(pair.giver, "candidate", "gives", finite(pair.giver_load)),),
        numbers={"mean_load": mean, "offloaded": pair.marked, "swapped_back": back},
    )


def _bundle_rows(attempt: PairAttempt, settings: Settings) -> Iterable[Considered]:
    pair = attempt.pair
    to_receiver = (Alternative(pair.receiver, "best", rules.LEAST_LOADED.name, finite(pair.receiver_load)),)
    to_giver = (Alternative(pair.giver, "best", "swap", finite(pair.giver_load)),)
    for rank, bundle in enumerate(pair.looked, start=1):
        compared = _compared(bundle)
        others = to_receiver if bundle.source == pair.giver else to_giver
        yield bundle.by.about_bundle(
            bundle.bundle,
            bundle.source,
            setting=_KEYS_OF_RULES.get(bundle.by.name),
            measured=compared,
            threshold=None if compared is None else pair.wanted,
            unit="" if compared is None else "byte/s",
            alternatives=others if bundle.leaves and settings.loadBalancerTransferEnabled else _removed(bundle, pair),
            numbers={"bundle_throughput": bundle.throughput, "rank": rank},
        )


def _removed(looked: Looked, pair: TransferPair) -> tuple[Alternative, ...]:
    """The receiver, where a filter keeps the bundle from it."""
    if looked.by is not LEFT_TO_REQUEST and looked.by.name not in rules.FILTERS:
        return ()
    return (Alternative(pair.receiver, "removed", looked.by.name, finite(pair.receiver_load)),)


def _compared(looked: Looked) -> float | None:
    """Return the throughput that is compared with the wanted one: all that would have left with the bundle (byte/s)."""
    compared = looked.by in (rules.LIGHTEST_FIRST, rules.WITH_SWAP, rules.TOO_HEAVY)
    return looked.before + looked.throughput if compared else None


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
        VERSION_KEY,
    ),
    rules=rules.RULES,
    remembers=("hits", "unloaded_at"),
)
