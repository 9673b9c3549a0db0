"""Each round by the rules of the load manager that decides: the operator's word, else the one that the brokers run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenkeel.rounds import (
    extensible_place_round,
    extensible_shed_round,
    extensible_split_round,
    place_round,
    reading,
    shed_round,
    split_round,
)
from evenkeel.rounds.reading import Row, Rows

EXTENSIBLE = "extensible"
Decided = dict[str, list[dict[str, Any]]]
Round = Callable[[Row, Rows], Decided]


def split(key: Row, rows: Rows) -> Decided:
    """Rows of `split_decisions` and, under the extensible manager, of `strategy_state`."""
    return {"strategy_state": [], **_by_manager(rows, split_round.decide, extensible_split_round.decide)(key, rows)}


def choose_to_split(key: Row, rows: Rows) -> Decided:
    """Rows of `chosen`: the bundles whose topics have to be looked at."""
    return _by_manager(rows, split_round.choose, extensible_split_round.choose)(key, rows)


def shed(key: Row, rows: Rows) -> Decided:
    """Rows of `unload_decisions` and `strategy_state`."""
    return _by_manager(rows, shed_round.decide, extensible_shed_round.decide)(key, rows)


def place(key: Row, rows: Rows) -> Decided:
    """Rows of `placement_decisions` and `strategy_state`."""
    return _by_manager(rows, place_round.decide, extensible_place_round.decide)(key, rows)


def _by_manager(rows: Rows, modular: Round, extensible: Round) -> Round:
    return extensible if reading.the_cycle(rows)["manager"] == EXTENSIBLE else modular
