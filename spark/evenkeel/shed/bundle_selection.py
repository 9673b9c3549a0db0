"""Which bundles of a broker may leave, and which of them are taken.

The latter for OverloadShedder and ThresholdShedder alike: by short-term throughput, heaviest first, until the wanted
throughput is reached, but at least one; the last one may overshoot. Equal throughputs are taken in name order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evenkeel.model.bundles import is_heartbeat_or_sla, namespace_of
from evenkeel.model.considered import PLANNED, Alternative, Considered, Outcome, Unit, by_figure, considered, finite
from evenkeel.model.load import BrokerReport, LoadData, MessageAverages
from evenkeel.model.topics import uses_three_part_names
from evenkeel.settings import Settings

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


# Which bundles of a broker fit into what is to be moved, for UniformLoadShedder and AvgShedder alike.
#
# By short-term rate or throughput, heaviest first: a bundle that is larger than what is left to move is passed over and
# the next one tried. Equal ones are tried in name order.

MOST_SETTING = "maxUnloadBundleNumPerShedding"
NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class Fit:
    """What is to be moved, and the two shedders' differences.

    `wanted`: msg/s or byte/s. `deducted`: what of a bundle counts against it. `idle`: whether bundles without traffic
    go too. `most`: so many bundles at most. `destination`: the broker they go to if that is settled; `numbers` go into
    every row.
    """

    measure: Measure
    wanted: float
    deducted: Callable[[float], float] = float
    idle: bool = False
    most: int = NO_LIMIT
    destination: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


def select_fitting(report: BrokerReport, load: LoadData, eligible: Eligible, fit: Fit) -> Selection:
    """Take bundles of one broker as long as they fit."""
    ordered, values, skipped = heaviest_first(report, load, eligible, fit.measure.of_bundle)
    left, taken = fit.wanted, list[str]()
    rows: list[Considered] = []
    for rank, bundle in enumerate(ordered, start=1):
        value = values[bundle]
        rule = _rule(value, left, len(taken), fit)
        rows.append(_row(bundle, report.broker, rule, (value, left, len(taken), rank), fit))
        if rule == "fits":
            taken.append(bundle)
            left -= fit.deducted(value)
    return Selection(tuple(taken), (*rows, *skipped))


def _rule(value: float, left: float, taken: int, fit: Fit) -> str:
    if fit.most != NO_LIMIT and taken >= fit.most:
        return "most_bundles_taken"
    if not value <= left:
        return "too_large_to_fit"
    return "fits" if fit.idle or value > 0 else "no_traffic"


def _row(bundle: str, broker: str, rule: str, at: tuple[float, float, int, int], fit: Fit) -> Considered:
    value, left, taken, rank = at
    outcome: Outcome = "unload" if rule == "fits" else "kept"
    planned = (Alternative(fit.destination, "best", PLANNED),) if fit.destination is not None else ()
    counted = rule == "most_bundles_taken"
    measured, threshold = (float(taken), float(fit.most)) if counted else (value, left)
    return considered(
        bundle,
        "bundle",
        broker,
        outcome,
        rule,
        setting=MOST_SETTING if counted else None,
        measured=measured,
        threshold=threshold,
        unit="count" if counted else fit.measure.unit,
        alternatives=planned if rule == "fits" else (),
        numbers={**fit.numbers, f"bundle_{fit.measure.name}": value, "rank": rank},
    )


# The two measures of traffic that UniformLoadShedder and AvgShedder compare brokers and move bundles by.


@dataclass(frozen=True, slots=True)
class Measure:
    """One of them: msg/s or byte/s, in and out together. `minimum_setting` is the key of the least worth moving."""

    name: str
    unit: Unit
    of_broker: Callable[[BrokerReport], float]
    of_bundle: Callable[[MessageAverages], float]
    minimum_setting: str

    def minimum(self, settings: Settings) -> int:
        """The least that is worth moving, in the measure's unit."""
        return int(getattr(settings, self.minimum_setting))


RATE = Measure("rate", "msg/s", lambda report: report.rate, lambda averages: averages.rate, "minUnloadMessage")
THROUGHPUT = Measure(
    "throughput",
    "byte/s",
    lambda report: report.throughput,
    lambda averages: averages.throughput,
    "minUnloadMessageThroughput",
)
