"""Each task, or the Spark server under it, killed around each of its writes: run again it leaves one set of rows.

And so it does in other time zones and locales.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.killed_task import TASKS, Point, run_until, run_whole
from tests.pipeline.stages import Stage, contents, demand_one_attempt, demand_one_set, stages_of

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def stages(
    engine: Engine, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Stage]:
    """The stages of one cycle that nobody disturbs."""
    lake = empty_lake(tmp_path_factory.mktemp("undisturbed") / "lake")
    return stages_of(engine.url, lake, tmp_path_factory.mktemp)


def disturbed(stage: Stage, task: str, engine: Callable[[], str], kill: Any, folder: Path) -> None:
    for number, point in enumerate(stage.points()):
        given = stage.copy(folder / str(number))
        run_until(engine(), task, given, point, kill)
        again, _ = run_whole(engine(), task, given)
        demand_one_set(stage, again)
        shutil.rmtree(given.lake)


def test_a_task_killed_inside_a_write_and_run_again_leaves_one_set_of_rows(
    engine: Engine, new_lake: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    stage = stages_of(engine.url, new_lake, tmp_path_factory.mktemp, "aggregate")["aggregate"]
    given = stage.copy(tmp_path / "killed")
    run_until(engine.url, "aggregate", given, Point("bundle_load", 1, "inside"), lambda: None)
    again, _ = run_whole(engine.url, "aggregate", given)
    demand_one_set(stage, again)


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", TASKS)
def test_a_task_killed_around_each_of_its_writes_leaves_one_set_of_rows(
    task: str, engine: Engine, stages: Mapping[str, Stage], tmp_path: Path
) -> None:
    assert stages[task].writes, "every task writes"
    disturbed(stages[task], task, lambda: engine.url, lambda: None, tmp_path)


class MortalServer:
    """A Spark server of one test's own, started anew whenever it was killed."""

    def __init__(self, folder: Path, java: tuple[str, ...] = ()) -> None:
        self._folder, self._java = folder, java
        self._stack = ExitStack()
        self._engine: Engine | None = None

    def url(self) -> str:
        from evenkeel.spark.command import ServerSettings
        from evenkeel.spark.server import engine_for

        if self._engine is None:
            checkout = str(Path(__file__).resolve().parents[2])
            settings = ServerSettings(python_path=(checkout,), java=self._java)
            self._engine = self._stack.enter_context(engine_for(self._folder, settings=settings))
        return self._engine.url

    def kill(self) -> None:
        assert self._engine is not None
        os.kill(self._engine.pid, signal.SIGKILL)
        self._engine = None
        self._stack.close()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MortalServer]:
    made = MortalServer(tmp_path / "server")
    yield made
    made.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", TASKS)
def test_a_spark_server_killed_around_each_write_of_a_task_leaves_one_set_of_rows(
    task: str, server: MortalServer, stages: Mapping[str, Stage], tmp_path: Path
) -> None:
    disturbed(stages[task], task, server.url, server.kill, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("zone", "language", "country"),
    [("Asia/Kathmandu", "ar", "EG"), ("America/St_Johns", "tr", "TR"), ("Pacific/Apia", "th", "TH")],
)
def test_other_time_zones_and_locales_of_every_process_come_to_the_same_rows(
    zone: str, language: str, country: str, stages: Mapping[str, Stage], tmp_path: Path, monkeypatch: Any
) -> None:
    """Figures are Arabic, days Buddhist, `I` has no dot, and the day of the week is another one."""
    locale = f"{language}_{country}.UTF-8"
    environment = {"TZ": zone, "LC_ALL": locale, "LANG": locale}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)  # for the server and its workers
    java = (f"-Duser.timezone={zone}", f"-Duser.language={language}", f"-Duser.country={country}")
    server = MortalServer(tmp_path / "server", java)
    try:
        handover = next(iter(stages.values())).copy(tmp_path / "lake")
        for task, stage in stages.items():
            made, _ = run_whole(server.url(), task, handover, environment)
            assert contents(made, handover) == contents(stage.made, stage.given), task
            handover = made
        demand_one_attempt(stages["publish"], handover)
    finally:
        server.close()
