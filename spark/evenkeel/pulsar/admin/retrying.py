"""What may be asked again, and after how long: readings only, and only what may be over a moment later."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, stop_before_delay
from tenacity.nap import sleep_using_event
from tenacity.wait import wait_random_exponential

from evenkeel.pulsar.admin.failures import PASSING
from evenkeel.pulsar.admin.wire import Reply

TRIES = 3
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Not 401, 404, 409, 412 and 500: these are Pulsar's word, and asking again does not change it."""

_backoff = wait_random_exponential(multiplier=0.2, max=2.0)
_JITTER_S = 0.25

Chain = tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a try came to, without its answer: what the library for retries is given outlives the retrying, until the
    garbage collector comes by, and answers may be large."""

    may_pass: bool
    retry_after_s: float | None


def verdict_on(chain: Chain) -> Verdict:
    """Whether the same question may get a better answer a moment later.

    Not where a redirect led to a broker that does not answer: that one is dead, and the cluster needs seconds to notice
    (until its metadata session ends), so the owner is unknown for now.
    """
    last = chain[-1]
    if last.failure is not None:
        return Verdict(last.failure in PASSING and len(chain) == 1, None)
    return Verdict(last.hop.status in RETRIED_STATUSES, last.retry_after_s)


def repeat(attempt: Callable[[], Verdict], limit_s: float, closing: Event) -> None:
    """Repeats a reading while it may pass, at most 3 times; no try begins later than `limit_s` after the first.

    `closing` ends the waiting.
    """
    policy = Retrying(
        retry=retry_if_result(lambda verdict: verdict.may_pass and not closing.is_set()),
        stop=stop_after_attempt(TRIES) | stop_before_delay(limit_s),
        wait=_wait,
        sleep=sleep_using_event(closing),
        retry_error_callback=_verdict,
    )
    policy(attempt)


def _wait(state: RetryCallState) -> float:
    """As the server asks for, else growing; with jitter, so that many who were refused do not come back at once."""
    told = _verdict(state).retry_after_s
    if told is None:
        return _backoff(state)
    return told + random.uniform(0.0, _JITTER_S)


def _verdict(state: RetryCallState) -> Verdict:
    assert state.outcome is not None
    verdict: Verdict = state.outcome.result()
    return verdict
