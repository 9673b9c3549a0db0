"""What the shedders come to over recordings of real clusters, and how far the model of `simulate` is off there.

`python -m benchmarks replayed_recordings --recordings DIR [--lakes DIR] [NAME ...]`. DIR holds a folder of snapshots
for each recording; without names all are taken whose name begins with `own-` (a cluster that shed by itself, with its
brokers' logs) or `by-hand-` (commands given by hand). Each snapshot is decided as it came, all recordings side by side;
then the cycles are replayed by every shedder of their load manager. Prints the tables of
benchmarks/replayed-recordings.md.

The goal: with recorded settings every recorded plan comes out again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import description
from devtools.demo.summary import comparison_lines
from evenkeel.cli.options import session
from evenkeel.errors import NoLake
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import read_cycles
from evenkeel.pipeline import run_cycle
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.history import read_history
from evenkeel.replay.open_loop import OpenLoop, replay
from evenkeel.replay.recorded_traffic import Error, error_of, read_seen
from evenkeel.replay.variants import AGAIN, RECORDED, variants_of
from evenkeel.report.compare import read_rounds
from evenkeel.settings.keys.balancing import SHEDDERS_OF
from evenkeel.sources.recordings import Recording

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN, BY_HAND = "own-", "by-hand-"
COLUMNS = {
    "variant": "variant",
    "moves": "moves",
    "held": "held back",
    "moved_traffic": "traffic moved",
    "max_over_mean": "max/mean",
    "spread": "spread",
    "cycles_that_differ": "cycles differ",
}


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was found over one recording. `own`: moves of the cluster's own shedder; None where it did not shed."""

    name: str
    cycles: int
    error: Error
    shedder: str = ""
    own: int | None = None
    comparison: VariantComparison | None = None
    words: Sequence[str] = ()


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the tables; 1 if a recorded plan did not come out again."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks replayed_recordings")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="the folder that holds the recordings")
    parser.add_argument("--lakes", type=Path, metavar="DIR", help="keep the lake here, and use what is there already")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these recordings")
    given = parser.parse_args(list(arguments))
    if given.recordings is None:
        print("    left out: it needs --recordings DIR")
        return 0
    print(description(), flush=True)
    recordings = [given.recordings / name for name in given.names] or sorted(
        path for path in given.recordings.iterdir() if path.is_dir() and path.name.startswith((OWN, BY_HAND))
    )
    with tempfile.TemporaryDirectory(prefix="evenkeel-recordings-") as scratch, session("benchmark") as spark:
        folder = given.lakes or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        decide(spark, recordings, folder)
        decided = time.perf_counter()
        found = [replayed(spark, recording, str(folder / "lake")) for recording in recordings]
        print(f"decided in {decided - begin:.0f} s, replayed in {time.perf_counter() - decided:.0f} s\n")
    print("\n".join([*shedder_table(found), "", *reproduced_lines(found), "", *error_table(found)]))
    for one in found:
        if one.words:
            print("\n".join(["", f"{one.name}, round by round:", *(f"  {line}" for line in one.words)]), flush=True)
    return int(any(_again(one)[0] < _again(one)[1] for one in found if one.comparison))


def decide(spark: SparkSession, recordings: Sequence[Path], folder: Path) -> None:
    """The lake of all recordings, each a cluster under its name: one run per step decides the next snapshot of each."""
    lake = folder / "lake"
    snapshots = {recording.name: Recording(recording).snapshots for recording in recordings}
    done = _decided_in(lake)
    for step in range(max(map(len, snapshots.values()))):
        here = {name: own[step] for name, own in snapshots.items() if step < len(own)}
        taking_part = [name for name, one in here.items() if (name, datetime.fromisoformat(one.cycle_at)) not in done]
        for name, one in here.items():
            seen = folder / "seen" / name / Path(one.path).name
            seen.parent.mkdir(parents=True, exist_ok=True)
            if not seen.exists():
                seen.symlink_to(Path(one.path).resolve())
        if not taking_part:
            continue
        configuration = folder / "evenkeel.toml"
        configuration.write_text(
            "".join(f'[clusters."{name}"]\nrecording = "{folder / "seen" / name}"\n' for name in taking_part)
        )
        request = CycleRequest(lake=str(lake), configuration=str(configuration), run_id=f"snapshot {step}")
        begin = time.perf_counter()
        run_cycle(spark, request, lambda task, seconds: None)
        print(f"    snapshot {step}: {len(taking_part)} clusters, {time.perf_counter() - begin:.1f} s", flush=True)


def _decided_in(lake: Path) -> set[tuple[str, datetime]]:
    """The clusters and cycles that are on record already."""
    try:
        return {(attempt.cluster, attempt.cycle_at) for attempt in read_cycles(lake) if attempt.decided}
    except NoLake:
        return set()


def replayed(spark: SparkSession, recording: Path, lake: str) -> Replayed:
    """The model's error over a recording; where the cluster shed by itself, also what each shedder would have done."""
    name = recording.name
    history = read_history(lake, name, None, None)
    error = error_of(history, read_seen(history))
    rounds = read_rounds(recording)
    if not rounds:
        return Replayed(name, len(history.cycles), error)
    manager = history.cycles[-1].planned["manager"]
    variants = (*variants_of(SHEDDERS_OF[manager]), *variants_of())
    return Replayed(
        name,
        len(history.cycles),
        error,
        rounds[0].shedder,
        sum(len(round.moves) for round in rounds),
        replay(spark, OpenLoop(history, variants), lambda done, total: None),
        comparison_lines(Path(lake), name, recording),
    )


def shedder_table(found: Sequence[Replayed]) -> Iterator[str]:
    """What the shedders come to, as Markdown."""
    yield from _head(["recording", *COLUMNS.values()])
    for one in found:
        if one.comparison is None:
            continue
        blank = [""] * (len(COLUMNS) - 2)
        yield _line([f"{one.shedder} at work", "own", str(one.own), *blank])
        one.comparison.columns = COLUMNS
        for cells in one.comparison.cells():
            if cells[0] != AGAIN:
                yield _line(["", *(cells if cells[0] != RECORDED else [*cells[:-1], ""])])


def reproduced_lines(found: Sequence[Replayed]) -> Iterator[str]:
    """How many recorded plans came out again."""
    for one in found:
        if one.comparison is not None:
            again, tried = _again(one)
            yield f"{one.name}, recorded settings: {again} of {tried} recorded plans reproduced"


def error_table(found: Sequence[Replayed]) -> Iterator[str]:
    """How far the model is off, as Markdown; usage and shares of traffic in points."""
    columns = ("usage off by", "guessing its mean", "share of traffic off by", "had nothing moved")
    yield from _head(["recording", "cycles", "moves", *columns])
    for one in found:
        error, shift = one.error, one.error.shift
        points = [error.usage, error.guess, *((shift.off, shift.unmoved) if shift else ())]
        figures = [f"{100 * value:.1f}" for value in points]
        yield _line([one.name, str(one.cycles), str(error.moves), *figures, *[""] * (len(columns) - len(figures))])


def _again(one: Replayed) -> tuple[int, int]:
    assert one.comparison is not None
    tally = one.comparison.tallies[AGAIN]
    return tally.reproduced, tally.decided_again


def _head(names: Sequence[str]) -> Iterator[str]:
    yield _line(names)
    yield _line(["---"] * len(names))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
