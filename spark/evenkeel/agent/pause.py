"""Whether the agent may send: a file on this machine, and the controls that came over the queue.

A command that meets a pause is `withheld`, for good, and not given back to the queue: whoever published it knows at
once what became of it, and once the pause is over the next cycle decides on figures of its own time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

MOST_CHARACTERS = 200


class Pause:
    """Asked before every command, so that a pause holds in the middle of a publish."""

    def __init__(self, file: Path | None, marked: Callable[[], str | None]) -> None:
        """`file`: while it exists, the agent is paused; `marked`: what the ledger's newest control says."""
        self._file = file
        self._marked = marked

    def reason(self) -> str | None:
        """Why nothing may be sent now, or None."""
        return self._by_file() or self._marked()

    def _by_file(self) -> str | None:
        if self._file is None:
            return None
        try:
            with self._file.open(encoding="utf-8", errors="replace") as file:
                line = file.read(MOST_CHARACTERS).strip().partition("\n")[0].strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # it may well be there: a stop switch that cannot be read is on
            return f"paused: the file {self._file} cannot be read ({type(error).__name__})"
        return f"paused by the file {self._file}" + (f": {line}" if line else "")
