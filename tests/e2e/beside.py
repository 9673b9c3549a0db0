"""Two variants that evened out the same load: what each came to, side by side, and where the second is not as good."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

NOISE = 0.02
"""Two measurements of the same load differ by up to so much in max/mean."""
UNSENT = frozenset({"dry_run", "withheld"})


@dataclass(frozen=True, slots=True)
class PlayedCycle:
    """A cycle that may act. `max_over_mean` is measured before it, `moves` and `splits` are commands that were sent.

    `said`: what the strategy says of the cluster.
    """

    max_over_mean: float
    moves: int
    splits: int
    outcomes: Mapping[str, int] = field(default_factory=dict)
    said: str = ""

    @property
    def acted(self) -> bool:
        """Whether anything was sent."""
        return self.moves + self.splits > 0


@dataclass(frozen=True, slots=True)
class Played:
    """What a variant came to: its cycles, the evenness after them, and what the clients counted from the start on."""

    variant: str
    cycles: Sequence[PlayedCycle]
    max_over_mean: float
    producer_reconnects: int
    consumer_reconnects: int
    sent: int
    received: int
    lost: int
    failed: int
    duplicates: int
    longest_pause_seconds: float

    @property
    def at_first(self) -> float:
        """The busiest broker over the mean before anything moved."""
        return self.cycles[0].max_over_mean

    @property
    def acting_cycles(self) -> int:
        """Cycles that sent commands."""
        return sum(cycle.acted for cycle in self.cycles)

    @property
    def moves(self) -> int:
        """Unloads that were sent."""
        return sum(cycle.moves for cycle in self.cycles)

    @property
    def splits(self) -> int:
        """Splits that were sent."""
        return sum(cycle.splits for cycle in self.cycles)

    @property
    def reconnects(self) -> int:
        """Of producers and consumers together."""
        return self.producer_reconnects + self.consumer_reconnects

    def as_json(self) -> dict[str, Any]:
        """All fields, and the sums of the cycles."""
        sums = ("at_first", "acting_cycles", "moves", "splits", "reconnects")
        return asdict(self) | {name: getattr(self, name) for name in sums}


def sent_of(commands: Sequence[Mapping[str, Any]], outcomes: Mapping[str, str], kind: str) -> int:
    """How many commands of this kind went out."""
    return sum(row["kind"] == kind and outcomes.get(row["command_id"]) not in UNSENT for row in commands)


def table(variants: Sequence[Played]) -> list[str]:
    """Lines of Markdown: a column for each variant."""
    rows: list[tuple[str, list[str]]] = [
        ("max/mean at first", [f"{one.at_first:.2f}" for one in variants]),
        ("max/mean before each cycle", [_course(one) for one in variants]),
        ("max/mean at the end", [f"{one.max_over_mean:.2f}" for one in variants]),
        ("cycles that acted", [f"{one.acting_cycles} of {len(one.cycles)}" for one in variants]),
        ("moves, splits", [f"{one.moves}, {one.splits}" for one in variants]),
        (
            "reconnects (producers, consumers)",
            [f"{one.reconnects} ({one.producer_reconnects}, {one.consumer_reconnects})" for one in variants],
        ),
        ("messages sent", [f"{one.sent:,}" for one in variants]),
        ("messages received", [f"{one.received:,}" for one in variants]),
        ("lost, failed, repeated", [f"{one.lost}, {one.failed}, {one.duplicates}" for one in variants]),
        ("longest pause of a consumer", [f"{one.longest_pause_seconds:.1f} s" for one in variants]),
    ]
    head = ["", *(one.variant for one in variants)]
    return [_line(head), "|" + "---|" * len(head), *(_line([name, *cells]) for name, cells in rows)]


def _course(one: Played) -> str:
    return ", ".join(f"{cycle.max_over_mean:.2f}" for cycle in one.cycles)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def shortfalls(shedder: Played, planner: Played) -> list[str]:
    """What the planner is to be and is not; nothing where it meets the goal."""
    found = []
    if planner.max_over_mean > shedder.max_over_mean + NOISE:
        found.append(f"max/mean {planner.max_over_mean:.2f} at the end, {shedder.variant} {shedder.max_over_mean:.2f}")
    if planner.acting_cycles > shedder.acting_cycles:
        found.append(f"{planner.acting_cycles} cycles acted, {shedder.acting_cycles} of {shedder.variant}")
    if planner.reconnects >= shedder.reconnects:
        found.append(f"{planner.reconnects} reconnects are not fewer than {shedder.reconnects} of {shedder.variant}")
    if planner.lost or planner.failed or planner.sent != planner.received:
        found.append(
            f"of {planner.sent:,} messages {planner.received:,} were received, {planner.lost} were lost and "
            f"{planner.failed} failed"
        )
    return found


def write(path: Path, manager: str, variants: Sequence[Played]) -> None:
    """Keeps the results of a load manager as JSON."""
    path.write_text(json.dumps({"manager": manager, "variants": [one.as_json() for one in variants]}, indent=1) + "\n")
