"""Results of the demo, in lines for people: read from the lake, not from memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devtools.demo.course import Leg
from evenkeel.lake.record import Attempt, find_cycles, read_cycles, read_rows
from evenkeel.report.compare import RoundVerdict, compare, read_rounds
from evenkeel.report.gather import comparable

COUNTED = ("splits", "unloads", "placements", "refusals")


def outcome(lake: str | Path, leg: Leg) -> str:
    """Return one cycle's outcome in a few words."""
    return describe(find_cycles(lake, cluster=leg.cluster, cycle=leg.at)[0])


def describe(attempt: Attempt) -> str:
    """Return an attempt in a few words: its decisions, or why it has none."""
    if not attempt.decided:
        return f"{attempt.status}: {attempt.reason}"
    counts = [_count(int(attempt.planned[name] or 0), name) for name in COUNTED if attempt.planned[name]]
    return ", ".join(counts) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Totals:
    """The cycles that count, and the sums of their decisions."""

    cycles: int
    splits: int
    unloads: int
    placements: int
    refusals: int


def totals(lake: str | Path) -> Totals:
    """Sums over the attempts that readers take."""
    attempts = read_cycles(lake)
    sums = [sum(int(attempt.planned[name] or 0) for attempt in attempts) for name in COUNTED]
    return Totals(len(attempts), *sums)


def decision_lines(lake: str | Path) -> list[str]:
    """Return a line for each cycle and kind of decision: the sentence of the first one, and the number of others."""
    lines = []
    for attempt in read_cycles(lake):
        for table, outcome in (("split_decisions", "split"), ("placement_decisions", "placed")):
            rows = read_rows(lake, attempt, table) if attempt.decided else []
            sentences = [str(row["sentence"]) for row in rows if row["outcome"] == outcome]
            if sentences:
                more = f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else ""
                lines.append(f"{attempt.cluster} {attempt.cycle_at:%H:%M:%S}: {sentences[0]}{more}")
    return lines


def comparison_lines(lake: str | Path, cluster: str, recording: Path) -> list[str]:
    """Return each round of Pulsar's own shedder beside the nearest cycle: Pulsar's acts, and Evenkeel's differences."""
    rounds = read_rounds(recording)
    if rounds is None:
        return []
    attempts = [attempt for attempt in read_cycles(lake, cluster=cluster) if attempt.decided]
    verdicts = compare(recording.name, rounds, comparable(lake, attempts, rounds)).verdicts
    return [_verdict(verdict) for verdict in verdicts if verdict.cycle is not None]


def _verdict(verdict: RoundVerdict) -> str:
    moves = ", ".join(f"{move.bundle} from {move.source} to {move.destination}" for move in verdict.round.moves)
    judged = "Evenkeel decided the same." if verdict.agrees else "Evenkeel decided otherwise."
    return f"{verdict.round.at:%H:%M:%S}: Pulsar's {verdict.round.shedder} moved {moves}. {judged} " + " ".join(
        verdict.sentences
    )


def _count(number: int, name: str) -> str:
    return f"{number} {name if number != 1 else name.removesuffix('s')}"


def bullet(lines: Iterable[str]) -> list[str]:
    """The lines as items of an indented list."""
    return [f"  - {line}" for line in lines]
