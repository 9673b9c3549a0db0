"""A run of a soak: Airflow and a Spark server in a folder that stays, and one cycle after the other."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import description, resident_megabytes
from benchmarks.repeated import RECORDING, moved_file
from devtools.local_airflow.home import Wiring
from devtools.local_airflow.rest import RequestRefused
from devtools.local_airflow.service import DAG_ID, Airflow, airflow_for
from devtools.soak.figures import Cycle, add_cycle, read_cycles
from evenkeel.airflow.order import AirflowError
from evenkeel.lake.record import read_attempts
from evenkeel.maintenance.inventory import bytes_on_disk
from evenkeel.pipeline import DECIDING
from evenkeel.sources.recordings import Recording
from evenkeel.spark.code import source_root
from evenkeel.spark.server import Engine, ensure, release, stop

LINES = "cycles.jsonl"
CLUSTER = "soaked"
UPKEEP_DAG_ID = "upkeep"
KILLABLE = (*(task.__name__ for task in DECIDING), "publish")
RUN_SECONDS = 900.0
_KEPT_SNAPSHOTS = 5
_SIZED_EVERY = 10
_TICK_SECONDS = 0.1


class Soak:
    """A soak in a folder."""

    def __init__(self, folder: Path, every: int) -> None:
        """`every`: of so many cycles a task is killed in one, the server restarts before one, upkeep follows one."""
        self._folder, self._every = folder.resolve(), every
        self._lines = self._folder / LINES
        self._recorded = self._folder / "recording"
        self._lake = self._folder / "lake"

    def run(self, cycles: int) -> None:
        """So many cycles more. Raises AirflowError or EngineError where one of both does not start or ends."""
        before = read_cycles(self._lines)
        number = before[-1].number if before else 0
        part = before[-1].part if before else 0
        self._recorded.mkdir(exist_ok=True)
        configuration = self._folder / "evenkeel.toml"
        configuration.write_text(f'[clusters.{CLUSTER}]\nrecording = "{self._recorded}"\n', encoding="utf-8")
        print(f"{description()}; cycles {number + 1:,} to {number + cycles:,}", flush=True)
        with self._engine() as engine:
            wiring = Wiring(source_root().parent, engine.airflow_connection(), str(self._lake), configuration)
            self._record(number)
            with airflow_for(self._folder / "airflow", wiring, say=lambda line: print(line, flush=True)) as airflow:
                part += 1
                for current in range(number + 1, number + cycles + 1):
                    place = current % self._every
                    if place == self._every // 2:
                        engine, part = self._started_anew(engine.port), part + 1
                    cycle = self._cycle(airflow, engine, current, part, with_kill=place == 3 * self._every // 4)
                    add_cycle(self._lines, cycle)
                    self._say(cycle)

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        engine = ensure(self._folder, owner_pid=os.getpid())
        try:
            yield engine
        finally:
            with suppress(Exception):
                release(engine)
            stop(self._folder)

    def _started_anew(self, port: int) -> Engine:
        """End the server and start another where Airflow looks for it."""
        stop(self._folder)
        return ensure(self._folder, owner_pid=os.getpid(), port=port)

    def _record(self, number: int) -> None:
        """A snapshot of now: one of a recording's, all times moved."""
        source = Recording(RECORDING).snapshots
        document = json.loads(gzip.decompress(Path(source[number % len(source)].path).read_bytes()))
        later = datetime.now(UTC) - datetime.fromisoformat(document["finished_at"])
        part = self._recorded / f".{number:06d}"
        part.write_bytes(moved_file(document, number, later))
        part.replace(self._recorded / f"{number:06d}.json.gz")
        for old in sorted(self._recorded.glob("*.json.gz"))[:-_KEPT_SNAPSHOTS]:
            old.unlink()

    def _cycle(self, airflow: Airflow, engine: Engine, number: int, part: int, *, with_kill: bool) -> Cycle:
        self._record(number)
        at, begin = datetime.now(UTC), time.monotonic()
        run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf={})
        killed = KILLABLE[number // self._every % len(KILLABLE)] if with_kill else ""
        if killed:
            self._kill(airflow, run_id, killed)
        state = self._ended(airflow, DAG_ID, run_id)
        seconds = time.monotonic() - begin
        if state == "success":
            state = self._on_record()
        upkeep = ""
        if number % self._every == 0:
            kept = airflow.rest.trigger(UPKEEP_DAG_ID, logical_date=None, conf={})
            upkeep = self._ended(airflow, UPKEEP_DAG_ID, kept)
        return Cycle(
            number,
            part,
            at.isoformat(timespec="seconds"),
            round(seconds, 2),
            state,
            killed,
            upkeep,
            round(resident_megabytes(engine.pid), 1),
            round(resident_megabytes(airflow.supervisor.pid), 1),
            (bytes_on_disk(str(self._lake)) or 0) if number % _SIZED_EVERY == 0 else 0,
        )

    def _on_record(self) -> str:
        """Return the recorded result of a run that succeeded: `success` for a plan, else the status of its attempt."""
        status = read_attempts(self._lake, cluster=CLUSTER)[-1].status
        return "success" if status == "closed" else status

    def _kill(self, airflow: Airflow, run_id: str, task: str) -> None:
        """Kill a task of the run as soon as it runs; its next try is Airflow's."""
        until = time.monotonic() + RUN_SECONDS
        while time.monotonic() < until:
            running: list[dict[str, Any]] = [
                candidate for candidate in airflow.rest.tasks(DAG_ID, run_id) if candidate["task_id"] == task
            ]
            if running and running[0]["state"] == "running" and running[0]["pid"]:
                process = psutil.Process(int(running[0]["pid"]))
                if any(parent.pid == airflow.supervisor.pid for parent in process.parents()):
                    process.send_signal(signal.SIGKILL)
                    return
            if running and running[0]["state"] in ("success", "failed"):
                return
            airflow.check()
            time.sleep(_TICK_SECONDS / 2)
        raise AirflowError(f"{task} of {run_id} did not begin within {RUN_SECONDS:.0f} s")

    def _ended(self, airflow: Airflow, dag: str, run_id: str) -> str:
        """The state that a run has ended in."""
        until = time.monotonic() + RUN_SECONDS
        while time.monotonic() < until:
            airflow.check()
            try:
                state = str(airflow.rest.run(dag, run_id)["state"])
            except RequestRefused:
                raise
            except AirflowError:
                state = "running"  # no answer in time: it is asked again
            if state not in ("queued", "running"):
                return state
            time.sleep(_TICK_SECONDS)
        return "not over"

    def _say(self, cycle: Cycle) -> None:
        if cycle.number % _SIZED_EVERY and cycle.state == "success" and not cycle.killed:
            return
        more = f", {cycle.killed} killed" if cycle.killed else ""
        more += f", upkeep {cycle.upkeep}" if cycle.upkeep else ""
        print(
            f"cycle {cycle.number:,}: {cycle.state} in {cycle.seconds:.1f} s; server {cycle.server_mb:,.0f} MB, "
            f"Airflow {cycle.airflow_mb:,.0f} MB{more}",
            flush=True,
        )
