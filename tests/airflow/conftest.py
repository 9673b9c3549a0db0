"""A key for what tasks seal, so that no test makes one in anybody's AIRFLOW_HOME."""

from __future__ import annotations

import pytest

from evenkeel.airflow.seal import KEY_VARIABLE


@pytest.fixture(autouse=True)
def handover_key(monkeypatch: pytest.MonkeyPatch) -> str:
    key = "k" * 64
    monkeypatch.setenv(KEY_VARIABLE, key)
    return key
