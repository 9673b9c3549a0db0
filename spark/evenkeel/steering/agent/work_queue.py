"""The agent's commands in memory: one lane per namespace, one command of a lane at a time.

Within a lane the order is that of cycle and step, as on the queue. A command that has to wait holds up only its own
lane. Of commands for which the same broker acquires bundles one is under way at a time, whatever their lanes
(`steering.pulsar_admin` says why). A message is kept, and invisible to other agents, until its command's outcome is
reported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenkeel.steering.admin_request import ANY_BROKER, acquiring_broker

Command = Mapping[str, Any]


@dataclass(eq=False, slots=True)
class InFlight:
    """One command of the agent. `receipts`: message id → the right to it; none for one that only the ledger holds.

    `ready_at`: monotonic seconds before which it needs no step.
    """

    command: Command
    receipts: dict[str, str] = field(default_factory=dict, repr=False)
    ready_at: float = 0.0
    busy: bool = False
    done: bool = False

    @property
    def command_id(self) -> str:
        """The id of the command."""
        return str(self.command["command_id"])

    @property
    def lane(self) -> str:
        """The namespace of the command's bundle; commands of one namespace never run at once."""
        return str(self.command["bundle"]).rpartition("/")[0]

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key within a lane: cycle, then step."""
        return self.command["cycle_at"], self.command["step"]


class WorkQueue:
    """All commands of the agent. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._in_flight: dict[str, InFlight] = {}
        self._discarded: list[str] = []
        self._closed = False

    def put(self, command: Command, message_id: str | None = None, receipt: str | None = None) -> None:
        """Take a command; a further message of a known one is added to it."""
        with self._changed:
            in_flight = self._in_flight.setdefault(str(command["command_id"]), InFlight(command))
            if message_id is not None and receipt is not None:
                in_flight.receipts[message_id] = receipt
            self._changed.notify()

    def discard(self, receipt: str) -> None:
        """Note a finished message that can be deleted."""
        with self._changed:
            self._discarded.append(receipt)

    def take(self, wait_s: float) -> InFlight | None:
        """Return the next command that may proceed; None if none turned up in time, or after `close`."""
        until = self._clock() + wait_s
        with self._changed:
            while not self._closed:
                now = self._clock()
                heads = self._heads(now)
                ready = [in_flight for in_flight in heads if in_flight.ready_at <= now]
                if ready:
                    in_flight = min(ready, key=lambda in_flight: in_flight.ready_at)
                    in_flight.busy = True
                    return in_flight
                soonest = min([until, *(in_flight.ready_at for in_flight in heads)])
                if now >= until:
                    return None
                self._changed.wait(max(0.001, soonest - now))
            return None

    def _heads(self, now: float) -> list[InFlight]:
        """Return the first command of every idle lane, unless its broker acquires bundles already."""
        first: dict[str, InFlight] = {}
        busy = {in_flight.lane for in_flight in self._in_flight.values() if in_flight.busy}
        for in_flight in self._in_flight.values():
            if in_flight.done or in_flight.lane in busy:
                continue
            if in_flight.lane not in first or in_flight.order < first[in_flight.lane].order:
                first[in_flight.lane] = in_flight
        return self._may_acquire(first.values(), now)

    def _may_acquire(self, heads: Iterable[InFlight], now: float) -> list[InFlight]:
        """Return the heads without those for which a broker would acquire bundles that may be acquiring already.

        A command that was put back counts, since its request may be under way. Behind a ready one that may come to any
        broker, and has to wait, no other acquiring one goes, so that its turn comes.
        """
        others = [
            in_flight
            for in_flight in self._in_flight.values()
            if not in_flight.done and (in_flight.busy or in_flight.ready_at > now)
        ]
        acquiring = {broker for in_flight in others if (broker := acquiring_broker(in_flight.command)) is not None}
        free = list[InFlight]()
        for head in sorted(heads, key=lambda in_flight: in_flight.order):
            broker = None if head.ready_at > now else acquiring_broker(head.command)
            if broker is None or not acquiring or (broker != ANY_BROKER and {broker, ANY_BROKER}.isdisjoint(acquiring)):
                free.append(head)
            elif broker == ANY_BROKER:
                acquiring.add(ANY_BROKER)
        return free

    def back(self, in_flight: InFlight, wait_s: float) -> None:
        """Put a command back for a while."""
        with self._changed:
            in_flight.busy, in_flight.ready_at = False, self._clock() + wait_s
            self._changed.notify_all()

    def finish(self, in_flight: InFlight) -> None:
        """Note that the command has its outcome; its messages are kept until `forget`."""
        with self._changed:
            in_flight.busy, in_flight.done = False, True
            self._changed.notify_all()

    def forget(self, in_flight: InFlight) -> None:
        """Forget a command that needs nothing more from this agent."""
        with self._changed:
            in_flight.busy = False
            self._in_flight.pop(in_flight.command_id, None)
            self._changed.notify_all()

    def receipts_of(self, in_flight: InFlight) -> list[str]:
        """Return the rights to the messages of one command."""
        with self._changed:
            return list(in_flight.receipts.values())

    def lose(self, receipts: Iterable[str]) -> None:
        """Note that these rights are lost. A waiting command without any right is no longer this agent's to begin."""
        with self._changed:
            lost = set(receipts)
            for in_flight in list(self._in_flight.values()):
                left = {message: receipt for message, receipt in in_flight.receipts.items() if receipt not in lost}
                if left != in_flight.receipts:
                    in_flight.receipts = left
                    if not left and not in_flight.busy:
                        del self._in_flight[in_flight.command_id]
            self._changed.notify_all()

    def all_receipts(self) -> list[str]:
        """Return the rights to every message that is kept."""
        with self._changed:
            return [receipt for in_flight in self._in_flight.values() for receipt in in_flight.receipts.values()]

    def finished(self) -> list[InFlight]:
        """Return commands that have their outcome and whose messages are still kept."""
        with self._changed:
            return [in_flight for in_flight in self._in_flight.values() if in_flight.done]

    def discarded(self) -> list[str]:
        """Return messages that are to be deleted."""
        with self._changed:
            return list(self._discarded)

    def deleted(self, receipts: Iterable[str]) -> None:
        """Note that these messages are off the queue, or were given out again."""
        with self._changed:
            lost = set(receipts)
            self._discarded = [receipt for receipt in self._discarded if receipt not in lost]

    def close(self) -> None:
        """Give out no more commands."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def waiting(self) -> list[InFlight]:
        """Return commands that no thread works on and that have no outcome."""
        with self._changed:
            return [in_flight for in_flight in self._in_flight.values() if not in_flight.busy and not in_flight.done]

    def open(self) -> bool:
        """Return True if any command of the agent has no outcome yet."""
        with self._changed:
            return any(not in_flight.done for in_flight in self._in_flight.values())

    def blocks(self) -> bool:
        """Return True if the queue may hold back messages because of those kept.

        It gives out none of a namespace while an agent has one of that namespace.
        """
        with self._changed:
            return bool(self._discarded or self._in_flight)

    def held(self) -> int:
        """Return how many commands the agent has, with an outcome or without."""
        with self._changed:
            return len(self._in_flight)
