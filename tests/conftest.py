"""Fixtures that all tests share: one Connect server per run, a session of its own for every module.

A grouped map refuses to decide when the package on disk is no longer the one that this run imported. Whoever wants to
edit files while tests run sets EVENKEEL_TESTS_FROZEN=1: the run then uses a copy of the package.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.lab.fixtures import extensible_cluster, fresh_tenant, modular_cluster  # noqa: F401

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.engine.server import Engine

# Properties are tried on the same examples in every run, however slow the machine is.
settings.register_profile(
    "evenkeel", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("evenkeel")

CHECKOUT = Path(__file__).resolve().parent.parent
FROZEN_VARIABLE = "EVENKEEL_TESTS_FROZEN"


def freeze_package() -> None:
    """Puts a copy of the package before the checkout's own on the path."""
    folder = tempfile.mkdtemp(prefix="evenkeel-frozen-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "spark" / "evenkeel", Path(folder) / "evenkeel", ignore=ignored)
    sys.path.insert(0, folder)
    os.environ.setdefault("EVENKEEL_EXPECTATIONS", str(CHECKOUT / "expectations"))


if os.environ.get(FROZEN_VARIABLE) == "1":
    freeze_package()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The Spark Connect server of this run, started at first use.

    Its home is a folder of its own, so that two runs do not meet; it ends with this process, also on Ctrl-C or a kill.
    Its workers can import `tests.…` as well.
    """
    from evenkeel.engine.command import ServerSettings
    from evenkeel.engine.server import engine_for

    home = tempfile.mkdtemp(prefix="evenkeel-tests-")
    try:
        with engine_for(home, settings=ServerSettings(python_path=(str(CHECKOUT),))) as running:
            yield running
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def spark(engine: Engine) -> Iterator[SparkSession]:
    """A fresh Connect session for each test module."""
    from evenkeel.engine.session import close, connect

    session = connect(engine.url, "tests")
    yield session
    close(session)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share something costly run in one process (`make test` starts one per core), the longest first."""
    # Sorting is stable: within a group the order stays.
    items.sort(key=lambda item: _LONGEST_FIRST.get(_group(item), len(_LONGEST_FIRST)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


_LONGEST_FIRST = {"dags": 0, "pulsar": 1, "keeping": 2, "tasks/test_recorded_cycles": 3, "audit/test_verify": 4}


def _group(item: pytest.Item) -> str:
    """Airflow's service, the real Pulsar clusters and upkeep's lake are started or written once; else each file."""
    folder = item.path.parent.name
    if item.get_closest_marker("pulsar"):
        return "pulsar"
    return folder if folder in ("dags", "keeping") else f"{folder}/{item.path.stem}"


def pytest_sessionstart() -> None:
    """Takes the digest of the package as it is now."""
    from evenkeel.engine.code import code_digest

    code_digest()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says so where files changed under the run, since failures may come from that alone."""
    from evenkeel.engine.code import code_digest, read_code_digest

    if code_digest() != read_code_digest():
        terminalreporter.write_line(f"The package changed while the tests ran; {FROZEN_VARIABLE}=1 runs on a copy.")
