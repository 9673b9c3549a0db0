"""What is said of the machine beside every figure, and memory of a tree of processes while something runs."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

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
def peak_memory(*pids: int, with_own: bool = True, every_seconds: float = 1.0) -> Iterator[Peak]:
    """Watches this process (`with_own`), the named ones and all their children for as long as the block runs."""
    peak, done = Peak(), threading.Event()
    own = os.getpid()

    def watch() -> None:
        while not done.wait(every_seconds):
            among = _with_children(own, *pids) - (set() if with_own else {own})
            # Shares take the kernel ten milliseconds and more for a large process.
            if _megabytes(among, _all_pages) > peak.megabytes:
                peak.megabytes = max(peak.megabytes, _megabytes(among, _its_share))

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
    """Memory of the processes and their children; of a page that several of them hold each counts its share."""
    return _megabytes(_with_children(*pids), _its_share)


def _with_children(*pids: int) -> set[int]:
    found: set[int] = set()
    for pid in pids:
        with suppress(psutil.Error):
            found |= {pid, *(one.pid for one in psutil.Process(pid).children(recursive=True))}
    return found


def _megabytes(pids: Iterable[int], size: Callable[[int], int]) -> float:
    total = 0
    for pid in pids:
        with suppress(psutil.Error, OSError):  # it has ended since
            total += size(pid)
    return total / _MB


def _all_pages(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def _its_share(pid: int) -> int:
    """Bytes by the kernel's count of shares, where it keeps one (Linux)."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    if not rollup.exists():
        return _all_pages(pid)
    share = next((line for line in rollup.read_text().splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return 1024 * int(share.split()[1])
