"""Does a server that many share keep anything of ours? Its heap after collection over many short sessions.

`python -m benchmarks short_sessions [--sessions N] [--url URL --pid PID]`: with `--url`, a Connect server that runs
already and whose JVM is the process PID of this machine; else a local server of its own. Sessions set, name, keep and
read what a task does, and close. The JVM is asked by `jcmd` of a full JDK, which collects all garbage first. It is
asked ten times, each time after a rest, and again: threads hold sessions until they have idled for a minute, and a
collection has Spark free the rows that they kept. Level: the heap grows by less than 5 % over the second half.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from benchmarks.machine import description
from evenkeel.spark.jars import classic_java
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect, keep

LOOKS = 10
REST_SECONDS = (75, 5)
LISTED = 12
FILLER = "[I"
"""Arrays of int are left out: the collector fills gaps with them that it leaves, up to a twentieth of the heap."""
LEVEL_WITHIN = 0.05
ROWS = 1_000
JCMD_SECONDS = 300


@dataclass(frozen=True, slots=True)
class HeapContents:
    """What is live in a JVM but for arrays of int: its bytes, the number of objects of each class, and their bytes."""

    bytes: int
    objects: Mapping[str, int]
    sizes: Mapping[str, int] = field(default_factory=dict)


def heap_contents(pid: int) -> HeapContents:
    """Collects all garbage of a JVM and counts what is left."""
    jcmd = classic_java().parent / "jcmd"
    command = [str(jcmd), str(pid), "GC.class_histogram"]
    return counted(subprocess.run(command, capture_output=True, text=True, timeout=JCMD_SECONDS, check=True).stdout)


def counted(histogram: str) -> HeapContents:
    """What a JVM's class histogram says; ValueError where it is none."""
    objects: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for line in histogram.splitlines():
        match line.split():
            case [number, count, size, name, *_] if number.endswith(":") and count.isdecimal():
                objects[name], sizes[name] = int(count), int(size)
            case ["Total", _, size]:
                return HeapContents(int(size) - sizes.pop(FILLER, 0), objects, sizes)
    raise ValueError(f"no count of objects: {histogram[:200]}")


def short_session(url: str, number: int) -> None:
    """What a task leaves with a server until its session is closed: settings, a name, rows that are kept."""
    spark = connect(url, f"short session {number}")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    rows = spark.range(ROWS).selectExpr("id", f"id % {number} AS part")
    keep(rows).createOrReplaceTempView("rows_of_ours")
    assert spark.table("rows_of_ours").count() == ROWS
    close(spark)


def course(url: str, pid: int, sessions: int) -> Iterator[tuple[int, HeapContents]]:
    """Runs so many short sessions; what the JVM holds after each tenth of them and a rest."""
    every = max(1, sessions // LOOKS)
    for number in range(1, sessions + 1):
        short_session(url, number)
        if number % every == 0:
            for seconds in REST_SECONDS:
                time.sleep(seconds)
                found = heap_contents(pid)
            yield number, found


def growing(seen: Sequence[tuple[int, HeapContents]]) -> list[tuple[str, int, int]]:
    """The classes whose objects take more bytes at the end than half way: name, objects and bytes more; most first.

    At each end the least of three looks counts, as caches come and go.
    """
    half, end = ([found for _, found in looks[-3:]] for looks in (seen[: len(seen) // 2], seen))
    found = []
    for name in end[-1].sizes:
        objects, size = (
            min(figures(look).get(name, 0) for look in end) - min(figures(look).get(name, 0) for look in half)
            for figures in (attrgetter("objects"), attrgetter("sizes"))
        )
        if size > 0:
            found.append((name, objects, size))
    return sorted(found, key=lambda one: (-one[2], one[0]))


def growth(seen: Sequence[tuple[int, HeapContents]]) -> float:
    """By which part the heap grows over the second half, by regression."""
    half = [(number, found.bytes) for number, found in seen[len(seen) // 2 :]]
    slope, start = statistics.linear_regression([number for number, _ in half], [size for _, size in half])
    first, last = half[0][0], half[-1][0]
    return slope * (last - first) / (start + slope * first)


@contextmanager
def _asked(given: argparse.Namespace) -> Iterator[tuple[str, int]]:
    if given.url is not None:
        yield given.url, given.pid
        return
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as home, engine_for(Path(home)) as engine:
        yield engine.url, engine.pid


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the course; 1 where the heap grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks short_sessions", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--url", metavar="URL", help="of a Connect server, with its token")
    parser.add_argument("--pid", type=int, help="the process of that server's JVM, on this machine")
    given = parser.parse_args(arguments)
    if (given.url is None) != (given.pid is None):
        parser.error("--url and --pid go together")
    print(description(), flush=True)
    seen = []
    with _asked(given) as (url, pid):
        for number, found in course(url, pid, given.sessions):
            seen.append((number, found))
            print(f"after {number:6d} sessions: {found.bytes / 1e6:6.1f} MB live", flush=True)
    grown = growth(seen)
    for name, objects, size in growing(seen)[:LISTED]:
        print(f"  {size / 1e6:+7.1f} MB {objects:+8d} {name}")
    print(f"second half: {grown:+.1%} ({'level' if grown <= LEVEL_WITHIN else 'it grows'})")
    return 0 if grown <= LEVEL_WITHIN else 1
