"""The sink `sqs`: commands go onto a FIFO queue, and an agent beside the cluster carries them out and reports back.

A command that is on the queue has no outcome yet: outcomes come as reports, on a queue of their own. They are taken in
two steps, `take` and `confirm`, with the writing down between them: a publisher that dies before it has written down
what it took finds the same reports on the queue again. Whoever takes reports gets those of other cycles too.

One command queue serves one cluster, and both queues carry signed messages only (`steering.queue.signing`). SQS keeps
a message id apart for five minutes only, so a command may be on the queue twice; that it has at most one effect is the
agent's doing (`evenkeel.steering.agent`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.fifo import (
    MOST_IN_BATCH,
    BadMessage,
    Fifo,
    Letter,
    QueueError,
    QueueUnreachable,
    command_group,
    control_group,
    dedup_id,
)
from evenkeel.steering.queue.messages import AgentReport, Control, command_body, control_body, read_report
from evenkeel.steering.queue.sending import send_all
from evenkeel.steering.queue.signing import FROM_AGENTS, TO_AGENTS, Signature

LOG = logging.getLogger(__name__)
RECORD_SECONDS = 120
LONGEST_VISIBILITY_SECONDS = 12 * 3600
MOST_REPORTS = 10_000


@dataclass(frozen=True, slots=True)
class Unqueued:
    """A command that is not known to be on the queue. `possible`: it may be there all the same (no answer came)."""

    command_id: str
    reason: str
    possible: bool


@dataclass(frozen=True, slots=True)
class QueuedCommands:
    """What became of commands that were to be put on the queue. None of it is an outcome."""

    queued: tuple[str, ...]
    unqueued: tuple[Unqueued, ...]


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports as taken, those of other cycles among them. `missing`: commands waited for that nobody reported yet.

    `unreadable` says what was wrong with messages that are not reports; `confirm` removes them with the others.
    """

    reports: tuple[AgentReport, ...]
    missing: frozenset[str]
    unreadable: tuple[str, ...] = ()
    receipts: tuple[str, ...] = field(default=(), repr=False)

    @property
    def outcomes(self) -> list[Outcome]:
        """What the agents saw, doubled reports and all; `steering.outcome` says which one of a command stands."""
        return [report.outcome for report in self.reports]


class SqsSink:
    """The two queues of one cluster. Raises `QueueRefused` where their URLs or boto3's settings cannot work."""

    def __init__(self, signature: Signature, commands: str, reports: str) -> None:
        """`commands` and `reports` are URLs of FIFO queues; `signature` is the pipeline's end of them."""
        self._signature = signature
        self._commands = Fifo(commands)
        self._reports = Fifo(reports)

    @property
    def cluster(self) -> str:
        """The cluster whose queues these are."""
        return self._signature.cluster

    def send(self, commands: Sequence[Mapping[str, Any]]) -> QueuedCommands:
        """Puts commands on the queue, in the order of their steps within each namespace.

        Never raises for what the network does. A command that fails holds back the later ones of its namespace. Rows
        that no agent would take (`BadInput`) are refused before anything is sent.
        """
        for command in commands:
            if command.get("cluster") != self.cluster:
                raise BadInput(f"a command of cluster {command.get('cluster')!r} for the queue of {self.cluster!r}")
        ordered = sorted(commands, key=lambda command: (str(command["cycle_at"]), command["step"]))
        letters = {self._letter(command): str(command["command_id"]) for command in ordered}
        failed = [
            Unqueued(letters[one.letter], one.reason, one.possible) for one in send_all(self._commands, [*letters])
        ]
        for one in failed:
            LOG.warning("command %s is not on the queue: %s", one.command_id[:12], one.reason)
        missing = {one.command_id for one in failed}
        return QueuedCommands(tuple(one for one in letters.values() if one not in missing), tuple(failed))

    def control(self, kind: str, *, made_at: datetime, by: str, reason: str, plan_id: str | None = None) -> None:
        """Tells every agent of the cluster to `pause`, to `resume`, or to `withdraw` what it has not begun of a plan.

        Raises `QueueError` where that cannot be said. Saying the same once more does no harm.
        """
        body = control_body(Control(kind, self.cluster, made_at, by, reason, plan_id))
        control_id = dedup_id(body)
        text = self._signature.signed(body, TO_AGENTS, datetime.now(UTC), control_id)
        failed = send_all(self._commands, [Letter(text, control_group(control_id), control_id)])
        if failed:
            raise QueueUnreachable(
                f"cluster {self.cluster}: the agents could not be told to {kind}: {failed[0].reason}"
            )

    def take(self, wanted: Collection[str], until: float, *, record_s: int = RECORD_SECONDS) -> Reports:
        """Takes reports until all `wanted` commands are reported and the queue is empty, or until `time.monotonic()`
        is `until`.

        At least one look is taken. What is taken stays on the queue, hidden for `record_s` from `until` on: write it
        down, then `confirm`. Raises `QueueError` where nothing could be taken.
        """
        found: dict[str, tuple[AgentReport | None, str, str]] = {}
        missing = set(wanted)
        last_wait = 0 if wanted else 1  # nobody waits for what may be there besides
        while len(found) < MOST_REPORTS:
            left = max(0.0, until - time.monotonic())
            try:
                taken = self._reports.receive(
                    most=MOST_IN_BATCH,
                    wait_s=max(1, round(left)) if missing else last_wait,
                    visibility_s=min(int(left) + record_s, LONGEST_VISIBILITY_SECONDS),
                )
            except QueueError as error:
                if not found:
                    raise
                LOG.warning("taking reports ended early: %s", error)
                break
            # A message seen twice in one round was hidden too short: its newer receipt is the good one.
            found |= {message.message_id: (*self._read(message.body), message.receipt) for message in taken}
            missing -= {report.outcome.command_id for report, _, _ in found.values() if report is not None}
            if (not taken and not missing) or time.monotonic() >= until:
                break
        return Reports(
            tuple(report for report, _, _ in found.values() if report is not None),
            frozenset(missing),
            tuple(problem for report, problem, _ in found.values() if report is None),
            tuple(receipt for _, _, receipt in found.values()),
        )

    def confirm(self, taken: Reports) -> None:
        """Removes what was taken, once it is on record; what took too long to record comes again and does no harm."""
        late = self._reports.delete(taken.receipts) if taken.receipts else ()
        if late:
            LOG.info("%d reports come again: recording them took longer than they were hidden", len(late))

    def _letter(self, command: Mapping[str, Any]) -> Letter:
        command_id = str(command["command_id"])
        text = self._signature.signed(command_body(command), TO_AGENTS, datetime.now(UTC), command_id)
        return Letter(text, command_group(str(command["bundle"])), command_id)

    def _read(self, text: str) -> tuple[AgentReport | None, str]:
        body = text
        try:
            body = self._signature.verified(text, FROM_AGENTS, datetime.now(UTC))
            report = read_report(body)
            if report.cluster not in (None, self.cluster):
                raise BadMessage(f"of cluster {report.cluster!r}, on the queue of {self.cluster!r}")
            return report, ""
        except BadMessage as error:
            problem = f"{error}: {body[:200]!r}"
            LOG.error("a message on the reports queue of %s is not believed: %s", self.cluster, problem)
            return None, problem
