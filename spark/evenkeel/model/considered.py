"""The record of one subject that was considered: what became of it, by which rule, with which numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

SubjectKind = Literal["bundle", "broker", "cluster"]
Outcome = Literal["split", "unload", "placed", "kept", "skipped", "refused"]
Unit = Literal["fraction", "percent", "byte/s", "msg/s", "count", "ms", ""]

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


class Considered(NamedTuple):
    """One subject considered in one cycle, also when nothing was done with it.

    `outcome`: "split"/"unload" are acts decided; "placed" is a destination found; "kept" means a rule looked at it and
    found nothing to do; "skipped" means it was left out before the rule proper; "refused" means something wanted to act
    and a gate said no.
    `rule` is the gate that decided; `measured` and `threshold` are in `unit`, and `margin` is measured - threshold.
    `setting` is Pulsar's key that holds the threshold (in the key's own unit), if a key does.
    """

    subject: str
    subject_kind: SubjectKind
    broker: str | None
    outcome: Outcome
    rule: str
    setting: str | None
    measured: float | None
    threshold: float | None
    margin: float | None
    unit: Unit
    alternatives: Sequence[Alternative]
    numbers: Mapping[str, float]


def finite(figure: float | None) -> float | None:
    """The figure; None if it is not a number, or infinite."""
    return figure if figure is not None and math.isfinite(figure) else None


def considered(
    subject: str,
    subject_kind: SubjectKind,
    broker: str | None,
    outcome: Outcome,
    rule: str,
    *,
    setting: str | None = None,
    measured: float | None = None,
    threshold: float | None = None,
    unit: Unit = "",
    alternatives: Sequence[Alternative] = (),
    numbers: Mapping[str, float] | None = None,
) -> Considered:
    """A `Considered` whose margin is worked out from measured and threshold.

    Brokers may report what is no finite number, and rules take it as Pulsar does; a row says then that the figure is
    not known, as no table, sum or sentence can do anything with it.
    """
    margin = None if measured is None or threshold is None else measured - threshold
    if margin is None or not math.isfinite(margin):
        measured, threshold = finite(measured), finite(threshold)
        margin = None if measured is None or threshold is None else finite(measured - threshold)
    if numbers and not all(map(math.isfinite, numbers.values())):
        numbers = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return Considered(
        subject,
        subject_kind,
        broker,
        outcome,
        rule,
        setting,
        measured,
        threshold,
        margin,
        unit,
        alternatives,
        numbers or {},
    )


# The order of figures as Java has it (Double.compare): not-a-number comes after everything, also after infinity.


def by_figure(figures: Mapping[str, float]) -> Callable[[str], Any]:
    """A sort key for names by their figures. Not-a-number would mix up a sort in Python."""
    if not any(map(math.isnan, figures.values())):
        return figures.__getitem__
    return {name: (1, 0.0) if math.isnan(x) else (0, x) for name, x in figures.items()}.__getitem__
