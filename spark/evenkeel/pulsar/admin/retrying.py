"""What may be asked again, and after how long: readings only, and only what may be over a moment later."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from evenkeel.pulsar.admin.failures import PASSING
from evenkeel.pulsar.admin.wire import Reply
from evenkeel.retrying import Doubling, retry

TRIES = 3
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Not 401, 404, 409, 412 and 500: these are Pulsar's word, and asking again does not change it."""

_backoff = Doubling(first_s=0.2, longest_s=2.0, least=0.0, most=1.0)
_JITTER_S = 0.25

Chain = tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a try came to."""

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
    waits: list[float | None] = []

    def asked() -> Verdict:
        verdict = attempt()
        waits.append(verdict.retry_after_s)
        return verdict

    def pause(failed: int) -> float:
        """As the server asks for, else growing; with jitter, so that many who were refused do not come back at once."""
        told = waits[-1]
        return _backoff(failed) if told is None else told + random.uniform(0.0, _JITTER_S)

    retry(
        asked,
        tries=TRIES,
        pause=pause,
        if_returned=lambda verdict: verdict.may_pass and not closing.is_set(),
        within_s=limit_s,
        sleep=closing.wait,
    )
