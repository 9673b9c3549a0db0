"""How fast commands go out: a bucket of tokens that fills at a steady rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """At most `per_second` commands over time, and never more than `burst` of them at once."""

    def __init__(self, per_second: float, burst: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._burst = float(burst)
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._at = clock()

    def take(self) -> float:
        """Takes a token and gives 0, or takes none and gives the seconds until there will be one."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
            self._at = now
            # A hair below one is one: sums of fractions must not make the last waiter wait for ever.
            if self._tokens >= 1 - 1e-9:
                self._tokens -= 1
                return 0.0
            return (1 - self._tokens) / self._rate
