"""Record of one considered subject: outcome, rule, numbers and sentence; and rules whose verdicts several tasks give.

A rule is declared once, beside the code that gives its verdicts: outcome, stored name, sentence. A verdict is made from
its rule and holds it, so its words need no look-up. Sentences are stored: the texts of their parts, figures with their
units, never change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from evenkeel.errors import SettingsError
from evenkeel.model.amounts import amount

SubjectKind = Literal["bundle", "broker", "cluster", "topic"]
Outcome = Literal["split", "unload", "planned", "placed", "kept", "skipped", "refused"]
Unit = Literal["fraction", "percent", "byte/s", "msg/s", "count", "ms", ""]
Comparison = Literal["at least", "above", "at most", "below", ""]

PLANNED = "planned_destination"
"""Rule of an alternative that names the broker which a shedder has planned for its bundle; a stored name."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another possibility: a candidate broker, or a bundle next in line.

    `verdict`: "best" (drawn from), "candidate" (passed all filters, not best), "removed" (by the filter named in
    `rule`), "next" (would have been taken after the last one taken).
    """

    name: str
    verdict: Literal["best", "candidate", "removed", "next"]
    rule: str
    measured: float | None = None


class VerdictFigures(TypedDict, total=False):
    """Figures of a verdict, beside its rule; see `Considered`."""

    setting: str | None
    measured: float | None
    threshold: float | None
    unit: Unit
    alternatives: Sequence[Alternative]
    numbers: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that gives verdicts. `outcome` and `name` are stored, so both never change.

    `sentence` makes the sentence of a verdict from its figures; it ends with a full stop. `holds` is the relation of
    measured to threshold in every verdict that has both; "" if it is not fixed.
    """

    outcome: Outcome
    name: str
    sentence: Sentence
    holds: Comparison = ""

    def about_bundle(self, bundle: str, broker: str | None, **figures: Unpack[VerdictFigures]) -> Considered:
        """Return the verdict on a bundle; `broker` is its owner, None without one."""
        return _verdict(bundle, "bundle", broker, self, **figures)

    def about_broker(self, broker: str, **figures: Unpack[VerdictFigures]) -> Considered:
        """Return the verdict on a broker."""
        return _verdict(broker, "broker", broker, self, **figures)

    def about_topic(self, topic: str, broker: str | None, **figures: Unpack[VerdictFigures]) -> Considered:
        """Return the verdict on a topic by its full name; `broker`: the owner of its bundle."""
        return _verdict(topic, "topic", broker, self, **figures)

    def about_cluster(self, broker: str | None = None, **figures: Unpack[VerdictFigures]) -> Considered:
        """Return the verdict on the cluster as a whole; `broker` is the one that stands for it, if any."""
        return _verdict("cluster", "cluster", broker, self, **figures)

    def instead_of(self, row: Considered, **numbers: float) -> Considered:
        """Return the verdict with this rule instead of its own: its figures stay, `numbers` are added to them."""
        return row._replace(by=self, numbers={**row.numbers, **numbers} if numbers else row.numbers)


class Considered(NamedTuple):
    """One subject considered in one cycle, also if nothing was done with it.

    `by` is the rule that decided. `measured` and `threshold` are in `unit`, and `margin` is measured - threshold.
    `setting` is Pulsar's key that holds the threshold (in the key's own unit), if there is one.
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
        """Outcome of the subject.

        "split"/"unload" are decided commands. "planned" is a move of the planner that is not due yet. "placed" is a
        chosen destination. "kept": a rule checked the subject and changed nothing. "skipped": it was left out before
        the rule proper. "refused": a gate stopped a wanted command.
        """
        return self.by.outcome

    @property
    def rule(self) -> str:
        """The stored name of the rule."""
        return self.by.name

    def sentence(self) -> str:
        """Return outcome and reason in one plain English sentence with its numbers."""
        return self.by.sentence(self)


Sentence = Callable[[Considered], str]
"""Function from a verdict to its sentence."""


def finite(figure: float | None) -> float | None:
    """Return the figure; None for NaN and infinities."""
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
    """Return a verdict whose margin is computed from measured and threshold.

    Brokers may report NaN or infinities, and rules use them as Pulsar does. A row holds NULL instead, since tables,
    sums and sentences cannot use them.
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
    """Anything declared once under a name: a rule, a shedder, a placement strategy."""

    @property
    def name(self) -> str:
        """The stored name."""


T = TypeVar("T", bound=Declared)


def by_name(what: str, *declared: T) -> dict[str, T]:
    """Return the declared items by name; raises `SettingsError` on a duplicate name. `what`: a plural noun."""
    items: dict[str, T] = {}
    for item in declared:
        if item.name in items:
            raise SettingsError(f"{item.name}: two {what} have this name; rename one of them")
        items[item.name] = item
    return items


# The order of figures as Java has it (Double.compare): NaN comes after everything, also after infinity.


def by_figure(figures: Mapping[str, float]) -> Callable[[str], Any]:
    """Return a sort key for names by their figures. NaN would break a sort in Python."""
    if not any(map(math.isnan, figures.values())):
        return figures.__getitem__
    return {name: (1, 0.0) if math.isnan(x) else (0, x) for name, x in figures.items()}.__getitem__


def measured(row: Considered) -> str:
    """Return the measured value with its unit."""
    return amount(row.measured, row.unit)


def threshold(row: Considered) -> str:
    """Return the threshold with its unit."""
    return amount(row.threshold, row.unit)


def number(row: Considered, name: str, unit: str = "count") -> str:
    """Return one of the numbers of the verdict, with its unit."""
    return amount(row.numbers.get(name), unit)


def points(fraction: float) -> str:
    """Return percentage points, without decimals if they are zero."""
    value = round(fraction * 100, 6)
    return f"{value:.0f} points" if value == round(value) else f"{value:.1f} points"


def destination_of(row: Considered) -> str | None:
    """Return the broker a placed bundle goes to: the first by name of the best ones; None if there is none."""
    return next((a.name for a in row.alternatives if a.verdict == "best"), None)


def bundle_stays(why: str) -> Sentence:
    """Return the sentence of a bundle that stays on its broker, with the reason."""
    return lambda row: f"{row.subject} stays on {row.broker}: {why}."


def _too_few_brokers(row: Considered) -> str:
    are = "is" if row.measured == 1 else "are"
    return f"Nothing is decided: the rule needs {threshold(row)} brokers, and {measured(row)} {are} known."


SWITCHED_OFF = Rule("skipped", "switched_off", lambda row: f"Nothing is decided: {row.setting} is off.")
TOO_FEW_BROKERS = Rule("skipped", "too_few_brokers", _too_few_brokers, "below")
BROKERS_OWN_NAMESPACE = Rule(
    "skipped",
    "brokers_own_namespace",
    lambda row: f"{row.subject} belongs to {row.broker or 'one broker'} alone and is never moved.",
)
LEFT_TO_REQUEST = Rule("skipped", "wished", lambda row: f"{row.subject} is left to the manual request that names it.")
REPORTED_TWICE = Rule(
    "skipped",
    "reported_by_two_brokers",
    lambda row: (
        f"{row.subject} is reported by more than one broker; the report of {row.broker} is not the one acted on."
    ),
)
