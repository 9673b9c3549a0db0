"""What does being observed cost a broker? CPU seconds of real brokers under load, with and without `collect`.

`python -m benchmarks broker_cost [--seconds 60] [--snapshots 30] [--rounds 2]`. Three brokers on this machine serve the
same traffic all the time; rounds without and with snapshots take turns. The goal is less than 1 % of a core for each
broker at one snapshot a minute.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import description
from devtools.lab.cluster import Cluster, cluster_for
from devtools.lab.layout import skewed
from devtools.lab.settings import LabSettings
from devtools.lab.traffic import traffic_for
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.sources.collecting import WantedSnapshot, take_snapshot
from evenkeel.sources.landing import FolderStore

MOST_OF_A_CORE = 0.01
TURN_SECONDS = 60.0


def spent(cluster: Cluster, seconds: float, snapshots: int, store: FolderStore) -> list[float]:
    """CPU seconds of each broker while so many snapshots are taken in so many seconds, evenly."""
    before = [cluster.jvm(number).cpu_seconds() for number in cluster.numbers]
    begin, first = time.monotonic(), store.next_number()
    with AdminClient(AdminConnection(cluster.urls)) as client:
        for turn in range(snapshots):
            take_snapshot(client, store.begin(f"{first + turn:04d}"), WantedSnapshot(first + turn, full=turn == 0))
            time.sleep(max(0.0, begin + (turn + 1) * seconds / snapshots - time.monotonic()))
    time.sleep(max(0.0, begin + seconds - time.monotonic()))
    return [cluster.jvm(number).cpu_seconds() - was for number, was in zip(cluster.numbers, before, strict=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the cost for each broker; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks broker_cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--snapshots", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args(arguments)
    print(description(), flush=True)
    costs: list[list[float]] = []
    with (
        tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
        cluster_for(LabSettings()) as cluster,
        traffic_for(cluster, skewed("acme", cluster.broker_ids), seconds=1500.0),
    ):
        store = FolderStore(str(Path(folder)))
        spent(cluster, given.seconds, given.snapshots, store)  # Java compiles what is asked for the first time
        for _ in range(given.rounds):
            without = spent(cluster, given.seconds, 0, store)
            observed = spent(cluster, given.seconds, given.snapshots, store)
            costs.append([(w - o) / given.snapshots for w, o in zip(observed, without, strict=True)])
            shown = ", ".join(f"{w:.1f} s with, {o:.1f} s without" for w, o in zip(observed, without, strict=True))
            print(f"    CPU in {given.seconds:.0f} s: {shown}", flush=True)
    each = [statistics.mean(figures) / TURN_SECONDS for figures in zip(*costs, strict=True)]
    print("    of a core, at one snapshot a minute: " + ", ".join(f"{part:.2%}" for part in each))
    return 0 if max(each) <= MOST_OF_A_CORE else 1
