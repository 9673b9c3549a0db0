"""Errors of a cluster for tests."""

from __future__ import annotations

from evenkeel.errors import EvenkeelError


class LabError(EvenkeelError):
    """A cluster cannot be started, or does not fulfil a request; the text has the important lines of a log."""
