"""Wishes on record, with the cycle that took each of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.record.read import Attempt, Record, read_table
from evenkeel.record.read.record import FIRST_MOMENT, LAST_MOMENT
from evenkeel.record.read.tables import is_in

_WHO_TOOK = ("cluster", "cycle_at", "attempt_id", "attempt", "sequence", "row_kind", "kind", "status", "wishes")


def read_wishes(lake: str | Path, *, cluster: str | None = None) -> list[dict[str, Any]]:
    """Each wish once, oldest first, with `taken_at`: the cycle that took it, None while it waits."""
    rows = {row["wish_id"]: row for row in read_table(lake, "wishes", cluster=cluster)}
    record = Record(lake)
    taken: dict[str, datetime] = {
        wish_id: attempt.cycle_at
        for name in sorted({row["cluster"] for row in rows.values()} & {*record.clusters()})
        for attempt in _takers(record, name)
        if attempt.decided and attempt.kind != "backfill"
        for wish_id in attempt.planned["wishes"]
    }
    wishes = [{**row, "taken_at": taken.get(wish_id)} for wish_id, row in rows.items()]
    return sorted(wishes, key=lambda wish: (wish["made_at"], wish["wish_id"]))


def _takers(record: Record, cluster: str) -> Iterator[Attempt]:
    """The attempts that took a wish: of a year's cycles a few."""
    import pyarrow.compute as pc

    some = pc.list_value_length(pc.field("wishes")) > 0
    moments = record.moments(cluster, some).to_pylist()
    if moments:
        span = (cluster, FIRST_MOMENT, LAST_MOMENT, _WHO_TOOK, is_in("cycle_at", moments))
        yield from record.attempts(*span)
