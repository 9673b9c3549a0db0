"""Growing pauses between tries of something that fails, with a word about it in the log."""

from __future__ import annotations

import logging

from evenkeel.retrying import Doubling

LOG = logging.getLogger(__name__)
PAUSE = Doubling(first_s=1.0, longest_s=60.0, least=0.75, most=1.25)


class Trouble:
    """The trouble with one thing."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    @property
    def lasts(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def failed(self, error: Exception) -> float:
        """Notes a failure and gives the seconds to wait before the next try."""
        self._failures += 1
        pause = PAUSE(self._failures)
        LOG.warning("%s: %s; trying again in %.0f s", self._what, error, pause)
        return pause

    def worked(self) -> None:
        """Notes that it works (again)."""
        if self._failures:
            LOG.info("%s: works again after %d failures", self._what, self._failures)
        self._failures = 0
