"""Each round by the rules of the load manager that decides: the operator's word, else the one that the brokers run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenkeel.place import round as extensible_place_round
from evenkeel.place import round as place_round
from evenkeel.plan_splits import round as extensible_split_round
from evenkeel.plan_splits import round as split_round
from evenkeel.rounds import reading
from evenkeel.rounds.reading import Row, Rows
from evenkeel.shed import round as extensible_shed_round
from evenkeel.shed import round as shed_round

EXTENSIBLE = "extensible"
Decided = dict[str, list[dict[str, Any]]]
Round = Callable[[Row, Rows], Decided]


def split(key: Row, rows: Rows) -> Decided:
    """Rows of `split_decisions` and, under the extensible manager, of `strategy_state`."""
    return {
        "strategy_state": [],
        **_by_manager(rows, split_round.decide_modular, extensible_split_round.decide_extensible)(key, rows),
    }


def choose_to_split(key: Row, rows: Rows) -> Decided:
    """Rows of `chosen`: the bundles whose topics have to be looked at."""
    return _by_manager(rows, split_round.choose_modular, extensible_split_round.choose_extensible)(key, rows)


def shed(key: Row, rows: Rows) -> Decided:
    """Rows of `unload_decisions` and `strategy_state`."""
    return _by_manager(rows, shed_round.decide_modular, extensible_shed_round.decide_extensible)(key, rows)


def place(key: Row, rows: Rows) -> Decided:
    """Rows of `placement_decisions` and `strategy_state`."""
    return _by_manager(rows, place_round.decide_modular, extensible_place_round.decide_extensible)(key, rows)


def _by_manager(rows: Rows, modular: Round, extensible: Round) -> Round:
    return extensible if reading.the_cycle(rows)["manager"] == EXTENSIBLE else modular
