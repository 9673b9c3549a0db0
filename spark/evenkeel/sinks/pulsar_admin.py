"""The sink that steers a cluster itself, through the admin API.

Splits first, each of them to its end, then unloads: a child is moved only after its parent is cut. Never more than one
command is under way for a bundle: a second one's destination can win although it was refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Protocol

from evenkeel.sinks import Outcome, Stop, Told
from evenkeel.sinks.judging import Command
from evenkeel.sinks.pacing import Pace

log = logging.getLogger(__name__)


class Carrier(Protocol):
    """What carries a single command out: `sinks.steering.Steering`."""

    def carry_out(self, command: Command) -> Outcome:
        """Sends the command and returns what was seen of it; blocks until then."""
        ...


class PulsarAdmin:
    """Sends commands at `per_second`, with `in_flight` of them under way at most."""

    def __init__(self, carrier: Carrier, *, per_second: float, in_flight: int) -> None:
        self._carrier = carrier
        self._pace = Pace(per_second)
        self._in_flight = max(1, in_flight)

    def send(self, commands: Sequence[Command], *, stop: Stop, told: Told) -> None:
        """Carries out commands in the order of their steps, and tells the outcome of each as it is seen.

        Once `stop` gives a reason, what has not been sent is not sent any more, and nothing is told of it.
        """
        ordered = sorted(commands, key=lambda command: command["step"])
        for _, phase in groupby(ordered, key=lambda command: command["kind"]):
            with ThreadPoolExecutor(self._in_flight) as pool:
                lanes = _lanes(phase)
                list(pool.map(lambda lane: self._carry_out(lane, stop, told), lanes))

    def _carry_out(self, lane: Iterable[Command], stop: Stop, told: Told) -> None:
        for command in lane:
            if stop() is not None:
                return
            self._pace.wait()
            if stop() is not None:  # it may have been waiting for long
                return
            outcome = self._carrier.carry_out(command)
            log.info("%s %s: %s (%s)", command["kind"], command["bundle"], outcome.outcome, outcome.detail)
            told(outcome)


def _lanes(commands: Iterable[Command]) -> list[list[Command]]:
    """Commands for one bundle one after the other; the lanes in the order of their first commands."""
    lanes: dict[str, list[Command]] = {}
    for command in commands:
        lanes.setdefault(command["bundle"], []).append(command)
    return list(lanes.values())
