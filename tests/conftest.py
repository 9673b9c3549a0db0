"""Fixtures that all tests share: one Connect server per run, a session of its own for every module.

A grouped map refuses to decide when the code that decides is on disk no longer what this run imported, and other edits
may make tests fail as well. Whoever wants to edit files while tests run sets EVENKEEL_TESTS_FROZEN=1: the run then uses
a copy of the package.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsing import axe, browser  # noqa: F401
from tests.examples import load_profile
from tests.groups import after, group_of, place_of
from tests.lab_fixtures import extensible_cluster, fresh_tenant, modular_cluster  # noqa: F401
from tests.left_out import (
    leaves_exhaustive_out,
    left_out,
    pytest_deselected,  # noqa: F401
    pytest_ignore_collect,  # noqa: F401
    pytest_sessionfinish,  # noqa: F401
    pytest_testnodedown,  # noqa: F401
)
from tests.shared import made_once, run_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.handover import Handover
    from evenkeel.spark.server import Engine

CHECKOUT = Path(__file__).resolve().parent.parent
# A run of the tests makes a hundred small lakes and soon leaves each of them. Queries over a few rows cost more to
# compile than to run, so sessions begin as those of small cycles are; what Delta knows of a lake is forgotten early;
# Java compiles as for a server that soon ends, an eighth less processor time over 214 tests; and it collects all of its
# heap once in a while, not whenever a tenth more is in use.
SMALL_LAKES = (
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.databricks.delta.delta.log.cacheRetentionMinutes", "1"),
)
ROOM = ("-Xmn384m", "-XX:MinHeapFreeRatio=40", "-XX:MaxHeapFreeRatio=70")
FROZEN_VARIABLE = "EVENKEEL_TESTS_FROZEN"
STARTED = {"engine": "spark", "browser": "browser"}
"""Fixtures that start something large, and the marker of tests that use them."""


def freeze_package() -> None:
    """Puts a copy of the package, the same for all processes of the run, before the checkout's own on the path."""

    def copy(folder: Path) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / "spark" / "evenkeel", folder / "evenkeel", ignore=ignored)

    sys.path.insert(0, str(made_once("frozen", copy)))
    os.environ.setdefault("EVENKEEL_EXPECTATIONS", str(CHECKOUT / "expectations"))


run_folder()  # before other processes of this run are started
if os.environ.get(FROZEN_VARIABLE) == "1":
    freeze_package()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The Spark Connect server of this run, started by the first process that asks and ended by the last that leaves.

    Its home is in the folder of the run, so that two runs do not meet; it ends with its owners, also on Ctrl-C or a
    kill. Its workers can import `tests.…` as well.
    """
    from evenkeel.spark.command import ServerSettings
    from evenkeel.spark.server import engine_for

    settings = ServerSettings(python_path=(str(CHECKOUT),), spark=SMALL_LAKES, java=ROOM)
    with engine_for(run_folder(), settings=settings, brief=True) as running:
        yield running


@pytest.fixture(scope="session")
def empty_lake(engine: Engine) -> Callable[[Path], Path]:
    """Gives a folder all tables of a lake, without rows: a copy of one lake, since 25 CREATE TABLEs take seconds."""

    def make(folder: Path) -> None:
        from evenkeel.lake.store import Lake
        from evenkeel.spark.session import close, connect

        session = connect(engine.url, "tests")
        Lake(str(folder)).ensure_tables(session)
        close(session)

    empty = made_once("empty-lake", make)
    return lambda folder: Path(shutil.copytree(empty, folder, dirs_exist_ok=True))


@pytest.fixture(scope="session")
def planned_cycle(engine: Engine, empty_lake: Callable[[Path], Path]) -> Callable[[Path], Handover]:
    """Gives a new folder a lake with a cycle that is decided and not published yet: a copy, since six tasks take long.

    It is the cycle of `tests.planned.request(lake, 0)`.
    """
    from tests.planned import planned_once

    return planned_once(engine, empty_lake)


@pytest.fixture
def new_lake(empty_lake: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A lake of one test's own, without rows."""
    return empty_lake(tmp_path / "lake")


@pytest.fixture(scope="module")
def spark(engine: Engine) -> Iterator[SparkSession]:
    """A fresh Connect session for each test module."""
    from evenkeel.spark.session import close, connect

    session = connect(engine.url, "tests")
    yield session
    close(session)


def pytest_configure(config: pytest.Config) -> None:
    """Sets, before the first test file is imported, on how many examples properties are tried, and how often Python
    looks for garbage: all that tests import took a sixth of the processor time of those that need no Spark."""
    from evenkeel.spark.memory import look_for_circles_seldom

    look_for_circles_seldom()
    load_profile(is_quick=leaves_exhaustive_out(config.option.markexpr))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps groups together, those that take longest first; within a group the order stays."""
    unsteady = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unsteady:  # two processes would name the test differently, and `make test` could not deal it out
        raise pytest.UsageError(f"{unsteady[0]}: an address in its name; give the parameters ids")
    for item in items:
        for fixture, marker in STARTED.items():
            if fixture in getattr(item, "fixturenames", ()) and item.get_closest_marker(marker) is None:
                raise pytest.UsageError(
                    f"{item.nodeid}: without the marker {marker}, `make check` starts its {fixture}"
                )
    items.sort(key=lambda item: place_of(item.nodeid))


def pytest_collection_finish() -> None:
    """What was imported and collected by now stays; it is not looked through again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def imports_end_with_their_test() -> Iterator[None]:
    """A command that was called in this process and refused early leaves a thread that goes on importing. What pytest
    does before the next test reads the table of modules, and fails while that grows."""
    yield
    for thread in threading.enumerate():
        if thread.name == "import-ahead":
            thread.join()


@pytest.hookimpl(trylast=True)  # after the test's own fixtures
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the services of a group after its last test."""
    after(item.nodeid, None if nextitem is None else nextitem.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deals whole groups out to the processes of `make test`."""
    # `--dist loadgroup` would do, but pytest-xdist 3.8 cannot put a group's name into the ids of pytest 9.2.
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log)


def pytest_sessionstart() -> None:
    """Reads the package as it is now."""
    from evenkeel.spark.code import package_files

    package_files()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out, and where files changed under the run, since failures may come from that alone."""
    from evenkeel.spark.code import package_files, read_package_files

    if package_files() != read_package_files():
        terminalreporter.write_line(f"The package changed while the tests ran; {FROZEN_VARIABLE}=1 runs on a copy.")
    for line in left_out(terminalreporter):
        terminalreporter.write_line(line)
