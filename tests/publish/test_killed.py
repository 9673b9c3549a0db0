"""A publisher that is killed with SIGKILL after its first request, or before and after each of them."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from itertools import chain, cycle, repeat
from multiprocessing.context import ForkServerProcess
from threading import Timer
from typing import TYPE_CHECKING

import pytest

from tests.publish.acting import Case, with_settings
from tests.publish.publisher import start_publisher
from tests.steering.simulated import Fault

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = [pytest.mark.spark, pytest.mark.slow]


TRIES = 4
"""On a machine that is busy, a lease of some seconds can run out before the first request: then a publisher leaves its
plan to the next try."""


class Killer:
    """Kills a publisher at its first request that would change something: before that was carried out, or after."""

    def __init__(self, *, after: bool) -> None:
        self._after = after
        self._lock = threading.Lock()
        self.victim: ForkServerProcess | None = None
        self.killed = False

    def __call__(self, _broker: str, method: str, _path: str) -> Fault | None:
        if method != "PUT":
            return None
        with self._lock:
            if self.killed:
                return Fault(status=0, works=False)
            self.killed = True
        if self._after:  # the work is done at once, and the victim waits for the answer
            Timer(0.3, self._kill).start()
            return Fault(wait_s=1.0, status=0)
        self._kill()
        return Fault(status=0, works=False)

    def _kill(self) -> None:
        assert self.victim is not None
        os.kill(self.victim.pid or 0, signal.SIGKILL)


def publish_killed(case: Case, engine: Engine, kills: Iterable[bool]) -> Counter[str]:
    """Starts publishers one after the other until one is left to end, after all kills or once nothing is asked any
    more, and looks at what came of each. `kills`: whether each comes after a request was carried out, or before it.
    Gives the number of both."""
    pulsar = case.lab.pulsar
    case.handover = with_settings(case.handover, evenkeelCommandsInFlight=1)
    killed = Counter[str]()
    for after in chain(kills, repeat(None)):
        for _ in range(TRIES):
            effects = len(pulsar.effects)
            killer = Killer(after=bool(after))
            pulsar.faults = killer if after is not None else lambda broker, method, path: None
            killer.victim = start_publisher(engine.url, case.handover, pulsar.url)
            killer.victim.join(300)
            assert not killer.victim.is_alive()
            if killer.killed or case.outcomes()["done"] == len(case.commands()) > 0:
                break
        if not killer.killed:
            break
        point = "after" if killer._after else "before"
        killed[point] += 1
        assert len(pulsar.effects) - effects == (1 if point == "after" else 0)
    asked = case.commands()
    assert len(asked) >= 4
    assert killer.victim.exitcode == 0
    assert case.outcomes() == Counter(done=len(asked))
    assert Counter(one[1] for one in pulsar.effects) == Counter(row["bundle"] for row in asked)
    assert (case.attempt().status, case.attempt().reason) == ("closed", None)
    return killed


@pytest.mark.exhaustive
def test_a_publisher_killed_after_its_first_request_repeats_nothing_and_loses_nothing(
    case: Case, engine: Engine
) -> None:
    assert publish_killed(case, engine, [True]) == Counter(after=1)


@pytest.mark.exhaustive
def test_a_publisher_killed_around_each_of_its_requests_repeats_nothing_and_loses_nothing(
    case: Case, engine: Engine
) -> None:
    killed = publish_killed(case, engine, cycle([False, True]))
    assert killed == Counter(before=len(case.commands()), after=len(case.commands()))
