"""The report's chapter on Evenkeel's own planner: its target, steps, findings and inputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.lake.record import Row
from evenkeel.model import amounts

PLANNER_KEY = "evenkeelPlanner"
OFF, SHADOW = "off", "shadow"
MOST_STEPS = 60
_PLACES = ("unload", "placed", "planned")


@dataclass(frozen=True, slots=True)
class PlannerChapter:
    """The planner's part of a cycle.

    `mode`: shadow or on. `target`: the row of the cluster in a sentence, and its `figures` by name. `due`: rows of
    bundles that move now (`unload`, `placed`: without an owner); `planned`: the first that a rule or a budget keeps for
    later, of `planned_count`; `split_first`: bundles that stay until they are split; `looked_at`: how many others stay.
    `brokers`: their rows; `models_used` of `models` are used; the other brokers use shares of traffic.
    """

    mode: str
    target: str
    figures: tuple[tuple[str, str], ...]
    due: tuple[Row, ...]
    planned: tuple[Row, ...]
    planned_count: int
    looked_at: int
    split_first: tuple[Row, ...]
    brokers: tuple[Row, ...]
    findings: tuple[Row, ...]
    models: tuple[Row, ...]
    basis: str

    @property
    def only_looks_on(self) -> bool:
        """Return True if the planner only watches and sends nothing."""
        return self.mode == SHADOW

    @property
    def models_used(self) -> int:
        """Return how many of the models are used."""
        return sum(model["is_used"] for model in self.models)


def planner_chapter(tables: Mapping[str, Sequence[Row]]) -> PlannerChapter | None:
    """Return the chapter of the rows of the planner's tables; None if it was off."""
    targets = tables.get("planner_targets", ())
    mode = next((json.loads(row["value"]) for row in tables.get("settings", ()) if row["key"] == PLANNER_KEY), OFF)
    if not targets and mode == OFF:
        return None
    whole = next((row for row in targets if row["subject_kind"] == "cluster"), None)
    bundles = [row for row in targets if row["subject_kind"] == "bundle"]
    moving = [row for row in bundles if row["outcome"] in _PLACES]
    moving.sort(key=lambda row: (row["position"] is None, row["position"] or 0, row["subject"]))
    due = [row for row in moving if row["outcome"] != "planned"]
    planned = [row for row in moving if row["outcome"] == "planned"]
    brokers = [row for row in targets if row["subject_kind"] == "broker"]
    brokers.sort(key=lambda row: (-(row["measured"] or 0.0), row["subject"]))
    count_of = Counter(row["basis"] for row in brokers if row["basis"])
    return PlannerChapter(
        mode=str(mode),
        target="" if whole is None else str(whole["sentence"]),
        figures=() if whole is None else _figures(whole),
        due=tuple(due),
        planned=tuple(planned[:MOST_STEPS]),
        planned_count=len(planned),
        looked_at=sum(row["outcome"] == "kept" and not row["needs_split"] for row in bundles),
        split_first=tuple(
            row
            for row in sorted(bundles, key=lambda row: str(row["subject"]))
            if row["outcome"] == "kept" and row["needs_split"]
        ),
        brokers=tuple(brokers),
        findings=tuple(tables.get("planner_findings", ())),
        models=tuple(tables.get("planner_models", ())),
        basis=", ".join(f"{name} for {amounts.plural(number, 'broker')}" for name, number in sorted(count_of.items())),
    )


_FIGURES: tuple[tuple[str, str, str], ...] = (
    ("even", "Evenly used", "fraction"),
    ("stop", "Target", "fraction"),
    ("busiest", "Busiest broker", "fraction"),
    ("busiest_after_due", "Busiest after the steps due", "fraction"),
    ("busiest_after", "Busiest after all steps", "fraction"),
    ("floor_load", "Load that has to move at least", "fraction"),
    ("floor_moves", "Moves at least", "count"),
    ("promised_gain", "Promised gain", "fraction"),
    ("due_cost", "Cost of the steps due", "fraction"),
    ("misses", "Promises not kept in a row", "count"),
)


def _figures(row: Row) -> tuple[tuple[str, str], ...]:
    """The numbers of the cluster's row that a reader looks for, by name; promises that were kept are not counted."""
    numbers = {name: value for name, value in row["numbers"].items() if value or name != "misses"}
    return tuple((words, amounts.quantity(numbers[name], unit)) for name, words, unit in _FIGURES if name in numbers)
