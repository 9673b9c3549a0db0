"""The commands in this agent's hands: one lane per namespace, one command of a lane at a time.

Within a lane the order is that of cycle and step, as on the queue. A command that has to wait holds up its own lane
only. Of commands for which the same broker acquires bundles one is under way at a time, whatever their lanes
(`steering.pulsar_admin` says why). A message stays in hand, and is kept invisible to others, until its command's
outcome is reported.
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
    """One command at hand. `receipts`: message id → the right to it; none for one that only the ledger holds.

    `ready_at`: monotonic seconds before which there is nothing to do for it.
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
    """All commands in hand. Safe to be shared by threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._in_flight: dict[str, InFlight] = {}
        self._discarded: list[str] = []
        self._closed = False

    def put(self, command: Command, message_id: str | None = None, receipt: str | None = None) -> None:
        """Takes a command into hand; a further message of one that is in hand already is added to it."""
        with self._changed:
            in_flight = self._in_flight.setdefault(str(command["command_id"]), InFlight(command))
            if message_id is not None and receipt is not None:
                in_flight.receipts[message_id] = receipt
            self._changed.notify()

    def discard(self, receipt: str) -> None:
        """Notes a message that is done with and can be deleted."""
        with self._changed:
            self._discarded.append(receipt)

    def take(self, wait_s: float) -> InFlight | None:
        """The next command that may be gone on with; None where none turned up in time, or after `close`."""
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
        """The first command of every lane in which none is under way, unless its broker acquires bundles already."""
        first: dict[str, InFlight] = {}
        busy = {in_flight.lane for in_flight in self._in_flight.values() if in_flight.busy}
        for in_flight in self._in_flight.values():
            if in_flight.done or in_flight.lane in busy:
                continue
            if in_flight.lane not in first or in_flight.order < first[in_flight.lane].order:
                first[in_flight.lane] = in_flight
        return self._may_acquire(first.values(), now)

    def _may_acquire(self, heads: Iterable[InFlight], now: float) -> list[InFlight]:
        """The heads without those for which a broker would acquire bundles that may do so already.

        A command that was put back counts, since its request may be under way. Behind a ready one that may come to any
        broker, and has to wait, no other acquiring one goes, so that its turn comes.
        """
        others = [one for one in self._in_flight.values() if not one.done and (one.busy or one.ready_at > now)]
        acquiring = {broker for one in others if (broker := acquiring_broker(one.command)) is not None}
        free = list[InFlight]()
        for head in sorted(heads, key=lambda one: one.order):
            broker = None if head.ready_at > now else acquiring_broker(head.command)
            if broker is None or not acquiring or (broker != ANY_BROKER and {broker, ANY_BROKER}.isdisjoint(acquiring)):
                free.append(head)
            elif broker == ANY_BROKER:
                acquiring.add(ANY_BROKER)
        return free

    def back(self, in_flight: InFlight, wait_s: float) -> None:
        """Puts a command back for a while."""
        with self._changed:
            in_flight.busy, in_flight.ready_at = False, self._clock() + wait_s
            self._changed.notify_all()

    def finish(self, in_flight: InFlight) -> None:
        """The command has its outcome; its messages stay in hand until `forget`."""
        with self._changed:
            in_flight.busy, in_flight.done = False, True
            self._changed.notify_all()

    def forget(self, in_flight: InFlight) -> None:
        """Nothing more is to be done for this command here."""
        with self._changed:
            in_flight.busy = False
            self._in_flight.pop(in_flight.command_id, None)
            self._changed.notify_all()

    def receipts_of(self, in_flight: InFlight) -> list[str]:
        """The rights to the messages of one command."""
        with self._changed:
            return list(in_flight.receipts.values())

    def lose(self, gone: Iterable[str]) -> None:
        """These rights are lost. A command that waits and has none left is no longer this agent's to begin."""
        with self._changed:
            lost = set(gone)
            for in_flight in list(self._in_flight.values()):
                left = {message: receipt for message, receipt in in_flight.receipts.items() if receipt not in lost}
                if left != in_flight.receipts:
                    in_flight.receipts = left
                    if not left and not in_flight.busy:
                        del self._in_flight[in_flight.command_id]
            self._changed.notify_all()

    def all_receipts(self) -> list[str]:
        """The rights to every message in hand."""
        with self._changed:
            return [receipt for in_flight in self._in_flight.values() for receipt in in_flight.receipts.values()]

    def finished(self) -> list[InFlight]:
        """Commands that have their outcome and whose messages are still in hand."""
        with self._changed:
            return [in_flight for in_flight in self._in_flight.values() if in_flight.done]

    def discarded(self) -> list[str]:
        """Messages that are to be deleted."""
        with self._changed:
            return list(self._discarded)

    def deleted(self, receipts: Iterable[str]) -> None:
        """These messages are off the queue, or were given out again."""
        with self._changed:
            gone = set(receipts)
            self._discarded = [receipt for receipt in self._discarded if receipt not in gone]

    def close(self) -> None:
        """Gives out no more commands."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def waiting(self) -> list[InFlight]:
        """Commands that nobody is at work on and that have no outcome."""
        with self._changed:
            return [in_flight for in_flight in self._in_flight.values() if not in_flight.busy and not in_flight.done]

    def open(self) -> bool:
        """Whether any command in hand has no outcome yet."""
        with self._changed:
            return any(not in_flight.done for in_flight in self._in_flight.values())

    def blocks(self) -> bool:
        """Whether the queue may hold back messages because of those in hand: it gives out none of a namespace while
        somebody has one of that namespace."""
        with self._changed:
            return bool(self._discarded or self._in_flight)

    def held(self) -> int:
        """How many commands are in hand, with an outcome or without."""
        with self._changed:
            return len(self._in_flight)
