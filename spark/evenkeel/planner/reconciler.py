"""Steps of one cycle from the current placement towards the desired one, within the cycle's budgets.

Keys: the weights of costs, evenkeelGuardsEnabled, evenkeelMaxUnloadsPerCycle, evenkeelMaxUnloadsFromBroker,
evenkeelMaxUnloadsToBroker, evenkeelMaxMovedTrafficPercent. Moves that mend a breach of a rule come first, then those of
the fullest broker, and of these the ones that take most off it. Moves over a budget wait. The guards still check every
command. They never hold back a command of the planner.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.placement_search import DesiredMove
from evenkeel.planner.view import PlannerView, Spent
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
        """The key of the first budget without room for moves (source, destination, byte/s) together; "" without one."""
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


NO_ROOM_YET, SPLIT_NOW = "no_room_yet", "split_now"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A bundle that is to move; `source` is None if it has no owner and is placed.

    `gain`: usage (fraction) that it takes off its broker. `cost`: see the weights. `loads`: by resource that counts.
    `bound`: the reason why it cannot move now, "" if it is due.
    """

    bundle: str
    source: str | None
    destination: str
    gain: float
    cost: float
    loads: tuple[float, ...]
    bound: str = ""


@dataclass(frozen=True, slots=True)
class BeyondBudget:
    """Moves that go together, and never do: they need `needed` of the budget `key`, more than all of it. `source`: the
    broker of the first of the `bundles`."""

    bundles: tuple[str, ...]
    source: str
    key: str
    needed: float


def loads_after(
    steps: Iterable[PlannedStep], figures: PlannerFigures, *, only_due: bool = False
) -> dict[str, dict[str, float]]:
    """Broker -> resource -> load with the steps taken."""
    loads = {broker: {r: figures.loads[r][broker] for r in figures.resources} for broker in figures.usage}
    for step in steps:
        if only_due and step.bound:
            continue
        for n, r in enumerate(figures.resources):
            if step.source in loads:
                loads[step.source][r] -= step.loads[n]
            loads[step.destination][r] += step.loads[n]
    return loads


class Reconciler:
    """The steps of one cycle."""

    def __init__(self, view: PlannerView, figures: PlannerFigures, settings: Settings) -> None:
        self._view, self._figures = view, figures
        self._bundles = {bundle.name: bundle for bundle in view.bundles}
        self._loads = {broker: [figures.loads[r][broker] for r in figures.resources] for broker in view.brokers}
        every = view.bundles
        weights = (
            (settings.evenkeelPlannerSessionsWeight, math.fsum(bundle.sessions for bundle in every)),
            (settings.evenkeelPlannerTopicsWeight, math.fsum(bundle.topics for bundle in every)),
            (settings.evenkeelPlannerTrafficWeight, math.fsum(bundle.figures.traffic for bundle in every)),
        )
        whole = math.fsum(weight for weight, _ in weights)
        self._per_unit = [weight / whole / total if whole > 0 and total > 0 else 0.0 for weight, total in weights]
        self._budget = CycleBudget(view.spent, view.traffic, settings)
        self._groups: set[str] = set()

    def run(self, moves: Sequence[DesiredMove], bound: str) -> list[PlannedStep]:
        """Return the steps of these moves, those due first; `bound`: the reason that holds all, "" without one."""
        placed = [self._step(move, "") for move in moves if move.source is None and not self._bundles[move.bundle].part]
        for move in moves:
            if move.source is None:
                self._carry(move)
        units = self._units([move for move in moves if move.source is not None])
        if bound:
            return placed + [self._step(move, bound) for unit in units for move in unit]
        due: list[PlannedStep] = []
        waiting: list[PlannedStep] = []
        left = self._in_order(units)
        while left:
            no_room: list[tuple[DesiredMove, ...]] = []
            before = len(due)
            for unit in left:
                why = self._why_not(unit)
                if why == MOVED_TRAFFIC and len(unit) == 1 and not due and self._budget.may_go_alone():
                    why = ""
                if why == NO_ROOM_YET:
                    no_room.append(unit)
                elif why:
                    waiting += [self._step(move, why) for move in unit]
                else:
                    due += [self._step(move, "") for move in unit]
                    for move in unit:
                        self._take(move)
            # Moves that left may have made room.
            left = no_room if len(due) > before else []
            waiting += [] if left else [self._step(move, NO_ROOM_YET) for unit in no_room for move in unit]
        return placed + due + waiting

    def beyond(self, moves: Sequence[DesiredMove]) -> list[BeyondBudget]:
        """Moves that go together and for which no cycle has the budget; one that goes alone may exceed its traffic."""
        units = []
        for unit in self._units([move for move in moves if move.unit and move.source is not None]):
            key, needed = self._budget.beyond(self._of_budget(unit))
            if key:
                bundles = tuple(move.bundle for move in unit)
                units.append(BeyondBudget(bundles, unit[0].source or "", key, needed))
        return units

    def _of_budget(self, unit: Sequence[DesiredMove]) -> list[tuple[str, str, float]]:
        """The moves as budgets count them."""
        return [(move.source or "", move.destination, self._bundles[move.bundle].figures.traffic) for move in unit]

    def _units(self, moves: Sequence[DesiredMove]) -> list[tuple[DesiredMove, ...]]:
        """Moves that go together, and those that go alone, in the order of their first."""
        units: dict[tuple[int, str], list[DesiredMove]] = {}
        for move in moves:
            units.setdefault((move.unit, "" if move.unit else move.bundle), []).append(move)
        return [tuple(unit) for unit in units.values()]

    def _in_order(self, units: Sequence[tuple[DesiredMove, ...]]) -> list[tuple[DesiredMove, ...]]:
        """Units that mend a breach, by name, then those of the broker that is fullest after the earlier ones."""
        order: list[tuple[bool, float, str, tuple[DesiredMove, ...]]] = []
        left: dict[str, float] = {}
        for gain, bundle, unit in sorted(((-self._gain(u[0]), u[0].bundle, u) for u in units), key=lambda one: one[:2]):
            source = unit[0].source or ""
            before = left.setdefault(source, self._usage(source))
            left[source] = before + gain
            is_breach = self._bundles[bundle].breach is not None
            order.append((not is_breach, 0.0 if is_breach else -before, bundle, unit))
        return [unit for *_, unit in sorted(order, key=lambda one: one[:-1])]

    def _why_not(self, unit: tuple[DesiredMove, ...]) -> str:
        """Return the reason why moves cannot go now, "" without one."""
        for move in unit:
            ends = [self._view.brokers.get(broker or "") for broker in (move.source, move.destination)]
            if any(broker is not None and not broker.is_settled for broker in ends):
                return "settling"
            if self._bundles[move.bundle].part:
                return SPLIT_NOW
            group = self._bundles[move.bundle].group
            if group is not None and group in self._groups:
                return "group_moves_once"
        if len(unit) == 1 and not self._bundles[unit[0].bundle].breach:
            place = unit[0].destination
            if self._usage(place, unit[0]) > self._figures.levels[place].act:
                return NO_ROOM_YET
        return self._budget.full(self._of_budget(unit))

    def _take(self, move: DesiredMove) -> None:
        one = self._bundles[move.bundle]
        if one.group is not None:
            self._groups.add(one.group)
        self._budget.take(move.source or "", move.destination, one.figures.traffic)
        self._carry(move)

    def _carry(self, move: DesiredMove) -> None:
        for n, load in enumerate(self._load(move)):
            if move.source in self._loads:
                self._loads[move.source][n] -= load
            self._loads[move.destination][n] += load

    def _load(self, move: DesiredMove) -> list[float]:
        return [self._figures.load(self._bundles[move.bundle], r) for r in self._figures.resources]

    def _usage(self, broker: str, given: DesiredMove | None = None) -> float:
        """Return the usage of a broker after the steps so far, and one more bundle if given; 1 for an emptied one."""
        if broker not in self._loads:
            return 1.0
        more = self._load(given) if given is not None else [0.0] * len(self._figures.resources)
        return max(
            self._figures.models[r][broker].line.usage(self._loads[broker][n] + more[n])
            for n, r in enumerate(self._figures.resources)
        )

    def _gain(self, move: DesiredMove) -> float:
        """Return the gain of a move for the giving broker at its current usage."""
        figures, source = self._figures, move.source
        if source is None or source not in figures.usage:
            return 0.0
        load = self._load(move)
        left = max(
            figures.models[r][source].line.usage(figures.loads[r][source] - load[n])
            for n, r in enumerate(figures.resources)
        )
        return max(0.0, figures.usage[source] - left)

    def _cost(self, move: DesiredMove) -> float:
        one = self._bundles[move.bundle]
        return math.fsum(
            part * amount
            for part, amount in zip(self._per_unit, (one.sessions, one.topics, one.figures.traffic), strict=True)
        )

    def _step(self, move: DesiredMove, bound: str) -> PlannedStep:
        gain, cost, loads = self._gain(move), self._cost(move), tuple(self._load(move))
        return PlannedStep(move.bundle, move.source, move.destination, gain, cost, loads, bound)
