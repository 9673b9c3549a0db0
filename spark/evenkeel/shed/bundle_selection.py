"""Bundles of a broker that may leave, and the selection among them.

OverloadShedder and ThresholdShedder select alike: by short-term throughput, heaviest first, until the wanted throughput
is reached, but at least one bundle; the last one may overshoot. Equal throughputs are taken in name order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evenkeel.model.bundles import is_heartbeat_or_sla, namespace_of
from evenkeel.model.consideration import (
    BROKERS_OWN_NAMESPACE,
    LEFT_TO_REQUEST,
    PLANNED,
    Alternative,
    Considered,
    Rule,
    Unit,
    bundle_stays,
    by_figure,
    finite,
    measured,
    number,
    threshold,
)
from evenkeel.model.load import BrokerReport, LoadData, MessageAverages
from evenkeel.model.topics import uses_three_part_names
from evenkeel.settings import Settings

SHOWN_NEXT = 3
EXCLUDED_KEY = "loadBalancerSheddingExcludedNamespaces"
GRACE_PERIOD_KEY = "loadBalancerSheddingGracePeriodMinutes"

NO_HISTORY = Rule("skipped", "no_history", bundle_stays("nothing is known of its traffic yet"))
RECENTLY_UNLOADED = Rule("skipped", "recently_unloaded", bundle_stays("it was unloaded within the grace period"))
HEAVIEST_FIRST = Rule(
    "unload",
    "heaviest_first",
    lambda row: (
        f"{row.subject} ({number(row, 'bundle_throughput', 'byte/s')}) leaves {row.broker}: number "
        f"{number(row, 'rank')} by throughput, with {measured(row)} of {threshold(row)} taken before it."
    ),
)
WANTED_REACHED = Rule(
    "kept",
    "wanted_reached",
    lambda row: (
        f"{row.subject} ({number(row, 'bundle_throughput', 'byte/s')}) stays on {row.broker}: heavier bundles with "
        f"{measured(row)} already cover the {threshold(row)} to offload."
    ),
    "at least",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Bundles taken from one broker, in the order taken, and every bundle considered."""

    bundles: tuple[str, ...]
    considered: tuple[Considered, ...]


class Eligible:
    """Bundles that may be shed at all; answers about namespaces are remembered for the round."""

    def __init__(self, load: LoadData) -> None:
        self._load = load
        self._three_part = uses_three_part_names([report.version for report in load.brokers.values()])
        self._brokers_own: dict[str, bool] = {}

    def refusal(self, bundle: str) -> Rule | None:
        """Return None if the bundle may be shed, else the rule that forbids it."""
        if bundle not in self._load.histories:
            return NO_HISTORY
        namespace = namespace_of(bundle)
        if namespace not in self._brokers_own:
            self._brokers_own[namespace] = is_heartbeat_or_sla(namespace, three_part=self._three_part)
        if self._brokers_own[namespace]:
            return BROKERS_OWN_NAMESPACE
        if bundle in self._load.recently_unloaded:
            return RECENTLY_UNLOADED
        return LEFT_TO_REQUEST if bundle in self._load.wished else None


def heaviest_first(
    report: BrokerReport, load: LoadData, eligible: Eligible, of_bundle: Callable[[MessageAverages], float]
) -> tuple[list[str], dict[str, float], list[Considered]]:
    """A broker's bundles that may be shed (heaviest first, then by name), their traffic, and rows for the others."""
    values: dict[str, float] = {}
    skipped: list[Considered] = []
    for bundle in sorted(report.bundles):
        refusal = eligible.refusal(bundle)
        if refusal is None:
            values[bundle] = of_bundle(load.histories[bundle].short_term)
        else:
            setting = GRACE_PERIOD_KEY if refusal is RECENTLY_UNLOADED else None
            skipped.append(refusal.about_bundle(bundle, report.broker, setting=setting))
    return sorted(values, key=by_figure(values), reverse=True), values, skipped


def take_until_reached(
    report: BrokerReport, load: LoadData, eligible: Eligible, wanted: float, numbers: Mapping[str, float]
) -> Selection:
    """Take bundles of one broker until `wanted` byte/s are reached. `numbers` go into every row."""
    ordered, throughputs, skipped = heaviest_first(report, load, eligible, lambda averages: averages.throughput)
    before = _taken_before(ordered, throughputs, wanted)
    next_in_line = tuple(
        Alternative(bundle, "next", WANTED_REACHED.name, finite(throughputs[bundle]))
        for bundle in ordered[len(before) : len(before) + SHOWN_NEXT]
    )
    rows = [
        HEAVIEST_FIRST.about_bundle(
            bundle,
            report.broker,
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
        WANTED_REACHED.about_bundle(
            bundle,
            report.broker,
            measured=total,
            threshold=wanted,
            unit="byte/s",
            numbers={"bundle_throughput": throughputs[bundle], "rank": rank},
        )
        for rank, bundle in enumerate(ordered[len(before) :], start=len(before) + 1)
    ]
    return Selection(tuple(ordered[: len(before)]), (*rows, *skipped))


def _taken_before(ordered: list[str], throughputs: Mapping[str, float], wanted: float) -> list[float]:
    """Return for each taken bundle the amount taken before it: less than wanted, or 0."""
    before: list[float] = []
    taken = 0.0
    for bundle in ordered:
        if not (taken < wanted or not before):
            break
        before.append(taken)
        taken += throughputs[bundle]
    return before


# Bundles of a broker that fit into the amount to move, for UniformLoadShedder and AvgShedder.
#
# By short-term rate or throughput, heaviest first: a bundle that is larger than the remaining amount is passed over and
# the next one tried. Equal ones are tried in name order.

MOST_BUNDLES_KEY = "maxUnloadBundleNumPerShedding"
SHARE_KEY = "maxUnloadPercentage"
NO_LIMIT = -1

FITS = Rule(
    "unload",
    "fits",
    lambda row: (
        f"{row.subject} ({measured(row)}) leaves {row.broker}"
        f"{f' for {row.alternatives[0].name}' if row.alternatives else ''}: it fits into the {threshold(row)} left to "
        "move."
    ),
    "at most",
)
TOO_LARGE_TO_FIT = Rule(
    "kept",
    "too_large_to_fit",
    lambda row: (
        f"{row.subject} ({measured(row)}) stays on {row.broker}: it is larger than the {threshold(row)} left to move."
    ),
    "above",
)
NO_TRAFFIC = Rule("kept", "no_traffic", bundle_stays("it has no traffic"), "at most")
MOST_BUNDLES_TAKEN = Rule(
    "kept",
    "most_bundles_taken",
    lambda row: f"{row.subject} stays on {row.broker}: {threshold(row)} is the most that may go at once.",
    "at least",
)


@dataclass(frozen=True, slots=True)
class Fit:
    """The amount to move, and the differences of the two shedders.

    `wanted`: msg/s or byte/s. `deducted`: the figure of a bundle that counts against it. `idle`: bundles without
    traffic go too. `most`: maximum number of bundles. `destination`: their broker, if that is settled; `numbers` go
    into every row.
    """

    measure: Measure
    wanted: float
    deducted: Callable[[float], float] = float
    idle: bool = False
    most: int = NO_LIMIT
    destination: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


def take_what_fits(report: BrokerReport, load: LoadData, eligible: Eligible, fit: Fit) -> Selection:
    """Take bundles of one broker as long as they fit."""
    ordered, values, skipped = heaviest_first(report, load, eligible, fit.measure.of_bundle)
    left, taken = fit.wanted, list[str]()
    rows: list[Considered] = []
    for rank, bundle in enumerate(ordered, start=1):
        value = values[bundle]
        rule = _rule(value, left, len(taken), fit)
        rows.append(_bundle_row(bundle, report.broker, rule, (value, left, len(taken), rank), fit))
        if rule is FITS:
            taken.append(bundle)
            left -= fit.deducted(value)
    return Selection(tuple(taken), (*rows, *skipped))


def _rule(value: float, left: float, taken: int, fit: Fit) -> Rule:
    if fit.most != NO_LIMIT and taken >= fit.most:
        return MOST_BUNDLES_TAKEN
    if not value <= left:
        return TOO_LARGE_TO_FIT
    return FITS if fit.idle or value > 0 else NO_TRAFFIC


def _bundle_row(bundle: str, broker: str, rule: Rule, at: tuple[float, float, int, int], fit: Fit) -> Considered:
    value, left, taken, rank = at
    planned = (Alternative(fit.destination, "best", PLANNED),) if fit.destination is not None else ()
    counted = rule is MOST_BUNDLES_TAKEN
    return rule.about_bundle(
        bundle,
        broker,
        setting=MOST_BUNDLES_KEY if counted else None,
        measured=float(taken) if counted else value,
        threshold=float(fit.most) if counted else left,
        unit="count" if counted else fit.measure.unit,
        alternatives=planned if rule is FITS else (),
        numbers={**fit.numbers, f"bundle_{fit.measure.name}": value, "rank": rank},
    )


# The two measures of traffic that UniformLoadShedder and AvgShedder compare brokers and move bundles by.


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: msg/s or byte/s, in and out together. `minimum_key` is the key of the least amount worth moving."""

    name: str
    unit: Unit
    of_broker: Callable[[BrokerReport], float]
    of_bundle: Callable[[MessageAverages], float]
    minimum_key: str

    def minimum(self, settings: Settings) -> int:
        """The least that is worth moving, in the measure's unit."""
        return int(getattr(settings, self.minimum_key))


RATE = Measure("rate", "msg/s", lambda report: report.rate, lambda averages: averages.rate, "minUnloadMessage")
THROUGHPUT = Measure(
    "throughput",
    "byte/s",
    lambda report: report.throughput,
    lambda averages: averages.throughput,
    "minUnloadMessageThroughput",
)
