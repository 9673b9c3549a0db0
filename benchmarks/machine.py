"""What is said of the machine beside every figure, and memory of a tree of processes while something runs."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

_MB = 1024 * 1024


def description() -> str:
    """Cores, memory, system, interpreter and load: without them a figure says little."""
    memory = psutil.virtual_memory().total / 1024**3
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load {load:.1f}"
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, processor seconds of all processes, and megabytes of memory that they held at most."""

    seconds: float
    cpu: float
    megabytes: float


@dataclass
class Peak:
    """Largest sum of resident memory seen, in MB."""

    megabytes: float = 0.0


@contextmanager
def peak_memory(*pids: int, every_seconds: float = 0.2) -> Iterator[Peak]:
    """Watches this process, the named ones and all their children for as long as the block runs."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(every_seconds):
            peak.megabytes = max(peak.megabytes, resident_megabytes(os.getpid(), *pids))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def cpu_seconds(*pids: int) -> float:
    """Processor time so far of this process, the named ones and all their children, those that have ended included;
    each counts once, also where a named one is a child of this process."""
    seen: dict[int, float] = {}
    for pid in {os.getpid(), *pids}:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # it has ended since, and its parent counts it
                seen[one.pid] = sum(one.cpu_times()[:4])
    return sum(seen.values())


def resident_megabytes(*pids: int) -> float:
    """Memory of the processes and their children; pages that forked workers share count once for each (so: at most)."""
    seen: dict[int, int] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                seen[one.pid] = one.memory_info().rss
        except psutil.Error:
            continue
    return sum(seen.values()) / _MB
