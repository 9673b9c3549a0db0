"""Stands in for the reader's process: pages are made in this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest
    from fastapi.testclient import TestClient


class HereReader:
    """Answers at once, in this process."""

    def ask(self, job: Any) -> Any:
        """The page."""
        from evenkeel_page.pages import answer

        return answer(job)

    def start(self) -> None:
        """Nothing is to be started."""

    def close(self) -> None:
        """Nothing is to be ended."""


def desk_client(lake: Path | str, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The desk over a lake, without Airflow's login, its pages made in this process."""
    from evenkeel_page.app import make_app
    from fastapi.testclient import TestClient

    monkeypatch.setenv("EVENKEEL_LAKE", str(lake))
    return TestClient(make_app(guarded=False, reader=HereReader()), raise_server_exceptions=False)
