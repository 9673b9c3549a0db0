"""A recorded decision, repeated: the figure of its subject, or the setting, that would have changed it.

This module knows no rules. The round that decided takes the recorded rows of its cycle with one figure changed. Its
answer is compared with the recorded one. `boundary` finds the nearest value at which the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from math import isclose, nan
from typing import Any

from evenkeel.cycle.fold import FRAME
from evenkeel.cycle.loads import looked_at
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Row, Rows
from evenkeel.errors import EvenkeelError
from evenkeel.explain.changes import GUARDS, Change, at_least, effect_on, figure_clause, rounds_clause
from evenkeel.explain.changes.figures import Boundary, Figure, figures_of, nearest, roundest
from evenkeel.lake.plain_rows import as_read
from evenkeel.publish import plan as plan_round
from evenkeel.repetition import ROUNDS, STATE

Changed = Callable[[Rows, float], Mapping[str, Sequence[Row]]]
"""Given rows and a value: the tables with that value in the place of the recorded one."""

_Kind = Callable[[Row | None], tuple[Any, ...]]
"""Fields in which two equal answers agree."""

MOST_CANDIDATES = 5
"""So many brokers are asked about beside the one that a placement chose; in a large cluster one."""
_MOST_ROUNDS = 30
_MANY_BUNDLES = 1_000
_FEW_BROKERS = 6
_MILLISECONDS = {"ms": 1.0, "s": 1_000.0}
_NUDGE = 1 / 64
_FLOAT_32 = 2.0**-23
_CLOSE = 1e-12
_ROUNDS = {table: task_round.decide for task_round in ROUNDS for table in task_round.tables} | {
    GUARDS: plan_round.decide
}


class AskedCycle:
    """Questions to a recorded cycle. `rows`: its `cycle`, observed, and decided rows, and the previous `state`."""

    def __init__(self, rows: Rows) -> None:
        # The question is whether a bundle is split, not where: its topics are not looked at.
        uncut = _with_setting(rows, "defaultNamespaceBundleSplitAlgorithm", "range_equally_divide")
        splits = [row for row in rows["split_decisions"] if looked_at(row)]
        self._rows = SharedRows({**rows, **uncut, "split_decisions": splits, "topic_hashes": ()})

    def changes(self, table: str, row: Row) -> list[Change] | None:
        """Return the changes that would have changed a recorded decision: at most one for each figure and setting.

        None if the decision does not repeat as recorded: then the question has no answer.
        """
        asked = _Asked(table, row, self._rows)
        return [*asked.by_figures(), *asked.by_setting()] if asked.sizes else None


@dataclass(frozen=True, slots=True)
class _Shown:
    """A figure as the row shows it: as `quantity`, which changes by `slope` with it.

    `grade`: 0 for a measured figure, 1 for another number of the row, 2 for a figure that the row does not show but
    that moves the measured one.
    """

    figure: Figure
    grade: int
    quantity: float
    slope: float
    root: float | None

    def of(self, value: float) -> float:
        """Return the row's number for a value of the figure."""
        return self.quantity + (value - self.figure.value) * self.slope

    def value(self, quantity: float) -> float:
        """Return the value of the figure for which the row would show that quantity."""
        return self.figure.value + (quantity - self.quantity) / self.slope


class _Asked:
    """A recorded decision that is repeated many times.

    `sizes`: the rows with which it repeats as recorded, those of few brokers first, the whole cycle last.
    """

    def __init__(self, table: str, row: Row, rows: SharedRows) -> None:
        self._table, self._row, self._whole = table, row, rows
        smaller = [size for size in _smaller(table, row, rows) if self._is_as_recorded(size)]
        self.sizes = [*smaller, rows] if smaller or self._is_as_recorded(rows) else []

    def by_figures(self) -> Iterator[Change]:
        """Yield the changes of figures; of time if time was measured, of rounds if rounds were counted."""
        row = self._row
        if row["unit"] in _MILLISECONDS:
            yield from self._by_time(_MILLISECONDS[row["unit"]])
            return
        shown = [figure for subject in self._subjects() for figure in self._shown(*subject)]
        if row["unit"] == "count" and all(figure.grade for figure in shown) and (rounds := self._by_rounds()):
            yield rounds
            return
        for figure in shown:
            yield from self._by_figure(figure)

    def by_setting(self) -> Iterator[Change]:
        """Yield the change of the setting that the row names."""
        row, key = self._row, self._row["setting"]
        value = json.loads(self._whole["cycle"][0]["settings"])["settings"].get(key)
        if not isinstance(value, int | float):
            return
        kind = type(value)

        def changed(rows: Rows, tried: float) -> Mapping[str, Sequence[Row]]:
            return _with_setting(rows, key, kind(tried))

        nearest_value = self._nearest(
            changed, float(value), is_whole=kind is not float, with_rules=self._table == GUARDS
        )
        if nearest_value is None:
            return
        boundary, other = nearest_value
        shown = boundary.other
        if kind is float:
            shown = roundest(shown, shown + (shown - value) / 100)
            shown = shown if self._differs(changed, shown) else boundary.other
        effect = effect_on(self._table, row, other, key)
        yield Change(
            subject=key,
            figure="value",
            measured=float(value),
            needed=boundary.other if kind is not float else roundest(boundary.same, boundary.other),
            unit=(row["unit"] or "") if row["threshold"] == value else "",
            is_strict=kind is float and not self._differs(changed, roundest(boundary.same, boundary.other)),
            effect=effect,
            sentence=f"With {key} at {_text(kind(shown))}, {effect}.",
            is_more=boundary.other > value,
        )

    def _by_figure(self, shown: _Shown) -> Iterator[Change]:
        figure, row = shown.figure, self._row
        numbers = [] if shown.grade > 1 else [shown.value(number) for number in _numbers(row)]
        guesses = [] if shown.root is None else [shown.root]
        scale = abs(figure.value) or max(map(abs, numbers), default=1.0)
        nearest_value = self._nearest(
            figure.rows_with,
            figure.value,
            is_whole=figure.is_whole,
            scale=scale,
            guesses=[*numbers, *guesses],
            with_rules="candidates" not in row,
        )
        if nearest_value is None:
            return
        boundary, other = nearest_value
        needed, is_strict = shown.of(boundary.other), False
        if not figure.is_whole:
            # Pulsar works usages out with 32 bits.
            same = shown.of(boundary.same)
            dust = _FLOAT_32 * abs(needed) if figure.name == "usage" else 0.0
            needed = roundest(min(same, needed) - dust, max(same, needed) + dust)
            is_strict = not self._differs(figure.rows_with, shown.value(needed))
        name = figure.name
        if shown.grade < 2 and self._is_remembered(figure.subject, shown.quantity):
            name += " as remembered"
        unit = "percent" if (figure.unit, row["unit"]) == ("fraction", "percent") else figure.unit
        effect = effect_on(self._table, row, other, figure.subject)
        clause = figure_clause(figure.subject, name, shown.quantity, needed, unit, is_strict=is_strict)
        yield Change(
            subject=figure.subject,
            figure=name,
            measured=shown.quantity,
            needed=needed,
            unit=unit,
            is_strict=is_strict,
            effect=effect,
            sentence=f"{clause}, {effect}.",
            is_more=boundary.other > figure.value,
        )

    def _by_rounds(self) -> Change | None:
        """Return after how many more rounds like this one the answer differs, each with the previous one's state."""
        row, rows = self._row, self.sizes[0]
        framed = [kept for kept in rows["state"] if kept["strategy"] == FRAME]
        for number in range(1, _MOST_ROUNDS + 1):
            left = [as_read(STATE, kept) for kept in _ROUNDS[self._table]({}, rows).get(STATE, ())]
            now = {kept["strategy"] for kept in left} | {FRAME}
            others = [kept for kept in rows["state"] if kept["strategy"] not in now]
            rows = rows.having({"state": [*others, *framed, *(kept for kept in left if kept["strategy"] != FRAME)]})
            other = self._answer(rows)
            if _outcome(other) != _outcome(row):
                measured, effect = row["measured"], effect_on(self._table, row, other, row["subject"])
                sentence = f"{rounds_clause(number)}, {effect}."
                unit, figure = "count", "rounds in a row"
                return Change(
                    row["subject"], figure, measured, measured + number, unit, False, effect, sentence, is_more=True
                )
            if other is None or other["measured"] == row["measured"]:
                return None
        return None

    def _by_time(self, milliseconds: float) -> Iterator[Change]:
        """Yield by how much earlier or later the cycle would have had to come."""
        row = self._row
        if row["measured"] is None:
            return

        def changed(rows: Rows, later: float) -> Mapping[str, Sequence[Row]]:
            (cycle,) = rows["cycle"]
            moved = timedelta(milliseconds=later - zero)
            times = {name: cycle[name] for name in ("cycle_at", "snapshot_at") if cycle.get(name)}
            text = {
                name: (datetime.fromisoformat(at) + moved).isoformat(timespec="microseconds")
                for name, at in times.items()
            }
            return {"cycle": [{**cycle, **text}]}

        scale = max(abs(row["measured"]), abs(row["threshold"] or 0.0)) * milliseconds
        zero = scale * 1_000.0
        nearest_value = self._nearest(changed, zero, scale=scale, is_whole=True)
        if nearest_value is None:
            return
        boundary, other = nearest_value
        later = (boundary.other - zero) / milliseconds
        last = self._answer(self._changed(self.sizes[-1], changed(self.sizes[-1], boundary.same)))
        is_more = last is None or (last["measured"] > row["measured"]) == (later > 0)
        effect = effect_on(self._table, row, other, row["subject"])
        needed = row["measured"] + (later if is_more else -later)
        way = "later" if later > 0 else "earlier"
        yield Change(
            subject=row["subject"],
            figure="time of the cycle",
            measured=row["measured"],
            needed=needed,
            unit=row["unit"],
            is_strict=False,
            effect=effect,
            sentence=f"Had the cycle come {at_least(abs(later), row['unit']).text} {way}, {effect}.",
            is_more=needed > row["measured"],
        )

    def _subjects(self) -> list[tuple[str, str]]:
        """Return whose figures are asked about, by kind and name: of a placement, of its best candidates."""
        row = self._row
        if scored := _by_score(row):
            chosen = [*row["best"][:1]]
            others = [broker for broker in scored if broker not in chosen]
            most = MOST_CANDIDATES if len(self._whole["bundle_load"]) < _MANY_BUNDLES else 1
            return [("broker", broker) for broker in (*chosen, *others[:most])]
        if row["subject_kind"] != "cluster":
            return [(row["subject_kind"], row["subject"])]
        usages = [(load.get("weighted_usage") or 0.0, load["broker"]) for load in self._whole["broker_load"]]
        busiest = max(usages, default=(0.0, None))[1]
        return [("broker", broker) for broker in (row["broker"] or busiest,) if broker]

    def _shown(self, kind: str, subject: str) -> list[_Shown]:
        """Return the figure of the subject that the row uses, found by a small change of each; None if none is used."""
        figures = []
        for figure in figures_of(kind, subject, self.sizes[0]):
            step = (1.0 if figure.is_whole else abs(figure.value) * _NUDGE) or 1.0
            for value in (figure.value + step, figure.value - step):
                other = self._answer(self._changed(self.sizes[0], figure.rows_with(self.sizes[0], value)))
                if other is not None and other["rule"] == self._row["rule"]:
                    figures += _movement(figure, value, self._row, other)
                    break
        return sorted(figures, key=lambda shown: shown.grade)[:1]

    def _is_remembered(self, broker: str, quantity: float) -> bool:
        """Return True if the round remembers that very figure of the broker for the next cycle."""
        kept = _ROUNDS[self._table]({}, self.sizes[0]).get(STATE, ())
        return any(consideration["subject"] == broker and consideration["value"] == quantity for consideration in kept)

    def _nearest(
        self,
        changed: Changed,
        value: float,
        *,
        is_whole: bool = False,
        scale: float = 0.0,
        guesses: Sequence[float] = (),
        with_rules: bool = True,
    ) -> tuple[Boundary, Row | None] | None:
        """Return the nearest boundary of the outcome, or else (`with_rules`) of the rule, with the answer beyond it.

        A boundary found with the rows of few brokers is checked with the whole cycle, on both sides.
        """
        for size in self.sizes:
            answer = cache(partial(self._tried, size, changed))
            for kind in (_outcome, _rule) if with_rules else (_outcome,):
                boundary = nearest(
                    partial(self._is_other, kind, answer), value, is_whole=is_whole, scale=scale, guesses=guesses
                )
                if boundary is not None:
                    break
            if boundary is None:
                return None
            whole = SharedRows(self._whole, self._whole.known, acts_only=kind is _outcome)
            proof = partial(self._is_other, kind, partial(self._tried, whole, changed))
            if size is self._whole or (proof(boundary.other) and not proof(boundary.same)):
                return boundary, answer(boundary.other)
        return None

    def _is_other(self, kind: _Kind, answer: Callable[[float], Row | None], value: float) -> bool:
        return kind(answer(value)) != kind(self._row)

    def _differs(self, changed: Changed, value: float) -> bool:
        return _rule(self._tried(self.sizes[0], changed, value)) != _rule(self._row)

    def _tried(self, rows: SharedRows, changed: Changed, value: float) -> Row | None:
        """Return the answer for a value; the recorded one for a value that cannot be, as of a setting."""
        try:
            return self._answer(self._changed(rows, changed(rows, value)))
        except EvenkeelError:
            return self._row

    def _changed(self, rows: SharedRows, changed: Mapping[str, Sequence[Row]]) -> SharedRows:
        """Return the rows with other tables; values computed from observed rows stay as long as those do."""
        if changed.keys() <= {"cycle", "state"}:
            return rows.having(changed)
        return SharedRows({**rows, **changed}, acts_only=rows.acts_only)

    def _answer(self, rows: SharedRows) -> Row | None:
        """Return the row of a round that corresponds to the recorded one; None without one."""
        present, row = self._present(rows), self._row
        if present is None and self._table != GUARDS and row["subject_kind"] != "cluster" and _outcome(row) == _NOTHING:
            return row  # a broker or bundle that the round no longer checks has no act either
        return present

    def _present(self, rows: SharedRows) -> Row | None:
        row = self._row
        rows_now = _ROUNDS[self._table]({}, rows)[self._table]
        names = ("subject", "subject_kind", *(("kind", "position", "rule") if self._table == GUARDS else ("wish_id",)))
        alike = [candidate for candidate in rows_now if all(candidate.get(name) == row.get(name) for name in names)]
        return max(
            alike, key=lambda candidate: [candidate.get(name) == row.get(name) for name in _LIKENESS], default=None
        )

    def _is_as_recorded(self, rows: SharedRows) -> bool:
        try:
            present = self._present(rows)
        except (EvenkeelError, LookupError, TypeError, ValueError):  # of rows that are missing, or of another version
            return False
        if present is None or _rule(present) != _rule(self._row):
            return False
        now, recorded = _figures(present), _figures(self._row)
        return all(isclose(number, recorded.get(name, nan), rel_tol=_CLOSE) for name, number in now.items())


_NOTHING = (None,)
_LIKENESS = ("rule", "outcome", "strategy", "broker")


def _smaller(table: str, row: Row, rows: SharedRows) -> Iterator[SharedRows]:
    """Yield a large cycle with fewer rows, in which the decision may repeat as recorded.

    A split needs its bundle only, an unload the bundles of the brokers that the row names, a placement also those that
    leave their brokers, and those of its namespace. The last one leaves out the other brokers as well.
    """
    if len(rows["bundle_load"]) < _MANY_BUNDLES:
        return
    named = {row["subject"], row["broker"], row.get("destination"), *_by_score(row)[:_FEW_BROKERS]}
    brokers_of = named if table != "split_decisions" else set()
    near = row["namespace"] if table == "placement_decisions" else None
    leaving = {
        unload_decision["subject"]
        for unload_decision in rows["unload_decisions"]
        if near and unload_decision["outcome"] == "unload"
    }
    bundles = [
        load_row
        for load_row in rows["bundle_load"]
        if load_row["bundle"] in named | leaving
        or load_row["owner"] in brokers_of
        or (near and load_row["namespace"] == near)
    ]
    spaces = {bundle["namespace"] for bundle in bundles}
    few = {
        "bundle_load": bundles,
        "namespace_bundles": [
            namespace_bundle
            for namespace_bundle in rows["namespace_bundles"]
            if namespace_bundle["namespace"] in spaces
        ],
    }
    yield SharedRows({**rows, **few})
    for table in ("broker_reports", "broker_load"):
        few[table] = [table_row for table_row in rows[table] if table_row["broker"] in named]
    yield SharedRows({**rows, **few})


def _by_score(row: Row) -> list[str]:
    """Return the candidates of a placement that have a score, the least first."""
    scores = sorted(
        (candidate["score"], candidate["broker"])
        for candidate in row.get("candidates") or ()
        if candidate["score"] is not None
    )
    return [broker for _, broker in scores]


def _movement(figure: Figure, value: float, row: Row, other: Row) -> list[_Shown]:
    """Return how the row shows a figure, from its number for another value; empty if that moves nothing."""
    root = None
    if None not in (row["margin"], other["margin"]) and other["margin"] != row["margin"]:
        root = figure.value - row["margin"] * (value - figure.value) / (other["margin"] - row["margin"])
    for grade, (now, then) in enumerate(_pairs(figure.subject, row, other)):
        for name, quantity in now.items():
            slope = quantity / figure.value if figure.value else 1.0
            expected = (value - figure.value) * slope
            if slope and name in then and abs(then[name] - quantity - expected) <= 1e-4 * abs(expected):
                return [_Shown(figure, grade, quantity, slope, root)]
    if other["measured"] != row["measured"]:
        return [_Shown(figure, 2, figure.value, 1.0, root)]
    return []


def _pairs(subject: str, row: Row, other: Row) -> list[tuple[Mapping[str, float], Mapping[str, float]]]:
    """Return the measured values of both rows for a subject, and their other numbers."""
    scores = [
        {
            candidate["broker"]: candidate["score"]
            for candidate in each.get("candidates") or ()
            if candidate["broker"] == subject
        }
        for each in (row, other)
    ]
    if any(scores):
        measured = scores
    else:
        measured = [{} if each["measured"] is None else {"measured": each["measured"]} for each in (row, other)]
    known = [{name: score for name, score in each.items() if score is not None} for each in measured]
    return [(known[0], known[1]), (row["numbers"], other["numbers"])]


def _figures(row: Row) -> dict[str, float]:
    """Return the row's measured value, its threshold, and the scores of its candidates."""
    figures = {name: row[name] for name in ("measured", "threshold")}
    figures |= {candidate["broker"]: candidate["score"] for candidate in row.get("candidates") or ()}
    return {name: number for name, number in figures.items() if number is not None}


def _numbers(row: Row) -> list[float]:
    """Return all numbers of a row, at which a boundary may be."""
    scores = [candidate["score"] for candidate in row.get("candidates") or ()]
    return [number for number in (row["threshold"], *row["numbers"].values(), *scores) if number is not None]


def _outcome(answer: Row | None) -> tuple[Any, ...]:
    """Return the act on the subject; none if it is kept or left out."""
    if answer is None or answer["outcome"] in ("kept", "skipped"):
        return _NOTHING
    return answer["outcome"], answer.get("destination")


def _rule(answer: Row | None) -> tuple[Any, ...]:
    return _NOTHING if answer is None else (*_outcome(answer), answer["rule"])


def _with_setting(rows: Rows, key: str, value: object) -> dict[str, list[Row]]:
    (cycle,) = rows["cycle"]
    settings = json.loads(cycle["settings"])
    text = json.dumps({**settings, "settings": {**settings["settings"], key: value}}, sort_keys=True)
    return {"cycle": [{**cycle, "settings": text}]}


def _text(value: float) -> str:
    """Return the value of a setting as it is written in a configuration file."""
    return str(value).lower() if isinstance(value, bool) else f"{value:.12g}"
