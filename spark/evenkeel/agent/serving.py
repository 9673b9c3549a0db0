"""Running an agent as a process: SIGTERM and Ctrl-C let it finish what is under way, then end it."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from evenkeel.agent.agent import Agent

TICK_SECONDS = 0.2


def serve(agent: Agent) -> None:
    """Runs the agent until it ends by itself or a signal asks for it; raises what it raises. For the main thread.

    The agent works in a thread of its own: a handler runs between two steps of the main thread, which must hold no lock
    then that the handler needs.
    """
    asked: list[int] = []
    raised: list[BaseException] = []

    def handler(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    def run() -> None:
        try:
            agent.run()
        except BaseException as error:
            raised.append(error)

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    thread = threading.Thread(target=run, name="agent")
    try:
        thread.start()
        while thread.is_alive():
            thread.join(TICK_SECONDS)
            if asked:
                agent.stop()
    finally:
        for number, former in before.items():
            signal.signal(number, former)
    if raised:
        raise raised[0]
