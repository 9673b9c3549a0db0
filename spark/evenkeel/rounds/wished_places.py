"""Destinations of the bundles that a wish unloads, whichever load manager decides the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evenkeel.decisions.considered import Alternative, considered
from evenkeel.decisions.placement.pipeline import Placement
from evenkeel.rounds import wishes
from evenkeel.rounds.placement_rows import placement_row
from evenkeel.rounds.reading import Row, Rows

Place = Callable[[str, str], Placement]
"""Where a bundle would go that leaves its broker: (bundle, broker) -> placement."""


def is_wished(row: Row) -> bool:
    """Whether a row of `unload_decisions` is a wish that is carried out."""
    return bool(row["strategy"] == wishes.STRATEGY and row["outcome"] == "unload")


def wished_rows(rows: Rows, place: Place, freely: Place) -> list[dict[str, Any]]:
    """Rows of `placement_decisions`, by bundle: where the wish says, else where a look-up would find it.

    The bundle leaves its broker even if placement would choose the same one again: that is what was asked for.
    `freely` places without regard to anti-affinity groups.
    """
    made = []
    for row in sorted(filter(is_wished, rows["unload_decisions"]), key=lambda row: str(row["subject"])):
        named = next((one["name"] for one in row["alternatives"] if one["verdict"] == "best"), None)
        found, without = (_placed(row, named, rule) for rule in (place, freely))
        made.append(placement_row(found, wishes.STRATEGY, wishes.STRATEGY, without) | {"wish_id": row["wish_id"]})
    return made


def _placed(row: Row, destination: str | None, place: Place) -> Placement:
    if destination is None:
        found = place(row["subject"], row["broker"])
        if found.destination is None:
            return found
        return replace(found, considered=found.considered._replace(outcome="placed", rule="wish"))
    named = (Alternative(destination, "best", "wish_with_destination"),)
    verdict = considered(row["subject"], "bundle", row["broker"], "placed", "wish_with_destination", alternatives=named)
    return Placement(row["subject"], destination, (destination,), named, verdict)
