"""A worker or the driver of a cluster killed in the middle of a task: nothing lost or twice, and the next try ends."""

from pathlib import Path

import pytest

from evenkeel.handover import Handover
from evenkeel.spark.cluster_faults import cluster_fault
from tests.pipeline.killed_task import Phase, Point, run_disturbed, run_whole
from tests.pipeline.stages import Stage, demand_one_set
from tests.spark_cluster.conftest import Undisturbed
from tests.spark_cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]

IN_THE_MIDDLE: tuple[tuple[str, Phase], ...] = (
    ("ingest", "inside"),
    ("aggregate", "before"),
    ("shed", "inside"),
    ("place", "after"),
    ("publish", "inside"),
)


def first_write(stage: Stage, phase: Phase) -> Point:
    table, number = stage.writes[0]
    return Point(table, number, phase)


@pytest.mark.parametrize(("task", "phase"), IN_THE_MIDDLE)
def test_a_worker_killed_in_the_middle(
    cluster: StandaloneCluster, undisturbed: Undisturbed, tmp_path: Path, task: str, phase: Phase
) -> None:
    """The task goes on by the other worker alone, or fails since rows that it kept are gone, and is tried again."""
    stage = undisturbed.stage(task)
    given = stage.copy(tmp_path / "lake")
    try:
        made = run_disturbed(cluster.url, task, given, first_write(stage, phase), lambda: cluster.kill_worker(0))
        if not isinstance(made, Handover):
            assert cluster_fault(made) is not None, made
            made, _ = run_whole(cluster.url, task, given)
        demand_one_set(stage, made)
    finally:
        cluster.start_worker(0)


@pytest.mark.parametrize(("task", "phase"), IN_THE_MIDDLE)
def test_the_driver_killed_in_the_middle(
    cluster: StandaloneCluster, undisturbed: Undisturbed, tmp_path: Path, task: str, phase: Phase
) -> None:
    """The Connect server that is started in its place is another application of the master."""
    stage = undisturbed.stage(task)
    given = stage.copy(tmp_path / "lake")
    try:
        run_disturbed(cluster.url, task, given, first_write(stage, phase), cluster.kill_server)
    finally:
        cluster.start_server()
    made, _ = run_whole(cluster.url, task, given)
    demand_one_set(stage, made)
