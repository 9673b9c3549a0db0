"""Decide a recorded cycle again, each round on the rows recorded for it, and compare with what was decided."""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from evenkeel.aggregate import round as load_round
from evenkeel.cycle.fold import decide_cycle
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.lake.plain_rows import as_read, columns_as_read
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.publish import plan as plan_round
from evenkeel.repetition.rounds import ROUNDS
from evenkeel.repetition.rounds import STATE as STATE
from evenkeel.spark.rows import cells

ATTEMPT = "attempt_id"
DECIDED = ("split_decisions", *PLANNER_TABLES, "unload_decisions", "placement_decisions")
PLAN = "plan"
OUTPUTS = (*DECIDED, STATE, plan_round.GUARD_TABLE)
LOADS = load_round.OUTPUTS
DIFFERING = "differing"
REWORDED = "reworded"
WORDING = "sentence"
"""The column that says a decision in words, which a later version may word otherwise without deciding otherwise."""


def recorded(table: str) -> str:
    """Return the input that holds what the cycle itself recorded in a table of `OUTPUTS` or `LOADS`."""
    return table if table in DECIDED else f"recorded_{table}"


def compared_columns(table: str) -> list[str]:
    """Return the columns of a table that are compared: all but the stamp of the write."""
    return [name for name in TABLES[table].column_names() if name not in STAMP_NAMES]


# The runner has one cycle of each cluster, so that an attempt stands for a cluster, named by its id. The parameter
# `clusters` has the cluster of each attempt.


def compare_decisions(key: Row, rows: Rows, *, parameters: Mapping[str, Any]) -> Decided:
    """Return the `plan`, the tables that differ (`differing`, `reworded`) and the rows decided now of the former.

    `parameters`, beside `clusters`: `to_the_word`, the attempts whose sentences have to be the same too. For others, a
    table in which only sentences differ is named in `reworded`.
    """
    attempt = str(key["cluster"])
    cluster = parameters["clusters"][attempt]
    rows = _in_its_cluster(rows, cluster)
    made = decide({"cluster": cluster}, rows)
    found: Decided = {PLAN: made[PLAN], DIFFERING: [], REWORDED: []}
    for table in OUTPUTS:
        columns = compared_columns(table)
        then = rows[recorded(table)]
        if same(table, columns, then, made[table]):
            continue
        decided = [name for name in columns if name != WORDING]
        is_reworded = attempt not in parameters["to_the_word"] and len(decided) < len(columns)
        if is_reworded and same(table, decided, then, made[table]):
            found[REWORDED].append({"table_name": table})
        else:
            found[DIFFERING].append({"table_name": table})
            found[table] = _of_attempt(made[table], attempt)
    return found


def compare_loads(key: Row, rows: Rows, *, parameters: Mapping[str, Any]) -> Decided:
    """Return the tables of `LOADS` that differ (`differing`) and their rows, as aggregate's round makes them now."""
    attempt = str(key["cluster"])
    cluster = parameters["clusters"][attempt]
    rows = _in_its_cluster(rows, cluster)
    then = {table: rows[recorded(table)] for table in LOADS}
    given = {name: found for name, found in rows.items() if name not in map(recorded, LOADS)}
    made = load_round.decide_cycles({"cluster": cluster}, given, parameters={"is_window": False})
    found: Decided = {DIFFERING: []}
    for table in LOADS:
        if not same(table, compared_columns(table), then[table], made[table]):
            found[DIFFERING].append({"table_name": table})
            found[table] = _of_attempt(made[table], attempt)
    return found


def _in_its_cluster(rows: Rows, cluster: str) -> Rows:
    return {name: [{**row, "cluster": cluster} for row in found] for name, found in rows.items()}


def _of_attempt(rows: Iterable[Row], attempt: str) -> list[dict[str, Any]]:
    return [{**row, ATTEMPT: attempt} for row in rows]


def decide(key: Row, rows: Rows) -> Decided:
    """Return the rows of the decided tables, of `strategy_state` and `guard_decisions`, and the `plan`.

    A round takes what the one before it had *recorded*, not what it decides now: a difference stays where it arose.
    """
    made, seen, _ = decide_cycle(ROUNDS, key, SharedRows(rows), as_recorded=True)
    plan = plan_round.decide(key, seen)
    return {**made, plan_round.GUARD_TABLE: plan[plan_round.GUARD_TABLE], PLAN: plan["plan"]}


# The comparison of rows decided now with recorded ones: to the bit, in any order.

# The last version of the format in which a value's bytes do not depend on which other values are the same object.
_BY_VALUE = 2


def same(table: str, columns: Sequence[str], recorded: Collection[Row], made: Collection[Row]) -> bool:
    """Return True if these columns of a table are equal: `recorded` as they were read, `made` as a round gave them."""
    return len(recorded) == len(made) and (
        _same_by_key(table, columns, recorded, made) or _same_row_by_row(table, columns, recorded, made)
    )


def _same_by_key(table: str, columns: Sequence[str], recorded: Collection[Row], made: Collection[Row]) -> bool:
    """Return True if the rows are equal in pairs once both are sorted by their keys.

    Then they are equal in any order. False proves nothing: keys may be missing, or there twice.
    """
    key = itemgetter(*_sure_keys(table))
    try:
        found, now = sorted(recorded, key=key), sorted(made, key=key)
    except (KeyError, TypeError):
        return False
    texts = _texts(table)
    plain = [name for name in columns if name in texts]
    others = [name for name in columns if name not in texts]
    return cells(found, plain) == cells(now, plain) and (
        _are_alike(found, now, others)
        or marshal.dumps(cells(found, others), _BY_VALUE)
        == marshal.dumps(columns_as_read(table, others, now), _BY_VALUE)
    )


def _are_alike(found: Sequence[Row], now: Sequence[Row], names: Sequence[str]) -> bool:
    """Return True if the columns of `now` equal those that were read without being brought to plain form."""
    values = itemgetter(*names)
    try:
        return marshal.dumps([*map(values, found)], _BY_VALUE) == marshal.dumps([*map(values, now)], _BY_VALUE)
    except (KeyError, ValueError):
        return False


@cache
def _texts(table: str) -> frozenset[str]:
    """Return the columns of text: their values are text or None when read, and no other value is equal to these."""
    return frozenset(column.name for column in TABLES[table].columns if column.type == "string")


def _sure_keys(table: str) -> list[str]:
    """Return the columns of the table's key that cannot be NULL."""
    declared = TABLES[table]
    return [column.name for column in declared.columns if column.name in declared.key and not column.nullable]


def _same_row_by_row(table: str, columns: Sequence[str], recorded: Iterable[Row], made: Iterable[Row]) -> bool:
    return _contents(columns, recorded) == _contents(columns, (as_read(table, row) for row in made))


def _contents(columns: Sequence[str], rows: Iterable[Row]) -> list[bytes]:
    """Return bytes that are equal for equal rows only: -0.0 is not 0.0, and a NaN equals itself."""
    return sorted(marshal.dumps([row[name] for name in columns], _BY_VALUE) for row in rows)
