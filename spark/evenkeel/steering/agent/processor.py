"""Processing one command: judge it, look or carry it out, and record its outcome.

The order of commits makes a crash harmless; every step can be the last one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from evenkeel.pulsar.admin import AdminClient
from evenkeel.steering.agent.admission import (
    AdmissionFacts,
    CarryOut,
    LookAgain,
    Refuse,
    Reject,
    ReportAgain,
    judge,
    judge_unsent,
)
from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.setup import AgentSettings, LedgerError, PauseSwitch
from evenkeel.steering.agent.work_queue import InFlight, WorkQueue
from evenkeel.steering.broker_switches import hands_off
from evenkeel.steering.command_executor import CommandExecutor, Patience
from evenkeel.steering.outcome import STRENGTH, Outcome, not_sent
from evenkeel.steering.pulsar_admin import Pace
from evenkeel.steering.queue.fifo import Fifo, QueueError
from evenkeel.times import elapsed

ASKED_EVERY_SECONDS = 30.0
ANSWER_COUNTS_SECONDS = 1.0
"""Time for which the last answer counts before a request: after a longer stop the questions are asked again."""


class ClusterExecutor(CommandExecutor):
    """Executor of an agent.

    The publisher may not reach the cluster, so this executor asks the brokers whether their own shedding and auto-split
    are off. While they are not, commands are `withheld` with what to do.
    """

    def __init__(self, client: AdminClient, *, longest_request_s: float, now: Callable[[], datetime]) -> None:
        """Take the queue's clock as `now`; commands expire by it."""
        super().__init__(client, patience=Patience(unanswered_s=longest_request_s), now=now)
        self._lock = threading.Lock()
        self._objections: tuple[str, ...] | None = None
        self._asked_at = 0.0

    def carry_out(self, command: Mapping[str, Any], before_request: Callable[[], None] = lambda: None) -> Outcome:
        """Fence, send at most one request, and read back; return the outcome. Never raises for faults of the cluster.

        `before_request` is called right before the request leaves; if it raises, nothing is sent.
        """
        with self._lock:  # asked again after a while, and at once if the last answer had objections
            fresh = time.monotonic() - self._asked_at < ASKED_EVERY_SECONDS
            if self._objections is None or self._objections or not fresh:
                self._objections, self._asked_at = hands_off(self._client), time.monotonic()
            objections = self._objections
        if objections:
            return not_sent(command["command_id"], self._now(), "; ".join(objections))
        return super().carry_out(command, before_request)


LOG = logging.getLogger(__name__)
LONGEST_DETAIL = 4_000
QUEUE_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The command has its outcome on record."""


@dataclass(frozen=True, slots=True)
class Later:
    """The command needs no step before so many seconds are over."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gone:
    """The command is not (or no longer) this agent's; the queue may deliver it again."""


Step = Finished | Later | Gone


class _NotSentError(Exception):
    """A command's request may not leave now. Its argument: the step that follows, or why it is refused for good."""


@dataclass(frozen=True, slots=True)
class Processor:
    """All decisions about one command. Several threads call it, for different commands."""

    settings: AgentSettings
    ledger: Ledger
    carrier: ClusterExecutor
    work_queue: WorkQueue
    queue: Fifo
    pause: PauseSwitch
    pace: Pace
    now: Callable[[], datetime]
    elapsed: Callable[[], float] = elapsed

    def go_on(self, in_flight: InFlight) -> Step:
        """Take the next step for a command. Raises only LedgerError: without its ledger an agent must not go on."""
        command = in_flight.command
        verdict = judge(command, self.ledger.entry(in_flight.command_id), self._circumstances(command))
        match verdict:
            case CarryOut():
                return self._carry_out(in_flight)
            case LookAgain(wait) if wait:
                LOG.info("%s: may be under way; looking at the cluster in %.0f s", _name(command), wait.total_seconds())
                return Later(wait.total_seconds())
            case LookAgain():
                return self._look_again(in_flight)
            case Refuse():
                return self._refuse(in_flight, verdict)
            case ReportAgain():
                LOG.info("%s: delivered again; its outcome is reported again", _name(command))
                self.ledger.report_again(in_flight.command_id, self.now())
                return Finished()
            case Reject(reason):
                raise LedgerError(f"command {in_flight.command_id}: {reason}; such a message must not get this far")

    def _circumstances(self, command: Mapping[str, Any]) -> AdmissionFacts:
        newest = self.ledger.newest_cycle(command["bundle"])
        longest = timedelta(seconds=self.settings.longest_request_s)
        return AdmissionFacts(self.now(), self.pause.reason(command["plan_id"]), newest, longest)

    def _look_again(self, in_flight: InFlight) -> Step:
        try:
            outcome = self.carrier.look_again(in_flight.command)
        except Exception as error:
            LOG.exception("%s: looking at the cluster failed", _name(in_flight.command))
            detail = f"looking for its effect failed: {type(error).__name__}"
            outcome = Outcome(in_flight.command_id, "unknown", self.now(), detail)
        if outcome is not None:
            return self._settle(in_flight, outcome)
        verdict = judge_unsent(in_flight.command, self._circumstances(in_flight.command))
        if isinstance(verdict, Refuse):
            detail = f"{verdict.detail}; a request that may have gone out earlier had no effect"
            return self._refuse(in_flight, replace(verdict, detail=detail))
        self.ledger.release(in_flight.command_id)
        LOG.info("%s: an earlier request had no effect", _name(in_flight.command))
        return Later(0.0)

    def _carry_out(self, in_flight: InFlight) -> Step:
        wait = self.pace.take()
        if wait:
            return Later(wait)
        try:
            outcome = self.carrier.carry_out(in_flight.command, lambda: self._ask_last(in_flight))
        except _NotSentError as error:
            step: Step | Refuse = error.args[0]
            return self._refuse(in_flight, step) if isinstance(step, Refuse) else step
        except LedgerError:
            raise
        except Exception:
            LOG.exception("%s: carrying it out failed half-way", _name(in_flight.command))
            return Later(self.settings.longest_request_s)
        return self._settle(in_flight, outcome)

    def _ask_last(self, in_flight: InFlight) -> None:
        """Ask right before the request; raises `_NotSentError` if it may not leave, and notes that it leaves else.

        The queue says if the command is still this agent's. A pause, a newer cycle or the time limit may have come
        while the cluster was looked at. What cannot be read holds the request.
        """
        asked_at, receipts = self.elapsed(), self.work_queue.receipts_of(in_flight)
        try:
            self.work_queue.lose(self.queue.renew(receipts, self.settings.visibility_s))
        except QueueError:
            raise _NotSentError(Later(QUEUE_PAUSE_SECONDS)) from None  # the polling thread logs it
        if not self.work_queue.receipts_of(in_flight):
            LOG.info("%s: not in hand any more; left to whom the queue gives it", _name(in_flight.command))
            raise _NotSentError(Gone())
        verdict = judge_unsent(in_flight.command, self._circumstances(in_flight.command))
        if isinstance(verdict, Refuse):
            raise _NotSentError(verdict)
        held_until = asked_at + self.settings.visibility_s
        counts_until = min(self.elapsed() + ANSWER_COUNTS_SECONDS, held_until - self.settings.longest_request_s)
        self.ledger.sending(in_flight.command_id, self.now())
        if self.elapsed() > counts_until:  # this process stood still, or a disk did
            self.ledger.release(in_flight.command_id)
            raise _NotSentError(Later(0.0))

    def _refuse(self, in_flight: InFlight, verdict: Refuse) -> Step:
        return self._settle(in_flight, Outcome(in_flight.command_id, verdict.outcome, self.now(), verdict.detail))

    def _settle(self, in_flight: InFlight, outcome: Outcome) -> Step:
        fitted = _fit(outcome, in_flight.command_id)
        if self.ledger.settle(fitted, self.now()):
            LOG.info("%s: %s (%s)", _name(in_flight.command), fitted.outcome, fitted.detail)
        return Finished()


def _fit(outcome: Outcome, command_id: str) -> Outcome:
    """Return the outcome as the ledger and a message can hold it: of this command, of a known kind, in one line."""
    detail = " ".join(outcome.detail.encode("utf-8", "backslashreplace").decode().split())[:LONGEST_DETAIL]
    if outcome.outcome in STRENGTH and outcome.command_id == command_id:
        return replace(outcome, detail=detail)
    return Outcome(command_id, "unknown", outcome.seen_at, f"{outcome.outcome}: {detail}")


def _name(command: Mapping[str, Any]) -> str:
    to = f" to {command['destination']}" if command["destination"] else ""
    subject = command["topic"] or command["bundle"]
    return f"command {command['command_id'][:12]} {command['kind']} {subject}{to}"
