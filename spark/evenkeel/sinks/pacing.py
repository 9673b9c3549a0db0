"""How fast commands may go out: so many a second, so many under way at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """Spaces starts evenly; safe with several threads. `per_second` 0: without limit."""

    def __init__(
        self,
        per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 1.0 / per_second if per_second > 0 else 0.0
        self._clock = clock
        self._pause = pause
        self._next = clock()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Returns when the caller may start."""
        with self._lock:
            at = max(self._next, self._clock())
            self._next = at + self._gap
        while (left := at - self._clock()) > 0:
            self._pause(left)
