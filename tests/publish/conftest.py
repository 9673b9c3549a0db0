"""A cycle that was decided once, and copies of it for tests that carry it out."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.handover import Handover
from tests.publish.acting import Case, Lab

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine


@pytest.fixture(scope="session")
def decided(
    engine: Engine, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lab, Handover]]:
    """A cycle up to the task before publish."""
    from evenkeel.ingest.open_run import open_cycles
    from evenkeel.pipeline import DECIDING
    from evenkeel.spark.session import close, connect

    folder = tmp_path_factory.mktemp("acting")
    lab = Lab(folder / "recording")
    spark = connect(engine.url, "tests")
    handover = open_cycles(spark, lab.request(empty_lake(folder / "lake")))
    handover = handover.with_cycles(replace(one, admin={"admin": [lab.pulsar.url]}) for one in handover.cycles)
    for task in DECIDING:
        handover = task(spark, handover)
    close(spark)
    yield lab, handover
    lab.pulsar.close()


@pytest.fixture
def case(spark: Any, decided: tuple[Lab, Handover], tmp_path: Path) -> Iterator[Case]:
    lab, handover = decided
    lake = tmp_path / "lake"
    shutil.copytree(handover.lake, lake)
    pulsar = lab.pulsar
    before = copy.deepcopy((pulsar.boundaries, pulsar.owner, pulsar.configuration))
    pulsar.effects.clear()
    pulsar.requests.clear()
    yield Case(spark, lab, lake, replace(handover, lake=str(lake)))
    pulsar.boundaries, pulsar.owner, pulsar.configuration = before
    pulsar.faults = lambda broker, method, path: None
