"""Repetition of all rounds of one cycle on their recorded rows, compared with the recorded decisions."""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from evenkeel.cycle.fold import decide_cycle
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Row, Rows
from evenkeel.lake.plain_rows import as_read, columns_as_read
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.publish import plan as plan_round
from evenkeel.repetition.rounds import ROUNDS
from evenkeel.repetition.rounds import STATE as STATE
from evenkeel.spark.rows import cells

DECIDED = ("split_decisions", *PLANNER_TABLES, "unload_decisions", "placement_decisions")
PLAN = "plan"
OUTPUTS = (*DECIDED, STATE, plan_round.GUARD_TABLE)
DIFFERING = "differing"
REWORDED = "reworded"
WORDING = "sentence"
"""The column with a decision in words; a later version may word it differently without another decision."""


def recorded(table: str) -> str:
    """Return the input that has the cycle's own record of a table of `OUTPUTS`."""
    return table if table in DECIDED else f"recorded_{table}"


def held_against(
    key: Row, rows: Rows, *, parameters: Mapping[str, Mapping[str, Sequence[str]]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the `plan`, the names of the tables that differ (`differing`), and the rows of those decided now.

    `parameters`: `columns`, the columns to compare of each table, which are those of the schema version it was written
    in; and `wording`, the columns of them that may differ: a table without any other difference is named in `reworded`.
    Usually all is equal, and only the plan has to leave the worker.
    """
    repeated = decide(key, rows)
    comparison: dict[str, list[dict[str, Any]]] = {PLAN: repeated[PLAN], DIFFERING: [], REWORDED: []}
    for table in OUTPUTS:
        columns, wording = parameters["columns"][table], parameters["wording"][table]
        if same(table, columns, rows[recorded(table)], repeated[table]):
            continue
        decided = [name for name in columns if name not in wording]
        if wording and same(table, decided, rows[recorded(table)], repeated[table]):
            comparison[REWORDED].append({"table_name": table})
        else:
            comparison[table] = repeated[table]
            comparison[DIFFERING].append({"table_name": table})
    return comparison


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return rows of the decided tables, of `strategy_state` and `guard_decisions`, and the `plan`.

    A round takes the *recorded* rows of the round before it, not the repeated ones. So a difference stays where it
    arose.
    """
    recorded = {table: [_without(row, key) for row in rows[table]] for table in DECIDED}
    decided, seen, _ = decide_cycle(ROUNDS, key, SharedRows({**rows, **recorded}), as_recorded=True)
    plan = plan_round.decide(key, seen)
    return {**decided, plan_round.GUARD_TABLE: plan[plan_round.GUARD_TABLE], PLAN: plan["plan"]}


def _without(row: Row, key: Row) -> Row:
    """Return a decision as it was recorded: without the columns that rows were grouped by, which do not count for the
    plan."""
    if row.keys().isdisjoint(key):
        return row
    return {name: value for name, value in row.items() if name not in key}


# Whether rows decided now are those that were recorded, to the bit, in whatever order.

# The last version of the format in which a value's bytes do not depend on which other values are the same object.
_BY_VALUE = 2


def same(table: str, columns: Sequence[str], recorded: Collection[Row], repeated: Collection[Row]) -> bool:
    """Compare these columns of a table: `recorded` as they were read, `repeated` as a round gave them."""
    return len(recorded) == len(repeated) and (
        _same_by_key(table, columns, recorded, repeated) or _same_row_by_row(table, columns, recorded, repeated)
    )


def _same_by_key(table: str, columns: Sequence[str], recorded: Collection[Row], repeated: Collection[Row]) -> bool:
    """Return True if the rows are pairwise equal once both are in the order of their keys.

    Then they are equal in any order. False decides nothing: keys may be missing or repeated.
    """
    key = itemgetter(*_sure_keys(table))
    try:
        before, now = sorted(recorded, key=key), sorted(repeated, key=key)
    except (KeyError, TypeError):
        return False
    texts = _texts(table)
    plain = [name for name in columns if name in texts]
    others = [name for name in columns if name not in texts]
    return cells(before, plain) == cells(now, plain) and (
        _are_alike(before, now, others)
        or marshal.dumps(cells(before, others), _BY_VALUE)
        == marshal.dumps(columns_as_read(table, others, now), _BY_VALUE)
    )


def _are_alike(before: Sequence[Row], now: Sequence[Row], names: Sequence[str]) -> bool:
    """Return True if the columns of `now` equal the read ones as they are: no value has to be converted to plain
    form."""
    values = itemgetter(*names)
    try:
        return marshal.dumps([*map(values, before)], _BY_VALUE) == marshal.dumps([*map(values, now)], _BY_VALUE)
    except (KeyError, ValueError):
        return False


@cache
def _texts(table: str) -> frozenset[str]:
    """Return the columns of text: their values are text or None, and no other value equals either."""
    return frozenset(column.name for column in TABLES[table].columns if column.type == "string")


def _sure_keys(table: str) -> list[str]:
    """The columns of the table's key that no row goes without."""
    declared = TABLES[table]
    return [column.name for column in declared.columns if column.name in declared.key and not column.nullable]


def _same_row_by_row(table: str, columns: Sequence[str], recorded: Iterable[Row], repeated: Iterable[Row]) -> bool:
    return _contents(columns, recorded) == _contents(columns, (as_read(table, row) for row in repeated))


def _contents(columns: Sequence[str], rows: Iterable[Row]) -> list[bytes]:
    """Bytes that are equal for equal rows only: -0.0 is not 0.0, and a NaN is itself."""
    return sorted(marshal.dumps([row[name] for name in columns], _BY_VALUE) for row in rows)
