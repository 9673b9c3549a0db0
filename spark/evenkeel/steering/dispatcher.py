"""Sending the commands of several clusters at once: leases kept, pauses obeyed, outcomes put on record as they come.

Each cluster has a thread, so that a slow or silent one holds no other up. The caller's thread alone touches the tables:
it appends outcomes, renews leases and looks for pauses, once in a while. A thread sends only while its cluster's lease
has been renewed in time by this machine's own monotonic clock, whatever the caller's thread is waiting for.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol

from evenkeel.errors import EvenkeelError
from evenkeel.steering.outcome import LONGEST_REQUEST_S, Outcome, ReportOutcome, Stop

log = logging.getLogger(__name__)

Work = Callable[[Stop, ReportOutcome], str | None]
"""Sends one cluster's commands; gives back why it did not, if it did not."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a lease lasts, when it is renewed, how often pauses are looked for and outcomes written, and
    how long a request may be under way at most."""

    lease_s: float = 30.0
    renew_s: float = 8.0
    look_s: float = 1.0
    write_s: float = 5.0
    longest_request_s: float = LONGEST_REQUEST_S


class CommandStore(Protocol):
    """The tables, as far as sending needs them; used by one thread."""

    def renewed(self, clusters: Sequence[str]) -> frozenset[str]:
        """The clusters whose lease is still ours, renewed."""
        ...

    def paused(self, clusters: Sequence[str]) -> Mapping[str, str]:
        """The clusters that are paused, each with the reason."""
        ...

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Puts outcomes on record."""
        ...


class LeaseGuard:
    """Whether a cluster's thread may go on; read by that thread, written by the caller's."""

    def __init__(self, cluster: str, timing: Timing) -> None:
        self._cluster = cluster
        self._lease_s = timing.lease_s
        self._until = time.monotonic() + timing.lease_s
        self.reason: str | None = None
        self.is_lost = False

    def stop(self) -> str | None:
        """Why no further command may go out."""
        if self.reason is None and time.monotonic() >= self._until:
            self.is_lost = True
            return f"the lease of {self._cluster} was not renewed in time"
        return self.reason

    def renew(self, asked_at: float) -> None:
        """The lease counts from the moment at which its renewal was asked for."""
        self._until = asked_at + self._lease_s

    def halt(self, reason: str, *, lost: bool = False) -> None:
        """Stops the thread before its next command."""
        self.reason, self.is_lost = self.reason or reason, self.is_lost or lost


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """What became of a cluster's sending: `stopped` is why it ended early; `is_lost` if another publisher took over,
    who then says what became of the rest; `error` what went wrong in a way that nobody foresaw."""

    stopped: str | None = None
    is_lost: bool = False
    error: Exception | None = None


def conduct(works: Mapping[str, Work], store: CommandStore, timing: Timing) -> dict[str, DispatchResult]:
    """Runs each cluster's work to its end; the leases of all are ours at the start."""
    guards = {cluster: LeaseGuard(cluster, timing) for cluster in works}
    seen: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    clerk = _Clerk(store, timing, guards, seen)
    with ThreadPoolExecutor(max(1, len(works)), thread_name_prefix="send") as pool:
        threads = {
            cluster: pool.submit(work, guards[cluster].stop, seen.put) for cluster, work in sorted(works.items())
        }
        try:
            while not clerk.is_over(threads):
                clerk.turn()
        except BaseException:
            for guard in guards.values():
                guard.halt("the publisher ends", lost=True)
            raise
    clerk.write()
    return {cluster: _done(thread, guards[cluster]) for cluster, thread in threads.items()}


def _done(thread: Future[str | None], guard: LeaseGuard) -> DispatchResult:
    error = thread.exception()
    if error is None:
        return DispatchResult(thread.result() or guard.reason, guard.is_lost)
    if isinstance(error, EvenkeelError):
        return DispatchResult(str(error), guard.is_lost)
    log.error("sending ended with %s", type(error).__name__, exc_info=error)
    return DispatchResult(
        f"{type(error).__name__}: {error}", guard.is_lost, error if isinstance(error, Exception) else None
    )


class _Clerk:
    """What the caller's thread does while the others send."""

    def __init__(
        self, store: CommandStore, timing: Timing, guards: Mapping[str, LeaseGuard], seen: queue.SimpleQueue[Outcome]
    ) -> None:
        self._store, self._timing, self._guards, self._seen = store, timing, guards, seen
        self._waiting: list[Outcome] = []
        self._renewed_at = self._written_at = time.monotonic()

    def is_over(self, threads: Mapping[str, Future[str | None]]) -> bool:
        """Waits a moment for the threads."""
        return not wait(list(threads.values()), timeout=self._timing.look_s).not_done

    def turn(self) -> None:
        """One round: pauses, leases, outcomes."""
        going = sorted(cluster for cluster, guard in self._guards.items() if guard.reason is None)
        for cluster, reason in self._store.paused(going).items():
            self._guards[cluster].halt(reason)
        now = time.monotonic()
        if now - self._renewed_at >= self._timing.renew_s:
            self._renew(now)
        if now - self._written_at >= self._timing.write_s:
            self.write()

    def write(self) -> None:
        """Puts on record what was seen since; nothing is lost if that fails, for the cluster itself still shows it."""
        while not self._seen.empty():
            self._waiting.append(self._seen.get())
        if self._waiting:
            self._store.write(self._waiting)
            self._waiting = []
        self._written_at = time.monotonic()

    def _renew(self, now: float) -> None:
        held = self._store.renewed(sorted(self._guards))
        for cluster, guard in self._guards.items():
            if cluster in held:
                guard.renew(now)
            else:
                guard.halt(f"another publisher has taken over {cluster}", lost=True)
        self._renewed_at = now
