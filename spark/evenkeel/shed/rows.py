"""Rows that the shedding rounds of both load managers read and write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.fold import LOAD_AVERAGE, shedder_state
from evenkeel.cycle.reading import Row, Rows
from evenkeel.model.consideration import Considered, Rule
from evenkeel.planner.round import TARGETS
from evenkeel.shed.strategies.threshold_shedder import USAGE_AVERAGE

NO_REPORT = Rule(
    "skipped",
    "no_report",
    lambda row: f"{row.subject} gave no load report: it counts neither as idle nor in the average, and gets no bundle.",
)


def silent_brokers(rows: Rows) -> list[Considered]:
    """Return brokers that cannot be decided on: their load is unknown, and so never counts as 0."""
    usable = {row["broker"] for row in reading.usable_reports(rows)}
    silent = sorted(row["broker"] for row in rows["broker_load"] if row["broker"] not in usable)
    return [NO_REPORT.about_broker(broker) for broker in silent]


_OF_TARGETS = frozenset({"destination", "position", "gain", "cost", "needs_split", "basis"})
"""Columns of `planner_targets` beside those of a reason."""


def planned_unloads(rows: Rows) -> list[dict[str, Any]]:
    """Return the planner's due moves as rows of `unload_decisions`, and the state of the cluster.

    In the order of the plan, each with the best alternative as its destination.
    """
    moves = [row for row in rows[TARGETS] if row["outcome"] == "unload" or row["subject_kind"] == "cluster"]
    return [
        {name: value for name, value in row.items() if name not in _OF_TARGETS}
        for row in sorted(moves, key=lambda row: (row["position"] or 0, row["subject"]))
    ]


AVERAGES = (USAGE_AVERAGE, LOAD_AVERAGE)
"""Names of remembered figures that `usage_averages` reads."""


def usage_averages(rows: Iterable[Row], shedder: str) -> dict[str, float]:
    """Broker to its moving average of usage, a fraction; empty if the shedder keeps none.

    TransferShedder's are those that brokers publish, or would have published (see `cycle.loads`).
    """
    remembered = shedder_state(rows, shedder)
    return remembered.get(USAGE_AVERAGE) or remembered.get(LOAD_AVERAGE, {})
