"""A month of five-minute cycles, from landed snapshots to manifests, in windows; and a few of them cycle by cycle.

`python -m benchmarks history [--days 30] [--topics 300] [--bundles 100] [--brokers 3] [--beside 24]`. The snapshots are
generated first, which is not measured: the same cluster in all of them, with other figures in each. The month is one
command, `evenkeel rebalance --all`, and `evenkeel verify` another, beside a server that is warm from the first part:
the first `--beside` snapshots, decided one by one and then as a window. Goals, for a month: at most 12 min, 4 GB of the
server, its workers and the command together and 2,000 files; `verify` 120 s. For a day of larger ones (`--days 1
--brokers 20 --bundles 2000 --topics 20000`): 10 min, 8 GB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from benchmarks.machine import Cost, cpu_seconds, description, peak_memory
from benchmarks.synthetic_snapshot import FINISHED_AT, Shape, write_document
from evenkeel.ingest.chunks import landed_in
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_cycle, run_window
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import close, connect

EVERY = timedelta(minutes=5)
A_DAY = timedelta(days=1) // EVERY
FULL_EVERY = 8
MOST_SECONDS, MOST_SECONDS_TO_VERIFY, MOST_MEGABYTES, MOST_FILES = 12 * 60.0, 120.0, 4_000.0, 2_000
"""For thirty days of up to `SMALL` topics; what goes with the number of cycles is held against its share."""
SMALL = 300
MOST_SECONDS_A_DAY, MOST_MEGABYTES_A_DAY = 10 * 60.0, 8_000.0
"""For a day of larger clusters, up to 20 brokers, 2,000 bundles and 20,000 topics; of files and `verify` nothing is
asked there."""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per part; 0 if the goals were met."""
    given = _options(arguments)
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name:
        folder = Path(name)
        cycles = given.days * A_DAY
        recording = landed(folder / "recording", cycles, Shape(given.topics, given.bundles, given.brokers))
        with engine_for(folder / "engine") as engine:
            _beside(engine, folder, recording, min(given.beside, cycles))
            return _whole(engine, folder / "lake", recording, cycles, is_small=given.topics <= SMALL)


def landed(folder: Path, cycles: int, shape: Shape) -> Path:
    """A recording of so many snapshots, five minutes apart; every eighth of them is full."""
    folder.mkdir(parents=True)
    began = time.monotonic()
    for n in range(cycles):
        own, at = replace(shape, moment=n + 1), FINISHED_AT + n * EVERY
        write_document(folder / f"{n:06d}.json.gz", own, n=n, finished_at=at, full=n % FULL_EVERY == 0)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(
        f"    {cycles:,} snapshots of {shape.brokers} brokers, {shape.bundles} bundles, {shape.topics} topics: "
        f"{size / 1e6:,.0f} MB, written in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return folder


def _beside(engine: Engine, folder: Path, recording: Path, count: int) -> None:
    """The first snapshots one by one, and then as a window, each into a lake of its own."""
    request = CycleRequest(str(folder / "window"), f"recording:{recording}", every=True, run_id="bench")
    moments = [cycle.cycle_at for cycle in landed_in(request)][:count]
    request = replace(request, until=moments[-1])
    spark = connect(engine.url, "history")

    def alone() -> None:
        for at in moments:
            one = replace(request, lake=str(folder / "alone"), every=False, until=None, at=at)
            run_cycle(spark, one, lambda task, seconds: None)

    def together() -> None:
        for _ in run_window(spark, request, lambda course: None):
            pass

    try:
        run_cycle(
            spark,
            replace(request, lake=str(folder / "warm"), every=False, until=None, at=moments[0]),
            lambda task, seconds: None,
        )
        costs = [_measured(engine, work, with_own=True) for work in (alone, together)]
    finally:
        close(spark)
    for name, cost in zip((f"{count} cycles one by one", "the same as a window"), costs, strict=True):
        print(f"    {name}: {_text(cost, count)}", flush=True)
    first, second = costs
    print(
        f"    ratio: {first.seconds / second.seconds:.1f} by the clock, {first.cpu / second.cpu:.1f} of CPU", flush=True
    )


def _whole(engine: Engine, lake: Path, recording: Path, cycles: int, *, is_small: bool) -> int:
    decided = _measured(
        engine,
        lambda: _command(engine, "rebalance", "--recording", str(recording), "--lake", str(lake), "--all", "--json"),
    )
    files = sum(file.is_file() for file in lake.rglob("*"))
    size = sum(file.stat().st_size for file in lake.rglob("*") if file.is_file())
    print(
        f"    {cycles:,} cycles in windows: {_text(decided, cycles)}; {files:,} files, {size / 1e6:,.0f} MB", flush=True
    )
    verified = _measured(engine, lambda: _command(engine, "verify", "--lake", str(lake)))
    print(f"    verify: {_text(verified, cycles)}", flush=True)
    share = cycles / (30 * A_DAY)
    if is_small:
        goals = {
            "time": decided.seconds <= MOST_SECONDS * share,
            "memory": decided.megabytes <= MOST_MEGABYTES,
            "files": files <= MOST_FILES * share,
            "time of verify": verified.seconds <= MOST_SECONDS_TO_VERIFY * share,
        }
    else:
        goals = {
            "time": decided.seconds <= MOST_SECONDS_A_DAY * cycles / A_DAY,
            "memory": decided.megabytes <= MOST_MEGABYTES_A_DAY,
        }
    missed = [name for name, met in goals.items() if not met]
    print(f"    goals: {'met' if not missed else 'missed: ' + ', '.join(missed)}", flush=True)
    return len(missed)


def _text(cost: Cost, cycles: int) -> str:
    """In a line, with the rate of so many cycles."""
    return (
        f"{cost.seconds:.1f} s, {cost.cpu:.0f} CPU s, {cost.megabytes:,.0f} MB at most, "
        f"{cycles / cost.seconds:.1f} cycles/s, {1000 * cost.cpu / cycles:.0f} CPU ms a cycle"
    )


def _measured(engine: Engine, work: Callable[[], None], *, with_own: bool = False) -> Cost:
    before, began = cpu_seconds(engine.pid), time.monotonic()
    with peak_memory(engine.pid, with_own=with_own) as peak:
        work()
    return Cost(time.monotonic() - began, cpu_seconds(engine.pid) - before, peak.megabytes)


def _command(engine: Engine, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "evenkeel.cli", *words],
        env={**os.environ, "EVENKEEL_SPARK": engine.url},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks history", description=__doc__)
    for name, default in (("days", 30), ("topics", 300), ("bundles", 100), ("brokers", 3), ("beside", 24)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args(list(arguments))
