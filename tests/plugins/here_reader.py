"""Stands in for the reader's process: pages are made in this one."""

from __future__ import annotations

from typing import Any


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
