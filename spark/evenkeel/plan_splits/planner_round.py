"""Splits of one cluster in one cycle, and the plan of Evenkeel's own planner, which knows of them.

A cycle with evenkeelPlanner off has the rows of the splits alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.cycle.fold import REMEMBERED, Round, fold, read_back
from evenkeel.cycle.loads import looked_at
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.plan_splits import round as split_round
from evenkeel.planner import round as planner_round

_SPLITS = "split_decisions"


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `split_decisions`, of the planner's tables, and of `strategy_state` for both.

    The planner is given the splits as shedding is: those that it looks at, as they are read from the lake.
    """
    decided = split_round.decide(key, rows)
    shared = rows if isinstance(rows, SharedRows) else SharedRows(rows)
    splits = read_back(_SPLITS, filter(looked_at, decided[_SPLITS]))
    planned = planner_round.decide(key, shared.having({_SPLITS: splits}))
    return {**decided, **planned, REMEMBERED: [*decided[REMEMBERED], *planned[REMEMBERED]]}


def decide_cycles(key: Row, rows: Rows, *, parameters: Mapping[str, Any]) -> Decided:
    """Decide on splits and plan in every cycle of a cluster (`fold`)."""
    return fold((Round(decide),), key, rows, **parameters)
