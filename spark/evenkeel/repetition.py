"""Repetition of whole cycles: all rounds of a recorded cycle, one after the other, for verify, replay and explain.

The live pipeline runs a task for each round and writes and reads rows in between. These rounds run one after the other
in memory. Each gets its rows as it would read them from the tables, so that the plan is equal to the bit. The rows
decided now are compared with recorded ones to the bit, in any order.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

from evenkeel.aggregate import round as load_round
from evenkeel.cycle import reading
from evenkeel.cycle.fold import FAILURES, REMEMBERED, Round, decide_cycle
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.errors import EngineError
from evenkeel.lake.plain_rows import as_read, columns_as_read
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.acted import SPLIT
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.manual_requests.round import wishes_of
from evenkeel.model.load import RATES
from evenkeel.place.round import PLACE
from evenkeel.plan_splits import round as split_round
from evenkeel.plan_splits.round import SPLITS, looks_at_topics_of_bundles
from evenkeel.planner import round as planner_round
from evenkeel.publish import plan as plan_round
from evenkeel.publish.plan import GUARD_TABLE, Plan
from evenkeel.shed.round import SHED
from evenkeel.spark.rows import cells

BUNDLES = "bundle_load"
BUNDLE_COLUMNS = (
    *("bundle", "namespace", "owner", "ownership", "last_owner", "has_non_persistent"),
    *("topics", "consumers", "producers", "msg_backlog", "short_samples", "long_samples", "samples_since_quota"),
    *(f"{prefix}_{rate}" for prefix in ("used", "short", "long") for rate in RATES),
)
_LEFT_OUT: Mapping[str, frozenset[str]] = {
    "broker_reports": frozenset({"rest"}),
    "namespace_bundles": frozenset({"cluster", "cycle_at", "policies"}),
    "cluster_policies": frozenset(
        {
            *("cluster", "cycle_at", "configuration", "configuration_broker", "configuration_age_seconds"),
            *("configuration_differs", "topic_lists_age_seconds", "snapshot", "snapshot_started_at"),
            *("snapshot_finished_at",),
        }
    ),
}
"""Columns that no round reads, and columns that would change each cycle's row of a table that seldom changes."""


def columns_looked_at(table: str, names: Sequence[str]) -> list[str]:
    """The columns of a table that the rounds need, in the table's order."""
    if table == BUNDLES:
        return [name for name in names if name in BUNDLE_COLUMNS]
    left = _LEFT_OUT.get(table, frozenset()) | STAMP_NAMES
    return [name for name in names if name not in left]


OBSERVED = ("bundle_load", "broker_load", "broker_reports", "namespace_bundles", "cluster_policies")
"""The tables that a cycle decides on; `topic_hashes` and `persistent_topics` too where topics are asked for."""

STATE = REMEMBERED
_BEFORE_THE_ROUNDS: Mapping[str, Sequence[Row]] = {
    "topic_hashes": (),
    "split_decisions": (),
    **dict.fromkeys(planner_round.TABLES, ()),
    "unload_decisions": (),
    "placement_decisions": (),
}


@dataclass(frozen=True, slots=True)
class DecidedCycle:
    """A decided cycle: rows by table as they would be read back (the state after it among them), and its plan."""

    rows: Mapping[str, list[Row]]
    plan: Plan

    @property
    def plan_id(self) -> str:
        """The id of the plan: a digest of cluster, cycle, settings and decisions."""
        return str(self.plan.figures["plan_id"])


ROUNDS = (SPLITS, Round(planner_round.decide, planner_round.TABLES), SHED, PLACE)
"""The rounds up to the plan."""


def decide(observed: Rows, cycle: Row, state: Sequence[Row]) -> DecidedCycle:
    """Decide the cycle. `observed` holds `OBSERVED`; `state` is the state of the previous cycle.

    With `SharedRows` that keep to acts, the plan has no id and only rows of acts and refusals are made.
    """
    key = {"cluster": cycle["cluster"]}
    rows = observed if isinstance(observed, SharedRows) else SharedRows(observed)
    rows = rows.having({**_BEFORE_THE_ROUNDS, "topic_hashes": rows.get("topic_hashes", ()), "cycle": [cycle]})
    rows = rows.having({"state": state})
    decided, rows, _ = decide_cycle(ROUNDS, key, rows.having({"topic_hashes": _topics_of_chosen(key, rows)}))
    plan = plan_round.made_of(rows)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    tables: dict[str, list[Row]] = {table: list(rows[table]) for task_round in ROUNDS for table in task_round.tables}
    tables[GUARD_TABLE] = [as_read(GUARD_TABLE, {**row, **stamp}) for row in plan.objections]
    tables["commands"] = [as_read("commands", row) for row in plan.commands]
    return DecidedCycle({**tables, STATE: [as_read(STATE, row) for row in decided[STATE]]}, plan)


def _topics_of_chosen(key: Row, rows: SharedRows) -> Sequence[Row]:
    """The topics of the bundles that are to be cut, as the task hands them over: of no others, and none unasked."""
    known = rows["topic_hashes"]
    cycle = reading.the_cycle(rows)
    if not known or not looks_at_topics_of_bundles(reading.settings_of(rows), wishes_of(cycle, SPLIT)):
        return ()
    chosen = {row["bundle"] for row in split_round.choose(key, rows.having({"topic_hashes": ()}))["chosen"]}
    return [row for row in known if row["bundle"] in chosen]


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
    cluster = parameters["clusters"][key["cluster"]]
    rows = _in_its_cluster(rows, cluster)
    decided = decide_as_recorded({"cluster": cluster}, rows)
    return {PLAN: decided[PLAN], **_differences(OUTPUTS, str(key["cluster"]), rows, decided, parameters)}


def compare_loads(key: Row, rows: Rows, *, parameters: Mapping[str, Any]) -> Decided:
    """Return the tables of `LOADS` that differ (`differing`) and their rows, as aggregate's round makes them now.

    `parameters`: as for `compare_decisions`.
    """
    cluster = parameters["clusters"][key["cluster"]]
    rows = _in_its_cluster(rows, cluster)
    inputs = {name: its_rows for name, its_rows in rows.items() if name not in map(recorded, LOADS)}
    decided = load_round.decide_cycles({"cluster": cluster}, inputs)
    for failure in decided.get(FAILURES, ()):
        raise EngineError(failure["error"])
    return _differences(LOADS, str(key["cluster"]), rows, decided, parameters)


def _differences(
    tables: Iterable[str], attempt: str, rows: Rows, decided: Decided, parameters: Mapping[str, Any]
) -> Decided:
    """Return the tables whose recorded rows differ from those decided now, and the rows decided now of these."""
    differences: Decided = {DIFFERING: [], REWORDED: []}
    for table in tables:
        columns, then, now = compared_columns(table), rows[recorded(table)], decided[table]
        if same(table, columns, then, now):
            continue
        unworded = [name for name in columns if name != WORDING]
        is_reworded = attempt not in parameters["to_the_word"] and len(unworded) < len(columns)
        if is_reworded and same(table, unworded, then, now):
            differences[REWORDED].append({"table_name": table})
        else:
            differences[DIFFERING].append({"table_name": table})
            differences[table] = [{**row, ATTEMPT: attempt} for row in now]
    return differences


def _in_its_cluster(rows: Rows, cluster: str) -> Rows:
    return {name: [{**row, "cluster": cluster} for row in its_rows] for name, its_rows in rows.items()}


def decide_as_recorded(key: Row, rows: Rows) -> Decided:
    """Return the rows of the decided tables, of `strategy_state` and `guard_decisions`, and the `plan`.

    A round takes what the one before it had *recorded*, not what it decides now: a difference stays where it arose.
    """
    made, seen, _ = decide_cycle(ROUNDS, key, SharedRows(rows), as_recorded=True)
    plan = plan_round.decide(key, seen)
    return {**made, plan_round.GUARD_TABLE: plan[plan_round.GUARD_TABLE], PLAN: plan["plan"]}


# The last version of the format in which a value's bytes do not depend on which other values are the same object.
_BY_VALUE = 2


def same(table: str, columns: Sequence[str], recorded: Collection[Row], made: Collection[Row]) -> bool:
    """Return True if these columns of a table are equal: `recorded` as they were read, `made` as a round gave them."""
    return len(recorded) == len(made) and (
        _same_by_key(table, columns, recorded, made)
        or _contents(columns, recorded) == _contents(columns, (as_read(table, row) for row in made))
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


def _contents(columns: Sequence[str], rows: Iterable[Row]) -> list[bytes]:
    """Return bytes that are equal for equal rows only: -0.0 is not 0.0, and a NaN equals itself."""
    return sorted(marshal.dumps([row[name] for name in columns], _BY_VALUE) for row in rows)
