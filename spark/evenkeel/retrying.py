"""Retries of operations that may succeed a moment later.

tenacity runs the tries. Each caller states what may be tried again, how often and after how long. Three things wait by
themselves: botocore and Spark Connect repeat their own requests, and Airflow repeats tasks. The agent's loops
(`evenkeel.steering.agent`) do other work between two tries, so they take their pauses from this module and wait by
events.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_after_attempt,
    stop_before_delay,
)

T = TypeVar("T")
Pause = Callable[[int], float]
"""Function from the number of failed tries in a row, counted from 1, to the seconds to wait."""


@dataclass(frozen=True, slots=True)
class Doubling:
    """`first_s` after the first failed try, twice as long after each further one, at most `longest_s`.

    It is multiplied by a random number between `least` and `most`, so that many clients that fail at once do not return
    at once.
    """

    first_s: float
    longest_s: float
    least: float
    most: float

    def __call__(self, failed: int) -> float:
        return min(self.longest_s, self.first_s * 2.0 ** min(failed - 1, 30)) * random.uniform(self.least, self.most)


def at_once(failed: int) -> float:
    """Return no pause."""
    return 0.0


def up_to_a_fifth_more(failed: int) -> float:
    """Return a random part of 0.2 s for each failed try: for writers of one table, which outrun each other."""
    return random.uniform(0.0, 0.2 * failed)


def _never(seen: Any) -> bool:
    return False


def retry(
    attempt: Callable[[], T],
    *,
    tries: int,
    pause: Pause,
    if_raised: Callable[[Exception], bool] = _never,
    if_returned: Callable[[T], bool] = _never,
    within_s: float | None = None,
    say: Callable[[int], None] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Return the result of the first attempt that succeeds; make at most `tries` attempts.

    An attempt failed if `if_raised` is true for its exception, or `if_returned` for its value; any other exception
    passes at once. Between two attempts `say` gets the number of failed attempts, then `sleep` gets the seconds of
    `pause` (an event's `wait` ends them early). No attempt begins later than `within_s` after the first began. After
    the last attempt its exception passes, or its value is returned, unchanged.
    """
    # tenacity keeps its arguments until the garbage collector runs, and values may be large.
    values: list[T] = []

    def attempt_failed() -> bool:
        values[:] = [attempt()]
        return if_returned(values[0])

    def before_sleep(state: RetryCallState) -> None:
        if say is not None:
            say(state.attempt_number)

    def wait(seconds: float) -> None:
        sleep(seconds)

    last = stop_after_attempt(tries)
    policy = Retrying(
        retry=retry_if_result(bool)
        | retry_if_exception(lambda error: isinstance(error, Exception) and if_raised(error)),
        stop=last if within_s is None else last | stop_before_delay(within_s),
        wait=lambda state: pause(state.attempt_number),
        sleep=wait,
        before_sleep=before_sleep,
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    policy(attempt_failed)
    return values.pop()
