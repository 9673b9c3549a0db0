"""Lakes shared by the tests of what people ask a record; nobody writes to them."""

from pathlib import Path

import pytest

from tests.lakes.acting_lake import fill
from tests.lakes.plausible import fill_odd, plausible_lake
from tests.lakes.small_lake import SmallLake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clusters `lab` (eight cycles, the fourth skipped) and `spread` (three cycles)."""
    return plausible_lake(tmp_path_factory.mktemp("lakes") / "plausible")


@pytest.fixture(scope="session")
def odd_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cluster whose names hold markup, quotes, direction marks and 2,000 characters."""
    root = tmp_path_factory.mktemp("lakes") / "odd"
    fill_odd(SmallLake(root))
    return root


@pytest.fixture(scope="session")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cluster `prod` over three dates, with commands, outcomes and a command that was held back."""
    root = tmp_path_factory.mktemp("lakes") / "acting"
    fill(root)
    return root
