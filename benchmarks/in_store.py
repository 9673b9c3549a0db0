"""The same work with the tables in a folder and in an object store, in turns: how many times longer does it take there?

`python -m benchmarks in_store [--cycles 288] [--rounds 2] [--far MILLISECONDS]`. The store is the stand-in of the
tests, on loopback, over a folder. Each step is a command of its own beside a server that runs, but for `page`, which is
drawn in this process, and `cycle`, which is the median of three. A round over one cycle warms everything up. Goal: each
step at most three times what it takes in a folder.

`--far`: each request waits so much longer, in a proxy that counts them; requests are told then, and no goal is set.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.history import landed
from benchmarks.machine import cpu_seconds, description
from benchmarks.repeated import RECORDING
from benchmarks.synthetic_snapshot import Shape
from evenkeel.lake.record import find_cycles, read_rows
from evenkeel.object_store import hand_over
from evenkeel.report import build_model, gather, render
from evenkeel.sources.recordings import Recording
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine, engine_for
from tests.object_store.stores import Store, running_store
from tests.sources.landing_zone.faults import Exchange, Faults, pass_on

MOST_RATIO = 3.0
CYCLES_ALONE = 3
SHAPE = Shape(topics=300, bundles=100, brokers=3)
_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per step; 0 if the goal was met by all."""
    given = _options(arguments)
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name, ExitStack() as opened:
        folder = Path(name)
        recording = landed(folder / "recording", given.cycles, SHAPE)
        store = opened.enter_context(running_store(folder / "store", build=True))
        proxy = None if given.far is None else opened.enter_context(far_store(store, given.far / 1000))
        engine = opened.enter_context(engine_for(folder / "engine"))
        os.environ.update(store.variables(None if proxy is None else proxy.url))
        hand_over(Home.of(engine.home).folder, store.lake("any"))
        work = _Work(engine, folder, recording, proxy)
        for place, lake in (("a folder", str(folder / "warm")), ("a store", store.lake("warm"))):
            work.round(place, lake, first_only=True)
        work.seen.clear()
        for number in range(given.rounds):
            work.round("a folder", str(folder / f"lake{number}"))
            work.round("a store", store.lake(f"lake{number}"))
        return work.verdict(is_near=proxy is None)


class _Work:
    """The steps, and what each took: seconds, CPU seconds and requests by step and place."""

    def __init__(self, engine: Engine, folder: Path, recording: Path, proxy: Faults | None) -> None:
        self.engine = engine
        self.folder = folder
        self.recording = recording
        self.proxy = proxy
        self.seen: dict[str, dict[str, list[tuple[float, float, int]]]] = {}
        self._made = 0

    def round(self, place: str, lake: str, *, first_only: bool = False) -> None:
        """All steps over a new lake; `first_only`: of the day only its first cycle."""
        moments = [snapshot.cycle_at for snapshot in Recording(RECORDING).snapshots][:CYCLES_ALONE]
        self._made += 1
        alone = self.folder / f"alone{self._made}.toml"
        alone.write_text(f'[clusters.alone]\nrecording = "{RECORDING.resolve()}"\n')
        for at in moments:
            self._step(place, "cycle", "rebalance", "--config", str(alone), "--lake", lake, "--at", at)
        day = f"{lake}-day"
        words = ("rebalance", "--recording", str(self.recording), "--lake", day)
        first = Recording(self.recording).snapshots[0].cycle_at
        self._step(place, "day in one window", *words, *(("--at", first) if first_only else ("--all",)))
        cycle = find_cycles(day)[0]
        bundle = str(read_rows(day, cycle, "bundle_load")[0]["bundle"])
        self._step(place, "verify", "verify", "--lake", day)
        self._step(place, "explain", "explain", bundle, "--lake", day)
        self._step(place, "trace", "trace", bundle, "--lake", day)
        self._step(place, "report", "report", "--lake", day, "--out", str(self.folder / "report.html"))
        with self._noted(place, "page"):
            render(build_model(day, gather(day, cluster=cycle.cluster, cycle=cycle.cycle_at.isoformat())))
        export = self.folder / f"export{self._made}"
        self._step(
            place, "export", "export", "--lake", day, "--out", str(export), "--from", "2000-01-01", "--to", "2099-01-01"
        )
        self._step(place, "upkeep", "upkeep", "--lake", day)

    def verdict(self, *, is_near: bool) -> int:
        """Prints the table of medians; 0 where no goal is set or each step met it."""
        worst = 0.0
        print(f"    {'step':<20}{'folder':>16}{'store':>16}{'ratio':>8}{'' if is_near else '  requests'}")
        for step, places in self.seen.items():
            (near, near_cpu, _), (there, there_cpu, requests) = (
                [statistics.median(values) for values in zip(*places[place], strict=True)]
                for place in ("a folder", "a store")
            )
            worst = max(worst, there / near)
            told = "" if is_near else f"  {requests:,.0f}"
            print(
                f"    {step:<20}{near:7.2f} s {near_cpu:4.1f} CPU{there:7.2f} s {there_cpu:4.1f} CPU"
                f"{there / near:6.2f}{told}",
                flush=True,
            )
        return int(is_near and worst > MOST_RATIO)

    def _step(self, place: str, step: str, *words: str) -> None:
        with self._noted(place, step):
            subprocess.run(
                [sys.executable, "-m", "evenkeel.cli", *words],
                env={**os.environ, "EVENKEEL_SPARK": self.engine.url},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=True,
            )

    @contextmanager
    def _noted(self, place: str, step: str) -> Iterator[None]:
        requests: Callable[[], int] = (lambda: 0) if self.proxy is None else self.proxy.count
        before, asked, began = cpu_seconds(self.engine.pid), requests(), time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        cost = (seconds, cpu_seconds(self.engine.pid) - before, requests() - asked)
        self.seen.setdefault(step, {}).setdefault(place, []).append(cost)
        print(f"    {place}: {step} {seconds:.2f} s", flush=True)


@contextmanager
def far_store(store: Store, seconds: float) -> Iterator[Faults]:
    """A proxy before the store in which each request waits."""

    def late(exchange: Exchange) -> None:
        time.sleep(seconds)
        pass_on(exchange)

    with Faults(store.port) as proxy:
        for method in _METHODS:
            proxy.on(method, ".", late, times=sys.maxsize)
        yield proxy


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks in_store", description=__doc__)
    parser.add_argument("--cycles", type=int, default=288)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--far", type=float, metavar="MILLISECONDS")
    return parser.parse_args(list(arguments))
