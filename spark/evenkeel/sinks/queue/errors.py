"""What can go wrong between Evenkeel and its queues."""

from __future__ import annotations

from datetime import datetime

from evenkeel.errors import BadInput, EvenkeelError


class QueueError(EvenkeelError):
    """A queue did not do what was asked; the text is fit for an operator and holds no credentials."""


class QueueUnreachable(QueueError):
    """No answer, or one that says to come again: trying later may help. What was asked may have been done."""


class QueueRefused(QueueError):
    """The service understood and refuses, or no request can be made at all: somebody has to change something."""


class BadMessage(BadInput):
    """A message that is not what it should be; carries whatever could be read of the command that it speaks of."""

    def __init__(
        self,
        reason: str,
        *,
        command_id: str | None = None,
        plan_id: str | None = None,
        cluster: str | None = None,
        cycle_at: datetime | None = None,
    ) -> None:
        super().__init__(reason)
        self.command_id = command_id
        self.plan_id = plan_id
        self.cluster = cluster
        self.cycle_at = cycle_at
