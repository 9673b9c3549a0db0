"""Changes that would have changed an answer: the decision is repeated with one figure or setting changed.

`question` repeats decisions, and `figures` has the figures that may be changed and finds the nearest value. This module
has the changed figure or setting, and the words for it. Each answer is proven: the deciding code was run on both sides
of the boundary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.model.amounts import plural, quantity, throughput_unit

Row = Mapping[str, Any]

GUARDS = "guard_decisions"
_ACTS = {"split_decisions": "split", "unload_decisions": "unload", "placement_decisions": "placement"}


@dataclass(frozen=True, slots=True)
class Change:
    """A changed answer: with `needed` instead of `measured` as `figure` of `subject`, the answer would differ.

    `is_strict`: `needed` has to be passed, reaching it is not enough. `effect` is the other answer, and `sentence` all
    of it, with an amount rounded to the side on which the statement stays true. For a setting, `subject` is its key.
    `is_more`: it would have to be more, else less.
    """

    subject: str
    figure: str
    measured: float | None
    needed: float | None
    unit: str
    is_strict: bool
    effect: str
    sentence: str
    is_more: bool = True

    @property
    def by(self) -> float | None:
        """Return needed - measured; None if it is not a figure."""
        return None if self.needed is None or self.measured is None else self.needed - self.measured


def effect_on(table: str, row: Row, other: Row | None, subject: str) -> str:
    """Return the other answer: `other` in the place of `row`, with a change of `subject`."""
    who = "the cluster" if row["subject_kind"] == "cluster" else "it" if subject == row["subject"] else row["subject"]
    if table == GUARDS:
        return f"{who} would have been let through" if other else "this guard would not have objected"
    act = f"its {_ACTS.get(table, table)}" if who == "it" else f"the {_ACTS.get(table, table)} of {who}"
    if other is None:
        return f"{act if row['outcome'] == 'refused' else who} would not have been {_done(row)} ({_words(row)})"
    if other.get("destination") not in (None, row.get("destination")):
        return f"{'it' if subject == other['destination'] else other['destination']} would have been chosen"
    same = other["outcome"] == row["outcome"]
    if same or (other["outcome"] == "kept" and row["outcome"] != "skipped"):
        way = "still" if same else "not"
        why = f"for another reason: {_words(other)}" if same else _words(other)
        return f"{act if row['outcome'] == 'refused' else who} would {way} have been {_done(row)} ({why})"
    return f"{act if other['outcome'] == 'refused' else who} would have been {_done(other)} ({_words(other)})"


def _done(row: Row) -> str:
    if row["outcome"] == "unload" and row["subject_kind"] != "bundle":
        return "shed from"
    return {"unload": "unloaded", "kept": "let be", "skipped": "left out"}.get(row["outcome"], str(row["outcome"]))


def _words(row: Row) -> str:
    return str(row["rule"]).replace("_", " ")


def figure_clause(subject: str, figure: str, measured: float, needed: float, unit: str, *, is_strict: bool) -> str:
    """Return the clause with the amount by which a subject's figure would have to differ."""
    if unit == "count":
        most = f"{plural(needed, figure.removesuffix('s'))} in {subject}"
        return f"With at least {most}" if needed > measured else f"With at most {most}"
    gap = abs(needed - measured)
    way = "more" if needed > measured else "less"
    over = ("over " if way == "more" or unit not in ("fraction", "percent") else "more than ") if is_strict else ""
    text = f"{over}{at_least(gap, unit).text}"
    if unit in ("fraction", "percent"):
        how = "busier" if way == "more" else "less busy"
        return f"Had {subject} been {text} {how} ({figure})"
    term = " in the long term" if figure.startswith("long-term") else ""
    return f"Had {subject} carried {text if gap else 'any'} {way}{term}"


def rounds_clause(rounds: int) -> str:
    """Return the clause for so many more rounds."""
    return f"With {'one more round' if rounds == 1 else plural(rounds, 'more round')} like this one, in a row"


def without_groups(row: Row) -> list[Change]:
    """Return the effect of anti-affinity groups, which the row contains: placement was also decided without them."""
    other = row["without_anti_affinity"]
    if not row["changed_by_anti_affinity"] or other is None:
        return []
    effect = f"{other} would have been chosen"
    sentence = f"Without anti-affinity groups, {effect}."
    return [Change(row["subject"], "anti-affinity groups", None, None, "", False, effect, sentence, is_more=False)]


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount as it is shown, with the value of the shown text, in the row's unit."""

    text: str
    value: float


def at_least(value: float, unit: str) -> Amount:
    """Return the amount rounded up."""
    step, steps = _steps(value, unit)
    # More digits than this are only rounding errors of binary fractions.
    rounded = math.ceil(round(value / step * steps, 6)) / steps
    if unit in ("fraction", "percent", "points"):
        return Amount(f"{rounded:,.1f} points", rounded * step)
    if unit == "s":
        return Amount(f"{rounded:,.0f} s", rounded)
    return Amount(quantity(rounded * step, unit), rounded * step)


def _steps(value: float, unit: str) -> tuple[float, float]:
    """Return the size of the shown unit in the row's unit, and into how many parts its digits cut it."""
    if unit == "fraction":
        return 0.01, 10.0
    if unit == "byte/s":
        size, _ = throughput_unit(value)
        return size, 1.0 if size == 1.0 else 10.0
    if unit == "ms":
        return 1000.0, 1.0
    if unit == "s":
        return 1.0, 1.0
    return 1.0, 10.0
