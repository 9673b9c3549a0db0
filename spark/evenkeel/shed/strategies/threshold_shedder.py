"""Shed from brokers whose moving average of usage is far above the mean of all (Pulsar: ThresholdShedder).

Keys: loadBalancerBrokerThresholdShedderPercentage (reaching it sheds), loadBalancerHistoryResourcePercentage,
loadBalancerBundleUnloadMinThroughputThreshold, lowerBoundarySheddingEnabled. State: the moving average per broker
("usage_average"), forgotten for brokers that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.amounts import amount, plural
from evenkeel.model.consideration import Considered, Rule, Sentence, measured, number, points, threshold
from evenkeel.model.load import BrokerReport, LoadData
from evenkeel.model.usage import WEIGHT_KEYS, weighted_maximum
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import Eligible, Selection, take_until_reached
from evenkeel.shed.shedder import ModularShedder, Shed, Shedder, ShedderState

THRESHOLD_KEY = "loadBalancerBrokerThresholdShedderPercentage"
HISTORY_KEY = "loadBalancerHistoryResourcePercentage"
MINIMUM_KEY = "loadBalancerBundleUnloadMinThroughputThreshold"
LOWER_BOUNDARY_KEY = "lowerBoundarySheddingEnabled"
USAGE_AVERAGE = "usage_average"
MARGIN = 0.05
LOWER_BOUNDARY_SHARE = 0.5
_MIB = 1_048_576


@dataclass(frozen=True, slots=True)
class Averages:
    """Moving average of usage per broker, and their mean; fractions."""

    by_broker: Mapping[str, float]
    mean: float


def shed(load: LoadData, state: ShedderState, settings: Settings) -> Shed:
    """Return the bundles to unload now, and the moving averages after this round."""
    eligible = Eligible(load)
    averages = _advance_averages(load, state.get(USAGE_AVERAGE, {}), settings)
    if averages.mean == 0:
        row = NO_USAGE.about_cluster(measured=0.0, unit="fraction")
        return Shed((), (row,), {USAGE_AVERAGE: averages.by_broker})
    unloads: list[tuple[str, str]] = []
    rows: list[Considered] = []
    for broker, report in sorted(load.brokers.items()):
        selection = _shed_broker(report, load, eligible, averages, settings)
        rows += selection.considered
        unloads += [(bundle, broker) for bundle in selection.bundles]
    if not unloads and settings.lowerBoundarySheddingEnabled:
        averages = _advance_averages(load, averages.by_broker, settings)
        busiest, selection = _shed_for_lower_boundary(load, eligible, averages, settings)
        rows = [row for row in rows if row.broker != busiest] + list(selection.considered)
        unloads += [(bundle, busiest) for bundle in selection.bundles if busiest is not None]
    return Shed(tuple(unloads), tuple(rows), {USAGE_AVERAGE: averages.by_broker})


def _advance_averages(load: LoadData, usage: Mapping[str, float], settings: Settings) -> Averages:
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
    usage, distance = averages.by_broker[report.broker], _threshold(settings)
    numbers = {
        "mean_usage": averages.mean,
        "usage_now": weighted_maximum(report, settings),
        "broker_throughput": report.throughput,
        "bundles": len(report.bundles),
    }
    limit = averages.mean + distance
    if usage < limit:
        return Selection((), (_broker_row(BELOW_THRESHOLD, report, usage, limit, numbers),))
    wanted = (usage - averages.mean - distance + MARGIN) * report.throughput
    numbers["to_offload"] = wanted
    if wanted < _minimum(settings):
        return Selection((), (_below_minimum_row(report, wanted, usage, settings, numbers),))
    if len(report.bundles) <= 1:
        return Selection((), (_broker_row(SOLE_BUNDLE, report, usage, limit, numbers),))
    selection = take_until_reached(report, load, eligible, wanted, {"usage": usage, "mean_usage": averages.mean})
    numbers["selected"] = len(selection.bundles)
    rule = ABOVE_THRESHOLD if selection.bundles else NOTHING_TO_SHED
    return Selection(selection.bundles, (_broker_row(rule, report, usage, limit, numbers), *selection.considered))


def _shed_for_lower_boundary(
    load: LoadData, eligible: Eligible, averages: Averages, settings: Settings
) -> tuple[str | None, Selection]:
    """Feed a broker far below the mean from the busiest one that has several bundles.

    The averages have been advanced a second time by now, as in Pulsar. The row about that busiest broker replaces the
    one from the first look; without such a broker a row about the cluster gives the reason.
    """
    usage, brokers = averages.by_broker, sorted(load.brokers)
    floor = averages.mean - _threshold(settings)
    idlest = min(brokers, key=lambda broker: usage[broker])
    numbers = {"mean_usage": averages.mean, "idlest_usage": usage[idlest], "lower_boundary": floor}
    giving = [b for b in brokers if usage[b] > floor and len(load.brokers[b].bundles) > 1]
    if not usage[idlest] < floor or not giving:
        rule = NOBODY_TO_TAKE_FROM if usage[idlest] < floor else NOBODY_BELOW_LOWER_BOUNDARY
        row = rule.about_cluster(
            idlest, setting=THRESHOLD_KEY, measured=usage[idlest], threshold=floor, unit="fraction", numbers=numbers
        )
        return None, Selection((), (row,))
    busiest = max(giving, key=lambda broker: usage[broker])
    report = load.brokers[busiest]
    wanted = report.throughput * _threshold(settings) * LOWER_BOUNDARY_SHARE
    numbers |= {"broker_throughput": report.throughput, "bundles": len(report.bundles), "to_offload": wanted}
    if wanted < _minimum(settings):
        return busiest, Selection((), (_below_minimum_row(report, wanted, usage[busiest], settings, numbers),))
    shown = {"usage": usage[busiest], "mean_usage": averages.mean}
    selection = take_until_reached(report, load, eligible, wanted, shown)
    numbers |= {"selected": len(selection.bundles), "usage": usage[busiest]}
    rule = BELOW_LOWER_BOUNDARY if selection.bundles else NOTHING_TO_SHED
    row = _broker_row(rule, report, usage[idlest], floor, numbers)
    return busiest, Selection(selection.bundles, (row, *selection.considered))


def _broker_row(
    rule: Rule, report: BrokerReport, usage: float, limit: float, numbers: Mapping[str, float]
) -> Considered:
    return rule.about_broker(
        report.broker, setting=THRESHOLD_KEY, measured=usage, threshold=limit, unit="fraction", numbers=numbers
    )


def _below_minimum_row(
    report: BrokerReport, wanted: float, usage: float, settings: Settings, numbers: Mapping[str, float]
) -> Considered:
    return BELOW_MINIMUM_THROUGHPUT.about_broker(
        report.broker,
        setting=MINIMUM_KEY,
        measured=wanted,
        threshold=_minimum(settings),
        unit="byte/s",
        numbers={**numbers, "usage": usage},
    )


def _has_mean(row: Considered) -> bool:
    """Return True if the row has all figures to compare with the mean; one that is not a finite number is missing."""
    return "mean_usage" in row.numbers and row.measured is not None and row.threshold is not None


def _distance(row: Considered) -> str:
    """Return the broker's usage in words, beside the cluster's average if there is one."""
    if not _has_mean(row):
        return f"{row.subject} at {measured(row)}"
    usage, mean = row.measured or 0.0, row.numbers["mean_usage"]
    return (
        f"{row.subject} at {measured(row)} is {abs(usage - mean) * 100:.1f} points "
        f"{'over' if usage >= mean else 'under'} the cluster's average of {amount(mean, 'fraction')}"
    )


def _limit(row: Considered) -> str:
    """Return the limit in points over the average, or the bare limit without an average."""
    if not _has_mean(row):
        return f"the limit of {threshold(row)}"
    return points((row.threshold or 0.0) - row.numbers["mean_usage"])


def _against_limit(row: Considered, verb: str) -> str:
    """Return the broker's usage with its limit; `verb` joins the two if there is no average."""
    return f"{_distance(row)}{'; the limit is' if _has_mean(row) else f' {verb}'} {_limit(row)}"


def _within_threshold(row: Considered) -> str:
    return f"{_against_limit(row, 'is below')}."


def _over_threshold(row: Considered) -> str:
    taken = plural(row.numbers.get("selected"), "bundle")
    wanted = number(row, "to_offload", "byte/s")
    return f"{_against_limit(row, 'has reached')}: {taken} to go, for {wanted} to offload."


def _busy_but(why: str) -> Sentence:
    return lambda row: f"{_against_limit(row, 'has reached')}, but {why}."


def _below_minimum(row: Considered) -> str:
    why = "should feed an idle broker" if "lower_boundary" in row.numbers else "is over its limit"
    return (
        f"{row.subject} at {number(row, 'usage', 'fraction')} {why}, but the {measured(row)} to offload is less than "
        f"the minimum of {threshold(row)}."
    )


NO_USAGE = Rule("kept", "no_usage", lambda row: "No broker shows any usage, so nothing is shed.")
BELOW_THRESHOLD = Rule("kept", "below_threshold", _within_threshold, "below")
ABOVE_THRESHOLD = Rule("unload", "above_threshold", _over_threshold, "at least")
BELOW_MINIMUM_THROUGHPUT = Rule("refused", "below_minimum_throughput", _below_minimum, "below")
SOLE_BUNDLE = Rule(
    "refused", "sole_bundle", _busy_but("it has only one bundle, and moving it would move the overload with it")
)
NOTHING_TO_SHED = Rule("refused", "nothing_to_shed", _busy_but("none of its bundles may be unloaded now"))
NOBODY_BELOW_LOWER_BOUNDARY = Rule(
    "kept",
    "nobody_below_lower_boundary",
    lambda row: (
        f"{row.broker}, the idlest broker, at {measured(row)} is not below the lower boundary of {threshold(row)}."
    ),
    "at least",
)
NOBODY_TO_TAKE_FROM = Rule(
    "refused",
    "nobody_to_take_from",
    lambda row: (
        f"{row.broker} at {measured(row)} is below the lower boundary of {threshold(row)}, but no busier broker "
        "has more than one bundle."
    ),
    "below",
)
BELOW_LOWER_BOUNDARY = Rule(
    "unload",
    "below_lower_boundary",
    lambda row: (
        f"The idlest broker at {measured(row)} is below the lower boundary of {threshold(row)}: {row.subject}, the "
        f"busiest at {number(row, 'usage', 'fraction')}, gives {plural(row.numbers.get('selected'), 'bundle')}."
    ),
    "below",
)

SHEDDER: ModularShedder = Shedder(
    "ThresholdShedder",
    shed,
    keys=(THRESHOLD_KEY, HISTORY_KEY, MINIMUM_KEY, LOWER_BOUNDARY_KEY, *WEIGHT_KEYS),
    rules=(
        NO_USAGE,
        BELOW_THRESHOLD,
        ABOVE_THRESHOLD,
        BELOW_MINIMUM_THROUGHPUT,
        SOLE_BUNDLE,
        NOTHING_TO_SHED,
        NOBODY_BELOW_LOWER_BOUNDARY,
        NOBODY_TO_TAKE_FROM,
        BELOW_LOWER_BOUNDARY,
    ),
    remembers=(USAGE_AVERAGE,),
    forgets_gone_brokers=True,
)
