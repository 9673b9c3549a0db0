"""How fast commands may go out: so many a second, spaced evenly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """At most `per_second` starts over time and never two at once, however long nothing was started; safe with several
    threads. 0: without limit."""

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

    def take(self) -> float:
        """Takes the start that is free now and gives 0, or takes none and gives the seconds until there will be one."""
        with self._lock:
            now = self._clock()
            # A hair too early is in time: sums of fractions must not make the last waiter wait for ever.
            if now >= self._next - 1e-9:
                self._next = now + self._gap
                return 0.0
            return self._next - now

    def wait(self) -> None:
        """Returns when the caller may start."""
        while left := self.take():
            self._pause(left)
