"""Model of a broker's usage of a resource by the load of its bundles: a fit where it is proven, else a proportion.

A bundle loads CPU and memory by its byte/s in and out and its msg/s. Each message counts as the cluster's mean bytes
per message, so half of the load is bytes and half is messages. A bundle loads the network by its byte/s.

Without proof, usage grows in proportion to load (basis *traffic*): usage over load, from the last few settled cycles.
If one line explains all brokers, they are alike and use much without load; then usage grows along that line. Saturated
figures only give a lower bound of usage.

A line with its own base (basis *usage*) is fitted by least squares. Its weights halve every `HALF_LIFE_MINUTES`. Before
a cycle's figures enter the fit, the fit has to predict them. It is used if its error is at most `MOST_ERROR` times that
of the mean, and not above that of the proportion. Saturated figures enter no fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from evenkeel.planner.target import UsageLine
from evenkeel.planner.view import NETWORK, BundleFigures

HALF_LIFE_MINUTES = 360.0
NEAR, SWINGING = 0.75, 0.9
"""Weight of the previous settled cycle in a broker's proportion of usage to load. The second one holds if load swings:
then no single cycle shows which usage belongs to which load."""
ANOTHER_LOAD = 0.3
"""A load that differs by this part from that of the last few cycles sets their weight to 0."""
MOST_ERROR = 0.8
FEWEST_SAMPLES = 10
SATURATED = 0.95
ALIKE_FROM, ALIKE_BASE, ALIKE_RISE, ALIKE_ERROR = 3, 0.25, 0.2, 0.05
"""Conditions for one line that explains all brokers: from so many brokers on; at least the second part of their mean
usage is without load; it rises by the third part from the least to the most loaded; and it misses no broker by more
than the last part."""
ALIKE_OFF = 0.1
"""A broker's distance from that line counts as noise up to this part of their mean usage. The excess is the broker's
own usage without load."""
NEARLY_IDLE = 0.3
"""Below this part of the median load, a broker's base hides the cost of its load: the broker counts like the others."""


@dataclass(frozen=True, slots=True)
class UsageSums:
    """Sums kept for a broker and resource: weighted moments of (load, usage), and errors so far.

    `near_load`, `near_usage`: sums of the last few settled cycles, with `near_weight`. Weight 0 is a saturated figure,
    which the next one replaces. `tried`: weight of the errors.
    """

    weight: float = 0.0
    load: float = 0.0
    usage: float = 0.0
    load_square: float = 0.0
    load_usage: float = 0.0
    near_weight: float = 0.0
    near_load: float = 0.0
    near_usage: float = 0.0
    tried: float = 0.0
    error: float = 0.0
    mean_error: float = 0.0
    share_error: float = 0.0
    samples: float = 0.0

    @property
    def slope(self) -> float:
        """Usage per unit of load by least squares, at least 0."""
        if self.load_square <= 1e-12 * self.weight * self.load * self.load:
            return 0.0
        return max(0.0, self.load_usage / self.load_square)

    @property
    def line(self) -> UsageLine:
        """The fitted line."""
        return UsageLine(self.usage - self.slope * self.load, self.slope)

    @property
    def is_proven(self) -> bool:
        """Return True if the fit has foretold usage better than the mean, and no worse than the proportion."""
        if self.samples < FEWEST_SAMPLES or self.tried <= 0 or self.slope <= 0:
            return False
        return self.error <= MOST_ERROR * self.mean_error and self.error <= self.share_error

    def decayed(self, minutes: float) -> UsageSums:
        """Return the sums decayed by `minutes`."""
        part = 0.5 ** (max(0.0, minutes) / HALF_LIFE_MINUTES)
        return replace(
            self,
            weight=self.weight * part,
            load_square=self.load_square * part,
            load_usage=self.load_usage * part,
            tried=self.tried * part,
            error=self.error * part,
            mean_error=self.mean_error * part,
            share_error=self.share_error * part,
        )

    def with_sample(self, load: float, usage: float, *, is_swinging: bool = False) -> UsageSums:
        """Return the sums with the figures of one more settled cycle; `is_swinging`: load moves back and forth."""
        if usage >= SATURATED:
            return replace(self, near_weight=0.0, near_load=load, near_usage=usage)
        part = (SWINGING if self.near_weight > 0 else 0.0) if is_swinging else self._what_is_near(load)
        near_weight = part * self.near_weight + 1.0
        near_load, near_usage = part * self.near_load + load, part * self.near_usage + usage
        sums = self
        if self.weight > 0 and self.near_load > 0:
            sums = replace(
                self,
                tried=self.tried + 1.0,
                error=self.error + abs(self.line.usage(load) - usage),
                mean_error=self.mean_error + abs(self.usage - usage),
                share_error=self.share_error + abs(self.near_usage / self.near_load * load - usage),
            )
        weight = self.weight + 1.0
        off_load, off_usage = load - self.load, usage - self.usage
        middle = self.load + off_load / weight
        after = self.usage + off_usage / weight
        return replace(
            sums,
            weight=weight,
            load=middle,
            usage=after,
            load_square=self.load_square + off_load * (load - middle),
            load_usage=self.load_usage + off_load * (usage - after),
            near_weight=near_weight,
            near_load=near_load,
            near_usage=near_usage,
            samples=self.samples + 1.0,
        )

    def _what_is_near(self, load: float) -> float:
        """Return the weight of earlier cycles: 0 once load is very different, since usage is not linear."""
        if self.near_weight <= 0:
            return 0.0
        before = self.near_load / self.near_weight
        return NEAR * max(0.0, 1.0 - abs(load - before) / max(before, load, 1e-300) / ANOTHER_LOAD)


SUM_NAMES = tuple(field.name for field in fields(UsageSums))


@dataclass(frozen=True, slots=True)
class BrokerModel:
    """The line in use for a broker and resource.

    `is_used`: the line is the fit; `sums`: the sums of the fit; `is_alike`: its slope is that of all brokers.
    `reported`: the usage by the broker's own reports, where that is too little to be believed.
    """

    line: UsageLine
    is_used: bool
    sums: UsageSums
    is_alike: bool = False
    reported: float | None = None


def load_of(figures: BundleFigures, resource: str, message_bytes: float) -> float:
    """A bundle's load of a resource, in byte/s; a message counts as so many bytes."""
    if resource in NETWORK:
        return float(getattr(figures, NETWORK[resource]))
    return figures.traffic + message_bytes * figures.messages


def models_of(
    usages: Mapping[str, float], loads: Mapping[str, float], sums: Mapping[str, UsageSums]
) -> dict[str, BrokerModel]:
    """Return broker -> its model of one resource, from usage (fraction), load (byte/s) and remembered sums.

    `usages` may lack brokers: those count like the others. Without any load, or any usage, all brokers are flat.
    """
    middle = _middle(loads.values())
    seen = {
        broker: point
        for broker, load in loads.items()
        if load >= NEARLY_IDLE * middle and (point := _seen(broker, load, usages, sums)) is not None
    }
    shares = {broker: usage / load for broker, (load, usage) in seen.items() if usage < SATURATED}
    together = _together([seen[broker] for broker in sorted(shares or seen)])
    usual = sorted(shares.values())[len(shares) // 2] if shares else together
    alike = _alike([seen[broker] for broker in sorted(shares)]) if len(shares) == len(seen) else None
    models = {}
    for broker, load in loads.items():
        kept = sums.get(broker, UsageSums())
        if kept.is_proven:
            models[broker] = BrokerModel(kept.line, True, kept)
        elif alike is not None:
            line = alike.of_broker(seen[broker]) if broker in seen else alike.line
            models[broker] = BrokerModel(line, False, kept, is_alike=True)
        elif broker in shares:
            near_load, near_usage = seen[broker]
            has_grown = load > (1.0 + ANOTHER_LOAD) * near_load
            # The broker's usage without load is unknown: more load uses at most the overall proportion.
            slope = min(shares[broker], together) if has_grown else shares[broker]
            base = near_usage - slope * near_load if slope < shares[broker] else 0.0
            models[broker] = BrokerModel(UsageLine(base, slope), False, kept)
        elif broker in seen and usual > 0:
            near_load, near_usage = seen[broker]
            least = near_usage / near_load if shares else 0.0
            models[broker] = BrokerModel(UsageLine(0.0, max(usual, least)), False, kept)
        else:
            models[broker] = BrokerModel(
                UsageLine(max(0.0, usages.get(broker, 0.0) - usual * load), usual), False, kept
            )
    return models


TRUSTED = 0.9
"""A broker's usage per load is at least this part of the usual one, unless its network shows a larger machine."""
STRAIGHT = 0.6
"""Usage per load falls with load, but not below this part."""


def with_least_usage(
    models: Mapping[str, BrokerModel], loads: Mapping[str, float], sizes: Mapping[str, float]
) -> dict[str, BrokerModel]:
    """Return the models of one resource, with more usage for brokers that report too little for their load (byte/s).

    `sizes`: broker -> network usage per byte as a part of the usual one, where it is known: a larger machine has less.
    Brokers on one line report alike.
    """
    shares = {b: model.line.usage(loads[b]) / loads[b] for b, model in models.items() if loads[b] > 0}
    busy = _middle(loads.values())
    usual = TRUSTED * _middle(share for broker, share in shares.items() if loads[broker] >= NEARLY_IDLE * busy)
    found = dict(models)
    for broker, share in shares.items():
        load, slope = loads[broker], usual * min(1.0, sizes.get(broker, 1.0))
        least = slope * (STRAIGHT + (1.0 - STRAIGHT) * min(1.0, load / busy))
        if share < least and not models[broker].is_alike:
            line = UsageLine((least - slope) * load, slope)
            found[broker] = replace(models[broker], line=line, reported=share * load)
    return found


def sizes_of(usages: Mapping[str, float], loads: Mapping[str, float]) -> dict[str, float]:
    """Broker -> its usage per byte/s of a network as a part of the usual one."""
    shares = {broker: usage / loads[broker] for broker, usage in usages.items() if usage > 0 and loads[broker] > 0}
    usual = _middle(shares.values())
    return {broker: share / usual for broker, share in shares.items()}


def _middle(values: Iterable[float]) -> float:
    """The middle one of the values above 0, of two the larger; 0 without any."""
    every = sorted(value for value in values if value > 0)
    return every[len(every) // 2] if every else 0.0


def _seen(
    broker: str, load: float, usages: Mapping[str, float], sums: Mapping[str, UsageSums]
) -> tuple[float, float] | None:
    """Load and usage of a broker in its last few settled cycles, else in this one; None where one is not known."""
    kept = sums.get(broker, UsageSums())
    weight = kept.near_weight or 1.0
    near_load, near_usage = kept.near_load / weight, kept.near_usage / weight
    if near_load <= 0 or near_usage <= 0:
        near_load, near_usage = load, usages.get(broker, 0.0)
    return (near_load, near_usage) if near_load > 0 and near_usage > 0 else None


def _together(points: Sequence[tuple[float, float]]) -> float:
    """Usage per load of brokers together, by their loads and usages."""
    load = math.fsum(load for load, _ in points)
    return math.fsum(usage for _, usage in points) / load if load > 0 else 0.0


class _Alike(NamedTuple):
    """The line that explains the usage of all brokers. `off`: distances up to this are noise."""

    line: UsageLine
    off: float

    def of_broker(self, point: tuple[float, float]) -> UsageLine:
        """Return the line of a broker at `point` (load, usage): the common line plus its distance beyond noise."""
        load, usage = point
        apart = usage - self.line.usage(load)
        beyond = math.copysign(max(0.0, abs(apart) - self.off), apart)
        return UsageLine(max(0.0, self.line.base + beyond), self.line.slope)


def _alike(points: Sequence[tuple[float, float]]) -> _Alike | None:
    """The line through (load, usage) of all brokers, if it explains them and has a base that proportions would miss."""
    if len(points) < ALIKE_FROM:
        return None
    loads, usages = zip(*points, strict=True)
    mean_load, mean_usage = math.fsum(loads) / len(points), math.fsum(usages) / len(points)
    across = math.fsum((load - mean_load) ** 2 for load in loads)
    if across <= 1e-12 * mean_load * mean_load:
        return None
    slope = math.fsum((load - mean_load) * (usage - mean_usage) for load, usage in points) / across
    line = UsageLine(mean_usage - slope * mean_load, slope)
    error = math.fsum(abs(line.usage(load) - usage) for load, usage in points) / len(points)
    has_base = line.base >= ALIKE_BASE * mean_usage
    rises = slope * (max(loads) - min(loads)) >= ALIKE_RISE * mean_usage
    explains = has_base and rises and error <= ALIKE_ERROR * mean_usage
    return _Alike(line, ALIKE_OFF * mean_usage) if explains else None


def by_traffic(loads: Mapping[str, float]) -> dict[str, BrokerModel]:
    """Return models for a cluster without any known usage: brokers are alike, and half used on average."""
    mean = math.fsum(loads.values()) / len(loads) if loads else 0.0
    line = UsageLine(0.0, 0.5 / mean if mean > 0 else 0.0)
    return {broker: BrokerModel(line, False, UsageSums()) for broker in loads}
