"""Shed from brokers that are overloaded by their latest report (Pulsar: OverloadShedder).

Key: loadBalancerBrokerOverloadedThresholdPercentage; a broker exactly at it sheds. The share of usage above the
threshold, and 5 points more, is taken as a share of the broker's throughput.
"""

from __future__ import annotations

from evenkeel.model.considered import Considered, considered
from evenkeel.model.load import BrokerReport, LoadData
from evenkeel.model.usage import weighted_maximum
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import Eligible, Selection, select_bundles
from evenkeel.shed.shedder import Shed, ShedderState

MARGIN = 0.05
SETTING = "loadBalancerBrokerOverloadedThresholdPercentage"


def shed(load: LoadData, state: ShedderState, settings: Settings) -> Shed:
    """What to unload now. There is no state: `state` comes back as it was."""
    eligible = Eligible(load)
    unloads: list[tuple[str, str]] = []
    rows: list[Considered] = []
    for broker, report in sorted(load.brokers.items()):
        selection = _shed_broker(report, load, eligible, settings)
        rows += selection.considered
        unloads += [(bundle, broker) for bundle in selection.bundles]
    return Shed(tuple(unloads), tuple(rows), state)


def _shed_broker(report: BrokerReport, load: LoadData, eligible: Eligible, settings: Settings) -> Selection:
    threshold = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
    usage = weighted_maximum(report, settings)
    numbers = {"broker_throughput": report.throughput, "bundles": len(report.bundles)}
    rule = "below_threshold"
    selection = Selection((), ())
    if usage >= threshold:
        numbers["to_offload"] = (usage - threshold + MARGIN) * report.throughput
        rule = "sole_bundle" if len(report.bundles) <= 1 else "above_threshold"
    if rule == "above_threshold":
        selection = select_bundles(report, load, eligible, numbers["to_offload"], {"usage": usage})
        rule = rule if selection.bundles else "nothing_to_shed"
        numbers["selected"] = len(selection.bundles)
    row = considered(
        report.broker,
        "broker",
        report.broker,
        "unload" if selection.bundles else "kept" if usage < threshold else "refused",
        rule,
        setting=SETTING,
        measured=usage,
        threshold=threshold,
        unit="fraction",
        numbers=numbers,
    )
    return Selection(selection.bundles, (row, *selection.considered))
