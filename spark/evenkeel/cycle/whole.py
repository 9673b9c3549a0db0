"""A cluster's whole cycle at once: split, shed, place, plan, each round on what the one before left in the tables.

The live pipeline runs a task for each round, with rows written and read in between. Here the same rounds run one after
the other in memory, and each sees its rows as it would have read them, so that the same plan comes out to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.lake.plain_rows import as_read, types_of
from evenkeel.lake.schemas.acted import SPLIT
from evenkeel.manual_requests.round import wishes_of
from evenkeel.place import round as place_round
from evenkeel.place.round import keeps_state
from evenkeel.plan_splits import round as split_round
from evenkeel.plan_splits.round import cuts_by_topics
from evenkeel.publish import plan as plan_round
from evenkeel.publish.plan import GUARD_TABLE, Plan
from evenkeel.rounds import reading
from evenkeel.rounds.memo import SharedRows
from evenkeel.rounds.reading import EXTENSIBLE, Decided, Row, Rows
from evenkeel.shed import round as shed_round
from evenkeel.spark.row_order import content_order
from evenkeel.spark.rows import cells

OBSERVED = ("bundle_load", "broker_load", "broker_reports", "namespace_bundles", "cluster_policies")
"""The tables that a cycle decides on; `topic_hashes` and `persistent_topics` too where topics are asked for."""

STATE = "strategy_state"
_BEFORE_THE_ROUNDS: Mapping[str, Sequence[Row]] = {
    "topic_hashes": (),
    "split_decisions": (),
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


def decide(observed: Rows, cycle: Row, state: Sequence[Row]) -> DecidedCycle:
    """Decides the cycle. `observed` holds `OBSERVED`; `state` is what the cycle before remembered.

    Given `SharedRows` that keep to acts, the plan has no id and only rows of acts and refusals are made.
    """
    key = {"cluster": cycle["cluster"]}
    rows = observed if isinstance(observed, SharedRows) else SharedRows(observed)
    rows = rows.having({**_BEFORE_THE_ROUNDS, "topic_hashes": rows.get("topic_hashes", ()), "cycle": [cycle]})
    extensible = cycle["manager"] == EXTENSIBLE
    rows = rows.having({"state": state if extensible else ()})
    rows = rows.having({"topic_hashes": _topics_of_chosen(key, rows)})
    made: dict[str, list[Row]] = {}
    after = _add(made, split_round.decide(key, rows), kept=extensible)
    rows = rows.having({**made, "state": state})
    after += _add(made, shed_round.decide(key, rows), kept=True)
    keeps = keeps_state(reading.settings_of(rows))
    rows = rows.having({**made, "state": state if extensible or keeps else ()})
    after += _add(made, place_round.decide(key, rows), kept=keeps)
    rows = rows.having(made)
    plan = plan_round.made_of(rows)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    made[GUARD_TABLE] = [as_read(GUARD_TABLE, {**row, **stamp}) for row in plan.objections]
    made["commands"] = [as_read("commands", row) for row in plan.commands]
    return DecidedCycle({**made, STATE: after}, plan)


def _add(made: dict[str, list[Row]], decided: Decided, *, kept: bool) -> list[Row]:
    """Puts a round's rows to those of the cycle; what it remembers is the answer, if its task would write it."""
    for table, found in decided.items():
        if table != STATE:
            made[table] = _in_order(table, [as_read(table, row) for row in found])
    return [as_read(STATE, row) for row in decided[STATE]] if kept else []


def _in_order(table: str, rows: list[Row]) -> list[Row]:
    """Rows reach a round sorted by their content (see `spark.row_order`)."""
    if len(rows) < 2:
        return rows
    columns = {name: kind for name, kind in types_of(table).items() if name in rows[0]}
    return [rows[place] for place in content_order(columns, cells(rows, tuple(columns)))]


def _topics_of_chosen(key: Row, rows: SharedRows) -> Sequence[Row]:
    """The topics of the bundles that are to be cut, as the task hands them over: of no others, and none unasked."""
    known = rows["topic_hashes"]
    cycle = reading.the_cycle(rows)
    if not known or not cuts_by_topics(reading.settings_of(rows), wishes_of(cycle, SPLIT)):
        return ()
    chosen = {row["bundle"] for row in split_round.choose(key, rows.having({"topic_hashes": ()}))["chosen"]}
    return [row for row in known if row["bundle"] in chosen]
