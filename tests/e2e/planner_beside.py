"""Evenkeel's planner beside a load manager's own shedder on real brokers, each from the same start.

Each variant has a cluster of its own with the same topics, rates and placement, and the same settings but for
the planner's own. Cycles are those of `make e2e`, decided and sent by the pipeline itself without Airflow: a dry run,
then up to so many that may act, each after the brokers' figures have settled, until two in a row send nothing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devtools.lab.cluster import cluster_for
from devtools.lab.layout import skewed
from devtools.lab.measures import measure_load
from devtools.lab.tally import Tally
from devtools.lab.traffic import MOST_SECONDS, traffic_for
from evenkeel.lake.record import Attempt
from evenkeel.lake.store import Lake
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect
from tests.e2e.beside import Played, PlayedCycle, sent_of, shortfalls, table, write
from tests.e2e.scene import LOADS, SETTINGS, SETTLING_SECONDS, SKEWED, TENANT, Scene, lab_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANNER = "planner"
SHEDDERS = {"modular": "UniformLoadShedder", "extensible": "TransferShedder"}
# TransferShedder is asked for a deviation of a hundredth here, so the planner is asked for as much.
BANDS: Mapping[str, Mapping[str, float]] = {
    "modular": {},
    "extensible": {
        "evenkeelPlannerActAbovePercent": 5.0,
        "evenkeelPlannerStopAtPercent": 2.0,
        "evenkeelPlannerLeastGainPoints": 0.5,
    },
}
QUIET_CYCLES = 2
SPLIT_RATE, SKEWED_RATE = "loadBalancerNamespaceBundleMaxMsgRate", 1000.0
MEASURING_SECONDS = 180.0
LAST_CYCLE_SECONDS = 2.0 * MEASURING_SECONDS
"""A cycle begins only while load goes on for so long."""


def main(managers: Sequence[str], build: Path, cycles: int, part: float) -> int:
    """Compares with each of these load managers and prints the tables; 1 where the planner falls short of its goal."""
    code = 0
    for manager in managers:
        folder = build / f"{manager}-planner"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with engine_for(folder) as engine:
            spark = connect(engine.url, "e2e")
            shedder, planner = compared(spark, manager, folder, cycles, part)
            close(spark)
        print("\n".join(["", f"{manager} load manager", "", *table([shedder, planner]), ""]))
        found = shortfalls(shedder, planner)
        print("\n".join(f"NOT as good: {words}" for words in found) or "the planner is at least as good", flush=True)
        code |= bool(found)
    return code


def compared(spark: SparkSession, manager: str, folder: Path, cycles: int, part: float = 1.0) -> tuple[Played, Played]:
    """What the shedder and what the planner came to; also kept in `folder` as JSON.

    `part`: of the scene's rate, and of the rate from which a bundle is split.
    """
    shedder = _play(spark, manager, SHEDDERS[manager], folder / "shedder", cycles, part)
    planner = _play(spark, manager, PLANNER, folder / "planner", cycles, part)
    write(folder / "results.json", manager, [shedder, planner])
    return shedder, planner


def _play(spark: SparkSession, manager: str, variant: str, folder: Path, cycles: int, part: float) -> Played:
    """One variant on a cluster of its own."""
    folder.mkdir(parents=True)
    settings = dict(SETTINGS[manager])
    settings[SPLIT_RATE] = round(part * settings[SPLIT_RATE])
    load = dict(LOADS[manager])
    load["rate"] = part * load.get("rate", SKEWED_RATE)
    if variant == PLANNER:
        settings |= {"evenkeelPlanner": "on", **BANDS[manager]}
    Lake(str(folder / "lake")).ensure_tables(spark)
    with cluster_for(lab_settings(manager)) as cluster:
        layout = skewed(TENANT, cluster.broker_ids, **load)
        scene = Scene(spark, cluster, folder, settings)
        with traffic_for(cluster, layout, seconds=MOST_SECONDS) as traffic:
            end = time.monotonic() + MOST_SECONDS - LAST_CYCLE_SECONDS
            course = _Course(scene, variant, [topic.name for topic in layout.topics])
            course.begin()
            before = traffic.so_far()
            while len(course.played) < cycles and not course.is_at_rest and time.monotonic() < end:
                course.cycle()
            course.measure()
            return course.result(traffic.stop(), before)


class _Course:
    """Cycles under load, and how even it was before each and after the last."""

    def __init__(self, scene: Scene, variant: str, topics: Sequence[str]) -> None:
        self._scene, self._variant, self._topics = scene, variant, topics
        self._max_over_mean = 0.0
        self.played: list[PlayedCycle] = []

    def begin(self) -> None:
        """A dry run, which moves nothing; then the CPU figures of the first minutes are those of the brokers' start."""
        hot = self._scene.cluster.broker_ids[0]
        load = measure_load(self._scene.cluster.admin(), self._topics)
        assert load.share[hot] > SKEWED, load.share
        self._say(f"{load.share[hot]:.0%} of the load on one broker")
        self._scene.cycle("dry_run")
        time.sleep(SETTLING_SECONDS)
        self.measure()

    def measure(self) -> None:
        """How even the load is now."""
        load = measure_load(self._scene.cluster.admin(), self._topics, seconds=MEASURING_SECONDS)
        self._max_over_mean = load.max_over_mean
        shares = ", ".join(f"{share:.1%}" for _, share in sorted(load.share.items()))
        self._say(f"max/mean {load.max_over_mean:.2f} ({shares})")

    def cycle(self) -> None:
        """One cycle that may act, and the time that figures take to settle."""
        attempt = self._scene.cycle()
        begin = time.monotonic()
        commands, outcomes = self._scene.commands(attempt), self._scene.outcomes()
        moves, splits = (sent_of(commands, outcomes, kind) for kind in ("unload", "split"))
        said = self._said(attempt)
        seen = dict(sorted(self._scene.tally(attempt).items()))
        self.played.append(PlayedCycle(self._max_over_mean, moves, splits, seen, said))
        self._say(f"cycle {len(self.played)}: {moves} moves, {splits} splits, {seen}. {said}")
        if not self.is_at_rest:
            self.measure()
            time.sleep(max(0.0, SETTLING_SECONDS - (time.monotonic() - begin)))

    @property
    def is_at_rest(self) -> bool:
        """Whether the last cycles sent nothing."""
        last = self.played[-QUIET_CYCLES:]
        return len(last) == QUIET_CYCLES and not any(cycle.acted for cycle in last)

    def result(self, tally: Tally, before: Tally) -> Played:
        """What the variant came to, with what the clients counted; reconnects since the tally `before` the cycles."""
        return Played(
            self._variant,
            self.played,
            self._max_over_mean,
            tally.producer_reconnects - before.producer_reconnects,
            tally.consumer_reconnects - before.consumer_reconnects,
            tally.sent,
            tally.received,
            tally.lost,
            tally.failed,
            tally.duplicates,
            tally.longest_pause_seconds,
        )

    def _said(self, attempt: Attempt) -> str:
        """The sentences about the cluster, and what no plan mends."""
        table = "planner_targets" if self._variant == PLANNER else "unload_decisions"
        rows = [row for row in self._scene.rows(attempt, table) if row["subject_kind"] == "cluster"]
        rows += self._scene.rows(attempt, "planner_findings")
        return " ".join(str(row["sentence"]) for row in rows)

    def _say(self, text: str) -> None:
        print(f"{self._variant}: {text}", flush=True)
