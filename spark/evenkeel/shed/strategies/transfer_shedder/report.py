"""What TransferShedder considered, as rows: the cluster, every broker, and the bundles of its pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.model.considered import Alternative, Considered, Outcome, Unit, considered, finite
from evenkeel.model.load import ExtensibleLoad
from evenkeel.settings import Settings
from evenkeel.shed.strategies.transfer_shedder.gates import DELAY, TTL, WITH_POLICIES, Gate, is_outdated
from evenkeel.shed.strategies.transfer_shedder.load_stats import STD, LoadStats, Trigger
from evenkeel.shed.strategies.transfer_shedder.transfer_pairs import Looked, Pair

HITS = "loadBalancerSheddingConditionHitCountThreshold"
_CLUSTER = "cluster"
_SETTINGS_OF_RULES: Mapping[str, str] = {
    "excluded_namespace": "loadBalancerSheddingExcludedNamespaces",
    "recently_unloaded": "loadBalancerSheddingGracePeriodMinutes",
    "isolation_policy": WITH_POLICIES,
    "anti_affinity_group": WITH_POLICIES,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One pair of brokers that was looked at: what called for it, and the refusal if nothing moved ("" if it did)."""

    trigger: Trigger
    pair: Pair
    refusal: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the loads compared before anything moved: `called` is None where they are even enough."""

    called: Trigger | None
    hits: int
    mean: float
    std: float


def report_of_gate(load: ExtensibleLoad, stopped: Gate, settings: Settings, now: int) -> tuple[Considered, ...]:
    """The rows of a round that a gate stopped."""
    if stopped.reason == "CoolDown":
        delay = settings.loadBalanceSheddingDelayInSeconds * 1_000
        cluster = _cluster_row("skipped", "cool_down", stopped.broker, DELAY, stopped.elapsed, delay, "ms")
    elif stopped.reason == "OutDatedData":
        youngest = now - max(data.updated_at for data in load.loads.values())
        ttl = settings.loadBalancerBrokerLoadDataTTLInSeconds * 1_000
        cluster = _cluster_row("skipped", "all_outdated", None, TTL, youngest, ttl, "ms")
    elif stopped.reason == "NoLoadData":
        cluster = _cluster_row("skipped", "load_data_missing", stopped.broker, None, stopped.count, None, "count")
    else:
        cluster = _cluster_row("skipped", "no_load_data_at_all", None, None, 0, None, "count")
    return (cluster, *_broker_rows(load, {}, None, settings, now))


def report(
    load: ExtensibleLoad,
    stats: LoadStats,
    compared: Comparison,
    attempts: list[Attempt],
    settings: Settings,
    now: int,
) -> tuple[Considered, ...]:
    """The rows of a round in which loads were compared."""
    shown = {attempt.pair.giver: _giver_row(attempt, compared.mean) for attempt in attempts}
    for attempt in attempts:
        if not attempt.refusal:
            rule = "receives" if settings.loadBalancerTransferEnabled else "least_loaded"
            shown[attempt.pair.receiver] = _receiver_row(attempt.pair, rule, compared.mean)
    bundles = (row for attempt in attempts for row in _bundle_rows(attempt, settings))
    cluster = _cluster_of(stats, compared, attempts, settings)
    return (cluster, *_broker_rows(load, shown, compared.mean, settings, now), *bundles)


def _cluster_of(stats: LoadStats, compared: Comparison, attempts: list[Attempt], settings: Settings) -> Considered:
    called, needed = compared.called, settings.loadBalancerSheddingConditionHitCountThreshold
    numbers = {"mean_load": compared.mean, "std": compared.std, "hits": compared.hits}
    if called is None:
        # Where loads are equal to the last digit, Pulsar's own deviation is not a number.
        std = 0.0 if math.isnan(compared.std) else compared.std
        return _cluster_row("kept", "evenly_loaded", None, STD, std, stats.target_std, "fraction", numbers)
    if compared.hits <= needed:
        return _cluster_row("refused", "hit_count", called.broker, HITS, compared.hits, needed, "count", numbers)
    moved = sum(not attempt.refusal for attempt in attempts)
    numbers |= {"pairs": moved, "std_after": stats.std}
    about = called.broker, called.setting, called.measured, called.threshold, called.unit
    if moved:
        return _cluster_row("unload", called.rule, *about, numbers)
    return _cluster_row("refused", "nothing_to_transfer", *about, numbers)


def _broker_rows(
    load: ExtensibleLoad, shown: Mapping[str, Considered], mean: float | None, settings: Settings, now: int
) -> Iterable[Considered]:
    ttl = settings.loadBalancerBrokerLoadDataTTLInSeconds * 1_000
    for broker in sorted(load.loads.keys() | load.brokers.keys()):
        data = load.loads.get(broker)
        if broker in shown:
            yield shown[broker]
        elif data is None:
            yield considered(broker, "broker", broker, "skipped", "no_load_data")
        elif is_outdated(data, settings, now):
            age = now - data.updated_at
            yield considered(
                broker, "broker", broker, "skipped", "outdated", setting=TTL, measured=age, threshold=ttl, unit="ms"
            )
        else:
            yield considered(
                broker,
                "broker",
                broker,
                "kept",
                "not_paired" if mean is not None else "not_compared",
                measured=data.weighted_max_ema,
                unit="fraction",
                numbers={} if mean is None else {"mean_load": mean},
            )


def _giver_row(attempt: Attempt, mean: float) -> Considered:
    trigger, pair = attempt.trigger, attempt.pair
    numbers = {
        "load": pair.giver_load,
        "mean_load": mean,
        "receiver_load": pair.receiver_load,
        "broker_throughput": pair.giver_throughput,
        "to_offload": pair.wanted,
        "offloaded": pair.marked,
        "selected": sum(one.outcome == "unload" and one.source == pair.giver for one in pair.looked),
    }
    return considered(
        pair.giver,
        "broker",
        pair.giver,
        "refused" if attempt.refusal else "unload",
        attempt.refusal or trigger.rule,
        setting=trigger.setting,
        measured=trigger.measured,
        threshold=trigger.threshold,
        unit=trigger.unit,
        alternatives=(Alternative(pair.receiver, "best", "least_loaded", finite(pair.receiver_load)),),
        numbers=numbers,
    )


def _receiver_row(pair: Pair, rule: str, mean: float) -> Considered:
    back = sum(one.outcome == "unload" and one.source == pair.receiver for one in pair.looked)
    return considered(
        pair.receiver,
        "broker",
        pair.receiver,
        "kept",
        rule,
        measured=pair.receiver_load,
        unit="fraction",
        alternatives=(Alternative(pair.giver, "candidate", "gives", finite(pair.giver_load)),),
        numbers={"mean_load": mean, "offloaded": pair.marked, "swapped_back": back},
    )


def _bundle_rows(attempt: Attempt, settings: Settings) -> Iterable[Considered]:
    pair = attempt.pair
    to_receiver = (Alternative(pair.receiver, "best", "least_loaded", finite(pair.receiver_load)),)
    to_giver = (Alternative(pair.giver, "best", "swap", finite(pair.giver_load)),)
    for rank, one in enumerate(pair.looked, start=1):
        gone = one.outcome == "unload"
        compared = _compared(one)
        others = to_receiver if one.source == pair.giver else to_giver
        yield considered(
            one.bundle,
            "bundle",
            one.source,
            one.outcome,
            one.rule,
            setting=_SETTINGS_OF_RULES.get(one.rule),
            measured=compared,
            threshold=None if compared is None else pair.wanted,
            unit="" if compared is None else "byte/s",
            alternatives=others if gone and settings.loadBalancerTransferEnabled else _removed(one, pair),
            numbers={"bundle_throughput": one.throughput, "rank": rank},
        )


def _removed(one: Looked, pair: Pair) -> tuple[Alternative, ...]:
    """The receiver, where a filter keeps the bundle from it."""
    if one.outcome != "skipped" or one.rule in _SETTINGS_OF_RULES or one.rule in ("not_owned", "unreadable_version"):
        return ()
    return (Alternative(pair.receiver, "removed", one.rule, finite(pair.receiver_load)),)


def _compared(one: Looked) -> float | None:
    """What was compared with the wanted throughput: all that would have left with the bundle (byte/s)."""
    return one.before + one.throughput if one.rule in ("lightest_first", "with_swap", "too_heavy") else None


def _cluster_row(
    outcome: Outcome,
    rule: str,
    broker: str | None,
    setting: str | None,
    measured: float | None,
    threshold: float | None,
    unit: Unit,
    numbers: Mapping[str, float] | None = None,
) -> Considered:
    return considered(
        _CLUSTER,
        "cluster",
        broker,
        outcome,
        rule,
        setting=setting,
        measured=measured,
        threshold=threshold,
        unit=unit,
        numbers=numbers,
    )
