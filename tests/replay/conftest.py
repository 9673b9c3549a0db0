"""The lake that replays read: some twenty cycles of real tasks, written once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel.spark.server import Engine
from evenkeel.spark.session import close, connect
from tests.replay.recorded_lake import write_lake


@pytest.fixture(scope="session")
def written(engine: Engine, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nobody writes to it."""
    spark = connect(engine.url, "recorded lake")
    try:
        folder = tmp_path_factory.mktemp("recorded")
        empty_lake(folder / "lake")
        return write_lake(spark, folder)
    finally:
        close(spark)


@pytest.fixture(scope="module")
def lake(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for the replays of one module."""
    return Path(shutil.copytree(written, tmp_path_factory.mktemp("replayed") / "lake"))
