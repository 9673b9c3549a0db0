"""The sink that steers a cluster through its admin API, at a given pace.

Splits go first, each of them to its end, then unloads: a child is moved only after its parent is cut. At most one
command is under way for a bundle: a second one's destination can win although it was refused. At most one is under way
for which the same broker acquires bundles. A modular broker that acquires two at a time hangs for good if a tool reads
its `ownedNamespaces` (NamespaceService.getOwnedNameSpacesStatusAsync), and several at a time pause clients for longer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from evenkeel.steering.admin_request import ANY_BROKER, acquiring_broker
from evenkeel.steering.outcome import ReportOutcome, Stop, not_sent
from evenkeel.steering.premise import Command

if TYPE_CHECKING:
    from evenkeel.steering.command_executor import CommandExecutor

log = logging.getLogger(__name__)

LeaveOut = Callable[[Command], str | None]
"""Function that returns why this command may not be sent; None if it may."""


class _HeldBackError(Exception):
    """A command may not be sent: why, and nothing of it was."""


class PulsarAdmin:
    """Sink that sends commands at `per_second`, with `in_flight` of them under way at most."""

    def __init__(self, carrier: CommandExecutor, *, per_second: float, in_flight: int) -> None:
        self._carrier = carrier
        self._pace = Pace(per_second)
        self._in_flight = max(1, in_flight)

    def send(
        self,
        commands: Sequence[Command],
        *,
        stop: Stop,
        ask: Stop,
        report: ReportOutcome,
        leave_out: LeaveOut = lambda _: None,
    ) -> None:
        """Carry out commands in the order of their steps, and report the outcome of each as it is seen.

        Once `stop` gives a reason, the remaining commands are neither sent nor reported. A command to which `leave_out`
        gives a reason is not sent, which is reported, and the others go on. `ask` is `stop` by a new read: the last
        question before each request.
        """
        ordered = sorted(commands, key=lambda command: command["step"])
        for _, phase in groupby(
            ordered, key=lambda command: (command["kind"], acquiring_broker(command) == ANY_BROKER)
        ):
            with ThreadPoolExecutor(self._in_flight) as pool:
                lanes = _lanes(phase)
                list(pool.map(lambda lane: self._carry_out(lane, stop, ask, report, leave_out), lanes))

    def _carry_out(
        self, lane: Iterable[Command], stop: Stop, ask: Stop, report: ReportOutcome, leave_out: LeaveOut
    ) -> None:
        def demand(question: Stop, command: Command) -> None:
            reason = question() or leave_out(command)
            if reason is not None:
                raise _HeldBackError(reason)

        for command in lane:
            try:
                demand(stop, command)
                self._pace.wait()
                demand(stop, command)  # it may have waited for long
                outcome = self._carrier.carry_out(command, partial(demand, ask, command))
            except _HeldBackError as held:
                if stop() is not None:
                    return
                outcome = not_sent(command["command_id"], datetime.now(UTC), str(held))
            subject = command.get("topic") or command["bundle"]
            log.info("%s %s: %s (%s)", command["kind"], subject, outcome.outcome, outcome.detail)
            report(outcome)


def _lanes(commands: Iterable[Command]) -> list[list[Command]]:
    """Return lanes whose commands go one after the other: those for one bundle, and those for which one broker
    acquires.

    Lanes and their commands keep the order of the commands.
    """
    lanes: list[tuple[set[str], list[Command]]] = []
    for command in commands:
        keys = {command["bundle"], acquiring_broker(command) or command["bundle"]}
        shared = [lane for lane in lanes if lane[0] & keys]
        if not shared:
            lanes.append((keys, [command]))
            continue
        first, *others = shared
        first[0].update(keys, *(other[0] for other in others))
        first[1].extend([*(lane_command for other in others for lane_command in other[1]), command])
        lanes = [lane for lane in lanes if not any(lane is other for other in others)]
    return [sorted(in_lane, key=lambda command: int(command["step"])) for _, in_lane in lanes]


class Pace:
    """At most `per_second` starts over time and never two at once, however long nothing was started; thread-safe.

    0: without limit.
    """

    def __init__(
        self,
        per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 1.0 / per_second if per_second > 0 else 0.0
        self._clock = clock
        self._pause = pause
        self._next = clock()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take the start that is free now and return 0, or take none and return the seconds until there will be one."""
        with self._lock:
            now = self._clock()
            # A hair too early is in time: sums of fractions must not make the last waiter wait for ever.
            if now >= self._next - 1e-9:
                self._next = now + self._gap
                return 0.0
            return self._next - now

    def wait(self) -> None:
        """Wait until the caller may start."""
        while left := self.take():
            self._pause(left)
