"""Errors of a cluster for tests."""

from __future__ import annotations

from evenkeel.errors import EvenkeelError


class LabError(EvenkeelError):
    """A cluster cannot be started, or does not do what was asked of it; the text has the telling lines of a log."""
