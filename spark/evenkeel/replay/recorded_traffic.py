"""A recorded cluster as a model: its bundles, their traffic, how busy its brokers get, and how well that fits."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from evenkeel.cycle import reading
from evenkeel.errors import BadInput
from evenkeel.explain.ask import state_before
from evenkeel.lake.record import Record, read_rows_of
from evenkeel.model.bundles import BundleRange, namespace_of, range_of
from evenkeel.model.past_commands import PERIODS, FormerOwners
from evenkeel.publish.plan import Forecast
from evenkeel.replay.closed_loop import Scenario
from evenkeel.replay.fold import CYCLES, Made, Move, bounces, load_figures, owners_changed
from evenkeel.replay.history import History
from evenkeel.replay.modelled_cluster import LAG_INTERVALS, Topic, UsageFit, fitted
from evenkeel.replay.variants import RECORDED

PIECES = 8
"""A recorded bundle's traffic is spread evenly over so many places, since the record keeps topics for days only."""
_BUNDLE = ("bundle", "owner", "used_msg_rate_in", "used_msg_rate_out", "used_msg_throughput_in")
_COLUMNS = {
    "bundle_load": (*_BUNDLE, "used_msg_throughput_out"),
    "broker_load": ("broker", "state", "weighted_usage", "msg_throughput_in", "msg_throughput_out"),
}


@dataclass(frozen=True, slots=True)
class SeenCycle:
    """One recorded cycle: byte/s and msg/s per bundle, its owner, and the brokers' own figures."""

    at: Any
    flow: Mapping[str, float]
    rate: Mapping[str, float]
    owner: Mapping[str, str | None]
    usage: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Shift:
    """The model's prediction of the brokers' traffic after commands were executed, compared with the observed traffic.

    The model: a bundle takes its share of the cluster's traffic along, and children of a split share it by their width.
    `off`: mean absolute error of a broker's share (fraction), over `moments` after changes of owner; `unmoved`: the
    error of predicting no change.
    """

    moments: int
    off: float
    unmoved: float


@dataclass(frozen=True, slots=True)
class Error:
    """The model's error on cycles that it was not fitted on. Usage in fractions.

    `usage`: mean absolute error per broker; `guess`: the error of guessing each broker's mean; `max_over_mean`: the
    error of the largest usage over the mean. `moves`: recorded changes of owner among the cycles; `shift` None if there
    are none with traffic before and after them.
    """

    points: int
    usage: float
    guess: float
    max_over_mean: float
    moves: int
    shift: Shift | None = None

    def sentence(self) -> str:
        """The error in words, usage in percentage points."""
        text = (
            f"The model misses the recorded usage of a broker by {100 * self.usage:.2f} points on average "
            f"(guessing its mean: {100 * self.guess:.2f}) and max/mean by {self.max_over_mean:.3f}, over {self.points} "
            f"figures of cycles that it was not fitted on, with {self.moves} recorded moves."
        )
        if self.shift is None:
            return text
        return (
            f"{text} After them it misses a broker's share of the traffic by {100 * self.shift.off:.1f} points "
            f"(had nothing moved: {100 * self.shift.unmoved:.1f})."
        )


def read_seen(history: History) -> list[SeenCycle]:
    """The recorded cycles, as far as the model is concerned; usage only of brokers that reported."""
    rows = {t: read_rows_of(history.lake, history.cycles, t, columns=list(c)) for t, c in _COLUMNS.items()}
    cycles = []
    for attempt in history.cycles:
        bundles, brokers = (rows[table][attempt.attempt_id] for table in _COLUMNS)
        usable = [row for row in brokers if row["state"] == "reported" and row["weighted_usage"] is not None]
        cycles.append(
            SeenCycle(
                at=attempt.cycle_at,
                flow={r["bundle"]: _both(r, "used_msg_throughput") for r in bundles},
                rate={r["bundle"]: _both(r, "used_msg_rate") for r in bundles},
                owner={r["bundle"]: r["owner"] for r in bundles},
                usage={r["broker"]: r["weighted_usage"] for r in usable},
            )
        )
    if not cycles or not cycles[0].flow:
        raise BadInput(f"the cycles of {history.cluster} show no bundles: they have no traffic to model")
    return cycles


def recorded_scenario(history: History, seen: Sequence[SeenCycle]) -> Scenario:
    """Return the recorded cluster from its first cycle on, with the recorded traffic, averages, state and commands.

    Its brokers are fitted to all cycles.
    """
    first = history.cycles[0]
    loads = read_rows_of(history.lake, [first], "bundle_load")[first.attempt_id]
    roots = sorted(seen[0].flow)
    topics = [topic for bundle in roots for topic in _pieces(bundle, _message_bytes(bundle, seen))]
    brokers = sorted({broker for cycle in seen for broker in cycle.usage})
    fits = fits_of(seen, brokers, range(len(seen)), _lag(history))
    per_cycle = [[flow / PIECES for flow in _by_root(cycle.flow, roots) for _ in range(PIECES)] for cycle in seen]
    edges: dict[str, set[int]] = {}
    for bundle in roots:
        bundle_range = range_of(bundle)
        edges.setdefault(namespace_of(bundle), set()).update((bundle_range.lower, bundle_range.upper))
    return Scenario(
        name="recorded",
        moments=tuple(cycle.at for cycle in seen),
        fits=fits,
        boundaries={namespace: tuple(sorted(bundle_range)) for namespace, bundle_range in sorted(edges.items())},
        topics=topics,
        owners={bundle: owner if owner in fits else None for bundle, owner in seen[0].owner.items()},
        throughputs=lambda n: per_cycle[n],
        down=lambda n: frozenset(brokers) - seen[n].usage.keys(),
        histories=reading.histories({"bundle_load": loads}),
        state=state_before(Record(history.lake), first),
        acts=history.known(first).get("acts", ()),
    )


def recorded_rows(history: History, seen: Sequence[SeenCycle], limit: float) -> Iterator[Made]:
    """Yield the rows of `replay_cycles` of what happened, in the form of a variant of a closed loop.

    A move is any change of a bundle's owner since the cycle before. `limit` is that of `ModelSteering`.
    """
    former, before = FormerOwners(), seen[0]
    for attempt, cycle in zip(history.cycles, seen, strict=True):
        at = round(cycle.at.timestamp() * 1_000)
        former.forget(at)
        moves = _moves_between(before, cycle)
        traffic = math.fsum(cycle.flow.values())
        share = math.fsum(cycle.flow[bundle] for bundle, _, _ in moves) / traffic if traffic > 0 else 0.0
        row = {
            "cluster": history.cluster,
            "cycle_at": cycle.at,
            "variant": RECORDED,
            "splits": len(before.owner.keys() - cycle.owner.keys()),
            "moves": len(moves),
            "held": attempt.planned["held"] or 0,
            "bounces": len(bounces(moves, former, at)),
            **load_figures(Forecast(cycle.usage, cycle.usage, share), limit),
        }
        yield CYCLES, {**dict.fromkeys(("plan_id", "reproduced", "refusals", "only_here", "only_recorded")), **row}
        before = cycle


def error_of(history: History, seen: Sequence[SeenCycle]) -> Error:
    """The model fitted on every other cycle, following the recorded owners, against the cycles between them."""
    brokers = sorted({broker for cycle in seen for broker in cycle.usage})
    lag = _lag(history)
    fits = fits_of(seen, brokers, range(0, len(seen), 2), lag)
    means = {b: _mean([cycle.usage[b] for cycle in seen[::2] if b in cycle.usage]) for b in brokers}
    off, guessed, uneven = [], [], []
    for n in range(1, len(seen), 2):
        flows = _flows(seen, n, lag)
        forecast = {broker: fits[broker].usage(flows.get(broker, 0.0)) for broker in seen[n].usage}
        off += [abs(forecast[broker] - usage) for broker, usage in seen[n].usage.items()]
        guessed += [abs(means[broker] - usage) for broker, usage in seen[n].usage.items()]
        uneven.append(abs(_unevenness(forecast.values()) - _unevenness(seen[n].usage.values())))
    moves = sum(len(_moves_between(before, after)) for before, after in pairwise(seen))
    last = history.settings[str(history.cycles[-1].planned["settings_digest"])].settings
    # Figures of moved bundles are not trusted for so long.
    settling = timedelta(seconds=PERIODS * last.statsUpdateFrequencyInSecs)
    return Error(len(off), _mean(off), _mean(guessed), _mean(uneven), moves, shift_of(seen, settling))


def shift_of(seen: Sequence[SeenCycle], wait: timedelta) -> Shift | None:
    """Return how well traffic follows recorded owner changes, from the cycle before to the first one `wait` after."""
    off, unmoved, moments = [], [], 0
    for n, (before, after) in enumerate(pairwise(seen), start=1):
        if not _moves_between(before, after):
            continue
        settled = _first_from(seen, after.at + wait, n)
        # A bundle that has returned until then cannot show if traffic follows.
        if settled == len(seen) or not _moves_between(before, seen[settled]):
            continue
        then = seen[settled]
        real, forecast, still = (_shares(*flow) for flow in (
            (then.flow, then.owner), (_inherited(before, then), then.owner), (before.flow, before.owner)
        ))  # fmt: skip
        if not real or not forecast or not still:
            continue
        moments += 1
        brokers = sorted({*real, *forecast, *still})
        off += [abs(forecast.get(broker, 0.0) - real.get(broker, 0.0)) for broker in brokers]
        unmoved += [abs(still.get(broker, 0.0) - real.get(broker, 0.0)) for broker in brokers]
    return Shift(moments, _mean(off), _mean(unmoved)) if moments else None


def _shares(flow: Mapping[str, float], owner: Mapping[str, str | None]) -> dict[str, float]:
    """Return broker -> its share of the traffic of bundles that have an owner; empty without traffic."""
    traffic: dict[str, float] = {}
    for bundle, value in flow.items():
        broker = owner.get(bundle)
        if broker is not None:
            traffic[broker] = traffic.get(broker, 0.0) + value
    total = math.fsum(traffic.values())
    return {broker: value / total for broker, value in traffic.items()} if total > 0 else {}


def _inherited(before: SeenCycle, then: SeenCycle) -> dict[str, float]:
    """Return the bundles of `then` with the traffic of `before`: their own, or their part of a cut one."""
    parents: dict[str, list[tuple[BundleRange, float]]] = {}
    for bundle, flow in before.flow.items():
        if bundle not in then.flow:
            parents.setdefault(namespace_of(bundle), []).append((range_of(bundle), flow))
    inherited = {bundle: before.flow[bundle] for bundle in then.flow if bundle in before.flow}
    for bundle in then.flow.keys() - inherited.keys():
        hashes = range_of(bundle)
        inherited[bundle] = math.fsum(
            flow * hashes.width / edges.width
            for edges, flow in parents.get(namespace_of(bundle), ())
            if edges.covers(hashes)
        )
    return inherited


def _first_from(seen: Sequence[SeenCycle], moment: datetime, begin: int = 0) -> int:
    """Return the index of the first cycle that is not before a moment, from an index on; their number without one."""
    return bisect_left(seen, moment, begin, key=lambda cycle: cycle.at)


def _moves_between(before: SeenCycle, after: SeenCycle) -> list[Move]:
    changed = owners_changed(before.owner, [*after.owner], [*after.owner.values()])
    return [(bundle, was, after.owner[bundle]) for bundle, was in changed]


def fits_of(
    seen: Sequence[SeenCycle], brokers: Iterable[str], cycles: Iterable[int], lag: timedelta
) -> dict[str, UsageFit]:
    """Return each broker's line through its load a lag ago and its usage, over some of the cycles."""
    points: dict[str, list[tuple[float, float]]] = {broker: [] for broker in brokers}
    for n in cycles:
        flows = _flows(seen, n, lag)
        for broker, usage in seen[n].usage.items():
            points[broker].append((flows.get(broker, 0.0), usage))
    return {broker: fitted(pairs) for broker, pairs in points.items()}


def _flows(seen: Sequence[SeenCycle], n: int, lag: timedelta) -> dict[str, float]:
    """Return broker -> byte/s now of the bundles that it had a lag ago, if it still exists.

    A move follows the cycle that saw the old owner: between two cycles the owner is that of the later one.
    """
    then = seen[_first_from(seen, seen[n].at - lag)]
    flows: dict[str, float] = {}
    for bundle, flow in seen[n].flow.items():
        before, now = then.owner.get(bundle), seen[n].owner[bundle]
        owner = before if before in seen[n].usage else now
        if owner is not None:
            flows[owner] = flows.get(owner, 0.0) + flow
    return flows


def _lag(history: History) -> timedelta:
    last = history.settings[str(history.cycles[-1].planned["settings_digest"])].settings
    return timedelta(minutes=LAG_INTERVALS * last.loadBalancerHostUsageCheckIntervalMinutes)


def _by_root(flow: Mapping[str, float], roots: Sequence[str]) -> list[float]:
    """Add the traffic of later bundles to the bundle of the first cycle that contains them."""
    known = dict.fromkeys(roots, 0.0)
    ranges: dict[str, list[tuple[BundleRange, str]]] = {}
    for root in roots:
        ranges.setdefault(namespace_of(root), []).append((range_of(root), root))
    for bundle, value in sorted(flow.items()):
        if bundle in known:
            known[bundle] += value
            continue
        lower = range_of(bundle).lower
        inside = (root for edges, root in ranges.get(namespace_of(bundle), ()) if edges.lower <= lower < edges.upper)
        within = next(inside, None)
        if within is not None:
            known[within] += value
    return [known[root] for root in roots]


def _pieces(bundle: str, message_bytes: float) -> list[Topic]:
    edges = range_of(bundle)
    width = (edges.upper - edges.lower) / PIECES
    return [Topic(namespace_of(bundle), edges.lower + int((n + 0.5) * width), message_bytes) for n in range(PIECES)]


def _message_bytes(bundle: str, seen: Sequence[SeenCycle]) -> float:
    flow, rate = (math.fsum(getattr(cycle, name).get(bundle, 0.0) for cycle in seen) for name in ("flow", "rate"))
    return flow / rate if flow > 0 and rate > 0 else 1_024.0


def _both(row: Mapping[str, Any], name: str) -> float:
    return float((row[f"{name}_in"] or 0.0) + (row[f"{name}_out"] or 0.0))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _unevenness(values: Iterable[float]) -> float:
    usages = [*values]
    mean = _mean(usages)
    return max(usages) / mean if mean > 0 else 1.0
