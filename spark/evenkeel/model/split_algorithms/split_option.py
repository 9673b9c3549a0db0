"""Input and answer of a split algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evenkeel.model.consideration import Considered

NO_CUT = frozenset(
    {"nothing_to_cut", "no_positions", "no_position_inside", "too_few_busy_topics", "traffic_below_gate", "one_piece"}
)
"""Stored names of the rules by which an algorithm cut nothing."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Cuts of a bundle: ascending positions (hashes), or none and the rule with the reason.

    `failed`: Pulsar's algorithm raises an error instead of answering that there is nothing to cut.
    """

    positions: tuple[int, ...]
    rule: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TopicLoads:
    """The loaded topics of a bundle by column: hash, message rate in and out (msg/s), throughput in and out (byte/s).

    Their order is that of the bundle's topic list: totals are summed in it, and of topics that share a hash the last
    one counts.
    """

    hashes: Sequence[int] = ()
    rates: Sequence[float] = ()
    throughputs: Sequence[float] = ()

    @classmethod
    def of(cls, topics: Iterable[tuple[int, float, float]]) -> TopicLoads:
        """Return the loads from hash, rate and throughput of each topic."""
        columns = tuple(zip(*topics, strict=True))
        return cls(*columns) if columns else cls()


@dataclass(frozen=True, slots=True)
class BundleTopics:
    """The topics of one bundle: ascending hashes of all of them, loaded or not, and the loads of the loaded ones."""

    hashes: Sequence[int] = ()
    loads: TopicLoads = field(default_factory=TopicLoads)


NO_TOPICS = BundleTopics()


@dataclass(frozen=True, slots=True)
class SplitOption:
    """A bundle to cut, and the limits (Pulsar: BundleSplitOption, FlowOrQpsEquallyDivideBundleSplitOption).

    `positions`: requested cuts, in any order; None if there are none. Limits are those of one bundle, in msg/s and
    byte/s; `difference` is the fraction above a limit from which a bundle counts as too busy.
    """

    lower: int
    upper: int
    topics: BundleTopics = NO_TOPICS
    positions: Sequence[int] | None = None
    max_rate: float = 0.0
    max_throughput: float = 0.0
    difference: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A split to request from Pulsar. `unload`: its children are unloaded at once (modular manager only)."""

    bundle: str
    broker: str
    algorithm: str
    cuts: tuple[int, ...]
    children: tuple[str, ...]
    unload: bool
    reason: Considered


def cut_numbers(cut: Cut) -> dict[str, float]:
    """Return the numbers of a verdict on a cut: the first position, and the number of children."""
    return {"cut": cut.positions[0], "children": len(cut.positions) + 1}
