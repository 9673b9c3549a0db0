"""The sink `sqs`: commands go onto a FIFO queue, and an agent beside the cluster carries them out and reports back.

A command on the queue has no outcome yet: outcomes come as reports, on a queue of their own. They are taken in two
steps, `take` and `confirm`, and are recorded in between. A publisher that dies before it has recorded them finds the
same reports on the queue again. A taker of reports also gets those of other cycles.

One command queue serves one cluster, and both queues carry only signed messages (`steering.queue.signing`). They are
signed at the queue's time. SQS deduplicates a message id for five minutes only, so a later try may put a command on the
queue twice. The agent ensures that it has at most one effect (`evenkeel.steering.agent`).
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.steering.agent.setup import QueueClock
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.fifo import (
    MOST_IN_BATCH,
    BadMessage,
    Fifo,
    Letter,
    QueueError,
    QueueUnreachable,
    ReceivedMessage,
    Unsent,
    command_group,
    control_group,
    send_all,
)
from evenkeel.steering.queue.messages import AgentReport, Control, command_body, control_body, read_report
from evenkeel.steering.queue.signing import FROM_AGENTS, TO_AGENTS, Signature

LOG = logging.getLogger(__name__)
RECORD_SECONDS = 120
LONGEST_VISIBILITY_SECONDS = 12 * 3600
MOST_REPORTS = 10_000


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports as taken, those of other cycles among them.

    `receipts`: also of messages that are not reports; `confirm` removes them with the others.
    """

    reports: tuple[AgentReport, ...]
    receipts: tuple[str, ...] = field(default=(), repr=False)

    @property
    def outcomes(self) -> list[Outcome]:
        """Return what the agents saw, duplicate reports included; `steering.outcome` decides which one of a command
        counts."""
        return [report.outcome for report in self.reports]


class SqsSink:
    """The two queues of one cluster. Raises `QueueRefused` if their URLs or boto3's settings cannot work."""

    def __init__(self, signature: Signature, commands: str, reports: str) -> None:
        """Take `commands` and `reports`, URLs of FIFO queues, and `signature`, the pipeline's end of them."""
        self._signature, self._clock = signature, QueueClock()
        self._commands = Fifo(commands, heard=self._clock.heard)
        self._reports = Fifo(reports)

    @property
    def cluster(self) -> str:
        """The cluster whose queues these are."""
        return self._signature.cluster

    def send(self, commands: Sequence[Mapping[str, Any]]) -> list[Unsent]:
        """Put commands on the queue, in the order of their steps within each namespace; return those that are not
        known to be on it, each with its command's id as `dedup_id`.

        Never raises for faults of the network. A command that fails holds back the later ones of its namespace. Rows
        that no agent would accept (`BadInput`) are refused before anything is sent.
        """
        for command in commands:
            if command.get("cluster") != self.cluster:
                raise BadInput(f"a command of cluster {command.get('cluster')!r} for the queue of {self.cluster!r}")
        with suppress(QueueError):
            self._commands.attributes()  # the answer has the queue's time
        ordered = sorted(commands, key=lambda command: (str(command["cycle_at"]), command["step"]))
        failed = send_all(self._commands, [self._letter(command) for command in ordered])
        for unsent in failed:
            LOG.warning("command %s is not on the queue: %s", unsent.letter.dedup_id[:12], unsent.reason)
        return failed

    def control(self, kind: str, *, made_at: datetime, by: str, reason: str, plan_id: str | None = None) -> None:
        """Send every agent of the cluster `pause`, `resume`, or `withdraw` for the commands of a plan that have not
        begun.

        Raises `QueueError` if it cannot be sent. Sending it once more does no harm.
        """
        body = control_body(Control(kind, self.cluster, made_at, by, reason, plan_id))
        control_id = hashlib.sha256(body.encode()).hexdigest()
        text = self._signature.signed(body, TO_AGENTS, datetime.now(UTC), control_id)
        failed = send_all(self._commands, [Letter(text, control_group(control_id), control_id)])
        if failed:
            raise QueueUnreachable(
                f"cluster {self.cluster}: the control {kind!r} could not be sent to the agents: {failed[0].reason}"
            )

    def take(self, wanted: Collection[str], until: float, *, record_s: int = RECORD_SECONDS) -> Reports:
        """Take reports until all `wanted` commands are reported and the queue is empty, or until `time.monotonic()` is
        `until`.

        At least one look is taken. Taken reports stay on the queue, hidden for `record_s` from `until` on: record them,
        then `confirm`. Raises `QueueError` if nothing could be taken.
        """
        by_message: dict[str, tuple[AgentReport | None, str]] = {}
        missing = set(wanted)
        last_wait = 0 if wanted else 1  # only awaited reports are worth a wait
        while len(by_message) < MOST_REPORTS:
            left = max(0.0, until - time.monotonic())
            try:
                taken = self._reports.receive(
                    most=MOST_IN_BATCH,
                    wait_s=max(1, round(left)) if missing else last_wait,
                    visibility_s=min(int(left) + record_s, LONGEST_VISIBILITY_SECONDS),
                )
            except QueueError as error:
                if not by_message:
                    raise
                LOG.warning("taking reports ended early: %s", error)
                break
            # A message seen twice in one round was hidden for too short a time: its newer receipt is the good one.
            by_message |= {message.message_id: (self._read(message), message.receipt) for message in taken}
            missing -= {report.outcome.command_id for report, _ in by_message.values() if report is not None}
            if (not taken and not missing) or time.monotonic() >= until:
                break
        return Reports(
            tuple(report for report, _ in by_message.values() if report is not None),
            tuple(receipt for _, receipt in by_message.values()),
        )

    def confirm(self, taken: Reports) -> None:
        """Remove taken reports once they are recorded; those recorded too late come again and do no harm."""
        late = self._reports.delete(taken.receipts) if taken.receipts else ()
        if late:
            LOG.info("%d reports come again: recording them took longer than they were hidden", len(late))

    def _letter(self, command: Mapping[str, Any]) -> Letter:
        command_id = str(command["command_id"])
        text = self._signature.signed(command_body(command), TO_AGENTS, self._clock.now(), command_id)
        return Letter(text, command_group(str(command["bundle"])), command_id)

    def _read(self, message: ReceivedMessage) -> AgentReport | None:
        body = message.body
        try:
            body, _ = self._signature.verified(body, FROM_AGENTS, datetime.now(UTC), message.dedup_id)
            report = read_report(body)
            if report.cluster not in (None, self.cluster):
                raise BadMessage(f"of cluster {report.cluster!r}, on the queue of {self.cluster!r}")
            return report
        except BadMessage as error:
            LOG.error("a message on the reports queue of %s is not believed: %s: %r", self.cluster, error, body[:200])
            return None
