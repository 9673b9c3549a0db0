"""The declaration of a placement strategy, its choice and state, and the brokers' figures while bundles are placed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from evenkeel.model.consideration import Alternative, Rule, finite
from evenkeel.model.filters.broker_filters import Rank, version_rank
from evenkeel.model.load import BrokerAverages, BundleHistory, LoadData
from evenkeel.model.usage import overload_usage, weighted_maximum
from evenkeel.place.placement import placed
from evenkeel.settings import Settings


@dataclass(slots=True)
class BrokerFigures:
    """One broker's figures for placement; `give` moves them on. Usage is a fraction, rates are msg/s.

    `overload_usage` is compared with the overload limit. `idle`: it reports no bundles, or no messages in and out.
    `rank` orders versions; None if the version cannot be read.
    """

    usage: float
    overload_usage: float
    long_term_rate: float
    topics: int
    preallocated_rate: float = 0.0
    idle: bool = False
    rank: Rank | None = None

    def give(self, history: BundleHistory) -> None:
        """Count a bundle that was assigned to the broker and is not in its report yet."""
        self.preallocated_rate += history.long_term.rate
        self.topics += history.topics


def broker_figures(load: LoadData, settings: Settings) -> Mapping[str, BrokerFigures]:
    """Every broker's figures at the start of a round."""
    by_broker = {}
    for broker, report in sorted(load.brokers.items()):
        figures = BrokerFigures(
            usage=weighted_maximum(report, settings),
            overload_usage=overload_usage(report, settings),
            long_term_rate=load.averages.get(broker, BrokerAverages()).long_term_rate,
            topics=report.topics,
            idle=not report.bundles or (report.msg_rate_in == 0 and report.msg_rate_out == 0),
            rank=version_rank(report.version),
        )
        for _, history in sorted(load.preallocated.get(broker, {}).items()):
            figures.give(history)
        by_broker[broker] = figures
    return by_broker


PlacementState = Mapping[str, Mapping[str, float]]
"""State of placement between rounds: name of the figure -> broker (or "cluster") -> value."""

UNFILTERED = "all candidates left by the filters are overloaded, and of {others} without filters "


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """The common trait of the best brokers: of those that the filters left, and in the second look without filters.

    Pulsar looks a second time, at all allowed brokers, if the first choice is overloaded.
    """

    filtered: Rule
    of_all_allowed: Rule

    @property
    def name(self) -> str:
        """The stored name, without regard to the look."""
        return self.filtered.name


def placement_rule(name: str, filtered: str, of_all_allowed: str) -> PlacementRule:
    """A rule by its stored name and the words of `placed` for either look."""
    again = Rule("placed", f"{name}_of_all_allowed", placed(of_all_allowed))
    return PlacementRule(Rule("placed", name, placed(filtered)), again)


@dataclass(frozen=True, slots=True)
class Asked:
    """The bundle to place, its averages, and the broker that sheds it (None: it has no owner)."""

    bundle: str
    history: BundleHistory
    owner: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    """The brokers that are equally good, in name order: Pulsar draws one of them, Evenkeel takes the first.

    `scores` belong to `candidates` in order (msg/s or a fraction, by strategy; empty if nothing is measured). `by` is
    the common trait of the best, `other` the reason why the remaining candidates are not among them (a stored name).
    """

    candidates: tuple[str, ...]
    brokers: tuple[str, ...]
    scores: tuple[float, ...]
    by: PlacementRule
    other: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def score(self, broker: str) -> float | None:
        """Return the broker's score; None if it has no finite figure."""
        if not self.scores:
            return None
        return finite(self.scores[self.candidates.index(broker)])


class StrategyRound(ABC):
    """A strategy during one round of placing, with its state."""

    @abstractmethod
    def choose(self, asked: Asked, candidates: tuple[str, ...]) -> Choice:
        """The best of the candidates, which are in name order."""

    def plan(self, bundle: str, history: BundleHistory, destination: str) -> None:
        """Take note of where the shedder wants a bundle to go; a later plan replaces an earlier one."""
        return None

    def given(self, broker: str) -> None:
        """Take note that the broker was given a bundle: its figures have changed."""
        return None

    @property
    def state(self) -> PlacementState:
        """Return the state for the next round."""
        return {}


Begin = Callable[[Mapping[str, BrokerFigures], PlacementState, Settings], StrategyRound]
"""Function that begins a round: the brokers' figures, the state of an earlier round, settings."""


@dataclass(frozen=True, slots=True)
class PlacementStrategy:
    """A placement strategy, declared once at the end of its module.

    `name`: Pulsar's class, by which loadBalancerLoadPlacementStrategy names it. `remembers`: the figures in its state.
    """

    name: str
    begin: Begin
    keys: tuple[str, ...]
    rules: tuple[PlacementRule, ...]
    remembers: tuple[str, ...] = ()


class Alternatives(Sequence[Alternative]):
    """Every broker that was looked at for one bundle, in name order: removed by which filter, best, or neither.

    The single alternatives are made when they are asked for: ten thousand bundles have a thousand each.
    """

    __slots__ = ("_choice", "_removed")

    def __init__(self, choice: Choice, removed: Mapping[str, str]) -> None:
        self._choice = choice
        self._removed = removed

    def __len__(self) -> int:
        return len(self._choice.candidates) + len(self._removed)

    def __iter__(self) -> Iterator[Alternative]:
        choice, best = self._choice, frozenset(self._choice.brokers)
        scores = dict(zip(choice.candidates, choice.scores, strict=False))
        for broker in sorted((*choice.candidates, *self._removed)):
            if broker in self._removed:
                yield Alternative(broker, "removed", self._removed[broker])
                continue
            score, verdict = scores.get(broker), "best" if broker in best else "candidate"
            if score is not None and math.isinf(score):
                yield Alternative(broker, "best" if broker in best else "candidate", "overloaded")
            elif verdict == "best":
                yield Alternative(broker, "best", choice.by.name, finite(score))
            else:
                yield Alternative(broker, "candidate", choice.other, finite(score))

    @overload
    def __getitem__(self, index: int) -> Alternative: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, index: int | slice) -> Alternative | tuple[Alternative, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Alternatives{tuple(self)!r}"
