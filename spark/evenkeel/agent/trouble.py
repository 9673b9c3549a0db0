"""Growing pauses between tries of something that fails, with a word about it in the log."""

from __future__ import annotations

import logging
import random

LOG = logging.getLogger(__name__)
FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0


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
        pause: float = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 10)) * random.uniform(0.75, 1.25)
        self._failures += 1
        LOG.warning("%s: %s; trying again in %.0f s", self._what, error, pause)
        return pause

    def worked(self) -> None:
        """Notes that it works (again)."""
        if self._failures:
            LOG.info("%s: works again after %d failures", self._what, self._failures)
        self._failures = 0
