"""Shed from the busiest to the idlest broker, pair by pair (Pulsar: AvgShedder).

Brokers are sorted by score (usage in percent) and paired from the outside in: idlest with busiest, and so on. A pair
whose difference has lasted gives: loadBalancerAvgShedderLowThreshold points for
loadBalancerAvgShedderHitCountLowThreshold rounds, or loadBalancerAvgShedderHighThreshold points for
loadBalancerAvgShedderHitCountHighThreshold rounds (each reached, not exceeded). maxUnloadPercentage (a fraction) of the
pair's difference in rate is moved if it is more than minUnloadMessage, else of the difference in throughput if more
than minUnloadMessageThroughput. The idler broker of the pair is the destination.

State: hits per broker, not per pair, so a broker takes its count along into another pair. A broker's only bundle is
shed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key

from evenkeel.model.amounts import amount, plural
from evenkeel.model.consideration import (
    Alternative,
    Considered,
    Rule,
    Sentence,
    by_figure,
    finite,
    measured,
    number,
    threshold,
)
from evenkeel.model.load import LoadData
from evenkeel.model.usage import WEIGHT_KEYS, weighted_maximum
from evenkeel.settings import Settings
from evenkeel.settings.key import VERSION_KEY
from evenkeel.shed.bundle_selection import (
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

LOW_HITS = "low_hits"
HIGH_HITS = "high_hits"
LOW_THRESHOLD_KEY = "loadBalancerAvgShedderLowThreshold"
HIGH_THRESHOLD_KEY = "loadBalancerAvgShedderHighThreshold"
LOW_HIT_COUNT_KEY = "loadBalancerAvgShedderHitCountLowThreshold"
HIGH_HIT_COUNT_KEY = "loadBalancerAvgShedderHitCountHighThreshold"


@dataclass(frozen=True, slots=True)
class BrokerPair:
    """Two brokers by number from the outside in, with their scores; an odd one in the middle is its own partner."""

    number: int
    idle: str
    busy: str
    idle_score: float
    busy_score: float

    @property
    def difference(self) -> float:
        """Score points."""
        return self.busy_score - self.idle_score


class Hits:
    """Rounds in a row in which a broker was in a pair that differs by the low, and by the high threshold."""

    def __init__(self, state: ShedderState) -> None:
        self._low = dict(state.get(LOW_HITS, {}))
        self._high = dict(state.get(HIGH_HITS, {}))

    def low(self, pair: BrokerPair) -> float:
        """The larger count of the two brokers."""
        return max(self._low.get(pair.idle, 0.0), self._low.get(pair.busy, 0.0))

    def high(self, pair: BrokerPair) -> float:
        """The larger count of the two brokers."""
        return max(self._high.get(pair.idle, 0.0), self._high.get(pair.busy, 0.0))

    def count(self, pair: BrokerPair, settings: Settings) -> bool:
        """Count this round for both brokers; whether the pair differs by the low threshold at least."""
        if pair.difference < settings.loadBalancerAvgShedderLowThreshold:
            self.reset(pair)
            return False
        for broker in (pair.idle, pair.busy):
            self._low[broker] = self._low.get(broker, 0.0) + 1.0
            if pair.difference < settings.loadBalancerAvgShedderHighThreshold:
                self._high.pop(broker, None)
            else:
                self._high[broker] = self._high.get(broker, 0.0) + 1.0
        return True

    def reset(self, pair: BrokerPair) -> None:
        """Forget all counts of both brokers."""
        for broker in (pair.idle, pair.busy):
            self._low.pop(broker, None)
            self._high.pop(broker, None)

    def state(self) -> dict[str, dict[str, float]]:
        """Return the state to remember, in name order."""
        return {LOW_HITS: dict(sorted(self._low.items())), HIGH_HITS: dict(sorted(self._high.items()))}


def shed(
    load: LoadData, state: ShedderState, settings: Settings, *, ties: Callable[[Iterable[str]], Iterable[str]] = sorted
) -> Shed:
    """Return the bundles to unload now with their destinations, and the hits after this round.

    `ties`: the order of brokers with equal scores. In Pulsar that of a hash map, in Evenkeel by name.
    """
    eligible, hits = Eligible(load), Hits(state)
    scored = scores(load, settings)
    pairs = pairs_of({broker: scored[broker] for broker in ties(scored)}, settings)
    active = {pair.number for pair in pairs if hits.count(pair, settings)}
    if not active:
        hits = Hits({})
    unloads: list[tuple[str, str]] = []
    rows: list[Considered] = []
    destinations: dict[str, str] = {}
    for pair in pairs:
        if pair.number in active:
            selection = _shed_pair(pair, load, eligible, hits, settings)
        else:
            selection = Selection((), (_within_threshold_row(pair, settings),))
        rows += (*selection.considered, *_idle_partner_row(pair))
        unloads += [(bundle, pair.busy) for bundle in selection.bundles]
        for bundle in selection.bundles:
            destinations.pop(bundle, None)  # in two reports: the later plan also comes later
            destinations[bundle] = pair.idle
    return Shed(tuple(unloads), tuple(rows), hits.state(), destinations)


def scores(load: LoadData, settings: Settings) -> dict[str, float]:
    """Every broker's weighted usage in percent, by its latest report."""
    return {broker: weighted_maximum(report, settings) * 100.0 for broker, report in sorted(load.brokers.items())}


def pairs_of(scored: Mapping[str, float], settings: Settings) -> list[BrokerPair]:
    """Idlest and busiest, next idlest and next busiest, and so on; equal scores in the order given.

    Pulsar 3.x and the first 4.0 compare whole points: scores less than one point apart are equal.
    """

    def whole_points(a: str, b: str) -> int:
        return int(scored[a] - scored[b] >= 1) - int(scored[b] - scored[a] >= 1)

    ordered = sorted(scored, key=cmp_to_key(whole_points) if settings.is_before("4.0") else by_figure(scored))
    half = (len(ordered) + 1) // 2
    couples = zip(ordered[:half], reversed(ordered), strict=False)
    return [BrokerPair(n, idle, busy, scored[idle], scored[busy]) for n, (idle, busy) in enumerate(couples, start=1)]


def _shed_pair(pair: BrokerPair, load: LoadData, eligible: Eligible, hits: Hits, settings: Settings) -> Selection:
    """Return the moves of an active pair, if its difference has lasted; its hits are then reset, moved or not."""
    low, high = hits.low(pair), hits.high(pair)
    numbers = _numbers(pair) | {LOW_HITS: low, HIGH_HITS: high}
    if low < settings.loadBalancerAvgShedderHitCountLowThreshold:
        if high < settings.loadBalancerAvgShedderHitCountHighThreshold:
            return Selection((), (_too_few_hits_row(pair, numbers, settings),))
        limit, setting = settings.loadBalancerAvgShedderHighThreshold, HIGH_THRESHOLD_KEY
    else:
        limit, setting = settings.loadBalancerAvgShedderLowThreshold, LOW_THRESHOLD_KEY
    hits.reset(pair)
    fit = _what_to_move(pair, load, settings, numbers)
    if fit is None:
        return Selection((), (_below_minimum_row(pair, numbers, settings),))
    selection = take_what_fits(load.brokers[pair.busy], load, eligible, fit)
    numbers["selected"] = len(selection.bundles)
    rule = LASTING[fit.measure.name] if selection.bundles else NOTHING_FITS_PARTNER
    row = rule.about_broker(
        pair.busy,
        setting=setting,
        measured=pair.difference,
        threshold=limit,
        unit="percent",
        alternatives=_partner(pair),
        numbers=numbers,
    )
    return Selection(selection.bundles, (row, *selection.considered))


def _what_to_move(pair: BrokerPair, load: LoadData, settings: Settings, numbers: dict[str, float]) -> Fit | None:
    """Return the rate to move if it is large enough, else the throughput; `numbers` gets both."""
    amount: Measure | None = None
    for measure in (RATE, THROUGHPUT):
        busy, idle = measure.of_broker(load.brokers[pair.busy]), measure.of_broker(load.brokers[pair.idle])
        numbers[f"wanted_{measure.name}"] = (busy - idle) * settings.maxUnloadPercentage
        if amount is None and numbers[f"wanted_{measure.name}"] > measure.minimum(settings):
            amount = measure
    if amount is None:
        return None
    wanted = numbers[f"wanted_{amount.name}"]
    return Fit(amount, wanted, destination=pair.idle, numbers={"pair": pair.number, "wanted": wanted})


def _within_threshold_row(pair: BrokerPair, settings: Settings) -> Considered:
    if pair.idle == pair.busy:
        return NO_PARTNER.about_broker(pair.busy, measured=pair.busy_score, unit="percent", numbers=_numbers(pair))
    return BELOW_LOW_THRESHOLD.about_broker(
        pair.busy,
        setting=LOW_THRESHOLD_KEY,
        measured=pair.difference,
        threshold=settings.loadBalancerAvgShedderLowThreshold,
        unit="percent",
        alternatives=_partner(pair),
        numbers=_numbers(pair),
    )


def _too_few_hits_row(pair: BrokerPair, numbers: dict[str, float], settings: Settings) -> Considered:
    """Return the row for a count of hits below the threshold that the difference reaches."""
    high = pair.difference >= settings.loadBalancerAvgShedderHighThreshold
    key = HIGH_HIT_COUNT_KEY if high else LOW_HIT_COUNT_KEY
    return TOO_FEW_HITS.about_broker(
        pair.busy,
        setting=key,
        measured=numbers[HIGH_HITS if high else LOW_HITS],
        threshold=getattr(settings, key),
        unit="count",
        alternatives=_partner(pair),
        numbers=numbers,
    )


def _below_minimum_row(pair: BrokerPair, numbers: dict[str, float], settings: Settings) -> Considered:
    return NOT_ABOVE_MINIMUM_UNLOAD.about_broker(
        pair.busy,
        setting=THROUGHPUT.minimum_key,
        measured=numbers["wanted_throughput"],
        threshold=THROUGHPUT.minimum(settings),
        unit="byte/s",
        alternatives=_partner(pair),
        numbers=numbers | {"minimum_rate": RATE.minimum(settings)},
    )


def _idle_partner_row(pair: BrokerPair) -> tuple[Considered, ...]:
    if pair.idle == pair.busy:
        return ()
    row = IDLE_PARTNER.about_broker(
        pair.idle,
        measured=pair.idle_score,
        threshold=pair.busy_score,
        unit="percent",
        alternatives=(Alternative(pair.busy, "candidate", "busy_partner", finite(pair.busy_score)),),
        numbers=_numbers(pair),
    )
    return (row,)


def _partner(pair: BrokerPair) -> tuple[Alternative, ...]:
    if pair.idle == pair.busy:
        return ()
    return (Alternative(pair.idle, "best", "idle_partner", finite(pair.idle_score)),)


def _numbers(pair: BrokerPair) -> dict[str, float]:
    return {"pair": pair.number, "score": pair.busy_score, "partner_score": pair.idle_score}


def _partner_name(row: Considered) -> str:
    return row.alternatives[0].name if row.alternatives else "another broker"


def _over_partner(row: Considered) -> str:
    score, other = row.numbers.get("score", 0.0), row.numbers.get("partner_score", 0.0)
    return (
        f"{row.subject} at {amount(score, 'percent')} is {amount(score - other, 'count')} points over its partner "
        f"{_partner_name(row)}"
    )


def _lasting(measure: str, unit: str) -> Sentence:
    return lambda row: (
        f"{_over_partner(row)}, and the limit of {amount(row.threshold, 'count')} has been reached for long enough: "
        f"{plural(row.numbers.get('selected'), 'bundle')} to go there, for "
        f"{number(row, f'wanted_{measure}', unit)} to move."
    )


NO_PARTNER = Rule(
    "kept", "no_partner", lambda row: f"{row.subject} at {measured(row)} is in the middle and has no partner."
)
BELOW_LOW_THRESHOLD = Rule(
    "kept",
    "difference_below_low_threshold",
    lambda row: f"{_over_partner(row)}; the limit is {amount(row.threshold, 'count')}.",
    "below",
)
TOO_FEW_HITS = Rule(
    "kept",
    "too_few_hits",
    lambda row: f"{_over_partner(row)}, for {plural(row.measured, 'round')} so far; the rule needs {threshold(row)}.",
    "below",
)
IDLE_PARTNER = Rule(
    "kept",
    "idle_partner",
    lambda row: f"{row.subject} at {measured(row)} is the idler partner of {_partner_name(row)} at {threshold(row)}.",
    "at most",
)
NOT_ABOVE_MINIMUM_UNLOAD = Rule(
    "refused",
    "not_above_minimum_unload",
    lambda row: (
        f"{_over_partner(row)}, but neither {number(row, 'wanted_rate', 'msg/s')} nor {measured(row)} is more than "
        f"the minimum of {number(row, 'minimum_rate', 'msg/s')} or {threshold(row)}."
    ),
    "at most",
)
NOTHING_FITS_PARTNER = Rule(
    "refused",
    "nothing_fits_partner",
    lambda row: f"{_over_partner(row)}, but none of its bundles may be unloaded now and is small enough.",
    "at least",
)
LASTING = {
    "rate": Rule("unload", "lasting_difference_in_rate", _lasting("rate", "msg/s"), "at least"),
    "throughput": Rule("unload", "lasting_difference_in_throughput", _lasting("throughput", "byte/s"), "at least"),
}
"""By the name of the measure."""

SHEDDER: ModularShedder = Shedder(
    "AvgShedder",
    shed,
    keys=(
        LOW_THRESHOLD_KEY,
        HIGH_THRESHOLD_KEY,
        LOW_HIT_COUNT_KEY,
        HIGH_HIT_COUNT_KEY,
        SHARE_KEY,
        RATE.minimum_key,
        THROUGHPUT.minimum_key,
        *WEIGHT_KEYS,
        VERSION_KEY,
    ),
    rules=(
        NO_PARTNER,
        BELOW_LOW_THRESHOLD,
        TOO_FEW_HITS,
        IDLE_PARTNER,
        NOT_ABOVE_MINIMUM_UNLOAD,
        NOTHING_FITS_PARTNER,
        *LASTING.values(),
    ),
    remembers=(LOW_HITS, HIGH_HITS),
)
