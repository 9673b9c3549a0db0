"""One cycle under Airflow's scheduler, Airflow and the Connect server running: from trigger to the run's end.

`python -m benchmarks airflow_cycle [--recording DIR] [--runs 8]`. Goal: at most 8 s, the median. Each cycle is decided
for the first time: each pass over the snapshots is a cluster of its own name, and the first pass only warms up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import description, resident_megabytes
from benchmarks.repeated import Figures, options
from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, Airflow, airflow_for
from evenkeel.pipeline import DECIDING
from evenkeel.sources.recordings import Recording
from evenkeel.spark.server import engine_for

MOST_SECONDS = 8.0
CHECKOUT = Path(__file__).resolve().parent.parent
TICK_SECONDS = 0.1


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per run and a median per task; 0 if the goal was met."""
    given = options("airflow_cycle", arguments)
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        return _measure(Path(folder), given.recording, given.runs).verdict(MOST_SECONDS)


def _measure(folder: Path, recording: Path, runs: int) -> Figures:
    snapshots = Recording(recording).snapshots
    passes = 1 + -(-runs // len(snapshots))
    configuration = folder / "evenkeel.toml"
    clusters = [f"pass-{lap}" for lap in range(passes)]
    entries = (f'[clusters.{name}]\nrecording = "{recording.resolve()}"\n' for name in clusters)
    configuration.write_text("\n".join(entries))
    seen = Figures()
    with engine_for(folder / "engine") as engine:
        wiring = Wiring(CHECKOUT, engine.airflow_connection(), str(folder / "lake"), configuration)
        with airflow_for(folder / "airflow", wiring) as airflow:
            for run in range(-len(snapshots), runs):
                lap, place = divmod(run, len(snapshots))
                seen.add(_run(airflow, clusters[lap + 1], snapshots[place].cycle_at), warm=run >= 0)
            memory = resident_megabytes(engine.pid, airflow.supervisor.pid)
            print(f"    server, workers and Airflow at the end: at most {memory:,.0f} MB")
    return seen


def _run(airflow: Airflow, cluster: str, at: str) -> dict[str, float]:
    """Seconds of each task in its process, and of the run from the trigger to its end."""
    begin = time.perf_counter()
    run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"clusters": [cluster], "at": at})
    while (state := airflow.rest.run(DAG_ID, run_id)["state"]) in ("queued", "running"):
        time.sleep(TICK_SECONDS)
    seconds = time.perf_counter() - begin
    if state != "success":
        raise SystemExit(f"the run {run_id} ended as {state}")
    tasks = {task["task_id"]: _seconds(task) for task in airflow.rest.tasks(DAG_ID, run_id)}
    return {**{name: tasks[name] for name in (*(task.__name__ for task in DECIDING), "publish")}, "cycle": seconds}


def _seconds(task: dict[str, Any]) -> float:
    return (datetime.fromisoformat(task["end_date"]) - datetime.fromisoformat(task["start_date"])).total_seconds()
