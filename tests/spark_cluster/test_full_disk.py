"""A worker whose scratch disk is full: the task ends or says so in one line, and with room again it comes out right."""

import os
from pathlib import Path

import pytest

from evenkeel.handover import Handover
from evenkeel.spark.cluster_faults import cluster_fault
from tests.pipeline.killed_task import Point, run_disturbed, run_whole
from tests.pipeline.stages import demand_one_set
from tests.spark_cluster.conftest import Disk, Undisturbed
from tests.spark_cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]


def fill(place: Path) -> None:
    """Takes all that is left of the disk."""
    found = os.statvfs(place)
    with (place / "ballast").open("wb") as ballast:
        ballast.write(b"\0" * (found.f_bavail * found.f_frsize))


@pytest.mark.parametrize("task", ["validate", "aggregate", "shed"])
def test_a_worker_whose_disk_is_full(
    cluster: StandaloneCluster, undisturbed: Undisturbed, small_disk: Disk, tmp_path: Path, task: str
) -> None:
    if not small_disk.mounted:
        pytest.skip("no right to mount a file system")
    stage = undisturbed.stage(task)
    given = stage.copy(tmp_path / "lake")
    table, number = stage.writes[0]
    try:
        made = run_disturbed(cluster.url, task, given, Point(table, number, "before"), lambda: fill(small_disk.place))
    finally:
        (small_disk.place / "ballast").unlink(missing_ok=True)
    if not isinstance(made, Handover):
        told = cluster_fault(made)
        assert told is not None, made
        assert "No space left on device on the worker 127.0.0.1" in str(told)
        made, _ = run_whole(cluster.url, task, given)
    demand_one_set(stage, made)
