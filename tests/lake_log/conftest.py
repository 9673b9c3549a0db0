"""A lake with its log, begun once for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.lake_log.catch_up import begin
from tests.lake_log.lakes import LOG_KEY, kept_lake


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of eleven manifests with a log of twelve leaves. Tests that change it take a copy."""
    lake = kept_lake(tmp_path_factory.mktemp("kept"))
    begin(str(lake), [LOG_KEY])
    return lake
