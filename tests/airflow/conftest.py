"""A key for what tasks seal, so that no test makes one in anybody's AIRFLOW_HOME, and a *publish* that only notes."""

from contextlib import nullcontext
from typing import Any

import pytest

from evenkeel.airflow.seal import KEY_VARIABLE
from evenkeel.handover import Handover


@pytest.fixture(autouse=True)
def handover_key(monkeypatch: pytest.MonkeyPatch) -> str:
    key = "k" * 64
    monkeypatch.setenv(KEY_VARIABLE, key)
    return key


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Handover]:
    """The hand-overs that `publish` was asked to carry out."""
    from evenkeel import pipeline
    from evenkeel.airflow import steps

    seen: list[Handover] = []

    def publish(_spark: Any, handover: Handover, _sending: Any = None) -> Handover:
        seen.append(handover)
        return handover

    monkeypatch.setattr(pipeline, "publish", publish)
    monkeypatch.setattr(steps, "_spark_watched", lambda ti: nullcontext())
    return seen
