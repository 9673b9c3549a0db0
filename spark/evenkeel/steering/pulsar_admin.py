"""The sinks that steer a cluster through its admin API, at a given pace, and the one that sends nothing.

Splits first, each of them to its end, then unloads: a child is moved only after its parent is cut. Never more than one
command is under way for a bundle: a second one's destination can win although it was refused. And never more than one
for which the same broker acquires bundles. A modular broker that acquires two at a time hangs for good if a tool reads
its `ownedNamespaces` (NamespaceService.getOwnedNameSpacesStatusAsync), and several at a time pause clients for longer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Protocol

from evenkeel.steering.admin_request import ANY_BROKER, acquiring_broker
from evenkeel.steering.outcome import Outcome, ReportOutcome, Stop, not_sent
from evenkeel.steering.premise import Command

log = logging.getLogger(__name__)

LeaveOut = Callable[[Command], str | None]
"""Why this very command may not go out; None where it may."""


def _none(_: Command) -> str | None:
    return None


class Executor(Protocol):
    """What carries a single command out: `steering.command_executor.CommandExecutor`."""

    def carry_out(self, command: Command) -> Outcome:
        """Sends the command and returns what was seen of it; blocks until then."""
        ...


class PulsarAdmin:
    """Sends commands at `per_second`, with `in_flight` of them under way at most."""

    def __init__(self, carrier: Executor, *, per_second: float, in_flight: int) -> None:
        self._carrier = carrier
        self._pace = Pace(per_second)
        self._in_flight = max(1, in_flight)

    def send(
        self, commands: Sequence[Command], *, stop: Stop, report: ReportOutcome, leave_out: LeaveOut = _none
    ) -> None:
        """Carries out commands in the order of their steps, and reports the outcome of each as it is seen.

        Once `stop` gives a reason, what has not been sent is not sent any more, and nothing is reported of it. A
        command to which `leave_out` gives a reason is not sent, which is reported, and the others go on.
        """
        ordered = sorted(commands, key=lambda command: command["step"])
        for _, phase in groupby(
            ordered, key=lambda command: (command["kind"], acquiring_broker(command) == ANY_BROKER)
        ):
            with ThreadPoolExecutor(self._in_flight) as pool:
                lanes = _lanes(phase)
                list(pool.map(lambda lane: self._carry_out(lane, stop, report, leave_out), lanes))

    def _carry_out(self, lane: Iterable[Command], stop: Stop, report: ReportOutcome, leave_out: LeaveOut) -> None:
        for command in lane:
            if stop() is not None:
                return
            if leave_out(command) is None:
                self._pace.wait()
                if stop() is not None:  # it may have been waiting for long
                    return
            outcome = self._outcome(command, leave_out(command))
            what = command.get("topic") or command["bundle"]
            log.info("%s %s: %s (%s)", command["kind"], what, outcome.outcome, outcome.detail)
            report(outcome)

    def _outcome(self, command: Command, left_out: str | None) -> Outcome:
        if left_out is not None:
            return not_sent(command["command_id"], datetime.now(UTC), left_out)
        return self._carrier.carry_out(command)


def _lanes(commands: Iterable[Command]) -> list[list[Command]]:
    """Lanes whose commands go one after the other: those for one bundle, and those for which one broker acquires
    bundles. Lanes and their commands keep the order of the commands."""
    lanes: list[tuple[set[str], list[Command]]] = []
    for command in commands:
        keys = {command["bundle"], acquiring_broker(command) or command["bundle"]}
        shared = [lane for lane in lanes if lane[0] & keys]
        if not shared:
            lanes.append((keys, [command]))
            continue
        first, *others = shared
        first[0].update(keys, *(other[0] for other in others))
        first[1].extend([*(one for other in others for one in other[1]), command])
        lanes = [lane for lane in lanes if not any(lane is other for other in others)]
    return [sorted(found, key=lambda command: int(command["step"])) for _, found in lanes]


# How fast commands may go out: so many a second, spaced evenly.


class Pace:
    """At most `per_second` starts over time and never two at once, however long nothing was started; safe with several
    threads. 0: without limit."""

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
        """Takes the start that is free now and gives 0, or takes none and gives the seconds until there will be one."""
        with self._lock:
            now = self._clock()
            # A hair too early is in time: sums of fractions must not make the last waiter wait for ever.
            if now >= self._next - 1e-9:
                self._next = now + self._gap
                return 0.0
            return self._next - now

    def wait(self) -> None:
        """Returns when the caller may start."""
        while left := self.take():
            self._pause(left)


# The sink that sends nothing: commands stay on record, and that is all.


class DryRun:
    """Notes each command as not sent, at its cycle's time: no clock, so a re-run notes the same."""

    def send(self, commands: Sequence[Mapping[str, Any]], *, stop: Stop, report: ReportOutcome) -> None:
        """One outcome `dry_run` per command; there is nothing to be stopped."""
        for command in commands:
            report(Outcome(command["command_id"], "dry_run", command["cycle_at"], "dry run: recorded and not sent"))
