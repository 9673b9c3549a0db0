"""What can go wrong between Evenkeel and its engine."""

from __future__ import annotations

from evenkeel.errors import EvenkeelError


class EngineError(EvenkeelError):
    """The engine (Java, jars, Connect server, session) cannot be had or does not answer."""


class JarError(EngineError):
    """A jar cannot be fetched, or is not the one that was pinned."""


class StaleCode(EngineError):
    """A Python worker of the server runs other code than this client."""


class DecideFailed(EngineError):
    """A decide function raised inside a worker; the text names the group and the first line of the error."""
