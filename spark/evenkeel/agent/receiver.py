"""What comes in: commands go to the ledger and into a lane, controls to the ledger, everything else is set aside.

A message that is no command for this agent is kept in the ledger with its body and the reason, and removed from the
queue whether or not that has a dead-letter queue: left on it, it would hold up its namespace for as many time-outs as
the redrive policy wants to see.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.agent.admission import is_another
from evenkeel.agent.ledger import Ledger
from evenkeel.agent.work_queue import WorkQueue
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.fifo import BadMessage, Taken
from evenkeel.steering.queue.messages import Control, Report, read_message

LOG = logging.getLogger(__name__)
# A control stays on the queue for so long, so that every agent of the cluster comes across it: longer than any command
# that was sent before it can be waiting (evenkeelMaxReportAgeSeconds).
CONTROL_LIFE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Left:
    """A control that stays on the queue; `new` where this agent had not heard of it."""

    receipt: str
    new: bool


class Receiver:
    """Takes in messages of one cluster."""

    def __init__(self, cluster: str, ledger: Ledger, work_queue: WorkQueue, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._work_queue = work_queue
        self._now = now

    def take_in(self, message: Taken) -> Left | None:
        """Takes in one message; says so where it is a control that is to be left to other agents too."""
        try:
            found = read_message(message.body)
            cluster = found.cluster if isinstance(found, Control) else found["cluster"]
            if cluster != self._cluster:
                raise _elsewhere(found, cluster, self._cluster)
        except BadMessage as error:
            self._reject(message, error)
            return None
        if isinstance(found, Control):
            return self._control(message, found)
        known = not self._ledger.receive(found, self._now())
        if known and is_another(found, self._ledger.entry(found["command_id"])):
            # Not reported: the id has or gets the outcome of the command that came first.
            reason = f"another command is known as {found['command_id']}"
            self._set_aside(message, reason, None)
        else:
            self._work_queue.put(found, message.message_id, message.receipt)
        return None

    def _control(self, message: Taken, control: Control) -> Left | None:
        new = self._ledger.control(control)
        if new:
            LOG.warning("%s by %s at %s: %r", control.kind, control.by, control.made_at.isoformat(), control.reason)
        newest = control.made_at >= self._ledger.newest_control()
        young = message.sent_at is not None and self._now() - message.sent_at < CONTROL_LIFE
        if newest and young:
            return Left(message.receipt, new)
        self._work_queue.discard(message.receipt)
        return None

    def _reject(self, message: Taken, error: BadMessage) -> None:
        report = None
        if error.command_id is not None:
            told = Outcome(error.command_id, "refused", self._now(), f"the agent cannot take the message: {error}")
            report = Report(told, self._ledger.agent, error.cluster, error.plan_id, error.cycle_at)
        self._set_aside(message, str(error), report)

    def _set_aside(self, message: Taken, reason: str, report: Report | None) -> None:
        LOG.error("message %s set aside: %s", message.message_id, reason)
        self._ledger.reject(message.message_id, message.body, reason, report, self._now())
        self._work_queue.discard(message.receipt)


def _elsewhere(found: object, cluster: str, own: str) -> BadMessage:
    reason = f"for cluster {cluster!r}; this agent serves {own!r}"
    if isinstance(found, dict):
        known = {name: found[name] for name in ("command_id", "plan_id", "cycle_at")}
        return BadMessage(reason, cluster=cluster, **known)
    return BadMessage(reason, cluster=cluster)
