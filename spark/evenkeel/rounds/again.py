"""All rounds of one cycle over again, each on the rows recorded for it, to be held against what was decided."""

from __future__ import annotations

from typing import Any

from evenkeel.rounds import by_manager, plan_round
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.shared import SharedRows

DECIDED = ("split_decisions", "unload_decisions", "placement_decisions")
STATE = "strategy_state"
PLAN = "plan"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of the decided tables, of `strategy_state` and `guard_decisions`, and the `plan`.

    A round takes what the one before it had *recorded*, not what it comes to now: a difference stays where it arose.
    """
    rows = SharedRows({**rows, **{table: [_without(row, key) for row in rows[table]] for table in DECIDED}})
    made = [by_manager.split(key, rows), by_manager.shed(key, rows), by_manager.place(key, rows)]
    plan = plan_round.decide(key, rows)
    found: dict[str, list[dict[str, Any]]] = {name: one[name] for name, one in zip(DECIDED, made, strict=True)}
    found[STATE] = [row for one in made for row in one[STATE]]
    return {**found, plan_round.GUARD_TABLE: plan[plan_round.GUARD_TABLE], PLAN: plan["plan"]}


def _without(row: Row, key: Row) -> Row:
    """A decision as it was recorded: what rows were grouped by is no part of it, and must not count for the plan."""
    return {name: value for name, value in row.items() if name not in key}
