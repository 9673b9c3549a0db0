"""The record of one subject that was considered: what became of it, by which rule, with which numbers, in which words.

A rule is declared once, beside the code that gives its verdicts: outcome, stored name, sentence. A verdict is made from
its rule and carries it along, so that its words need no look-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from evenkeel.errors import SettingsError

SubjectKind = Literal["bundle", "broker", "cluster", "topic"]
Outcome = Literal["split", "unload", "planned", "placed", "kept", "skipped", "refused"]
Unit = Literal["fraction", "percent", "byte/s", "msg/s", "count", "ms", ""]
Comparison = Literal["at least", "above", "at most", "below", ""]

PLANNED = "planned_destination"
"""The rule of an alternative that names the broker which a shedder has planned for its bundle; a stored name."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """What else was possible: a candidate broker, or a bundle next in line.

    `verdict`: "best" (drawn from), "candidate" (passed all filters, not best), "removed" (by the filter named in
    `rule`), "next" (would have been taken after the last one taken).
    """

    name: str
    verdict: Literal["best", "candidate", "removed", "next"]
    rule: str
    measured: float | None = None


class VerdictFigures(TypedDict, total=False):
    """What a verdict was reached with, beside its rule; see `Considered`."""

    setting: str | None
    measured: float | None
    threshold: float | None
    unit: Unit
    alternatives: Sequence[Alternative]
    numbers: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that gives verdicts. `outcome` and `name` are stored, so both stay as they are.

    `sentence`: what a verdict says, from its figures; it ends with a full stop. `holds`: how measured stands to
    threshold in every verdict that has both; "" where that is not fixed.
    """

    outcome: Outcome
    name: str
    sentence: Sentence
    holds: Comparison = ""

    def about_bundle(self, bundle: str, broker: str | None, **figures: Unpack[VerdictFigures]) -> Considered:
        """The verdict on a bundle; `broker`: the one that has it, None if nobody does."""
        return _verdict(bundle, "bundle", broker, self, **figures)

    def about_broker(self, broker: str, **figures: Unpack[VerdictFigures]) -> Considered:
        """The verdict on a broker."""
        return _verdict(broker, "broker", broker, self, **figures)

    def about_topic(self, topic: str, broker: str | None, **figures: Unpack[VerdictFigures]) -> Considered:
        """The verdict on a topic by its full name; `broker`: the owner of its bundle."""
        return _verdict(topic, "topic", broker, self, **figures)

    def about_cluster(self, broker: str | None = None, **figures: Unpack[VerdictFigures]) -> Considered:
        """The verdict on the cluster as a whole; `broker`: the one that stands for it, if one does."""
        return _verdict("cluster", "cluster", broker, self, **figures)

    def instead_of(self, row: Considered, **numbers: float) -> Considered:
        """The verdict with this rule in place of its own: its figures stay, `numbers` are added to them."""
        return row._replace(by=self, numbers={**row.numbers, **numbers} if numbers else row.numbers)


class Considered(NamedTuple):
    """One subject considered in one cycle, also when nothing was done with it.

    `by`: the rule that decided. `measured` and `threshold` are in `unit`, and `margin` is measured - threshold.
    `setting` is Pulsar's key that holds the threshold (in the key's own unit), if a key does.
    """

    subject: str
    subject_kind: SubjectKind
    broker: str | None
    by: Rule
    setting: str | None
    measured: float | None
    threshold: float | None
    margin: float | None
    unit: Unit
    alternatives: Sequence[Alternative]
    numbers: Mapping[str, float]

    @property
    def outcome(self) -> Outcome:
        """What became of the subject.

        "split"/"unload" are acts decided; "planned" is a move of the planner that is not due yet; "placed" is a
        destination found; "kept" means a rule looked at it and found nothing to do; "skipped" means it was left out
        before the rule proper; "refused" means something wanted to act and a gate said no.
        """
        return self.by.outcome

    @property
    def rule(self) -> str:
        """The stored name of the rule."""
        return self.by.name

    def sentence(self) -> str:
        """What became of the subject and why, in one plain English sentence with its numbers."""
        return self.by.sentence(self)


Sentence = Callable[[Considered], str]
"""What a verdict says in one sentence."""


def finite(figure: float | None) -> float | None:
    """The figure; None if it is not a number, or infinite."""
    return figure if figure is not None and math.isfinite(figure) else None


def _verdict(
    subject: str,
    subject_kind: SubjectKind,
    broker: str | None,
    by: Rule,
    *,
    setting: str | None = None,
    measured: float | None = None,
    threshold: float | None = None,
    unit: Unit = "",
    alternatives: Sequence[Alternative] = (),
    numbers: Mapping[str, float] | None = None,
) -> Considered:
    """A verdict whose margin is worked out from measured and threshold.

    Brokers may report what is not a finite number, and rules take it as Pulsar does; a row says then that the figure is
    not known, as no table, sum or sentence can do anything with it.
    """
    margin = None if measured is None or threshold is None else measured - threshold
    if margin is None or not math.isfinite(margin):
        measured, threshold = finite(measured), finite(threshold)
        margin = None if measured is None or threshold is None else finite(measured - threshold)
    if numbers and not all(map(math.isfinite, numbers.values())):
        numbers = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return Considered(
        subject, subject_kind, broker, by, setting, measured, threshold, margin, unit, alternatives, numbers or {}
    )


class Declared(Protocol):
    """What is declared once under a name: a rule, a shedder, a placement strategy."""

    @property
    def name(self) -> str:
        """The stored name."""


T = TypeVar("T", bound=Declared)


def by_name(what: str, *declared: T) -> dict[str, T]:
    """What is declared, by its name; `SettingsError` on a name that is given twice. `what`: the noun in the plural."""
    found: dict[str, T] = {}
    for one in declared:
        if one.name in found:
            raise SettingsError(f"{one.name}: two {what} have this name; rename one of them")
        found[one.name] = one
    return found


# The order of figures as Java has it (Double.compare): not-a-number comes after everything, also after infinity.


def by_figure(figures: Mapping[str, float]) -> Callable[[str], Any]:
    """A sort key for names by their figures. Not-a-number would mix up a sort in Python."""
    if not any(map(math.isnan, figures.values())):
        return figures.__getitem__
    return {name: (1, 0.0) if math.isnan(x) else (0, x) for name, x in figures.items()}.__getitem__
