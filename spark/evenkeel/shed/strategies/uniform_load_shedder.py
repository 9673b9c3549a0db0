"""Shed from the busiest broker if its traffic is far above that of the idlest (Pulsar: UniformLoadShedder).

Keys: loadBalancerMsgRateDifferenceShedderThreshold (percent above the idlest), else
loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold (times the idlest); both must be exceeded, and 0 or less
switches one off. maxUnloadPercentage of the difference (a fraction) is moved, if it reaches minUnloadMessage or
minUnloadMessageThroughput, in at most maxUnloadBundleNumPerShedding bundles. Where the rate is exceeded the throughput
is not looked at, even if the rate leads to nothing. Amounts are 32-bit integers, as in Pulsar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenkeel.model.considered import Considered, Outcome, Unit, considered
from evenkeel.model.load import LoadData
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import RATE, THROUGHPUT, Eligible, Fit, Measure, Selection, select_fitting
from evenkeel.shed.shedder import Shed, ShedderState

RATE_SETTING = "loadBalancerMsgRateDifferenceShedderThreshold"
THROUGHPUT_SETTING = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
_INT_HIGHEST = 2_147_483_647
_INT_LOWEST = -2_147_483_648
_NOTHING = 1e-6


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
        """Whether the measure is looked at."""
        return self.threshold > 0

    @property
    def is_exceeded(self) -> bool:
        """Strictly more than the threshold."""
        return self.is_on and self.distance > self.threshold


def shed(load: LoadData, state: ShedderState, settings: Settings) -> Shed:
    """What to unload now. There is no state: `state` comes back as it was."""
    found = [spread_of(load, measure, settings) for measure in (RATE, THROUGHPUT)]
    spreads = [spread for spread in found if spread is not None]
    if not spreads:
        return Shed((), (considered("cluster", "cluster", None, "kept", "no_traffic_at_all", unit="msg/s"),), state)
    looked_at = [spread for spread in spreads if spread.is_on]
    if not looked_at:
        row = considered("cluster", "cluster", None, "skipped", "no_difference_looked_at", setting=RATE_SETTING)
        return Shed((), (row,), state)
    exceeded = next((spread for spread in looked_at if spread.is_exceeded), None)
    if exceeded is None:
        return Shed((), _all_even(load, looked_at), state)
    selection = _shed_busiest(load, exceeded, settings)
    rows = (*selection.considered, *_others(load, exceeded))
    return Shed(tuple((bundle, exceeded.busiest) for bundle in selection.bundles), rows, state)


def spread_of(load: LoadData, measure: Measure, settings: Settings) -> Spread | None:
    """How far apart the brokers are; the first by name of equally busy ones. None where nobody has a figure."""
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
        threshold, setting = settings.loadBalancerMsgRateDifferenceShedderThreshold, RATE_SETTING
        distance = (highest - lowest) * 100.0 / lowest
    else:
        threshold, setting = (
            settings.loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold,
            THROUGHPUT_SETTING,
        )
        distance = highest / lowest
    return Spread(measure, busiest, highest, lowest, distance, threshold, setting)


def _shed_busiest(load: LoadData, spread: Spread, settings: Settings) -> Selection:
    report = load.brokers[spread.busiest]
    wanted = _java_int((spread.highest - spread.lowest) * settings.maxUnloadPercentage)
    numbers = {"highest": spread.highest, "lowest": spread.lowest, "wanted": wanted, "bundles": len(report.bundles)}
    if len(report.bundles) <= 1:
        return Selection((), (_about(spread, "refused", "sole_bundle_of_busiest", numbers),))
    minimum = spread.measure.minimum(settings)
    if wanted < minimum:
        row = considered(
            spread.busiest,
            "broker",
            spread.busiest,
            "refused",
            "below_minimum_unload",
            setting=spread.measure.minimum_setting,
            measured=wanted,
            threshold=minimum,
            unit=spread.measure.unit,
            numbers={**numbers, "distance": spread.distance},
        )
        return Selection((), (row,))
    fit = Fit(
        spread.measure,
        wanted,
        deducted=_java_int,
        idle=True,
        most=settings.maxUnloadBundleNumPerShedding,
        numbers={"wanted": wanted},
    )
    selection = select_fitting(report, load, Eligible(load), fit)
    numbers["selected"] = len(selection.bundles)
    if selection.bundles:
        row = _about(spread, "unload", f"{spread.measure.name}_difference_exceeded", numbers)
    else:
        row = _about(spread, "refused", "nothing_fits", numbers)
    return Selection(selection.bundles, (row, *selection.considered))


def _all_even(load: LoadData, looked_at: list[Spread]) -> tuple[Considered, ...]:
    """The busiest brokers by the measures that are on, and everybody else."""
    told: dict[str, Considered] = {}
    for spread in looked_at:
        if spread.busiest not in told:
            numbers = {"highest": spread.highest, "lowest": spread.lowest}
            told[spread.busiest] = _about(spread, "kept", f"{spread.measure.name}_difference_within", numbers)
    return (*told.values(), *(row for row in _others(load, looked_at[0]) if row.subject not in told))


def _others(load: LoadData, spread: Spread) -> list[Considered]:
    return [
        considered(
            broker,
            "broker",
            broker,
            "kept",
            "not_the_busiest",
            measured=spread.measure.of_broker(report),
            threshold=spread.highest,
            unit=spread.measure.unit,
        )
        for broker, report in sorted(load.brokers.items())
        if broker != spread.busiest
    ]


def _about(spread: Spread, outcome: Outcome, rule: str, numbers: dict[str, float]) -> Considered:
    unit: Unit = "percent" if spread.measure is RATE else ""
    return considered(
        spread.busiest,
        "broker",
        spread.busiest,
        outcome,
        rule,
        setting=spread.setting,
        measured=spread.distance,
        threshold=spread.threshold,
        unit=unit,
        numbers=numbers,
    )


def _java_int(x: float) -> int:
    """As a Java cast to int: towards zero, to the nearest bound where it is too large, NaN to 0."""
    if math.isnan(x):
        return 0
    return int(max(float(_INT_LOWEST), min(float(_INT_HIGHEST), x)))
