"""Splits of one cluster in one cycle, and the plan of Evenkeel's own planner, which knows of them.

A cycle with evenkeelPlanner off has the rows of the splits alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.plan_splits import round as split_round
from evenkeel.planner import round as planner_round
from evenkeel.rounds.fold import REMEMBERED, Round, fold, read_back
from evenkeel.rounds.loads import looked_at
from evenkeel.rounds.memo import SharedRows
from evenkeel.rounds.reading import Decided, Row, Rows

_SPLITS = "split_decisions"


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `split_decisions`, of the planner's tables, and of `strategy_state` for both.

    The planner is given the splits as shedding is: those that it looks at, as they are read from the lake.
    """
    made = split_round.decide(key, rows)
    shared = rows if isinstance(rows, SharedRows) else SharedRows(rows)
    splits = read_back(_SPLITS, filter(looked_at, made[_SPLITS]))
    found = planner_round.decide(key, shared.having({_SPLITS: splits}))
    return {**made, **found, REMEMBERED: [*made[REMEMBERED], *found[REMEMBERED]]}


def decide_cycles(key: Row, rows: Rows, *, parameters: Mapping[str, Any]) -> Decided:
    """Decide on splits and plan in every cycle of a cluster (`fold`)."""
    return fold((Round(decide),), key, rows, **parameters)
