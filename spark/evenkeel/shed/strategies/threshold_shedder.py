"""Shed from brokers whose moving average of usage is far above the mean of all (Pulsar: ThresholdShedder).

Keys: loadBalancerBrokerThresholdShedderPercentage (reaching it sheds), loadBalancerHistoryResourcePercentage,
loadBalancerBundleUnloadMinThroughputThreshold, lowerBoundarySheddingEnabled. State: the moving average per broker
("usage_average"), forgotten for brokers that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.considered import Considered, Outcome, considered
from evenkeel.model.load import BrokerReport, LoadData
from evenkeel.model.usage import weighted_maximum
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import Eligible, Selection, select_bundles
from evenkeel.shed.shedder import Shed, ShedderState

USAGE_AVERAGE = "usage_average"
MARGIN = 0.05
LOWER_BOUNDARY_SHARE = 0.5
SETTING = "loadBalancerBrokerThresholdShedderPercentage"
MINIMUM_SETTING = "loadBalancerBundleUnloadMinThroughputThreshold"
_MIB = 1_048_576


@dataclass(frozen=True, slots=True)
class Averages:
    """Moving average of usage per broker, and their mean; fractions."""

    by_broker: Mapping[str, float]
    mean: float


def shed(load: LoadData, state: ShedderState, settings: Settings) -> Shed:
    """What to unload now, and the moving averages after this round."""
    eligible = Eligible(load)
    averages = _advance(load, state.get(USAGE_AVERAGE, {}), settings)
    if averages.mean == 0:
        row = considered("cluster", "cluster", None, "kept", "no_usage", measured=0.0, unit="fraction")
        return Shed((), (row,), {USAGE_AVERAGE: averages.by_broker})
    unloads: list[tuple[str, str]] = []
    rows: list[Considered] = []
    for broker, report in sorted(load.brokers.items()):
        selection = _shed_broker(report, load, eligible, averages, settings)
        rows += selection.considered
        unloads += [(bundle, broker) for bundle in selection.bundles]
    if not unloads and settings.lowerBoundarySheddingEnabled:
        averages = _advance(load, averages.by_broker, settings)
        busiest, selection = _shed_for_lower_boundary(load, eligible, averages, settings)
        rows = [row for row in rows if row.broker != busiest] + list(selection.considered)
        unloads += [(bundle, busiest) for bundle in selection.bundles if busiest is not None]
    return Shed(tuple(unloads), tuple(rows), {USAGE_AVERAGE: averages.by_broker})


def _advance(load: LoadData, usage: Mapping[str, float], settings: Settings) -> Averages:
    past = settings.loadBalancerHistoryResourcePercentage
    moved = dict(usage)
    total = 0.0
    for broker, report in sorted(load.brokers.items()):
        now = weighted_maximum(report, settings)
        before = moved.get(broker)
        moved[broker] = now if before is None else before * past + (1 - past) * now
        total += moved[broker]
    return Averages(moved, total / len(load.brokers) if load.brokers else 0.0)


def _threshold(settings: Settings) -> float:
    return settings.loadBalancerBrokerThresholdShedderPercentage / 100.0


def _minimum(settings: Settings) -> float:
    return settings.loadBalancerBundleUnloadMinThroughputThreshold * _MIB


def _shed_broker(
    report: BrokerReport, load: LoadData, eligible: Eligible, averages: Averages, settings: Settings
) -> Selection:
    usage, threshold = averages.by_broker[report.broker], _threshold(settings)
    numbers = {
        "mean_usage": averages.mean,
        "usage_now": weighted_maximum(report, settings),
        "broker_throughput": report.throughput,
        "bundles": len(report.bundles),
    }
    limit = averages.mean + threshold
    if usage < limit:
        return Selection((), (_about(report, "kept", "below_threshold", usage, limit, numbers),))
    wanted = (usage - averages.mean - threshold + MARGIN) * report.throughput
    numbers["to_offload"] = wanted
    if wanted < _minimum(settings):
        return Selection((), (_too_little(report, wanted, usage, settings, numbers),))
    if len(report.bundles) <= 1:
        return Selection((), (_about(report, "refused", "sole_bundle", usage, limit, numbers),))
    selection = select_bundles(report, load, eligible, wanted, {"usage": usage, "mean_usage": averages.mean})
    numbers["selected"] = len(selection.bundles)
    if not selection.bundles:
        row = _about(report, "refused", "nothing_to_shed", usage, limit, numbers)
    else:
        row = _about(report, "unload", "above_threshold", usage, limit, numbers)
    return Selection(selection.bundles, (row, *selection.considered))


def _shed_for_lower_boundary(
    load: LoadData, eligible: Eligible, averages: Averages, settings: Settings
) -> tuple[str | None, Selection]:
    """Feed a broker far below the mean from the busiest one that has several bundles.

    The averages have been advanced a second time by now: so does Pulsar. What is said of that busiest broker takes the
    place of what the first look said; without one a row about the cluster says why.
    """
    usage, brokers = averages.by_broker, sorted(load.brokers)
    floor = averages.mean - _threshold(settings)
    idlest = min(brokers, key=lambda broker: usage[broker])
    numbers = {"mean_usage": averages.mean, "idlest_usage": usage[idlest], "lower_boundary": floor}
    giving = [b for b in brokers if usage[b] > floor and len(load.brokers[b].bundles) > 1]
    if not usage[idlest] < floor or not giving:
        rule = "nobody_below_lower_boundary" if not usage[idlest] < floor else "nobody_to_take_from"
        outcome: Outcome = "kept" if not usage[idlest] < floor else "refused"
        row = considered(
            "cluster",
            "cluster",
            idlest,
            outcome,
            rule,
            setting=SETTING,
            measured=usage[idlest],
            threshold=floor,
            unit="fraction",
            numbers=numbers,
        )
        return None, Selection((), (row,))
    busiest = max(giving, key=lambda broker: usage[broker])
    report = load.brokers[busiest]
    wanted = report.throughput * _threshold(settings) * LOWER_BOUNDARY_SHARE
    numbers |= {"broker_throughput": report.throughput, "bundles": len(report.bundles), "to_offload": wanted}
    if wanted < _minimum(settings):
        return busiest, Selection((), (_too_little(report, wanted, usage[busiest], settings, numbers),))
    selection = select_bundles(report, load, eligible, wanted, {"usage": usage[busiest], "mean_usage": averages.mean})
    numbers |= {"selected": len(selection.bundles), "usage": usage[busiest]}
    if selection.bundles:
        row = _about(report, "unload", "below_lower_boundary", usage[idlest], floor, numbers)
    else:
        row = _about(report, "refused", "nothing_to_shed", usage[idlest], floor, numbers)
    return busiest, Selection(selection.bundles, (row, *selection.considered))


def _about(
    report: BrokerReport, outcome: Outcome, rule: str, usage: float, limit: float, numbers: Mapping[str, float]
) -> Considered:
    return considered(
        report.broker,
        "broker",
        report.broker,
        outcome,
        rule,
        setting=SETTING,
        measured=usage,
        threshold=limit,
        unit="fraction",
        numbers=numbers,
    )


def _too_little(
    report: BrokerReport, wanted: float, usage: float, settings: Settings, numbers: Mapping[str, float]
) -> Considered:
    return considered(
        report.broker,
        "broker",
        report.broker,
        "refused",
        "below_minimum_throughput",
        setting=MINIMUM_SETTING,
        measured=wanted,
        threshold=_minimum(settings),
        unit="byte/s",
        numbers={**numbers, "usage": usage},
    )
