"""Shed from the busiest broker if its traffic is far above that of the idlest (Pulsar: UniformLoadShedder).

Keys: loadBalancerMsgRateDifferenceShedderThreshold (percent above the idlest), else
loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold (times the idlest); both must be exceeded, and 0 or less
switches one off. maxUnloadPercentage of the difference (a fraction) is moved, if it reaches minUnloadMessage or
minUnloadMessageThroughput, in at most maxUnloadBundleNumPerShedding bundles. If the rate is exceeded the throughput is
not checked, even if the rate unloads no bundle. Amounts are 32-bit integers, as in Pulsar. In Pulsar 4.0 and
older a bundle may be 1,000 msg/s, or 1,000 byte/s, larger than what is left to move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenkeel.model.amounts import plural
from evenkeel.model.consideration import Considered, Rule, Sentence, measured, number, threshold
from evenkeel.model.load import LoadData
from evenkeel.settings import Settings
from evenkeel.settings.key import VERSION_KEY
from evenkeel.shed.bundle_selection import (
    MOST_BUNDLES_KEY,
    RATE,
    SHARE_KEY,
    THROUGHPUT,
    Eligible,
    Fit,
    Measure,
    Selection,
    take_what_fits,
)
from evenkeel.shed.shedder import ModularShedder, Shed, Shedder, ShedderState

RATE_KEY = "loadBalancerMsgRateDifferenceShedderThreshold"
THROUGHPUT_KEY = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
_INT_HIGHEST = 2_147_483_647
_INT_LOWEST = -2_147_483_648
_NOTHING = 1e-6
_SLACK = 1_000


@dataclass(frozen=True, slots=True)
class Spread:
    """The busiest and the idlest broker by one measure, and how far apart they are.

    `lowest` is 1.0 where the idlest has no traffic, and 2,147,483,647 where all have more. `distance` is percent for
    the rate and a ratio for the throughput, as is `threshold`.
    """

    measure: Measure
    busiest: str
    highest: float
    lowest: float
    distance: float
    threshold: float
    setting: str

    @property
    def is_on(self) -> bool:
        """Return True if the measure is looked at."""
        return self.threshold > 0

    @property
    def is_exceeded(self) -> bool:
        """Return True if strictly above the threshold."""
        return self.is_on and self.distance > self.threshold


def shed(load: LoadData, state: ShedderState, settings: Settings) -> Shed:
    """Return the bundles to unload now. There is no state: `state` comes back unchanged."""
    differences = [spread_of(load, measure, settings) for measure in (RATE, THROUGHPUT)]
    spreads = [spread for spread in differences if spread is not None]
    if not spreads:
        return Shed((), (NO_TRAFFIC_AT_ALL.about_cluster(unit="msg/s"),), state)
    looked_at = [spread for spread in spreads if spread.is_on]
    if not looked_at:
        return Shed((), (NO_DIFFERENCE_LOOKED_AT.about_cluster(setting=RATE_KEY),), state)
    exceeded = next((spread for spread in looked_at if spread.is_exceeded), None)
    if exceeded is None:
        return Shed((), _all_even(load, looked_at), state)
    selection = _shed_busiest(load, exceeded, settings)
    rows = (*selection.considered, *_others(load, exceeded))
    return Shed(tuple((bundle, exceeded.busiest) for bundle in selection.bundles), rows, state)


def spread_of(load: LoadData, measure: Measure, settings: Settings) -> Spread | None:
    """Return the spread of the brokers; the first by name of equally busy ones. None if no broker has a figure."""
    busiest, highest, lowest = None, -1.0, float(_INT_HIGHEST)
    for broker, report in sorted(load.brokers.items()):
        traffic = measure.of_broker(report)
        if traffic > highest:
            busiest, highest = broker, traffic
        lowest = min(lowest, traffic)
    if busiest is None:
        return None
    lowest = 1.0 if abs(lowest) <= _NOTHING else lowest
    if measure is RATE:
        threshold, setting = settings.loadBalancerMsgRateDifferenceShedderThreshold, RATE_KEY
        distance = (highest - lowest) * 100.0 / lowest
    else:
        threshold, setting = (settings.loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold, THROUGHPUT_KEY)
        distance = highest / lowest
    return Spread(measure, busiest, highest, lowest, distance, threshold, setting)


def _shed_busiest(load: LoadData, spread: Spread, settings: Settings) -> Selection:
    report = load.brokers[spread.busiest]
    wanted = _java_int((spread.highest - spread.lowest) * settings.maxUnloadPercentage)
    numbers = {"highest": spread.highest, "lowest": spread.lowest, "wanted": wanted, "bundles": len(report.bundles)}
    if len(report.bundles) <= 1:
        return Selection((), (_busiest_row(SOLE_BUNDLE, spread, numbers),))
    minimum = spread.measure.minimum(settings)
    if wanted < minimum:
        row = BELOW_MINIMUM_UNLOAD.about_broker(
            spread.busiest,
            setting=spread.measure.minimum_key,
            measured=wanted,
            threshold=minimum,
            unit=spread.measure.unit,
            numbers={**numbers, "distance": spread.distance},
        )
        return Selection((), (row,))
    room = wanted
    if settings.is_before("4.x"):
        numbers["slack"] = _SLACK
        room = wanted + _SLACK if wanted + _SLACK <= _INT_HIGHEST else _INT_LOWEST  # Java's sum overflows
    fit = Fit(
        spread.measure,
        room,
        deducted=_java_int,
        idle=True,
        most=settings.maxUnloadBundleNumPerShedding,
        numbers={"wanted": wanted},
    )
    selection = take_what_fits(report, load, Eligible(load), fit)
    numbers["selected"] = len(selection.bundles)
    rule = EXCEEDED[spread.measure.name] if selection.bundles else NOTHING_FITS
    return Selection(selection.bundles, (_busiest_row(rule, spread, numbers), *selection.considered))


def _all_even(load: LoadData, looked_at: list[Spread]) -> tuple[Considered, ...]:
    """A row for the busiest broker by each measure that is on, and one for each of the others."""
    busiest: dict[str, Considered] = {}
    for spread in looked_at:
        if spread.busiest not in busiest:
            numbers = {"highest": spread.highest, "lowest": spread.lowest}
            busiest[spread.busiest] = _busiest_row(WITHIN[spread.measure.name], spread, numbers)
    return (*busiest.values(), *(row for row in _others(load, looked_at[0]) if row.subject not in busiest))


def _others(load: LoadData, spread: Spread) -> list[Considered]:
    return [
        NOT_THE_BUSIEST.about_broker(
            broker, measured=spread.measure.of_broker(report), threshold=spread.highest, unit=spread.measure.unit
        )
        for broker, report in sorted(load.brokers.items())
        if broker != spread.busiest
    ]


def _busiest_row(rule: Rule, spread: Spread, numbers: dict[str, float]) -> Considered:
    return rule.about_broker(
        spread.busiest,
        setting=spread.setting,
        measured=spread.distance,
        threshold=spread.threshold,
        unit="percent" if spread.measure is RATE else "",
        numbers=numbers,
    )


def _java_int(x: float) -> int:
    """Return the figure as a Java cast to int does: towards zero, to the nearest bound if too large, NaN to 0."""
    if math.isnan(x):
        return 0
    return int(max(float(_INT_LOWEST), min(float(_INT_HIGHEST), x)))


def _far_apart(row: Considered) -> str:
    """Return how far the busiest broker is above the idlest, by rate or by throughput."""
    if row.setting == RATE_KEY:
        highest, lowest, by = number(row, "highest", "msg/s"), number(row, "lowest", "msg/s"), "more than"
        return f"{row.subject}, the busiest with {highest}, has {measured(row)} {by} the idlest with {lowest}"
    highest, lowest = number(row, "highest", "byte/s"), number(row, "lowest", "byte/s")
    return f"{row.subject}, the busiest with {highest}, has {measured(row)} times the traffic of the idlest, {lowest}"


def _within(row: Considered) -> str:
    return f"{_far_apart(row)}; the limit is {threshold(row)}."


def _slack(row: Considered, unit: str) -> str:
    return f" and {number(row, 'slack', unit)} more, as before Pulsar 4.2" if "slack" in row.numbers else ""


def _apart(unit: str) -> Sentence:
    return lambda row: (
        f"{_far_apart(row)}; the limit is {threshold(row)}: {plural(row.numbers.get('selected'), 'bundle')} to go, "
        f"for {number(row, 'wanted', unit)} to move{_slack(row, unit)}."
    )


def _apart_but(why: str) -> Sentence:
    return lambda row: f"{_far_apart(row)}; the limit is {threshold(row)}, but {why}."


NO_TRAFFIC_AT_ALL = Rule(
    "kept", "no_traffic_at_all", lambda row: "No broker has reported any traffic, so nothing is shed."
)
NO_DIFFERENCE_LOOKED_AT = Rule(
    "skipped",
    "no_difference_looked_at",
    lambda row: "Nothing is shed: the limits of both differences, in rate and in throughput, are switched off.",
)
WITHIN = {
    "rate": Rule("kept", "rate_difference_within", _within, "at most"),
    "throughput": Rule("kept", "throughput_difference_within", _within, "at most"),
}
"""By the name of the measure."""
EXCEEDED = {
    "rate": Rule("unload", "rate_difference_exceeded", _apart("msg/s"), "above"),
    "throughput": Rule("unload", "throughput_difference_exceeded", _apart("byte/s"), "above"),
}
"""By the name of the measure."""
SOLE_BUNDLE = Rule("refused", "sole_bundle_of_busiest", _apart_but("it has only one bundle"), "above")
NOTHING_FITS = Rule(
    "refused", "nothing_fits", _apart_but("none of its bundles may be unloaded now and is small enough"), "above"
)
BELOW_MINIMUM_UNLOAD = Rule(
    "refused",
    "below_minimum_unload",
    lambda row: (
        f"{row.subject} is far busier than the idlest broker, but the {measured(row)} to move is less than the "
        f"minimum of {threshold(row)}."
    ),
    "below",
)
NOT_THE_BUSIEST = Rule(
    "kept",
    "not_the_busiest",
    lambda row: (
        f"{row.subject} with {measured(row)} is not shed from: only the busiest broker is, with {threshold(row)}."
    ),
    "at most",
)

SHEDDER: ModularShedder = Shedder(
    "UniformLoadShedder",
    shed,
    keys=(RATE_KEY, THROUGHPUT_KEY, SHARE_KEY, RATE.minimum_key, THROUGHPUT.minimum_key, MOST_BUNDLES_KEY, VERSION_KEY),
    rules=(
        NO_TRAFFIC_AT_ALL,
        NO_DIFFERENCE_LOOKED_AT,
        *WITHIN.values(),
        *EXCEEDED.values(),
        SOLE_BUNDLE,
        NOTHING_FITS,
        BELOW_MINIMUM_UNLOAD,
        NOT_THE_BUSIEST,
    ),
)
