from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.explain.acting_lake import fill


@pytest.fixture(scope="session")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with commands and outcomes; nobody writes to it."""
    root = tmp_path_factory.mktemp("lakes") / "acting"
    fill(root)
    return root
