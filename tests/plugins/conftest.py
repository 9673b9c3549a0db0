"""Airflow as a library, at home in a folder of its own, and the plugins folder on the path as Airflow puts it there."""

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.shared import made_once

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"


@pytest.fixture(scope="session", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Airflow reads these when it is first imported; where another test did so before, its home stays."""
    os.environ.setdefault("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    sys.path.insert(0, str(PLUGINS))
    yield
    sys.path.remove(str(PLUGINS))


@pytest.fixture(scope="session")
def warm() -> Path:
    """The day of `warm_lake`, written once in a run. Tests that change a lake take a copy."""
    from tests.plugins.warm_lake import warm_lake

    return made_once("warm-lake", partial(warm_lake, as_window=True))


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plausible lake of the report's tests, with its heat."""
    from evenkeel.heat import build
    from tests.lakes.plausible import plausible_lake

    found = plausible_lake(tmp_path_factory.mktemp("lakes") / "plausible")
    build(str(found))
    return found
