"""All rounds of one cycle over again, each on the rows recorded for it, and held against what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.rounds import by_manager, plan_round
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.sameness import same
from evenkeel.rounds.shared import SharedRows

DECIDED = ("split_decisions", "unload_decisions", "placement_decisions")
STATE = "strategy_state"
PLAN = "plan"
OUTPUTS = (*DECIDED, STATE, plan_round.GUARD_TABLE)
DIFFERING = "differing"


def recorded(table: str) -> str:
    """The input that holds what the cycle itself recorded in a table of `OUTPUTS`."""
    return table if table in DECIDED else f"recorded_{table}"


def held_against(
    key: Row, rows: Rows, *, parameters: Mapping[str, Mapping[str, Sequence[str]]]
) -> dict[str, list[dict[str, Any]]]:
    """The `plan`, the names of the tables that came out otherwise (`differing`), and the rows of those decided now.

    `parameters`: `columns`, the columns to compare of each table, which are those of the schema version it was
    written in. Most often all is the same, and nothing but the plan has to leave the worker.
    """
    made = decide(key, rows)
    found: dict[str, list[dict[str, Any]]] = {PLAN: made[PLAN], DIFFERING: []}
    for table in OUTPUTS:
        if not same(table, parameters["columns"][table], rows[recorded(table)], made[table]):
            found[table] = made[table]
            found[DIFFERING].append({"table_name": table})
    return found


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
    if row.keys().isdisjoint(key):
        return row
    return {name: value for name, value in row.items() if name not in key}
