"""Each round by the rules of the load manager that decides: the operator's word, else the one that the brokers run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenkeel.rounds import extensible_place_round, extensible_shed_round, place_round, reading, shed_round
from evenkeel.rounds.reading import Row, Rows

EXTENSIBLE = "extensible"
Decided = dict[str, list[dict[str, Any]]]
Round = Callable[[Row, Rows], Decided]


def shed(key: Row, rows: Rows) -> Decided:
    """Rows of `unload_decisions` and `strategy_state`."""
    return _by_manager(rows, shed_round.decide, extensible_shed_round.decide)(key, rows)


def place(key: Row, rows: Rows) -> Decided:
    """Rows of `placement_decisions` and `strategy_state`."""
    return _by_manager(rows, place_round.decide, extensible_place_round.decide)(key, rows)


def _by_manager(rows: Rows, modular: Round, extensible: Round) -> Round:
    return extensible if reading.the_cycle(rows)["manager"] == EXTENSIBLE else modular
