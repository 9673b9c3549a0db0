"""Which bundles of a broker fit into what is to be moved, for UniformLoadShedder and AvgShedder alike.

By short-term rate or throughput, heaviest first: a bundle that is larger than what is left to move is passed over and
the next one tried. Equal ones are tried in name order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evenkeel.decisions.considered import PLANNED, Alternative, Considered, Outcome, considered
from evenkeel.decisions.load import BrokerReport, LoadData
from evenkeel.decisions.shedding.measures import Measure
from evenkeel.decisions.shedding.selection import Eligible, Selection, heaviest_first

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
