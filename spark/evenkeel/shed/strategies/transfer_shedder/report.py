"""Rows of TransferShedder's considerations: the cluster, every broker, and the bundles of its pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.model.consideration import LEFT_TO_REQUEST, Alternative, Considered, Rule, finite
from evenkeel.model.load import ExtensibleLoad
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import EXCLUDED_KEY, GRACE_PERIOD_KEY, RECENTLY_UNLOADED
from evenkeel.shed.strategies.transfer_shedder import rules
from evenkeel.shed.strategies.transfer_shedder.gates import DELAY_KEY, TTL_KEY, WITH_POLICIES_KEY, Gate, is_outdated
from evenkeel.shed.strategies.transfer_shedder.load_stats import STD_KEY, LoadStats, Trigger
from evenkeel.shed.strategies.transfer_shedder.transfer_pairs import Looked, TransferPair

HITS_KEY = "loadBalancerSheddingConditionHitCountThreshold"
_KEYS_OF_RULES: Mapping[str, str] = {
    rules.EXCLUDED_NAMESPACE.name: EXCLUDED_KEY,
    RECENTLY_UNLOADED.name: GRACE_PERIOD_KEY,
    **dict.fromkeys(rules.POLICIES, WITH_POLICIES_KEY),
}


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
