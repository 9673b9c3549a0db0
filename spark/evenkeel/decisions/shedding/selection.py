"""Which bundles of a broker may be shed, and which are taken to reach a wanted throughput.

The latter for OverloadShedder and ThresholdShedder alike: by short-term throughput, heaviest first, until the wanted
throughput is reached, but at least one; the last one may overshoot. Equal throughputs are taken in name order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenkeel.decisions.bundles import is_heartbeat_or_sla, namespace_of
from evenkeel.decisions.considered import Alternative, Considered, considered, finite
from evenkeel.decisions.load import BrokerReport, LoadData, MessageAverages
from evenkeel.decisions.namespaces import uses_three_part_names
from evenkeel.decisions.ordering import by_figure

SHOWN_NEXT = 3
GRACE = "loadBalancerSheddingGracePeriodMinutes"


@dataclass(frozen=True, slots=True)
class Selection:
    """Bundles taken from one broker, in the order taken, and every bundle considered."""

    bundles: tuple[str, ...]
    considered: tuple[Considered, ...]


class Eligible:
    """Which bundles may be shed at all; answers about namespaces are remembered for the round."""

    def __init__(self, load: LoadData) -> None:
        self._load = load
        self._three_part = uses_three_part_names([report.version for report in load.brokers.values()])
        self._brokers_own: dict[str, bool] = {}

    def refusal(self, bundle: str) -> str | None:
        """None if the bundle may be shed, else the rule that forbids it."""
        if bundle not in self._load.histories:
            return "no_history"
        if self._is_brokers_own(namespace_of(bundle)):
            return "brokers_own_namespace"
        if bundle in self._load.recently_unloaded:
            return "recently_unloaded"
        return "wished" if bundle in self._load.wished else None

    def _is_brokers_own(self, namespace: str) -> bool:
        if namespace not in self._brokers_own:
            self._brokers_own[namespace] = is_heartbeat_or_sla(namespace, three_part=self._three_part)
        return self._brokers_own[namespace]


def heaviest_first(
    report: BrokerReport, load: LoadData, eligible: Eligible, of_bundle: Callable[[MessageAverages], float]
) -> tuple[list[str], dict[str, float], list[Considered]]:
    """A broker's bundles that may be shed, heaviest first and equal ones by name; the traffic of each; a row for each
    of the others."""
    values: dict[str, float] = {}
    skipped: list[Considered] = []
    for bundle in sorted(report.bundles):
        refusal = eligible.refusal(bundle)
        if refusal is None:
            values[bundle] = of_bundle(load.histories[bundle].short_term)
        else:
            setting = GRACE if refusal == "recently_unloaded" else None
            skipped.append(considered(bundle, "bundle", report.broker, "skipped", refusal, setting=setting))
    return sorted(values, key=by_figure(values), reverse=True), values, skipped


def select_bundles(
    report: BrokerReport, load: LoadData, eligible: Eligible, wanted: float, numbers: Mapping[str, float]
) -> Selection:
    """Take bundles of one broker until `wanted` byte/s are reached. `numbers` go into every row."""
    ordered, throughputs, skipped = heaviest_first(report, load, eligible, lambda averages: averages.throughput)
    before = _taken_before(ordered, throughputs, wanted)
    next_in_line = tuple(
        Alternative(bundle, "next", "wanted_reached", finite(throughputs[bundle]))
        for bundle in ordered[len(before) : len(before) + SHOWN_NEXT]
    )
    rows = [
        considered(
            bundle,
            "bundle",
            report.broker,
            "unload",
            "heaviest_first",
            measured=taken,
            threshold=wanted,
            unit="byte/s",
            alternatives=next_in_line,
            numbers={**numbers, "bundle_throughput": throughputs[bundle], "rank": rank},
        )
        for rank, (bundle, taken) in enumerate(zip(ordered, before, strict=False), start=1)
    ]
    total = sum((throughputs[bundle] for bundle in ordered[: len(before)]), 0.0)
    rows += [
        considered(
            bundle,
            "bundle",
            report.broker,
            "kept",
            "wanted_reached",
            measured=total,
            threshold=wanted,
            unit="byte/s",
            numbers={"bundle_throughput": throughputs[bundle], "rank": rank},
        )
        for rank, bundle in enumerate(ordered[len(before) :], start=len(before) + 1)
    ]
    return Selection(tuple(ordered[: len(before)]), (*rows, *skipped))


def _taken_before(ordered: list[str], throughputs: Mapping[str, float], wanted: float) -> list[float]:
    """For each bundle that is taken, what was taken before it: less than wanted, or nothing at all."""
    before: list[float] = []
    taken = 0.0
    for bundle in ordered:
        if not (taken < wanted or not before):
            break
        before.append(taken)
        taken += throughputs[bundle]
    return before
