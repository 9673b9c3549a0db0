"""The end of a long-running command: SIGTERM, which service managers send, and Ctrl-C.

A handler runs between two steps of the main thread, which may hold any lock then. So the work has a thread of its own,
and handlers only note their signal.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import TypeVar

_Result = TypeVar("_Result")

_TICK_SECONDS = 0.2


def until_signalled(work: Callable[[], _Result], stop: Callable[[], object]) -> _Result:
    """Return what `work` returns, or raise what it raises; for the main thread.

    `stop` makes `work` return soon. It is called in the main thread for every signal.
    """
    signals: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    result: Future[_Result] = Future()
    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        Thread(target=_run, args=(work, result), name="work").start()
        while not result.done():
            with suppress(TimeoutError):
                result.exception(_TICK_SECONDS)
            while signals:
                signals.pop()
                stop()
    finally:
        for number, former in before.items():
            signal.signal(number, former)
    return result.result()


def _run(work: Callable[[], _Result], result: Future[_Result]) -> None:
    try:
        result.set_result(work())
    except BaseException as error:
        result.set_exception(error)
