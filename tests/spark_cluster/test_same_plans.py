"""A cycle and a window of a day on a cluster come to what the embedded server comes to, and both workers work."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.pipeline import run_window
from evenkeel.spark.session import close, connect
from tests.pipeline.killed_task import TASKS, run_whole
from tests.pipeline.stages import contents, demand_one_attempt
from tests.pipeline.window_cases import demand_the_same
from tests.spark_cluster.conftest import LEAST_SHARE, Undisturbed
from tests.spark_cluster.standalone import WORKERS, StandaloneCluster

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]


def test_a_cycle_comes_to_the_same_rows_and_plan(
    cluster: StandaloneCluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """Each task in a process and a session of its own, as in the DAG; nobody sends the package there."""
    handover = undisturbed.stage("ingest").copy(tmp_path / "lake")
    for task in TASKS:
        stage = undisturbed.stage(task)
        made, _ = run_whole(cluster.url, task, handover)
        assert contents(made, handover) == contents(stage.made, stage.given), task
        handover = made
    demand_one_attempt(undisturbed.stage("publish"), handover)


def test_a_window_of_a_day_comes_to_the_same_plans_and_digests_and_both_workers_do_their_share(
    cluster: StandaloneCluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    lake = Path(shutil.copytree(undisturbed.empty, tmp_path / "lake"))
    before = cluster.tasks()
    spark = connect(cluster.url, "tests")
    for _ in run_window(spark, replace(undisturbed.day, lake=str(lake)), lambda _: None):
        pass
    close(spark)
    attempts = demand_the_same(Path(undisturbed.day.lake), lake)
    assert {attempt.status for attempt in attempts} == {"closed"}
    ended = cluster.tasks() - before
    assert len(ended) == WORKERS
    assert min(ended.values()) >= LEAST_SHARE * ended.total(), ended
