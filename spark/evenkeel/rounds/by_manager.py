"""Each round by the rules of the load manager that decides for the cluster: the operator's word, else what runs there."""

from __future__ import annotations

from typing import Any

from evenkeel.rounds import extensible_place_round, extensible_shed_round, place_round, reading, shed_round
from evenkeel.rounds.reading import Row, Rows

EXTENSIBLE = "extensible"
Decided = dict[str, list[dict[str, Any]]]


def shed(key: Row, rows: Rows) -> Decided:
    """Rows of `unload_decisions` and `strategy_state`."""
    return (extensible_shed_round if _is_extensible(rows) else shed_round).decide(key, rows)


def place(key: Row, rows: Rows) -> Decided:
    """Rows of `placement_decisions` and `strategy_state`."""
    return (extensible_place_round if _is_extensible(rows) else place_round).decide(key, rows)


def _is_extensible(rows: Rows) -> bool:
    return bool(reading.the_cycle(rows)["manager"] == EXTENSIBLE)
