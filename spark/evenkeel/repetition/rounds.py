"""A cluster's whole cycle at once: split, shed, place and plan, each round on the previous round's rows.

The live pipeline runs a task for each round and writes and reads rows in between. These rounds run one after the other
in memory. Each gets its rows as it would read them from the tables, so that the plan is equal to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.cycle import reading
from evenkeel.cycle.fold import REMEMBERED, Round, decide_cycle
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Row, Rows
from evenkeel.lake.plain_rows import as_read
from evenkeel.lake.schemas.acted import SPLIT
from evenkeel.manual_requests.round import wishes_of
from evenkeel.place.round import PLACE
from evenkeel.plan_splits import round as split_round
from evenkeel.plan_splits.round import SPLITS, looks_at_topics_of_bundles
from evenkeel.planner import round as planner_round
from evenkeel.publish import plan as plan_round
from evenkeel.publish.plan import GUARD_TABLE, Plan
from evenkeel.shed.round import SHED

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
