"""CPU seconds of decisions over large clusters, beside those of Pulsar's own classes.

`python -m benchmarks decisions [--reference DIR]`. 100 and 1,000 brokers with 100,000 bundles in 1,000 namespaces,
log-normal traffic, CPU usage uniform from 10 to 98 %, and one bundle of 100,000 topics to be cut; drawn as the
reference harness draws them, so that the same bundles are to be shed, listed and split. Top lists are made of reports
as a round has them when it comes to the lists, and once more from the round's rows, reports included. Goals, from the
CPU seconds of Pulsar's classes: for shedders no more at 100 brokers, a fifth at 1,000, half a second for
UniformLoadShedder and TransferShedder; for cuts three times as much as flow_or_qps_equally_divide takes there. The
others are reported. With DIR, the folder of a reference harness (or a file with what it printed), its `run.sh bench` is
run (minutes), ratios to its figures are printed, and numbers of bundles and cuts compared.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks._java_random import JavaRandom
from benchmarks.machine import description
from evenkeel.cycle.reading import reports_of_few_looks
from evenkeel.cycle.top_lists import top_lists as lists_of
from evenkeel.model.averages import updated
from evenkeel.model.bundles import FULL_RANGE, bundle_name, initial_boundaries, namespace_of, ranges_of, topic_hash
from evenkeel.model.filters.broker_filters import BrokerFilters
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import (
    RATES,
    BrokerLoadData,
    BrokerReport,
    BundleHistory,
    BundleStats,
    ExtensibleLoad,
    LoadData,
    Policies,
    ResourceUsage,
    TopBundle,
)
from evenkeel.model.split_algorithms import algorithm_named, option_of
from evenkeel.model.split_algorithms.split_option import BundleTopics, TopicLoads
from evenkeel.plan_splits.rules.bundle_splitter_task import SplitPlan, find_bundles_to_split
from evenkeel.repetition import BUNDLE_COLUMNS
from evenkeel.settings import Settings
from evenkeel.shed.strategies import MODULAR
from evenkeel.shed.strategies.transfer_shedder import TransferState, find_bundles_for_unloading
from evenkeel.shed.strategies.transfer_shedder.conditions import TransferPolicies

MIB = 1_048_576.0
SIZES = (100, 1_000)
BUNDLES = 100_000
TOPICS = 100_000
TOP = 10
ENDS = ("usage", "limit")
NOW = 1_700_000_000_000
ALGORITHMS = ("flow_or_qps_equally_divide", "topic_count_equally_divide")
MOST_SECONDS: Mapping[tuple[str, int], float] = {
    ("UniformLoadShedder", 100): 0.5,
    ("OverloadShedder", 100): 0.50,
    ("AvgShedder", 100): 1.70,
    ("ThresholdShedder", 100): 1.94,
    ("TransferShedder", 100): 0.5,
    ("UniformLoadShedder", 1_000): 0.5,
    ("OverloadShedder", 1_000): 1.2,
    ("AvgShedder", 1_000): 3.6,
    ("ThresholdShedder", 1_000): 3.6,
    ("TransferShedder", 1_000): 0.5,
}
MOST_SECONDS_OF_CUTS = 3 * 0.046
# Rounds that a difference must have lasted do not hold AvgShedder back here; so every round decides.
EAGER = Settings().with_values(
    {"loadBalancerAvgShedderHitCountHighThreshold": 1, "loadBalancerAvgShedderHitCountLowThreshold": 1}
)
# As little TransferShedder; and its brokers differ enough for it to act.
EAGER_EXTENSIBLE = Settings().with_values(
    {
        "loadManagerClassName": "ExtensibleLoadManagerImpl",
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalancerSheddingBundlesWithPoliciesEnabled": True,
        "loadBalancerBrokerLoadTargetStd": 0.15,
    }
)


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU seconds, the median of some runs, and how many bundles (lists, cuts) came of it."""

    seconds: float
    count: int


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured: `decide` answers how many `things` came of it. `shape` is in the reference harness's words."""

    name: str
    shape: str
    things: str
    goal: float | None
    decide: Callable[[], int]


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per decision and size; 0 if goals were met and, beside a harness, as many bundles came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks decisions")
    parser.add_argument("--reference", type=Path, help="folder of a reference harness, or a file with its output")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(list(arguments))
    if given.reference and not given.reference.exists():
        parser.error(f"there is no reference harness at {given.reference}")
    print(description(), flush=True)
    reference = reference_figures(given.reference) if given.reference else {}
    faults = []
    shape = ""
    for task in all_tasks():
        if task.shape != shape:
            shape = task.shape
            print(shape, flush=True)
        faults += _judged(task, measured(task.decide, given.runs), reference.get((task.name, task.shape)))
    for fault in faults:
        print(f"missed: {fault}")
    return 1 if faults else 0


def all_tasks() -> Iterator[Task]:
    """Everything that is measured; a cluster is made when its first task comes."""
    for brokers in SIZES:
        load = cluster(brokers, BUNDLES)
        shape = f"{brokers} brokers x {BUNDLES} bundles"
        for name, shedder in MODULAR.items():
            shed = shedder.shed
            yield Task(
                name,
                shape,
                "bundles proposed",
                MOST_SECONDS[name, brokers],
                lambda shed=shed, load=load: len(shed(load, {}, EAGER).unloads),
            )
        yield Task("BundleSplitterTask", shape, "bundles chosen", None, lambda load=load: len(_splits(load).splits))
        yield Task("– and every verdict", shape, "verdicts", None, lambda load=load: len(_splits(load).considered))
        yield Task("– figures read, no more", shape, "with traffic", None, lambda load=load: _with_traffic(load))
        listed = f"{shape}, top {TOP} per broker (default)"
        rows = rows_of(load)
        reported = as_read(load, rows)
        yield Task("TopKBundles.update", listed, "lists", None, lambda load=reported: len(top_lists(load, TOP)))
        yield Task(
            "– and reports, from rows",
            listed,
            "lists",
            None,
            lambda load=load, rows=rows: len(top_lists(as_read(load, rows), TOP)),
        )
        for shape_of, most in ((listed, TOP), (f"{shape}, all bundles reported", BUNDLES)):
            extensible = extensible_cluster(load, most)
            yield Task(
                "TransferShedder",
                shape_of,
                "bundles proposed",
                MOST_SECONDS["TransferShedder", brokers],
                lambda extensible=extensible: _transferred(extensible),
            )
    topics = busy_topics(TOPICS)
    for name in ALGORITHMS:
        yield Task(
            name,
            f"1 bundle, {TOPICS} topics",
            "cuts",
            MOST_SECONDS_OF_CUTS,
            lambda name=name: len(algorithm_named(name)(option_of(FULL_RANGE, Settings(), topics)).positions),
        )


def _splits(load: LoadData) -> SplitPlan:
    counts = {f"tenant/ns-{number}": 100 for number in range(BUNDLES // 100)}
    return find_bundles_to_split(load.brokers, load.histories, counts, Settings())


def _with_traffic(load: LoadData) -> int:
    """The least that a top list can do: to read both figures of every bundle that say whether it has traffic."""
    return sum(
        stats.msg_throughput_in + stats.msg_throughput_out != 0
        for report in load.brokers.values()
        for stats in report.stats.values()
    )


def _transferred(load: ExtensibleLoad) -> int:
    policies, settings = Policies(), EAGER_EXTENSIBLE
    asked = TransferPolicies(BrokerFilters(load, policies, {}, settings), PoliciesPresent(policies), settings)
    found = find_bundles_for_unloading(load, TransferState(), asked, settings, now=NOW)
    # The reference counts bundles; one that is moved twice counts once.
    return len({one.bundle for one in found.transfers})


def top_lists(load: LoadData, most: int) -> dict[str, tuple[TopBundle, ...]]:
    """The top list of every broker."""
    present = PoliciesPresent(Policies())
    return lists_of({name: one.stats for name, one in load.brokers.items()}, most, present, EAGER_EXTENSIBLE)


def rows_of(load: LoadData) -> dict[str, list[dict[str, Any]]]:
    """Rows of the cluster with the columns that rounds read, in the order in which they are handed to a round."""
    usages = [f"{name}_{end}" for name in ("memory", "direct_memory", "bandwidth_in", "bandwidth_out") for end in ENDS]
    reports, bundles = [], []
    for broker, report in sorted(load.brokers.items()):
        told = {name: getattr(report, name) for name in RATES} | {"cpu_usage": report.cpu.usage, "cpu_limit": 100.0}
        said = ("bundles", "topics", "pulsar_version", "load_manager_class", *usages)
        domains = dict.fromkeys(("persistent_topics_enabled", "non_persistent_topics_enabled"), True)
        reports.append({"broker": broker, "state": "reported", **told, **dict.fromkeys(said), **domains})
        for bundle, stats in report.stats.items():
            row: dict[str, Any] = dict.fromkeys(BUNDLE_COLUMNS)
            row |= {"bundle": bundle, "namespace": namespace_of(bundle), "owner": broker, "last_owner": broker}
            row |= {"ownership": "owned", "has_non_persistent": False, "short_samples": 10, "long_samples": 10}
            row |= {name: getattr(stats, name) for name in ("topics", "consumers", "producers")}
            row |= {f"{term}_{name}": getattr(stats, name) for term in ("used", "short", "long") for name in RATES}
            bundles.append(row)
    bundles.sort(key=itemgetter("bundle"))
    broker_load = [{"broker": row["broker"], "state": row["state"]} for row in reports]
    return {"bundle_load": bundles, "broker_reports": reports, "broker_load": broker_load}


def as_read(load: LoadData, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> LoadData:
    """The cluster with its reports as a round of the extensible manager reads them."""
    return replace(load, brokers=reports_of_few_looks(rows))


def extensible_cluster(load: LoadData, most: int) -> ExtensibleLoad:
    """The same cluster under the extensible manager; brokers list so many bundles at most."""
    loads = {
        name: BrokerLoadData(
            weighted_max_ema=report.cpu.usage / 100,
            msg_throughput_ema=report.throughput,
            msg_throughput_in=report.msg_throughput_in,
            msg_throughput_out=report.msg_throughput_out,
            updated_at=NOW,
        )
        for name, report in load.brokers.items()
    }
    brokers = {name: BrokerReport(name, load_manager="ExtensibleLoadManagerImpl") for name in load.brokers}
    return ExtensibleLoad(brokers, loads, top_lists(load, most))


def busy_topics(count: int) -> BundleTopics:
    """The topics of one full bundle, with log-normal rates of 8 msg/s on average."""
    draw = JavaRandom(7)
    hashes = [topic_hash(f"persistent://tenant/ns/orders-partition-{number}") for number in range(count)]
    rates = [math.exp(draw.gaussian()) * 5 for _ in hashes]
    return BundleTopics(sorted(hashes), TopicLoads(hashes, rates, [rate * 800 for rate in rates]))


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


def _judged(task: Task, found: Figure, reference: Figure | None) -> list[str]:
    line = f"    {task.name:<28}{found.seconds:9.4f} s CPU   {found.count:>6,} {task.things:<16}"
    at = f"{task.name}, {task.shape}"
    faults = []
    if task.goal is not None:
        line += f"   goal {task.goal:.2f} s"
        if found.seconds > task.goal:
            faults.append(f"{at}: took {found.seconds:.3f} s, the goal is {task.goal:.2f} s")
    if reference is not None:
        line += f"   {found.seconds / reference.seconds:6.2f} of Pulsar's {reference.seconds:.4f} s"
        if found.count != reference.count:
            faults.append(f"{at}: of Pulsar's came {reference.count:,} {task.things}")
    print(line.rstrip(), flush=True)
    return faults


def reference_figures(harness: Path) -> dict[tuple[str, str], Figure]:
    """What the reference harness measured, by name and shape."""
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
        count = row["result"].partition(" ")[0]
        found[row["bench"].partition(" ")[0], row["shape"]] = Figure(row["cpu_ms_median"] / 1000, int(count))
    return found
