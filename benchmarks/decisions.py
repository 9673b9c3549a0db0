"""CPU seconds of the shedders over large clusters, beside those of Pulsar's own classes.

`python -m benchmarks decisions [--reference DIR]`. 100 and 1,000 brokers with 100,000 bundles in 1,000 namespaces,
log-normal traffic, CPU usage uniform from 10 to 98 %; drawn as the reference harness draws them, so that the same
bundles are to be shed. Goals, from the CPU seconds of Pulsar's classes: no more at 100 brokers, a fifth at 1,000, and
half a second for UniformLoadShedder. With DIR, the folder of a reference harness (or a file with what it printed),
its `run.sh bench` is run (minutes), ratios to its figures are printed, and numbers of proposed bundles compared.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks._java_random import JavaRandom
from benchmarks.machine import description
from evenkeel.decisions.averages import updated
from evenkeel.decisions.bundles import bundle_name, initial_boundaries, ranges_of
from evenkeel.decisions.load import BrokerReport, BundleHistory, BundleStats, LoadData, ResourceUsage
from evenkeel.decisions.shedding.shedders import IMPLEMENTED
from evenkeel.settings import Settings

MIB = 1_048_576.0
SIZES = (100, 1_000)
BUNDLES = 100_000
MOST_SECONDS: Mapping[tuple[str, int], float] = {
    ("UniformLoadShedder", 100): 0.5,
    ("OverloadShedder", 100): 0.50,
    ("AvgShedder", 100): 1.70,
    ("ThresholdShedder", 100): 1.94,
    ("UniformLoadShedder", 1_000): 0.5,
    ("OverloadShedder", 1_000): 1.2,
    ("AvgShedder", 1_000): 3.6,
    ("ThresholdShedder", 1_000): 3.6,
}
# Rounds that a difference must have lasted do not hold AvgShedder back here; so every round decides.
EAGER = Settings().with_values(
    {"loadBalancerAvgShedderHitCountHighThreshold": 1, "loadBalancerAvgShedderHitCountLowThreshold": 1}
)


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU seconds, the median of some runs, and how many bundles were proposed."""

    seconds: float
    bundles: int


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per shedder and size; 0 if the goals were met and, beside a harness, as many bundles proposed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks decisions")
    parser.add_argument("--reference", type=Path, help="folder of a reference harness, or a file with its output")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(list(arguments))
    if given.reference and not given.reference.exists():
        parser.error(f"there is no reference harness at {given.reference}")
    print(description(), flush=True)
    reference = reference_figures(given.reference) if given.reference else {}
    faults = []
    for brokers in SIZES:
        load = cluster(brokers, BUNDLES)
        print(f"{brokers:,} brokers, {BUNDLES:,} bundles", flush=True)
        for name in IMPLEMENTED:
            found = measured(lambda name=name, load=load: len(IMPLEMENTED[name](load, {}, EAGER).unloads), given.runs)
            faults += _judged(name, brokers, found, reference.get((name, brokers)))
    for fault in faults:
        print(f"missed: {fault}")
    return 1 if faults else 0


def cluster(brokers: int, bundles: int) -> LoadData:
    """The cluster; a bundle's traffic grows with the CPU usage of its broker."""
    draw = JavaRandom(42)
    cpu = [10 + 88 * draw.double() for _ in range(brokers)]
    stats: list[dict[str, BundleStats]] = [{} for _ in range(brokers)]
    histories: dict[str, BundleHistory] = {}
    ranges = ranges_of(initial_boundaries(100))
    for number in range(bundles):
        owner = draw.below(brokers)
        traffic = math.exp(draw.gaussian()) * MIB * (1 + cpu[owner] / 20)
        bundle = bundle_name(f"tenant/ns-{number // 100}", ranges[number % 100])
        found = BundleStats(1 + draw.below(1100), draw.below(300), draw.below(300), *_rates(traffic))
        stats[owner][bundle] = found
        histories[bundle] = updated(None, found)
    reports = (_report(f"broker-{n}.example:8080", cpu[n], stats[n]) for n in range(brokers))
    return LoadData({report.broker: report for report in reports}, histories)


def _rates(traffic: float) -> tuple[float, float, float, float]:
    return traffic / 2048, traffic / 2048, traffic / 2, traffic / 2


def _report(broker: str, cpu: float, stats: Mapping[str, BundleStats]) -> BrokerReport:
    report = BrokerReport(broker, cpu=ResourceUsage(cpu, 100.0), bundles=frozenset(stats), stats=stats)
    rate, throughput = 0.0, 0.0
    for found in stats.values():
        rate += found.msg_rate_in
        throughput += found.msg_throughput_in
    return replace(
        report, msg_rate_in=rate, msg_rate_out=rate, msg_throughput_in=throughput, msg_throughput_out=throughput
    )


def measured(decide: Callable[[], int], runs: int) -> Figure:
    """One run to warm up, then the median; `decide` says how many bundles it proposes."""
    proposed = decide()
    seconds = []
    for _ in range(runs):
        gc.collect()
        begin = time.thread_time()
        decide()
        seconds.append(time.thread_time() - begin)
    return Figure(statistics.median(seconds), proposed)


def _judged(name: str, brokers: int, found: Figure, reference: Figure | None) -> list[str]:
    goal = MOST_SECONDS.get((name, brokers))
    line = f"    {name:<20}{found.seconds:8.3f} s CPU   {found.bundles:>6,} bundles proposed"
    faults = []
    if goal is not None:
        line += f"   goal {goal:.2f} s"
        if found.seconds > goal:
            faults.append(f"{name} at {brokers:,} brokers took {found.seconds:.3f} s, the goal is {goal:.2f} s")
    if reference is not None:
        line += f"   {found.seconds / reference.seconds:6.2f} of Pulsar's {reference.seconds:.3f} s"
        if found.bundles != reference.bundles:
            faults.append(f"{name} at {brokers:,} brokers: Pulsar proposes {reference.bundles:,} bundles")
    print(line, flush=True)
    return faults


def reference_figures(harness: Path) -> dict[tuple[str, int], Figure]:
    """What the reference harness measured of the shedders, by class name and number of brokers."""
    if harness.is_dir():
        done = subprocess.run([harness.resolve() / "run.sh", "bench"], stdout=subprocess.PIPE, text=True, check=True)
        lines = done.stdout.splitlines()
    else:
        lines = harness.read_text().splitlines()
    found = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        name, shape = row["bench"].partition(" ")[0], re.match(r"(\d+) brokers x \d+ bundles$", row["shape"])
        if shape and name in IMPLEMENTED:
            proposed = int(row["result"].partition(" ")[0])
            found[name, int(shape[1])] = Figure(row["cpu_ms_median"] / 1000, proposed)
    return found
