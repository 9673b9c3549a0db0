"""Figures of a soak, a line per cycle in a file that later runs continue, and a check of their growth.

Growth is the slope of a straight line over the numbers of the cycles, with one slope for the whole soak and a separate
height for each stretch. A stretch begins with each restart of the Spark server, and with each upkeep, for which the
server takes memory that it gives back slowly. The first cycles of a stretch are left out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

WARM_UP = 25
"""So many cycles of each stretch are left out: caches fill, code is compiled."""
MOST_PERCENT = 2.0
"""A figure that surely grows by more of its mean in a hundred cycles is a fault."""
_NORMAL_95 = 1.96
_LEAST = 10


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle of a soak.

    `number` counts from 1 over all runs; `part` rises with every start of the Spark server. `seconds`: from the trigger
    to the end of the run; `state`: the run's, or its attempt's if there is no plan. `killed`: the task that was killed
    in it, "" for none; `upkeep`: the state of the upkeep that followed, "" for none. `server_mb` and `airflow_mb`:
    memory after it (each shared page counts by its share). `lake_bytes`: all files of the lake, 0 if not counted.
    """

    number: int
    part: int
    at: str
    seconds: float
    state: str
    killed: str
    upkeep: str
    server_mb: float
    airflow_mb: float
    lake_bytes: int


def read_cycles(file: Path) -> list[Cycle]:
    """The cycles so far; a line that a kill has cut is left out."""
    cycles = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            cycles.append(Cycle(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return cycles


def add_cycle(file: Path, cycle: Cycle) -> None:
    """Append a line and flush it to disk."""
    cut = file.exists() and not file.read_bytes().endswith(b"\n")
    with file.open("a", encoding="utf-8") as out:
        out.write(("\n" if cut else "") + json.dumps(asdict(cycle)) + "\n")
        out.flush()
        os.fsync(out.fileno())


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a figure: its mean, its growth in a hundred cycles in percent of that, and the error of that (95 %).

    Over so many `cycles`.
    """

    mean: float
    percent: float
    off: float
    cycles: int

    @property
    def surely_grows(self) -> bool:
        """Return True if it grows by more than `MOST_PERCENT`, whatever chance has done."""
        return self.percent - self.off > MOST_PERCENT

    def __str__(self) -> str:
        return f"{self.mean:,.1f}, {self.percent:+.2f} ± {self.off:.2f} % in a hundred cycles ({self.cycles} cycles)"


def growth(cycles: Sequence[Cycle], figure: Callable[[Cycle], float]) -> Growth | None:
    """Return the growth of a figure of undisturbed cycles; None if there are too few of them."""
    stretches = [
        [(cycle.number, figure(cycle)) for cycle in stretch[WARM_UP:] if not cycle.killed and cycle.state == "success"]
        for stretch in _stretches(cycles)
    ]
    stretches = [pairs for pairs in stretches if len(pairs) >= _LEAST]
    values = [value for pairs in stretches for _, value in pairs]
    if not values or (mean := math.fsum(values) / len(values)) <= 0.0:
        return None
    centred = [pair for pairs in stretches for pair in _centred(pairs)]
    spread = math.fsum(x * x for x, _ in centred)
    slope = math.fsum(x * y for x, y in centred) / spread
    freedom = len(centred) - len(stretches) - 1
    variance = math.fsum((y - slope * x) ** 2 for x, y in centred) / freedom
    percent = 100.0 * 100.0 / mean
    return Growth(mean, percent * slope, percent * _NORMAL_95 * math.sqrt(variance / spread), len(values))


def _stretches(cycles: Sequence[Cycle]) -> list[list[Cycle]]:
    parts: list[list[Cycle]] = []
    part = None
    for cycle in cycles:
        if cycle.part != part or cycle.upkeep:
            parts.append([])
        part = cycle.part
        parts[-1].append(cycle)
    return parts


def _centred(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    x, y = (math.fsum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1))
    return [(first - x, other - y) for first, other in pairs]


FIGURES: tuple[tuple[str, Callable[[Cycle], float]], ...] = (
    ("seconds of a cycle", lambda cycle: cycle.seconds),
    ("MB of the Spark server", lambda cycle: cycle.server_mb),
    ("MB of Airflow", lambda cycle: cycle.airflow_mb),
)


def faults(cycles: Sequence[Cycle]) -> list[str]:
    """Return the faults, a sentence each."""
    texts = [
        f"cycle {cycle.number} ended as {cycle.state}" + (f" ({cycle.killed} was killed in it)" if cycle.killed else "")
        for cycle in cycles
        if cycle.state != "success"
    ]
    texts += [
        f"the upkeep after cycle {late.number} ended as {late.upkeep}" for late in cycles if late.upkeep not in _FINE
    ]
    for name, figure in FIGURES:
        grown = growth(cycles, figure)
        if grown is not None and grown.surely_grows:
            texts.append(f"{name} grow: {grown}")
    return texts


_FINE = ("", "success")


def summary(cycles: Sequence[Cycle]) -> list[str]:
    """The soak in lines."""
    killed = sum(bool(cycle.killed) for cycle in cycles)
    kept = sum(bool(cycle.upkeep) for cycle in cycles)
    parts = len({cycle.part for cycle in cycles})
    lines = [f"{len(cycles):,} cycles, {killed} with a task killed, {parts} starts of the Spark server, {kept} upkeeps"]
    for name, figure in FIGURES:
        grown = growth(cycles, figure)
        most = f", at most {max(map(figure, cycles)):,.1f}" if cycles else ""
        lines.append(f"{name}: {grown if grown is not None else 'too few cycles to say'}{most}")
    sized = [cycle for cycle in cycles if cycle.lake_bytes]
    if sized:
        lines.append(f"the lake after cycle {sized[-1].number:,}: {sized[-1].lake_bytes / 1e6:,.1f} MB")
    return lines
