"""One standalone cluster for all tests of this folder, started after the embedded server has said what is right."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.history import A_DAY, landed
from benchmarks.synthetic_snapshot import Shape
from evenkeel.errors import EngineError
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_cycle, run_window
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.jars import classic_java
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect
from tests.dags.conftest import RECORDED, RECORDED_AT
from tests.groups import until_the_group_ends
from tests.left_out import FULL_JDK, lacking
from tests.pipeline.stages import Stage, stages_of
from tests.spark_cluster.standalone import StandaloneCluster

CHECKOUT = Path(__file__).resolve().parents[2]
SMALL = "768m"
LEAST_SHARE = 0.3
"""Of the tasks, for each worker."""
DISK_MEGABYTES = 96
"""The scratch disk of one worker: what a cycle needs there, twice."""


@dataclass(frozen=True)
class Undisturbed:
    """What the embedded server comes to: an empty lake, a cycle task by task, and what was asked for and is in a lake
    by now: a day's window, and the demo's cycle."""

    empty: Path
    stages: Mapping[str, Stage]
    day: CycleRequest
    demo: CycleRequest

    def stage(self, task: str) -> Stage:
        """A task of the cycle."""
        return self.stages[task]


@dataclass(frozen=True)
class Disk:
    """A small file system for a worker's scratch files, if this user may mount one."""

    place: Path
    mounted: bool


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Decided on a small embedded server, which has ended by the time that the cluster starts."""
    from evenkeel.lake.store import Lake

    try:
        classic_java()
    except EngineError:
        pytest.skip(lacking(FULL_JDK))
    folder = tmp_path_factory.mktemp("embedded")
    settings = ServerSettings(memory=SMALL, python_path=(str(CHECKOUT),))
    with engine_for(folder / "engine", settings=settings) as engine:
        spark = connect(engine.url, "tests")
        Lake(str(folder / "empty")).ensure_tables(spark)
        lake = Path(shutil.copytree(folder / "empty", folder / "cycle"))
        stages = stages_of(engine.url, lake, tmp_path_factory.mktemp)
        day = _day(folder, Path(shutil.copytree(folder / "empty", folder / "day")))
        for _ in run_window(spark, day, lambda _: None):
            pass
        demo = CycleRequest(str(folder / "demo"), f"recording:{RECORDED}", clusters=("demo",), at=RECORDED_AT)
        shutil.copytree(folder / "empty", demo.lake)
        run_cycle(spark, demo, lambda *_: None)
        close(spark)
    return Undisturbed(folder / "empty", stages, day, demo)


def _day(folder: Path, lake: Path) -> CycleRequest:
    """A window of a day in two clusters."""
    lines = []
    for number, name in enumerate(("east", "west")):
        landed(folder / name, A_DAY, Shape(topics=24, bundles=6, brokers=3, seed=number + 1))
        lines += [f"[clusters.{name}]", f'recording = "{name}"']
    (folder / "clusters.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CycleRequest(str(lake), configuration=str(folder / "clusters.toml"), every=True, run_id="window")


@pytest.fixture(scope="session")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """A small file system, or a plain folder where this user may not mount one."""
    place = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "evenkeel-tests", str(place)]
    mounted = (
        shutil.which("mount") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )
    yield Disk(place, mounted)
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="session")
def cluster(undisturbed: Undisturbed, small_disk: Disk) -> StandaloneCluster:
    """The cluster; it ends with the group's last test."""
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-cluster-"))
    cluster = StandaloneCluster(folder, {1: small_disk.place})
    until_the_group_ends().callback(shutil.rmtree, folder, ignore_errors=True)
    until_the_group_ends().callback(cluster.end)
    cluster.start()
    return cluster
