"""Wishes on record, with the cycle that took each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenkeel.audit.read import read_attempts, read_table


def read_wishes(lake: str | Path, *, cluster: str | None = None) -> list[dict[str, Any]]:
    """Each wish once, oldest first, with `taken_at`: the cycle that took it, None while it waits."""
    taken = {
        wish_id: attempt.cycle_at
        for attempt in read_attempts(lake, cluster=cluster)
        if attempt.decided and attempt.kind != "backfill"
        for wish_id in attempt.planned["wishes"]
    }
    rows = {row["wish_id"]: row for row in read_table(lake, "wishes", cluster=cluster)}
    wishes = [{**row, "taken_at": taken.get(wish_id)} for wish_id, row in rows.items()]
    return sorted(wishes, key=lambda wish: (wish["made_at"], wish["wish_id"]))
