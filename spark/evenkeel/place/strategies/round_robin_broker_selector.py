"""Placement on brokers in turns (Pulsar: RoundRobinBrokerSelector), always used for shedding-excluded namespaces.

The turns run over a remembered list of candidates. The list is replaced only if the number of candidates has changed,
or if the next broker is not a candidate any more. So it may be out of date for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.place.strategy import (
    UNFILTERED,
    Asked,
    BrokerFigures,
    Choice,
    PlacementState,
    PlacementStrategy,
    StrategyRound,
    placement_rule,
)
from evenkeel.settings import Settings

TURN = "turn"
PLACE_IN_TURNS = "place_in_turns"
EXCLUDED = "excluded_"
"""Prefix of the state of the turns for namespaces that are excluded from shedding."""
THE_CLUSTER = "cluster"
_MOST = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Turn:
    """The number of placements made in turns, and the candidates that the turns run over."""

    count: int = 0
    remembered: tuple[str, ...] = ()


FIRST_TURN = Turn()


def select(candidates: Iterable[str], turn: Turn) -> tuple[str | None, Turn]:
    """Return the next candidate (None without any), and the turn after it. New lists are in name order."""
    ordered = tuple(sorted(candidates))
    if not ordered:
        return None, turn
    index = turn.count % len(ordered)
    stale = len(turn.remembered) != len(ordered) or turn.remembered[index] not in ordered
    remembered = ordered if stale else turn.remembered
    return remembered[index], Turn(0 if turn.count == _MOST else turn.count + 1, remembered)


def turn_of(state: PlacementState, prefix: str = "") -> Turn:
    """Return the turn that `state_of` wrote under names with that prefix; the first one without any."""
    count = state.get(prefix + TURN, {}).get(THE_CLUSTER, 0)
    places = state.get(prefix + PLACE_IN_TURNS, {})
    return Turn(int(count), tuple(sorted(places, key=places.__getitem__)))


def state_of(turn: Turn, prefix: str = "") -> PlacementState:
    """The turn as figures: the count under "cluster", and each remembered broker's place; none before the first."""
    if turn == FIRST_TURN:
        return {}
    places = {broker: float(place) for place, broker in enumerate(turn.remembered)}
    return {prefix + TURN: {THE_CLUSTER: float(turn.count)}, prefix + PLACE_IN_TURNS: places}


class RoundRobinBrokerSelector(StrategyRound):
    """The strategy in one round. `prefix`: the beginning of names in its state, which separates turns of two kinds."""

    def __init__(
        self, figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings, *, prefix: str = ""
    ) -> None:
        self._prefix = prefix
        self._turn = turn_of(state, prefix)

    def choose(self, asked: Asked, candidates: tuple[str, ...]) -> Choice:
        """Choose a broker (see `StrategyRound`)."""
        taken, self._turn = select(candidates, self._turn)
        return Choice(candidates, (taken,) if taken else (), (), IN_TURNS, "not_its_turn")

    @property
    def state(self) -> PlacementState:
        """Return the state (see `StrategyRound`)."""
        return {name: values for name, values in state_of(self._turn, self._prefix).items() if values}


IN_TURNS = placement_rule("in_turns", "it is its turn among {others}{filters}", UNFILTERED + "it is its turn")

STRATEGY = PlacementStrategy(
    "RoundRobinBrokerSelector",
    RoundRobinBrokerSelector,
    keys=(),
    rules=(IN_TURNS,),
    remembers=(TURN, PLACE_IN_TURNS, EXCLUDED + TURN, EXCLUDED + PLACE_IN_TURNS),
)
