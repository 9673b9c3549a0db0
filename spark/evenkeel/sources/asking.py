"""Requests to the brokers of one cluster for a snapshot, and turns between clusters.

Every request is recorded, and a silent broker is waited for only once. A cluster is silent while requests to it wait
and none of its brokers gives a whole answer: an answer that trickles in without end does not count. Time between
requests, or until the cluster's turn comes, is not silence.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Condition, Event, Lock
from typing import Protocol

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin import AdminClient, Hop
from evenkeel.pulsar.admin.failures import Failure, failure_text
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.landing import SnapshotWriter
from evenkeel.times import utc_milliseconds

IF_IT_IS_PULSAR = "check that the addresses are of Pulsar's brokers"
# The share of a cluster's silent time that one request may take: then others are asked for a sign of life.
_SHARE_OF_ONE = 0.75
_QUIET_SECONDS = 3.0
_LOOK_AGAIN_SECONDS = 0.5
# A wait for all of the time may end this much before its end.
_TOLERANCE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RequestTally:
    """Requests of a snapshot, those without an HTTP answer, and characters of answered text."""

    requests: int = 0
    not_answered: int = 0
    characters: int = 0

    def with_hops(self, hops: Sequence[Hop]) -> RequestTally:
        """Return a copy that counts further requests too."""
        return RequestTally(
            self.requests + len(hops),
            self.not_answered + sum(hop.status == 0 for hop in hops),
            self.characters + sum(hop.characters for hop in hops),
        )


class Silence:
    """Seconds for which requests have waited without any answer; thread-safe. Several at once count once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting = 0
        self._since = self._before = 0.0

    @contextmanager
    def question(self) -> Iterator[list[Hop]]:
        """Mark one request as waiting; put its hops into the given list, the answer last."""
        hops: list[Hop] = []
        with self._lock:
            self._since = self._since if self._waiting else time.monotonic()
            self._waiting += 1
        try:
            yield hops
        finally:
            with self._lock:
                self._before = 0.0 if hops and hops[-1].status != 0 else self._seconds()
                self._since = time.monotonic()
                self._waiting -= 1

    @property
    def is_going_on(self) -> bool:
        """Return True if a request waits."""
        with self._lock:
            return self._waiting > 0

    @property
    def seconds(self) -> float:
        """Return the seconds since the last answer in which a request waited."""
        with self._lock:
            return self._seconds()

    def _seconds(self) -> float:
        return self._before + (time.monotonic() - self._since if self._waiting else 0.0)


class Asking:
    """Requests of one snapshot; thread-safe.

    Nothing more is sent after `most_seconds`, once the cluster gave no answer for `silent_seconds`, and once `ended` is
    set (`KeyboardInterrupt`); requests under way end at the first two times, too.
    """

    def __init__(
        self,
        client: AdminClient,
        writer: SnapshotWriter,
        most_seconds: float,
        silent_seconds: float,
        limits: Limits = DEFAULT,
        ended: Event | None = None,
    ) -> None:
        self._client, self._writer, self._limits, self._ended = client, writer, limits, ended
        self._most_seconds, self._silent_seconds = most_seconds, silent_seconds
        self._until = time.monotonic() + most_seconds
        self._lock = Lock()
        self._silence = Silence()
        self._silent: dict[str, str] = {}
        self._entries: tuple[str, ...] = ()
        self._turn = 0
        self.tally = RequestTally()

    def begin(self, until: float) -> None:
        """Start `most_seconds`; they end at `until` (`time.monotonic`) at the latest."""
        self._until = min(time.monotonic() + self._most_seconds, until)

    def of_broker(self, broker: str, path: str, *, timeout_s: float | None = None) -> Hop:
        """Ask one broker. Once it gave no answer, further requests to it become rows that say so, and are not sent."""
        reason = self._silent.get(broker) or self._late()
        if reason is not None:
            return self._put_down([_unsent(broker, path, reason)])
        hops = self._asked(path, broker, timeout_s)
        if hops[-1].status == 0 and hops[-1].broker == broker:
            with self._lock:
                self._silent[broker] = f"the broker gave no answer to {path} ({hops[-1].body})"
        return self._put_down(hops)

    def of_any(self, path: str) -> Hop:
        """Ask the next broker in turn for what all of them know; the configured addresses if it is silent."""
        late = self._late()
        if late is not None:
            return self._put_down([_unsent("", path, late)])
        with self._lock:
            self._turn += 1
            entries = self._entries
            known = [broker for broker in entries if broker not in self._silent] if self._silent else entries
            broker = known[self._turn % len(known)] if known else None
        if broker is not None:
            hop = self.of_broker(broker, path)
            if hop.status != 0:
                return hop
        return self.of_entries(path)[-1]

    def of_entries(self, path: str) -> tuple[Hop, ...]:
        """Ask the configured addresses; return every hop."""
        hops = self._asked(path, None, None)
        self._put_down(hops)
        return hops

    def demand(self, limit: str, found: int, what: str) -> None:
        """Raise `BeyondLimit` if `found` is more than the limit of this name."""
        self._limits.demand(limit, found, what, IF_IT_IS_PULSAR)

    def demand_answers(self) -> None:
        """Raise `Unreachable` if the cluster gave no answer for as long as it may."""
        if self._is_silent():
            raise Unreachable(
                f"none of its brokers gave a whole answer for {self._silence.seconds:.1f} s, and it may be silent for "
                f"`silent_seconds` = {self._silent_seconds:g}: see whether its brokers run and answer at the addresses "
                "in `admin`; if they only need longer, raise `silent_seconds` of this cluster in the configuration file"
            )

    def is_quiet(self) -> bool:
        """Return True if the cluster has given no answer for a while, so that another one may be asked beside it."""
        return self._silence.is_going_on and self._silence.seconds > _QUIET_SECONDS

    def stop(self) -> None:
        """Send nothing more."""
        self._until = 0.0

    def spread_over(self, brokers: Sequence[str]) -> None:
        """Ask these brokers in turn for what all brokers know, so that no single one bears the whole load."""
        self._entries = tuple(broker for broker in brokers if broker not in self._silent)

    def _asked(self, path: str, broker: str | None, timeout_s: float | None) -> tuple[Hop, ...]:
        with self._silence.question() as hops:
            silent = self._silence.seconds
            # Before the first answer there is no other broker to ask.
            share = _SHARE_OF_ONE if self.tally.requests else 1.0
            left = share * self._silent_seconds - silent
            until = time.monotonic() + (left if left > 0 else self._silent_seconds - silent)
            hops += self._client.ask(path, broker=broker, timeout_s=timeout_s, until=until)
            return tuple(hops)

    def _late(self) -> str | None:
        if self._ended is not None and self._ended.is_set():
            raise KeyboardInterrupt
        if time.monotonic() > self._until:
            return "the snapshot took too long already"
        return f"the cluster was silent for {self._silent_seconds:g} s" if self._is_silent() else None

    def _is_silent(self) -> bool:
        return self._silence.seconds >= self._silent_seconds - _TOLERANCE_SECONDS

    def _put_down(self, hops: Sequence[Hop]) -> Hop:
        for hop in hops:
            self._writer.write(hop)
        with self._lock:
            self.tally = tally = self.tally.with_hops(hops)
        size = f"its answers up to {hops[-1].path} of {hops[-1].broker} have {tally.characters:,} characters"
        self.demand("snapshot_mib", tally.characters, size)
        self.demand("requests", tally.requests, f"the snapshot comes to {tally.requests:,} requests")
        return hops[-1]


def _unsent(broker: str, path: str, reason: str) -> Hop:
    return Hop(
        broker, "GET", path, 0, utc_milliseconds(datetime.now(UTC)), 0.0, None, failure_text(Failure.NOT_SENT, reason)
    )


class TakesTurns(Protocol):
    """Interface of what gets a turn."""

    def begin(self, until: float) -> None:
        """Called when its turn has come; all turns end at `until` (`time.monotonic`)."""

    def is_quiet(self) -> bool:
        """Return True if it uses no memory for answers at the moment."""


class Turns:
    """Limit of the clusters that answer at a time, which bounds the memory of answers.

    Quiet clusters do not count, so that none is waited for, until there are `most_in_all`. All turns end `most_seconds`
    after this object was made.
    """

    def __init__(self, most: int, most_in_all: int, most_seconds: float) -> None:
        self._most, self._most_in_all, self._most_seconds = most, most_in_all, most_seconds
        self._until = time.monotonic() + most_seconds
        self._changed = Condition()
        self._having: list[TakesTurns] = []

    @contextmanager
    def turn(self, taker: TakesTurns) -> Iterator[None]:
        """Wait for a turn; raises `Unreachable` if none comes before all end."""
        with self._changed:
            while not self._has_room():
                if time.monotonic() > self._until:
                    raise Unreachable(
                        f"its turn did not come in the {self._most_seconds:.0f} s that all clusters of a run have "
                        f"together, {self._most} of them at a time: give the run fewer clusters"
                    )
                self._changed.wait(_LOOK_AGAIN_SECONDS)
            self._having.append(taker)
        taker.begin(self._until)
        try:
            yield
        finally:
            with self._changed:
                self._having.remove(taker)
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return (
            len(self._having) < self._most_in_all and sum(not holder.is_quiet() for holder in self._having) < self._most
        )
