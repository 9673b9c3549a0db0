"""`evenkeel rebalance` over a recorded snapshot with the server running: whole commands, and the tasks within.

`python -m benchmarks warm_cycle [--recording DIR] [--runs 8]`. Goal: a cycle takes at most 6.7 s, the median. Each
command is a process of its own, which imports all it needs; that is told apart. `cpu` is processor seconds of command,
server and workers. Every cycle is decided for the first time: each pass over the snapshots is a cluster of its own
name. Two passes warm the server up.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import cpu_seconds, description
from benchmarks.repeated import Figures, options
from evenkeel.sources.recordings import Recording
from evenkeel.spark.server import engine_for

MOST_SECONDS = 6.7
WARM_PASSES = 2
_TASK = re.compile(r"  (\w+)\s+([\d.]+) s$")


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per command and a median per task; 0 if the goal was met."""
    given = options("warm_cycle", arguments)
    print(description(), flush=True)
    snapshots = Recording(given.recording).snapshots
    seen = Figures()
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder, engine_for(Path(folder) / "engine") as engine:
        for run in range(-WARM_PASSES * len(snapshots), given.runs):
            lap, place = divmod(run, len(snapshots))
            configuration = Path(folder) / "evenkeel.toml"
            configuration.write_text(f'[clusters.pass{lap + WARM_PASSES}]\nrecording = "{given.recording.resolve()}"\n')
            before = cpu_seconds(engine.pid)
            figures = _command(engine.url, Path(folder) / "lake", configuration, snapshots[place].cycle_at)
            seen.add({**figures, "cpu": cpu_seconds(engine.pid) - before}, warm=run >= 0)
    return seen.verdict(MOST_SECONDS)


def _command(url: str, lake: Path, configuration: Path, at: str) -> dict[str, float]:
    """Seconds of each task, of the cycle and of the whole command."""
    words = ["rebalance", "--config", str(configuration), "--lake", str(lake), "--at", at, "--json"]
    environment = {**os.environ, "EVENKEEL_SPARK": url}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "evenkeel.cli", *words], env=environment, capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - begin
    tasks = {m.group(1): float(m.group(2)) for line in done.stderr.splitlines() if (m := _TASK.search(line))}
    return {**tasks, "cycle": float(json.loads(done.stdout)["seconds"]), "command": seconds}
