"""Sending the commands of several clusters at once: leases kept, the gate obeyed, outcomes recorded as they come.

Each cluster has a thread, so that a slow or silent one holds no other up. Only the caller's thread touches the tables:
it appends outcomes, renews leases, and looks for pauses, rejections and newer cycles, once in a while and as the last
question before each request. A thread sends only while its cluster's lease has been renewed in time by this machine's
own clock (`times.elapsed`), whatever the caller's thread is waiting for.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Condition, Event
from typing import Protocol

from evenkeel.errors import EvenkeelError
from evenkeel.steering.outcome import LONGEST_REQUEST_S, Outcome, ReportOutcome
from evenkeel.times import elapsed

log = logging.getLogger(__name__)
_TICK_S = 0.05
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: duration of a lease, interval of its renewal, interval of looks for pauses and other gates and of
    writing outcomes, and the longest time of a request."""

    lease_s: float = 30.0
    renew_s: float = 8.0
    look_s: float = 1.0
    write_s: float = 5.0
    longest_request_s: float = LONGEST_REQUEST_S


@dataclass(frozen=True, slots=True)
class Halt:
    """Why nothing more of a cluster's plan may be sent; `is_lost` if another publisher has taken the cluster over."""

    reason: str
    is_lost: bool = False


class CommandStore(Protocol):
    """The tables, as far as sending needs them; one thread uses it."""

    def renewed(self, clusters: Sequence[str]) -> frozenset[str]:
        """Return the clusters whose lease is still ours, renewed."""
        ...

    def halts(self, clusters: Sequence[str]) -> Mapping[str, Halt]:
        """Return the clusters whose plan may not be sent now: lost, paused, rejected, or overtaken."""
        ...

    @property
    def without_splits(self) -> Mapping[str, str]:
        """Return the clusters whose plan may be sent only without its splits, each with the reason, by the last
        look."""
        ...

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Record outcomes."""
        ...


class LeaseGuard:
    """Guard of a cluster's threads; they read it, the caller's writes it.

    `asked_at`: when the lease was requested, by `times.elapsed`: it counts from then. `wake`: called when a thread asks
    what may be sent. `without_splits`: why commands that split, or rest on a split, may not be sent; None while they
    may.
    """

    def __init__(self, cluster: str, timing: Timing, asked_at: float, wake: Callable[[], None] = lambda: None) -> None:
        self._cluster = cluster
        self._lease_s = timing.lease_s
        self._until = asked_at + timing.lease_s
        self._wake, self._changed, self._answered = wake, Condition(), 0
        self.questions = 0
        self.reason: str | None = None
        self.without_splits: str | None = None
        self.is_lost = False

    def __call__(self) -> str | None:
        """Return why no further command may be sent."""
        if self.reason is None and elapsed() >= self._until:
            self.is_lost = True
            return f"the lease of {self._cluster} was not renewed in time"
        return self.reason

    def renew(self, asked_at: float) -> None:
        """Note a renewal; the lease counts from the moment at which it was requested."""
        self._until = asked_at + self._lease_s

    def ask(self) -> str | None:
        """Return why no further command may be sent, by a read of the tables that begins after this call."""
        with self._changed:
            self.questions += 1
            question = self.questions
            self._wake()
            while self() is None and self._answered < question:
                self._changed.wait(_TICK_S)
        return self()

    def answer(self, questions: int) -> None:
        """Note that the tables were read after so many questions; `halt` comes first."""
        with self._changed:
            self._answered = questions
            self._changed.notify_all()

    def halt(self, reason: str, *, lost: bool = False) -> None:
        """Stop the threads before their next request."""
        self.reason, self.is_lost = self.reason or reason, self.is_lost or lost


Work = Callable[[LeaseGuard, ReportOutcome], str | None]
"""Function that sends one cluster's commands while its guard allows it, and returns the reason if it stopped."""


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """Result of a cluster's sending: `stopped` is why it ended early; `is_lost` if another publisher took over, which
    then reports the rest; `error` is an unforeseen error."""

    stopped: str | None = None
    is_lost: bool = False
    error: Exception | None = None


def conduct(
    works: Mapping[str, Work], store: CommandStore, timing: Timing, held_since: Mapping[str, float]
) -> dict[str, DispatchResult]:
    """Run each cluster's work to its end.

    The leases of all are ours; `held_since`: when each was last requested, by `times.elapsed`.
    """
    wake = Event()
    guards = {cluster: LeaseGuard(cluster, timing, held_since[cluster], wake.set) for cluster in works}
    seen: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    clerk = _Clerk(store, timing, guards, seen, wake, min(held_since.values()))
    clerk.renew_if_due()  # since then the gate was asked and secrets were looked up
    with ThreadPoolExecutor(max(1, len(works)), thread_name_prefix="send") as pool:
        threads = {cluster: pool.submit(work, guards[cluster], seen.put) for cluster, work in sorted(works.items())}
        for thread in threads.values():
            thread.add_done_callback(lambda _: wake.set())
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
    """Work of the caller's thread while the others send."""

    def __init__(
        self,
        store: CommandStore,
        timing: Timing,
        guards: Mapping[str, LeaseGuard],
        seen: queue.SimpleQueue[Outcome],
        wake: Event,
        renewed_at: float,
    ) -> None:
        self._store, self._timing, self._guards, self._seen, self._wake = store, timing, guards, seen, wake
        self._waiting: list[Outcome] = []
        self._written_at = elapsed()
        self._renewed_at = renewed_at
        self._pass_on_splits()

    def is_over(self, threads: Mapping[str, Future[str | None]]) -> bool:
        """Wait a moment for a question or the end of a thread; return True once all have ended."""
        self._wake.wait(self._timing.look_s)
        self._wake.clear()
        return all(thread.done() for thread in threads.values())

    def turn(self) -> None:
        """Do one round: what may be sent, leases, outcomes.

        The tables are read for the questions of the threads, and all the while that commands wait for their turn or for
        the effects of those before them. What cannot be read holds every request.
        """
        questions = {cluster: guard.questions for cluster, guard in self._guards.items() if guard.reason is None}
        try:
            halts = self._store.halts(sorted(questions))
        except Exception as error:
            log.exception("what may be sent cannot be read")
            reason = f"what may be sent cannot be read ({type(error).__name__}: {error}); see to the lake"
            halts = dict.fromkeys(questions, Halt(" ".join(reason.split())[:_LONGEST_REASON]))
        for cluster, halt in halts.items():
            self._guards[cluster].halt(halt.reason, lost=halt.is_lost)
        self._pass_on_splits()
        for cluster, asked in questions.items():
            self._guards[cluster].answer(asked)
        self.renew_if_due()
        if elapsed() - self._written_at >= self._timing.write_s:
            self.write()

    def _pass_on_splits(self) -> None:
        for cluster, guard in self._guards.items():
            guard.without_splits = self._store.without_splits.get(cluster)

    def write(self) -> None:
        """Record the new outcomes; a failure loses nothing, for the cluster itself still shows them."""
        while not self._seen.empty():
            self._waiting.append(self._seen.get())
        if self._waiting:
            self._store.write(self._waiting)
            self._waiting = []
        self._written_at = elapsed()

    def renew_if_due(self) -> None:
        """Renew the leases if that is due."""
        now = elapsed()
        if now - self._renewed_at < self._timing.renew_s:
            return
        held = self._store.renewed(sorted(self._guards))
        for cluster, guard in self._guards.items():
            if cluster in held:
                guard.renew(now)
            else:
                guard.halt(f"another publisher has taken over {cluster}", lost=True)
        self._renewed_at = now
