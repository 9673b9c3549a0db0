"""All placements of a few bundles, one after the other, for plans that a greedy search may miss."""

from __future__ import annotations

from collections.abc import Sequence

MOST_BUNDLES, MOST_STEPS = 16, 20_000
"""More bundles than that are not tried; and after so many steps the best placement so far counts."""


def least_moved(
    loads: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    owners: Sequence[int],
    room: Sequence[Sequence[int]],
) -> list[int] | None:
    """The broker of each bundle, such that no broker has more than its room, and least load moves; None without any.

    `loads`: of each bundle by resource. `places`: the brokers that may own it. `owners`: which one does, or none of
    them. `room`: of each broker by resource, for these bundles. Of placements that move as much the first counts:
    bundles in their order, the owner before others, those in their order.
    """
    if len(loads) > MOST_BUNDLES:
        return None
    search = _Placements(loads, places, owners, room)
    search.place(0, 0)
    return search.best


class _Placements:
    def __init__(
        self,
        loads: Sequence[Sequence[int]],
        places: Sequence[Sequence[int]],
        owners: Sequence[int],
        room: Sequence[Sequence[int]],
    ) -> None:
        self._loads, self._owners, self._left = loads, owners, [[*broker_room] for broker_room in room]
        self._places = [
            sorted(broker_room, key=lambda b: b != owner) for broker_room, owner in zip(places, owners, strict=True)
        ]
        self._steps, self._least = MOST_STEPS, -1
        self._placed: list[int] = []
        self.best: list[int] | None = None

    def place(self, n: int, moved: int) -> None:
        """Try every place of bundle `n` and those after it; `moved`: the load that moves for those before."""
        if self._steps == 0 or 0 <= self._least <= moved:
            return
        if n == len(self._loads):
            self.best, self._least = [*self._placed], moved
            return
        for broker in self._places[n]:
            left = [room - load for room, load in zip(self._left[broker], self._loads[n], strict=True)]
            if min(left) < 0 or self._steps == 0:
                continue
            self._steps -= 1
            before, self._left[broker] = self._left[broker], left
            self._placed.append(broker)
            self.place(n + 1, moved + (max(self._loads[n]) if broker != self._owners[n] else 0))
            self._placed.pop()
            self._left[broker] = before
