"""What can go wrong in an agent."""

from __future__ import annotations

from evenkeel.errors import EvenkeelError


class AgentError(EvenkeelError):
    """The agent cannot work, or must not go on."""


class LedgerError(AgentError):
    """The ledger is another agent's, another cluster's, damaged, or cannot be written; without it nothing is sent."""
