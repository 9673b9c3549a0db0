"""Asking brokers for a snapshot: every request goes on record, and a broker that is silent is not waited for twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from evenkeel.pulsar.admin import AdminClient, Hop
from evenkeel.pulsar.admin.failures import Failure, told
from evenkeel.pulsar.admin.wire import moment
from evenkeel.sources.writing import SnapshotWriter


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests of a snapshot, those without an HTTP answer, and characters of text that were answered."""

    requests: int = 0
    not_answered: int = 0
    characters: int = 0

    def with_hops(self, hops: Sequence[Hop]) -> Tally:
        """A copy that counts further requests too."""
        return Tally(
            self.requests + len(hops),
            self.not_answered + sum(hop.status == 0 for hop in hops),
            self.characters + sum(len(hop.body) for hop in hops),
        )


class Asking:
    """One snapshot's questions; thread-safe. After `until` (`time.monotonic`) nothing more is sent."""

    def __init__(self, client: AdminClient, writer: SnapshotWriter, until: float) -> None:
        self._client, self._writer, self._until = client, writer, until
        self._lock = Lock()
        self._silent: dict[str, str] = {}
        self._entries: tuple[str, ...] = ()
        self._turn = 0
        self.tally = Tally()

    def of_broker(self, broker: str, path: str, *, timeout_s: float | None = None) -> Hop:
        """Asks one broker. Once it gave no answer its further questions are rows that say so, and are not sent."""
        reason = self._silent.get(broker) or self._late()
        if reason is not None:
            return self._put_down([_unsent(broker, path, reason)])
        hops = self._client.ask(path, broker=broker, timeout_s=timeout_s)
        if hops[-1].status == 0 and hops[-1].broker == broker:
            with self._lock:
                self._silent[broker] = f"the broker gave no answer to {path} ({hops[-1].body})"
        return self._put_down(hops)

    def of_any(self, path: str) -> Hop:
        """Asks whichever broker's turn it is, for what all of them know; the configured addresses if it is silent."""
        late = self._late()
        if late is not None:
            return self._put_down([_unsent("", path, late)])
        broker = self._next_entry()
        if broker is not None:
            hop = self.of_broker(broker, path)
            if hop.status != 0:
                return hop
        return self.of_entries(path)[-1]

    def of_entries(self, path: str) -> tuple[Hop, ...]:
        """Asks the configured addresses; everything that was sent."""
        hops = self._client.ask(path)
        self._put_down(hops)
        return hops

    def stop(self) -> None:
        """Nothing more is sent."""
        self._until = 0.0

    def spread_over(self, brokers: Sequence[str]) -> None:
        """From now on, what all brokers know is asked of these in turn, so that no single one bears it all."""
        self._entries = tuple(broker for broker in brokers if broker not in self._silent)

    def _next_entry(self) -> str | None:
        with self._lock:
            self._turn += 1
            known = (
                [broker for broker in self._entries if broker not in self._silent] if self._silent else self._entries
            )
            return known[self._turn % len(known)] if known else None

    def _late(self) -> str | None:
        return "the snapshot took too long already" if time.monotonic() > self._until else None

    def _put_down(self, hops: Sequence[Hop]) -> Hop:
        for hop in hops:
            self._writer.write(hop)
        with self._lock:
            self.tally = self.tally.with_hops(hops)
        # What comes of a large body is on disk by now; only small ones are looked at again.
        return hops[-1]


def _unsent(broker: str, path: str, reason: str) -> Hop:
    return Hop(broker, "GET", path, 0, moment(datetime.now(UTC)), 0.0, None, told(Failure.NOT_SENT, reason))
