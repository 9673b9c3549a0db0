"""Trying again what failed and may work a moment later.

tenacity runs the tries; what may be tried again, how often and after how long stands with each caller. Three things
wait by themselves: botocore and Spark Connect repeat their own requests, Airflow repeats tasks, and the agent's loops
(`evenkeel.steering.agent`) go on with other work between two tries, so they take their pauses from here and wait by
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
"""Seconds to wait after so many failed tries in a row, counted from 1."""


@dataclass(frozen=True, slots=True)
class Doubling:
    """`first_s` after the first failed try, twice as long after each further one, at most `longest_s`.

    A random share between `least` and `most` of it is taken, so that many who failed at once do not come back at once.
    """

    first_s: float
    longest_s: float
    least: float
    most: float

    def __call__(self, failed: int) -> float:
        return min(self.longest_s, self.first_s * 2.0 ** min(failed - 1, 30)) * random.uniform(self.least, self.most)


def at_once(failed: int) -> float:
    """No pause."""
    return 0.0


def up_to_a_fifth_more(failed: int) -> float:
    """A random part of 0.2 s for each try that failed: for writers of one table, which outrun each other."""
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
    """What the first attempt that succeeds returns; at most `tries` attempts in all.

    An attempt failed where `if_raised` says so of its exception, or `if_returned` of its value; any other exception
    passes at once. Between two attempts `sleep` gets the seconds of `pause` (an event's `wait` ends them
    early), and `say` gets before it how many attempts have failed. No attempt begins later than `within_s` after
    the first began. After the last attempt its exception passes or its value is returned, as it is.
    """
    # tenacity keeps what it is given until the garbage collector comes by, and values may be large.
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
