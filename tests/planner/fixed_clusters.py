"""Clusters of every kind that a number stands for, and the moves that the search comes to for each.

    python -m tests.planner.fixed_clusters

A change of the search that brings other moves is a change of behaviour. The command writes `fixed_clusters.json` again,
and its difference shows which moves come out otherwise.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

from evenkeel.planner.placement_search import DesiredPlacement, OwnedBundle
from evenkeel.planner.target import UsageLine
from evenkeel.planner.target_placement import desired_placement

EXPECTED = Path(__file__).with_suffix(".json")


def desired(number: int) -> DesiredPlacement:
    """The desired placement of one cluster: 2 to 12 brokers, one or two resources, and few or many bundles."""
    chance = Random(number)
    kinds, count = chance.choice([1, 1, 2]), chance.randint(2, 12)
    names = [f"b{n}" for n in range(1, count + 1)]
    curves = {name: tuple(_line(chance) for _ in range(kinds)) for name in names}
    owners = [*names[: chance.randint(1, count)] * chance.choice([1, 4]), *names]
    owners += chance.choice([[], [], [None, "gone"]])
    heavy = chance.choice([3, 10, 40])
    bundles = [
        OwnedBundle(
            f"n{n:02}",
            chance.choice(owners),
            tuple(float(chance.choice([chance.randint(1, heavy), heavy, chance.randint(0, 4)])) for _ in range(kinds)),
            frozenset(chance.sample(names, chance.randint(1, count)) if chance.random() < 0.3 else names),
            chance.random() < 0.1,
        )
        for n in range(chance.choice([5, 12, 30, 60, 150]))
    ]
    even = max(sum(bundle.loads[r] for bundle in bundles) for r in range(kinds)) / (100 * count)
    usage, slack = even * chance.choice([0.9, 1.02, 1.07, 1.2, 1.5]) + 0.03, chance.choice([0.0, 0.0, 0.02])
    idle = names[-1:] if chance.random() < 0.3 else []
    together = (lambda moves: len(moves) < 3) if chance.random() < 0.3 else None
    return desired_placement(curves, bundles, usage, slack, idle=idle, even=even, may_go_together=together)


def _line(chance: Random) -> UsageLine:
    return UsageLine(chance.choice([0.0, 0.0, 0.05]), chance.choice([0.01, 0.01, 0.01, 0.005, 0.02]))


def written(found: DesiredPlacement) -> dict[str, Any]:
    """A placement as it is on file; moves that go together have their number behind them."""
    moves = (
        f"{move.bundle} {move.source} {move.destination}" + (f" {move.unit}" if move.unit else "")
        for move in found.moves
    )
    return {"moves": ", ".join(moves), "over": " ".join(found.over), "nowhere": " ".join(found.nowhere)}


if __name__ == "__main__":
    known = json.loads(EXPECTED.read_text())
    lines = (f'"{number}": {json.dumps(written(desired(int(number))))}' for number in known)
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
