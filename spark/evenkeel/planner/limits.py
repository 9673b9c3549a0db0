"""Limits on the moves of one cycle: the guards' budgets and rules, as far as the planner keeps them itself.

Keys: evenkeelGuardsEnabled, evenkeelMaxUnloadsPerCycle, evenkeelMaxUnloadsFromBroker, evenkeelMaxUnloadsToBroker,
evenkeelMaxMovedTrafficPercent. The guards still check every command. They never hold back a command of the planner.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from evenkeel.planner.view import Spent
from evenkeel.settings import Settings

_ALL = 100.0
_ROUNDING = 1e-9
FROM_BROKER = "evenkeelMaxUnloadsFromBroker"
TO_BROKER = "evenkeelMaxUnloadsToBroker"
PER_CYCLE = "evenkeelMaxUnloadsPerCycle"
MOVED_TRAFFIC = "evenkeelMaxMovedTrafficPercent"


class CycleBudget:
    """The unused budgets of a cycle. `traffic`: of all bundles of the cluster, byte/s in and out."""

    def __init__(self, spent: Spent, traffic: float, settings: Settings) -> None:
        self._settings, self._cluster = settings, traffic
        self._is_bound = settings.evenkeelGuardsEnabled
        self._unloads, self._moved = spent.unloads, spent.traffic
        self._from, self._to = Counter(spent.from_broker), Counter(spent.to_broker)
        self._anywhere = spent.anywhere

    def full(self, moves: Sequence[tuple[str, str, float]]) -> str:
        """The key of the first budget that has no room for moves (source, destination, byte/s) that go together; ""
        where they fit into all of them."""
        if not self._is_bound:
            return ""
        settings = self._settings
        gives, gets = Counter(source for source, _, _ in moves), Counter(target for _, target, _ in moves)
        counts = [(PER_CYCLE, settings.evenkeelMaxUnloadsPerCycle, self._unloads + len(moves))]
        counts += [(FROM_BROKER, settings.evenkeelMaxUnloadsFromBroker, self._from[b] + n) for b, n in gives.items()]
        counts += [
            (TO_BROKER, settings.evenkeelMaxUnloadsToBroker, self._to[b] + self._anywhere + n) for b, n in gets.items()
        ]
        for key, most, used in counts:
            if 0 <= most < used:
                return key
        moved = self._moved + sum(traffic for _, _, traffic in moves)
        return MOVED_TRAFFIC if self._share(moved) > self._most_traffic else ""

    def left_from(self, broker: str) -> float:
        """Return how many more bundles may leave the broker; infinite without a limit."""
        most = self._settings.evenkeelMaxUnloadsFromBroker
        return most - self._from[broker] if self._is_bound and most >= 0 else math.inf

    def beyond(self, moves: Sequence[tuple[str, str, float]]) -> tuple[str, float]:
        """Return the budget that moves which go together exceed even in an otherwise empty cycle, and what they need of
        it.

        The need is a count, or percent of the traffic. ("", 0) if there is no such budget, or if it is 0 and nothing
        may move.
        """
        empty = CycleBudget(Spent(), self._cluster, self._settings)
        key = empty.full(moves)
        if not key or not getattr(self._settings, key):
            return "", 0.0
        counts = {
            PER_CYCLE: len(moves),
            FROM_BROKER: max(Counter(source for source, _, _ in moves).values()),
            TO_BROKER: max(Counter(target for _, target, _ in moves).values()),
        }
        return key, counts.get(key, empty._share(sum(traffic for _, _, traffic in moves)))

    def may_go_alone(self) -> bool:
        """Return True if a move that by itself exceeds the traffic budget may go, alone in its cycle."""
        return self._unloads == 0 and self._settings.evenkeelMaxMovedTrafficPercent > 0

    def take(self, source: str, destination: str, traffic: float) -> None:
        """Count the move."""
        self._unloads += 1
        self._moved += traffic
        self._from[source] += 1
        self._to[destination] += 1

    @property
    def _most_traffic(self) -> float:
        most = self._settings.evenkeelMaxMovedTrafficPercent
        return most * (1.0 - _ROUNDING) if most < _ALL else math.inf

    def _share(self, traffic: float) -> float:
        return 100.0 * traffic / self._cluster if self._cluster > 0 else 0.0
