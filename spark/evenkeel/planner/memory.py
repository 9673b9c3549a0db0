"""What the planner remembers from one cycle to the next."""

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
    """What was promised of a broker that gave bundles away in the cycle `at`: its usage (fraction) was to fall by
    `gain` from `before`, and its load to be `load`, all of this resource."""

    at: datetime
    resource: str
    gain: float
    before: float
    load: float


def part_name(number: int) -> str:
    """The name, among the numbers of a split, of the fraction of the load that a part has; a stored name."""
    return f"part_{number}"


class WantedSplit(NamedTuple):
    """A bundle that is to be split, since when it is, and what a part of it may have: `room` of a resource (byte/s,
    messages counted as bytes).

    `alone`: the usage of the best broker with nothing but the bundle, above the `level`; where it `is_stuck` the usage
    of its own broker with all steps taken. `refused_at`: when the wish was refused last, None while it is open.
    `stay` and `leave`: what one part may have that stays with its owner, and each that leaves it (byte/s of the
    resource); None where that is not known, as in wishes of older records.
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
    """What one cycle leaves for the next.

    `message_bytes`: what a message counts as, 0 where not known yet. `above`: settled cycles in a row above the band.
    `is_acting`: a plan is under way. `reversals`, `changes`: whether load swings (see `seen`). `unsteady`:
    cycles in a row in which it changed much. `misses`: cycles in a row that brought less than half of what was
    promised; `fell_back`: since when the planner is not trusted for it.
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
    """(resource, broker) -> what its fit rests on."""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """Broker -> what was promised of it last and has not been seen yet."""
    splits: Mapping[str, WantedSplit] = field(default_factory=dict)
    """Bundle -> what it is to be split for."""
