"""The agent's two queues: messages come in, reports go out.

Commands go to the ledger and into a lane, controls to the ledger, all others are rejected. A message that the pipeline
did not sign is not believed, so it is not reported either: it could name any command.

A message that is not a command for this agent is kept in the ledger with its body and the reason. It is removed from
the queue, with or without a dead-letter queue. Left on the queue, it would block its namespace for as many time-outs as
the redrive policy allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.retrying import Doubling
from evenkeel.steering.agent.admission import is_another
from evenkeel.steering.agent.ledger import Ledger, Owed
from evenkeel.steering.agent.work_queue import WorkQueue
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.fifo import (
    BadMessage,
    Fifo,
    Letter,
    QueueError,
    QueueUnreachable,
    ReceivedMessage,
    report_group,
    send_all,
)
from evenkeel.steering.queue.messages import WITHDRAW, AgentReport, Control, read_message
from evenkeel.steering.queue.signing import COPIED_AFTER, FROM_AGENTS, TO_AGENTS, Signature
from evenkeel.times import utc_text

LOG = logging.getLogger(__name__)
# A control stays on the queue for so long, so that every agent of the cluster receives it: longer than any command that
# was sent before it can wait (evenkeelMaxReportAgeSeconds).
CONTROL_LIFE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Left:
    """A control that stays on the queue; `new` if this agent had not received it before."""

    receipt: str
    new: bool


class Receiver:
    """Receiver of one cluster's messages."""

    def __init__(
        self, signature: Signature, ledger: Ledger, work_queue: WorkQueue, now: Callable[[], datetime]
    ) -> None:
        self._signature = signature
        self._cluster = signature.cluster
        self._ledger = ledger
        self._work_queue = work_queue
        self._now = now

    def take_in(self, message: ReceivedMessage) -> Left | None:
        """Take in one message; return a control that is to be left to other agents too."""
        try:
            body, signed_at = self._signature.verified(message.body, TO_AGENTS, self._now(), message.dedup_id)
        except BadMessage as error:
            self._set_aside(message, message.body, str(error), None)
            return None
        try:
            content = read_message(body)
            cluster = content.cluster if isinstance(content, Control) else content["cluster"]
            if cluster != self._cluster:
                of_command = {} if isinstance(content, Control) else content
                raise BadMessage(f"for cluster {cluster!r}; this agent serves {self._cluster!r}", **of_command)
        except BadMessage as error:
            self._reject(message, body, error)
            return None
        if isinstance(content, Control):
            return self._control(message, content)
        if message.sent_at is None or message.sent_at - signed_at > COPIED_AFTER:
            late = f"signed at {utc_text(signed_at)}, and put on the queue later than {COPIED_AFTER} after that: a copy"
            self._set_aside(message, body, f"{late}, or the publisher's clock is behind", None)
            return None
        known = not self._ledger.receive(content, self._now())
        if known and is_another(content, self._ledger.entry(content["command_id"])):
            # Not reported: the id has or gets the outcome of the command that came first.
            reason = f"another command is known as {content['command_id']}"
            self._set_aside(message, body, reason, None)
        else:
            self._work_queue.put(content, message.message_id, message.receipt)
        return None

    def _control(self, message: ReceivedMessage, control: Control) -> Left | None:
        new = self._ledger.control(control)
        if new:
            LOG.warning("%s by %s at %s: %r", control.kind, control.by, control.made_at.isoformat(), control.reason)
        newest = control.kind == WITHDRAW or control.made_at >= self._ledger.newest_control()
        young = message.sent_at is not None and self._now() - message.sent_at < CONTROL_LIFE
        if newest and young:
            return Left(message.receipt, new)
        self._work_queue.discard(message.receipt)
        return None

    def _reject(self, message: ReceivedMessage, body: str, error: BadMessage) -> None:
        report, command_id = None, error.known.get("command_id")
        if command_id is not None:
            refusal = Outcome(command_id, "refused", self._now(), f"the agent cannot take the message: {error}")
            about = (error.known.get(name) for name in ("cluster", "plan_id", "cycle_at"))
            report = AgentReport(refusal, self._ledger.agent, *about)
        self._set_aside(message, body, str(error), report)

    def _set_aside(self, message: ReceivedMessage, body: str, reason: str, report: AgentReport | None) -> None:
        LOG.error("message %s set aside: %s", message.message_id, reason)
        self._ledger.reject(message.message_id, body, reason, report, self._now())
        self._work_queue.discard(message.receipt)


# A message is deleted only after the report of its command is on the reports queue. Until then the command queue holds
# it too, in case this machine and its ledger are lost.

MOST_AT_ONCE = 100


class Reporter:
    """Sender of owed reports and deletions to both queues; one thread calls it."""

    def __init__(
        self,
        signature: Signature,
        ledger: Ledger,
        work_queue: WorkQueue,
        commands: Fifo,
        reports: Fifo,
        now: Callable[[], datetime],
    ) -> None:
        self._signature = signature
        self._ledger = ledger
        self._work_queue = work_queue
        self._commands = commands
        self._reports = reports
        self._now = now
        self._reporting = Trouble("reports queue")
        self._deleting = Trouble("deleting from the command queue")

    @property
    def stuck(self) -> bool:
        """Return True if the last try to report or to delete failed."""
        return self._reporting.lasts or self._deleting.lasts

    def round(self) -> float:
        """Send what can be sent; return the seconds until a next try makes sense, 0 if nothing is left."""
        return max(self._pay_reports(), self._delete_done())

    def _pay_reports(self) -> float:
        while owed := self._ledger.owed(MOST_AT_ONCE):
            letters = {self._letter(owed_report): owed_report.number for owed_report in owed}
            unsent = {
                owed_report.letter: owed_report.reason
                for owed_report in send_all(self._reports, list(letters), tries=1)
            }
            self._ledger.paid([number for letter, number in letters.items() if letter not in unsent], self._now())
            if unsent:
                fault = f"{len(unsent)} of {len(owed)} reports not sent: {next(iter(unsent.values()))}"
                return self._reporting.failed(QueueUnreachable(fault))
            self._reporting.worked()
        return 0.0

    def _letter(self, owed: Owed) -> Letter:
        text = self._signature.signed(owed.body, FROM_AGENTS, self._now(), owed.token)
        return Letter(text, report_group(owed.command_id), owed.token)

    def _delete_done(self) -> float:
        discarded = self._work_queue.discarded()
        done = [in_flight for in_flight in self._work_queue.finished() if not self._ledger.owes(in_flight.command_id)]
        receipts = [
            *discarded,
            *(receipt for in_flight in done for receipt in self._work_queue.receipts_of(in_flight)),
        ]
        if not receipts and not done:
            return 0.0
        try:
            self._commands.delete(receipts)  # a refused one was given out again, and will be answered again
        except QueueError as error:
            return self._deleting.failed(error)
        self._deleting.worked()
        self._work_queue.deleted(discarded)
        for in_flight in done:
            self._work_queue.forget(in_flight)
        return 0.0


PAUSE = Doubling(first_s=1.0, longest_s=60.0, least=0.75, most=1.25)


class Trouble:
    """Failures of one operation."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    @property
    def lasts(self) -> bool:
        """Return True if the last try failed."""
        return self._failures > 0

    def failed(self, error: Exception) -> float:
        """Note a failure and return the seconds to wait before the next try."""
        self._failures += 1
        pause = PAUSE(self._failures)
        LOG.warning("%s: %s; trying again in %.0f s", self._what, error, pause)
        return pause

    def worked(self) -> None:
        """Note that it works (again)."""
        if self._failures:
            LOG.info("%s: works again after %d failures", self._what, self._failures)
        self._failures = 0
