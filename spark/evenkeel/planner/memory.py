"""State that the planner keeps from one cycle to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from evenkeel.planner.usage_model import UsageSums


@dataclass(frozen=True, slots=True)
class BrokerMemory:
    """Of a broker: how many bundles it had, its load (byte/s, messages counted as bytes; 0 where figures had not
    settled) and by how much that had changed, and since when it has had as many bundles."""

    bundles: float = 0.0
    load: float = 0.0
    change: float = 0.0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """The promised effect on a broker that gave bundles away, or got some, in the cycle `at`.

    Its usage (fraction) was to fall by `gain` from `before`, or to rise where that is below 0, and its load to become
    `load` (byte/s), all of this resource.
    """

    at: datetime
    resource: str
    gain: float
    before: float
    load: float


def part_name(number: int) -> str:
    """The name, among the numbers of a split, of the fraction of the load that a part has; a stored name."""
    return f"part_{number}"


class WantedSplit(NamedTuple):
    """A bundle that the planner wants split, since when, and how large a part may be.

    `room`: of a resource (byte/s, messages counted as bytes). `alone`: the usage of the best broker with nothing but
    the bundle, above the `level`; if `is_stuck`, the usage of its own broker after all steps. `refused_at`: when the
    request was last refused, None while it is open. `stay` and `leave`: the most load (byte/s of the resource) of the
    part that stays with its owner, and of each part that leaves; None if unknown, as in requests of older records.
    """

    since: datetime
    resource: str
    room: float
    alone: float
    level: float
    is_stuck: bool = False
    refused_at: datetime | None = None
    stay: float | None = None
    leave: float | None = None


@dataclass(frozen=True, slots=True)
class PlannerMemory:
    """The state that one cycle leaves for the next.

    `message_bytes`: bytes that a message counts as, 0 if not known yet. `above`: settled cycles in a row above the
    band. `is_acting`: a plan is under way. `reversals`, `changes`: figures that show if load swings (see `figures`).
    `unsteady`: cycles in a row with much change of load. `misses`: cycles in a row with less than half of the promised
    gain; `fell_back`: since when the planner is not trusted because of that.
    """

    at: datetime | None = None
    message_bytes: float = 0.0
    above: int = 0
    is_acting: bool = False
    reversals: float = 0.0
    changes: float = 0.0
    unsteady: int = 0
    misses: int = 0
    fell_back: datetime | None = None
    brokers: Mapping[str, BrokerMemory] = field(default_factory=dict)
    sums: Mapping[tuple[str, str], UsageSums] = field(default_factory=dict)
    """(resource, broker) -> the sums of its fit."""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """Broker -> its last promise that was not checked yet."""
    deaf: Mapping[str, datetime] = field(default_factory=dict)
    """Broker -> since when its usage has not answered to load that it got."""
    splits: Mapping[str, WantedSplit] = field(default_factory=dict)
    """Bundle -> its requested split."""
