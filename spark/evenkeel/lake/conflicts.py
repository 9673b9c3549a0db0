"""Commits that another writer came before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from evenkeel.retrying import Pause, retry, up_to_a_fifth_more

T = TypeVar("T")
_TRIES = 30
# Another append (under Serializable isolation), upkeep compacting or dropping what was read, or a changed property.
_SIGNS = (
    *("DELTA_CONCURRENT_APPEND", "ConcurrentAppendException", "DELTA_CONCURRENT_TRANSACTION"),
    *("DELTA_CONCURRENT_DELETE_READ", "ConcurrentDeleteReadException"),
    *("DELTA_CONCURRENT_DELETE_DELETE", "ConcurrentDeleteDeleteException"),
    *("DELTA_METADATA_CHANGED", "MetadataChangedException"),
)


def is_conflict(error: Exception) -> bool:
    """Whether another writer's commit came first: nothing was written, look at the table anew."""
    return any(sign in str(error) for sign in _SIGNS)


def until_committed(
    write: Callable[[], T],
    log: logging.Logger,
    message: str,
    *,
    tries: int = _TRIES,
    pause: Pause = up_to_a_fifth_more,
) -> T:
    """Runs `write`, and again after each conflict; each time `log` gets `message` with the number of the try.

    After `tries` tries the last conflict passes; any other error passes at once.
    """
    return retry(
        write,
        tries=tries,
        pause=pause,
        if_raised=is_conflict,
        say=lambda failed: log.info("%s (%d of %d)", message, failed, tries),
    )
