"""The agent's time: this machine's clock, corrected to the queue's where the two are far apart.

A command expires at a moment of the publisher's clock. An agent whose own clock is ten minutes behind would carry out
what has expired, one that is ahead would refuse everything; the queue's answers say what time it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

LOG = logging.getLogger(__name__)
# An HTTP date has whole seconds, and an answer takes its time: less than this is no difference.
TOLERATED = timedelta(seconds=5)
WORTH_SAYING = timedelta(seconds=30)


def elapsed() -> float:
    """Seconds on a clock that nobody sets; it goes on while the machine sleeps, where the system has such a one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class QueueClock:
    """Tells the time; `heard` is fed with the dates of the queue's answers."""

    def __init__(self, own: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._own = own
        self._lock = threading.Lock()
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """The moment by the queue's clock, as far as it is known."""
        return self._own() + self._ahead

    def heard(self, date: datetime, seconds: float) -> None:
        """An answer that took so long carried this date, cut to the second."""
        if seconds > TOLERATED.total_seconds():
            return  # a long poll's date is that of its end or of its beginning, who knows
        ahead = date + timedelta(milliseconds=500) - (self._own() - timedelta(seconds=seconds / 2))
        ahead = ahead if abs(ahead) > TOLERATED else timedelta(0)
        with self._lock:
            changed, self._ahead = abs(ahead - self._ahead), ahead
        if changed > WORTH_SAYING:
            LOG.warning("this machine's clock is %+.0f s off the queue's; the queue's counts", -ahead.total_seconds())
