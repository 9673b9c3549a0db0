"""A lake with its log, begun once for the tests of this folder."""

from pathlib import Path

import pytest

from evenkeel.transparency.lake_log import begin
from tests.transparency.lakes import small_lake
from tests.transparency.logs import LOG_KEY


@pytest.fixture(scope="session")
def unlogged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of 11 commits without a log. Tests that change it take a copy."""
    return small_lake(tmp_path_factory.mktemp("unlogged"))


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of 11 commits with a log of 12 leaves. Tests that change it take a copy."""
    lake = small_lake(tmp_path_factory.mktemp("begun"))
    begin(str(lake), [LOG_KEY])
    return lake
