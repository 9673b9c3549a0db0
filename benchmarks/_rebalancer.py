"""A plan of Meta's Rebalancer for an instance of `one_plan`, in an interpreter that has it (`rebalancer`, Python 3.12).

`PYTHON _rebalancer.py INSTANCE GOAL SECONDS` reads a JSON object (`owners`: the number of each bundle's broker,
`loads`, `brokers`: how many, `bound`: the most load of a broker) and prints one: `moves`, [bundle, broker] each, and
`cpu`, seconds of processor time. It imports nothing of this repository.

Goals: `capacity` has the bound as a constraint and asks for the fewest moves; `moves` and `load` ask first for the
least load above the bound, and then for the fewest moves or the least moved load. Local search by its most thorough
single moves, or by its fast ones from 20,000 bundles on, where it would not end in time otherwise.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

MANY_BUNDLES = 20_000
LINEAR = 1
"""Of the balance goal: the sum of what stands above the bound."""


def main(instance: str, goal: str, seconds: str) -> None:
    """Prints the plan."""
    from rebalancer import ProblemSolver  # type: ignore[import-not-found,unused-ignore]

    given: dict[str, Any] = json.loads(Path(instance).read_text(encoding="utf-8"))
    owners, loads, bound = given["owners"], given["loads"], given["bound"]
    names = [f"n{n}" for n in range(len(loads))]
    carried: dict[str, list[str]] = {str(broker): [] for broker in range(given["brokers"])}
    for name, owner in zip(names, owners, strict=True):
        carried[str(owner)].append(name)
    began = time.process_time()
    solver = ProblemSolver(service_name="rebalancer", service_scope="one_plan")
    solver.set_object_name("bundle").set_container_name("broker").set_assignment(carried)
    solver.add_object_dimension("load", dict(zip(names, loads, strict=True)))
    solver.add_container_dimension("load", {}, default_value=bound)
    if goal == "capacity":
        solver.add_constraint({"capacitySpec": {"name": "bound", "scope": "broker", "dimension": "load"}})
    else:
        mean = sum(loads) / given["brokers"]
        balance = {"name": "balance", "scope": "broker", "dimension": "load", "upperBound": bound / mean}
        solver.add_goal({"balanceSpec": {**balance, "formula": LINEAR}}, 1.0, 0)
    dimension = "load" if goal == "load" else "bundle_count"
    movement = {"name": "movement", "scope": "broker", "dimension": dimension}
    solver.add_goal({"minimizeMovementSpec": movement}, 1.0, 1)
    move = "singleFastMoveTypeSpec" if len(loads) > MANY_BUNDLES else "singleMoveTypeSpec"
    solver.add_solver({"localSearchSolverSpec": {"moveTypeList": [{move: {}}], "solveTime": int(seconds)}})
    found = solver.disable_solution_summary().solve()["assignment"]
    took = time.process_time() - began
    moves = [(n, int(found[name])) for n, name in enumerate(names) if int(found[name]) != owners[n]]
    print(json.dumps({"moves": moves, "cpu": took}))


if __name__ == "__main__":
    main(*sys.argv[1:])
