"""Shed from brokers that are overloaded by their latest report (Pulsar: OverloadShedder).

Key: loadBalancerBrokerOverloadedThresholdPercentage; a broker exactly at it sheds. The share of usage above the
threshold, and 5 points more, is taken as a share of the broker's throughput. Before Pulsar 4.0 usage has no weights.
"""

from __future__ import annotations

from evenkeel.model.amounts import plural
from evenkeel.model.consideration import Considered, Rule, Sentence, measured, number, threshold
from evenkeel.model.load import BrokerReport, LoadData
from evenkeel.model.usage import WEIGHT_KEYS, overload_usage
from evenkeel.settings import Settings
from evenkeel.settings.key import VERSION_KEY
from evenkeel.shed.bundle_selection import Eligible, Selection, take_until_reached
from evenkeel.shed.shedder import ModularShedder, Shed, Shedder, ShedderState

THRESHOLD_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"
MARGIN = 0.05


def shed(load: LoadData, state: ShedderState, settings: Settings) -> Shed:
    """Return the bundles to unload now. There is no state: `state` comes back unchanged."""
    eligible = Eligible(load)
    unloads: list[tuple[str, str]] = []
    rows: list[Considered] = []
    for broker, report in sorted(load.brokers.items()):
        selection = _shed_broker(report, load, eligible, settings)
        rows += selection.considered
        unloads += [(bundle, broker) for bundle in selection.bundles]
    return Shed(tuple(unloads), tuple(rows), state)


def _shed_broker(report: BrokerReport, load: LoadData, eligible: Eligible, settings: Settings) -> Selection:
    limit = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
    usage = overload_usage(report, settings)
    numbers = {"broker_throughput": report.throughput, "bundles": len(report.bundles)}
    rule, selection = BELOW_THRESHOLD, Selection((), ())
    if usage >= limit:
        numbers["to_offload"] = (usage - limit + MARGIN) * report.throughput
        if len(report.bundles) <= 1:
            rule = SOLE_BUNDLE
        else:
            selection = take_until_reached(report, load, eligible, numbers["to_offload"], {"usage": usage})
            rule = ABOVE_THRESHOLD if selection.bundles else NOTHING_TO_SHED
            numbers["selected"] = len(selection.bundles)
    row = rule.about_broker(
        report.broker, setting=THRESHOLD_KEY, measured=usage, threshold=limit, unit="fraction", numbers=numbers
    )
    return Selection(selection.bundles, (row, *selection.considered))


def _busy_but(why: str) -> Sentence:
    return lambda row: f"{row.subject} at {measured(row)} has reached the limit of {threshold(row)}, but {why}."


BELOW_THRESHOLD = Rule(
    "kept",
    "below_threshold",
    lambda row: f"{row.subject} at {measured(row)} is below the limit of {threshold(row)}.",
    "below",
)
ABOVE_THRESHOLD = Rule(
    "unload",
    "above_threshold",
    lambda row: (
        f"{row.subject} at {measured(row)} has reached the limit of {threshold(row)}: "
        f"{plural(row.numbers.get('selected'), 'bundle')} to go, for {number(row, 'to_offload', 'byte/s')} to offload."
    ),
    "at least",
)
SOLE_BUNDLE = Rule(
    "refused",
    "sole_bundle",
    _busy_but("it has only one bundle, and moving it would move the overload with it"),
    "at least",
)
NOTHING_TO_SHED = Rule("refused", "nothing_to_shed", _busy_but("none of its bundles may be unloaded now"), "at least")

SHEDDER: ModularShedder = Shedder(
    "OverloadShedder",
    shed,
    keys=(THRESHOLD_KEY, *WEIGHT_KEYS, VERSION_KEY),
    rules=(BELOW_THRESHOLD, ABOVE_THRESHOLD, SOLE_BUNDLE, NOTHING_TO_SHED),
)
