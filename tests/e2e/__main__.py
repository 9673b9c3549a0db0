"""`make e2e`: a real cluster under skewed load, balanced by Airflow's DAG in mode `auto`, and what came of it.

    python -m tests.e2e [--manager modular|extensible] [--planner] [--cycles N] [--build DIR]

Starts three brokers, lets one of them carry most of the load, and triggers cycles until the load is even. Then a broker
is killed. Says at the end whether the load was evened out in time, every command has an outcome, no bundle moved twice,
the hot bundle was split and its children lie apart, the anti-affinity group stayed apart, and no message was lost.

With --planner the same load is evened out twice, without Airflow: by the load manager's shedder, and on a new cluster
with the same start by Evenkeel's planner; what each came to is printed side by side (see `planner_beside`).
"""

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devtools.lab.cluster import Cluster, cluster_for
from devtools.lab.conf import SESSION_SECONDS
from devtools.lab.layout import Layout, skewed
from devtools.lab.measures import Load, measure_load, owners
from devtools.lab.tally import Tally
from devtools.lab.traffic import traffic_for
from devtools.lab.waiting import wait_until
from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, Airflow, airflow_for
from evenkeel.lake.record import read_cycles, read_table
from evenkeel.report import build_report
from evenkeel.spark.code import source_root
from evenkeel.spark.server import engine_for
from tests.e2e import planner_beside
from tests.e2e.scene import EVEN, LOADS, SEEN, SETTINGS, SETTLING_SECONDS, SKEWED, TENANT, configuration, lab_settings

RUN_SECONDS = 600.0
LONGEST_SECONDS = 1500.0


@dataclass
class Course:
    """What was seen: the load after each cycle, and everything that is not as it should be."""

    manager: str
    loads: dict[str, Load] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        print(f"{self.manager}: {text}", flush=True)

    def table(self, brokers: Sequence[str]) -> None:
        """Each broker's share of the load, and how far the busiest is over the mean."""
        print(f"{'':28}" + "".join(f"{broker:>18}" for broker in brokers) + f"{'busiest/mean':>14}")
        for label, load in self.loads.items():
            shares = "".join(f"{load.share.get(broker, 0.0):>18.1%}" for broker in brokers)
            print(f"{label:28}{shares}{load.max_over_mean:>14.2f}", flush=True)

    def demand(self, holds: bool, what: str) -> None:
        self.say(f"{'ok  ' if holds else 'NOT '} {what}")
        if not holds:
            self.faults.append(what)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the course with each load manager asked for; 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=__doc__.splitlines()[0])
    parser.add_argument("--manager", choices=tuple(SETTINGS), action="append", help="default: both")
    parser.add_argument("--planner", action="store_true", help="the planner beside the shedder, from the same start")
    parser.add_argument("--rate", type=float, default=1.0, metavar="PART", help="of the load, with --planner")
    parser.add_argument("--cycles", type=int, default=4, metavar="N", help="cycles that may act (default: 4)")
    parser.add_argument("--build", type=Path, default=source_root().parent / "build" / "e2e", metavar="DIR")
    given = parser.parse_args(arguments)
    if given.planner:
        return planner_beside.main(given.manager or tuple(SETTINGS), given.build, given.cycles, given.rate)
    faults = []
    for manager in given.manager or tuple(SETTINGS):
        folder = given.build / manager
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        faults += run(Course(manager), folder, given.cycles).faults
    print("all as it should be" if not faults else f"{len(faults)} things are not as they should be")
    return 1 if faults else 0


def run(course: Course, folder: Path, cycles: int) -> Course:
    """One cluster from its start to the report."""
    course.say("starting three brokers")
    with cluster_for(lab_settings(course.manager)) as cluster, engine_for(folder) as engine:
        config = folder / "evenkeel.toml"
        config.write_text(configuration(cluster, SETTINGS[course.manager]))
        wiring = Wiring(
            source_root().parent, engine.airflow_connection(), str(folder / "lake"), config, mode_limit="auto"
        )
        course.say("starting Airflow")
        with airflow_for(folder / "airflow", wiring, say=course.say) as airflow:
            layout = skewed(TENANT, cluster.broker_ids, **LOADS[course.manager])
            with traffic_for(cluster, layout, seconds=LONGEST_SECONDS) as traffic:
                _even_out(course, cluster, layout, airflow, cycles)
                _look_back(course, cluster, layout, folder / "lake")
                _lose_a_broker(course, cluster, layout)
                _count(course, traffic.stop())
    report = folder / "report.html"
    build_report(folder / "lake", out=report)
    course.say(f"report: {report}")
    return course


def _even_out(course: Course, cluster: Cluster, layout: Layout, airflow: Airflow, cycles: int) -> None:
    topics = [topic.name for topic in layout.topics]
    hot = cluster.broker_ids[0]
    load = course.loads["at first"] = measure_load(cluster.admin(), topics)
    course.demand(load.share[hot] > SKEWED, f"one broker carries {load.share[hot]:.0%} of the load at first")
    state = _run(airflow, "dry_run")
    time.sleep(SETTLING_SECONDS)  # CPU figures of the first minutes are those of the brokers' start
    load = course.loads["after a dry run"] = measure_load(cluster.admin(), topics)
    course.demand(load.share[hot] > SKEWED, f"a dry run ({state}) leaves it at {load.share[hot]:.0%}")
    for number in range(1, cycles + 1):
        state = _run(airflow, "auto")
        begin = time.monotonic()
        load = course.loads[f"after cycle {number} ({state})"] = measure_load(cluster.admin(), topics, seconds=180.0)
        course.say(f"cycle {number}: run {state}, busiest over mean {load.max_over_mean:.2f}")
        if load.max_over_mean <= EVEN:
            break
        if number < cycles:
            time.sleep(max(0.0, SETTLING_SECONDS - (time.monotonic() - begin)))
    course.table(cluster.broker_ids)
    course.demand(load.max_over_mean <= EVEN, f"after {number} cycles the busiest is at {load.max_over_mean:.2f}")


def _run(airflow: Airflow, mode: str) -> str:
    """A run of the DAG; its state."""
    run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"mode": mode})
    until = time.monotonic() + RUN_SECONDS
    while time.monotonic() < until:
        state = str(airflow.rest.run(DAG_ID, run_id)["state"])
        if state in ("success", "failed"):
            return state
        airflow.check()
        time.sleep(0.5)
    return "not over"


def _look_back(course: Course, cluster: Cluster, layout: Layout, lake: Path) -> None:
    every = {row["command_id"]: row for row in read_table(lake, "commands")}
    commands = {name: row for name, row in every.items() if row["mode"] != "dry_run"}
    seen = sorted(read_table(lake, "outcomes"), key=lambda row: row["seen_at"])
    last = {row["command_id"]: row["outcome"] for row in seen if row["command_id"] in commands}
    course.say(f"{len(commands)} commands: {dict(Counter(last.values()))}")
    course.demand(last.keys() == commands.keys(), "every command has an outcome")
    course.demand(set(last.values()) <= SEEN, "of every command it was seen what became of it")
    moves = Counter(row["bundle"] for name, row in commands.items() if row["kind"] == "unload" and last[name] == "done")
    course.demand(bool(moves) and max(moves.values()) == 1, f"{len(moves)} bundles moved, each once")
    course.demand(all(attempt.status == "closed" for attempt in read_cycles(lake)), "every cycle is closed")
    splits = [row["bundle"] for row in commands.values() if row["kind"] == "split"]
    course.demand(layout.hottest.name in splits, "the hot bundle was split")
    found = owners(cluster.admin(), of=f"{layout.hottest.namespace}/")
    edges = layout.hottest.range
    children = {o for name, o in found.items() if edges.lower <= int(name.rpartition("/")[2][:10], 16) < edges.upper}
    course.demand(len(children) > 1, "its children lie on several brokers")


def _lose_a_broker(course: Course, cluster: Cluster, layout: Layout) -> None:
    """Kills a broker that has a member of the group; the cluster itself finds new owners."""
    before = _group(cluster, layout)
    victim = 1 + cluster.broker_ids.index(next(iter(before.values())))
    cluster.kill_broker(victim)
    cluster.await_gone(victim, seconds=SESSION_SECONDS + 30)
    alive: Callable[[], bool] = lambda: len(_group(cluster, layout)) == len(layout.groups)  # noqa: E731
    wait_until("the group to have owners again", alive, seconds=90)
    after = _group(cluster, layout)
    course.demand(len(set(after.values())) == len(after), f"the group is apart after broker {victim} was killed")


def _group(cluster: Cluster, layout: Layout) -> dict[str, str]:
    """Namespace -> owner of the members of the anti-affinity group that have one."""
    found = {name.rpartition("/")[0]: owner for name, owner in owners(cluster.admin(), of=f"{layout.tenant}/").items()}
    return {name: owner for name, owner in found.items() if name in layout.groups}


def _count(course: Course, tally: Tally) -> None:
    course.say(f"{tally.sent:,} messages sent, {tally.acknowledged:,} acknowledged, {tally.received:,} received")
    course.demand(tally.lost == 0, f"no message was lost ({tally.lost}), {tally.failed} sends failed")


if __name__ == "__main__":
    sys.exit(main())
