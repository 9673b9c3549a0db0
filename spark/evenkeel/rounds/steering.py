"""What was done and said about a cluster before this cycle, as a round reads it."""

from __future__ import annotations

import json
from typing import Any

from evenkeel.decisions.acts.act import Act, acts_of
from evenkeel.rounds.reading import Row


def acts_before(cycle: Row) -> tuple[Act, ...]:
    """The commands that went out before this cycle, or may have, with what was seen of them."""
    return acts_of(act_rows(cycle))


def act_rows(cycle: Row) -> list[dict[str, Any]]:
    """The same as rows, with times as text."""
    return list(_steering(cycle).get("acts", ()))


def pauses(cycle: Row) -> list[dict[str, Any]]:
    """Pauses of the cluster that held when the cycle began: who paused it (`by`) and why (`reason`)."""
    return list(_steering(cycle).get("pauses", ()))


def _steering(cycle: Row) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cycle.get("steering") or "{}")
    return found
