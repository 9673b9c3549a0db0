"""The planner's moves that are due, as rows of `unload_decisions`."""

from __future__ import annotations

from typing import Any

from evenkeel.planner.round import TARGETS
from evenkeel.rounds.reading import Row, Rows

_OWN_COLUMNS = frozenset({"destination", "position", "gain", "cost", "needs_split", "basis"})
"""What `planner_targets` has beside the columns of a reason."""


def planned_unloads(rows: Rows) -> list[dict[str, Any]]:
    """Each move that is due, its destination the best alternative, in the order of the plan; and how the cluster
    stands."""
    found = [row for row in rows[TARGETS] if row["outcome"] == "unload" or row["subject_kind"] == "cluster"]
    return [
        {name: value for name, value in row.items() if name not in _OWN_COLUMNS}
        for row in sorted(found, key=lambda row: (row["position"] or 0, row["subject"]))
    ]


def planned_places(rows: Rows) -> dict[str, Row]:
    """Bundle without owner -> its row of the planner's targets."""
    return {row["subject"]: row for row in rows.get(TARGETS, ()) if row["outcome"] == "placed"}
