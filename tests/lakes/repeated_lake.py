"""A lake of cycles that were decided several times: re-runs and backfills, plans that were sent and that were not."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from evenkeel.lake.outbox import SENT
from evenkeel.lake.schemas import FROM_THE_FIRST
from tests.lakes.plausible import HOT, A, B, bundle_load, decision
from tests.lakes.small_lake import Row, SmallLake, moment

FIRST = moment("2026-03-31T23:40:11.123456")
CYCLES = 30
_OUTCOMES = (*sorted(SENT), "dry_run", "stale", "withheld", "harmed")
_ENDS = ("closed", "closed", "closed", "withheld", "planned", "skipped", "failed")


def repeated_lake(root: Path, seed: int = 53) -> Path:
    """Two clusters of CYCLES cycles, each with up to four attempts of all kinds; the same for the same seed."""
    lake, chance = SmallLake(root), random.Random(seed)
    with lake.one_commit(of_each_table=True):
        for table in FROM_THE_FIRST:
            lake.append(table, [])
        for number in range(CYCLES):
            for cluster in ("lab", "prod"):
                _add_cycle(lake, chance, cluster, number)
    return root


def _add_cycle(lake: SmallLake, chance: random.Random, cluster: str, number: int) -> None:
    at = FIRST + timedelta(minutes=number)
    plans = [f"{cluster} {number} plan {place}" for place in range(3)]
    for attempt in range(1, chance.randint(1, 4) + 1):
        status = chance.choice(_ENDS)
        plan = None if status in ("skipped", "failed") else chance.choice(plans)
        kind, mode = chance.choice(("live", "rerun", "backfill")), chance.choice(("auto", "approve", "dry_run"))
        given: dict[str, Any] = {"attempt": attempt, "kind": kind, "mode": mode, "plan_id": plan, "status": status}
        reason = chance.choice((None, f"reason {attempt}"))
        usage = chance.random()
        rows = {"unload_decisions": _unloads(usage), "bundle_load": [bundle_load(HOT, A, 1e6 * usage, msg_backlog=3)]}
        commands = [] if plan is None or chance.random() < 0.4 else _commands(plan, mode)
        outcomes = [_outcome(chance, row["command_id"], at) for row in commands for _ in range(chance.randint(0, 3))]
        lake.add(cluster, at, rows, {"commands": commands, "outcomes": outcomes}, reason=reason, **given)
        if chance.random() < 0.1:  # a rival's row of the same attempt: the first one counts
            lake.add(cluster, at, {}, reason="of a rival", **{**given, "status": "withheld" if plan else status})


def _unloads(usage: float) -> list[Row]:
    over = usage >= 0.5
    outcome, rule = ("unload", "above_threshold") if over else ("kept", "below_threshold")
    figures = {"measured": usage, "threshold": 0.5, "unit": "fraction", "setting": "a threshold"}
    broker = decision(A, "broker", outcome, rule, f"{A} is at {usage}.", broker=A, **figures)
    return [broker, decision(HOT, "bundle", "unload", "largest_first", f"{HOT} goes.", broker=A)] if over else [broker]


def _commands(plan: str, mode: str) -> list[Row]:
    common = {"plan_id": plan, "mode": mode, "bundle": HOT, "expires_at": FIRST + timedelta(days=1), "from_broker": A}
    return [
        {**common, "command_id": f"{plan}: split", "step": 1, "kind": "split"},
        {**common, "command_id": f"{plan}: unload", "step": 2, "kind": "unload", "destination": B},
    ]


def _outcome(chance: random.Random, command_id: str, at: Any) -> Row:
    seen_at = at + timedelta(seconds=chance.randint(1, 4))
    return {"command_id": command_id, "outcome": chance.choice(_OUTCOMES), "seen_at": seen_at, "detail": "so it was"}
