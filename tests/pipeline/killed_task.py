"""A task of the pipeline in a process of its own, killed or disturbed before, inside or after one of its writes.

The task stops before and after each write and says so; what kills it decides. Inside a write means: the first data
file of the table has appeared, and the commit has not been answered.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Literal

from evenkeel import pipeline
from evenkeel.handover import Handover
from evenkeel.lake import manifest
from evenkeel.lake.store import Lake
from evenkeel.spark.session import connect

TASKS = {task.__name__: task for task in (*pipeline.DECIDING, pipeline.publish)}
PATIENCE_SECONDS = 240
Phase = Literal["before", "inside", "after"]
PHASES: tuple[Phase, ...] = ("before", "inside", "after")
GO, DONE = "go", "done"


@dataclass(frozen=True)
class Point:
    """Where a task is killed: around its n-th write to a table."""

    table: str
    number: int
    phase: Phase


@dataclass
class StartedTask:
    """A task under way, and the line to it."""

    process: ForkServerProcess
    line: Connection

    def kill(self) -> None:
        os.kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join(30)
        assert not self.process.is_alive()

    def said(self) -> Any:
        assert self.line.poll(PATIENCE_SECONDS), "the task says nothing any more"
        return self.line.recv()


def start(engine: str, task: str, handover: Handover, environment: Mapping[str, str] = {}) -> StartedTask:
    """Starts the task on this Spark server, with these variables in its environment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.pipeline.killed_task"])
    here, there = context.Pipe()
    process = context.Process(
        target=_run, args=(engine, task, handover.to_json(), there, dict(environment)), daemon=True
    )
    process.start()
    return StartedTask(process, here)


def run_whole(
    engine: str, task: str, handover: Handover, environment: Mapping[str, str] = {}
) -> tuple[Handover, list[tuple[str, int]]]:
    """Runs the task to its end: its hand-over, and the writes (table, how manyth) in the order in which they ended."""
    started = start(engine, task, handover, environment)
    writes = []
    while True:
        match started.said():
            case (str(kind), text) if kind == DONE:
                started.process.join(30)
                return Handover.from_json(text), writes
            case ("after", table, number):
                writes.append((table, number))
                started.line.send(GO)
            case ("before", _, _):
                started.line.send(GO)
            case other:
                raise AssertionError(f"{task} failed: {other}")


def run_until(engine: str, task: str, handover: Handover, point: Point, kill: Callable[[], None]) -> None:
    """Runs the task up to the point, calls `kill`, and ends the process too."""
    started = start(engine, task, handover)
    _reach(started, task, handover, point)
    kill()
    started.kill()


def run_disturbed(
    engine: str, task: str, handover: Handover, point: Point, disturb: Callable[[], None]
) -> Handover | str:
    """Runs the task, calls `disturb` at the point, and lets the task go on: its hand-over, or its error."""
    started = start(engine, task, handover)
    _reach(started, task, handover, point)
    disturb()
    if point.phase != "inside":
        started.line.send(GO)
    while True:
        match started.said():
            case (str(kind), text) if kind == DONE:
                started.process.join(30)
                return Handover.from_json(text)
            case ("error", str(text)):
                started.kill()  # a client whose server has gone may wait for minutes as it ends
                return text
            case _:
                started.line.send(GO)


def _reach(started: StartedTask, task: str, handover: Handover, point: Point) -> None:
    """Lets the task go on to the point: where it is inside a write, that write is under way."""
    while True:
        said = started.said()
        assert said[0] in ("before", "after"), f"{task} ended before {point}: {said}"
        if said[1:] == (point.table, point.number):
            if said[0] == point.phase:
                return
            if (said[0], point.phase) == ("before", "inside"):
                known = set(_data_files(handover.lake, point.table))
                started.line.send(GO)
                _await_file(handover.lake, point.table, known, started)
                return
        started.line.send(GO)


def _await_file(lake: str, table: str, known: set[Path], started: StartedTask) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not set(_data_files(lake, table)) - known:
        if started.line.poll(0):  # a write without rows has no file, and has ended meanwhile
            return
        assert time.monotonic() < until
        time.sleep(0.001)


def _data_files(lake: str, table: str) -> Iterator[Path]:
    return (file for file in (Path(lake) / table).rglob("*.parquet") if "_delta_log" not in file.parts)


def _run(engine: str, task: str, handover: str, line: Connection, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    time.tzset()
    lock = threading.Lock()  # tables are written side by side
    counts: dict[str, int] = {}

    def around(table: str, write: Callable[[], Any]) -> Any:
        with lock:
            number = counts[table] = counts.get(table, 0) + 1
            line.send(("before", table, number))
            line.recv()
        made = write()
        with lock:
            line.send(("after", table, number))
            line.recv()
        return made

    append_one, append_on_head = Lake._append_one, manifest._append_on_head

    def appending(self: Lake, name: str, *more: Any, **named: Any) -> Any:
        return around(name, lambda: append_one(self, name, *more, **named))

    def heading(*given: Any) -> Any:
        return around("cycles", lambda: append_on_head(*given))

    Lake._append_one = appending  # type: ignore[method-assign]
    manifest._append_on_head = heading
    try:
        done = TASKS[task](connect(engine, "killed-task"), Handover.from_json(handover))
        line.send((DONE, done.to_json()))
    except BaseException as error:
        line.send(("error", f"{type(error).__name__}: {error}"))
        raise
