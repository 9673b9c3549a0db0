"""Why no HTTP answer came: told in the `body` of a hop with status 0, and read from there."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum

import httpx

from evenkeel.pulsar.admin.hop import Hop


class Failure(StrEnum):
    """Kinds of failure; the value is what the body of the hop starts with."""

    NO_ADDRESS = "no usable address"
    UNKNOWN_NAME = "host name not known"
    REFUSED = "connection refused"
    UNREACHABLE = "no connection"
    TLS = "TLS failed"
    TIMED_OUT = "no answer in time"
    BROKEN_OFF = "connection broken off"
    TOO_LARGE = "answer too large"
    BUSY = "no free connection"
    NOT_FOLLOWED = "redirect not followed"
    NOT_SENT = "not sent"


NOTHING_SENT = frozenset(
    {
        Failure.NO_ADDRESS,
        Failure.UNKNOWN_NAME,
        Failure.REFUSED,
        Failure.UNREACHABLE,
        Failure.BUSY,
        Failure.NOT_FOLLOWED,
        Failure.NOT_SENT,
    }
)
"""The request has certainly not reached the broker. A TLS failure may come after it was sent (TLS 1.3)."""

PASSING = frozenset({Failure.UNKNOWN_NAME, Failure.REFUSED, Failure.UNREACHABLE, Failure.BROKEN_OFF, Failure.BUSY})
"""May be over a moment later. An answer that took too long is not among them: asking again adds to the load."""


def told(failure: Failure, detail: str) -> str:
    """The body of a hop that failed."""
    return f"{failure}: {detail}" if detail else str(failure)


def failure_in(hop: Hop) -> Failure | None:
    """Which failure a hop tells of; None where an HTTP answer came, or where another tool recorded the hop."""
    if hop.status != 0:
        return None
    return next((failure for failure in Failure if hop.body.startswith(failure)), None)


def failure_of(error: Exception) -> tuple[Failure, str]:
    """The failure behind an error of the HTTP library, and its detail in one line."""
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return Failure.TLS, _tls_detail(causes)
    if isinstance(error, httpx.PoolTimeout):
        return Failure.BUSY, "all connections of this client are in use"
    if isinstance(error, httpx.ConnectTimeout):
        return Failure.UNREACHABLE, "nobody answered at this address in time"
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return Failure.TIMED_OUT, ""
    if isinstance(error, httpx.ConnectError):
        return _of_connecting(causes)
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return Failure.NO_ADDRESS, _line(error)
    return Failure.BROKEN_OFF, _line(error)


def _of_connecting(causes: list[BaseException]) -> tuple[Failure, str]:
    for cause in causes:
        if isinstance(cause, socket.gaierror | UnicodeError):
            return Failure.UNKNOWN_NAME, _line(cause)
        if isinstance(cause, ConnectionRefusedError):
            return Failure.REFUSED, "nobody listens at this address"
    return Failure.UNREACHABLE, _line(causes[-1])


def _tls_detail(causes: list[BaseException]) -> str:
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate is refused: {cause.verify_message}"
    found = next(cause for cause in causes if isinstance(cause, ssl.SSLError))
    return found.reason.lower().replace("_", " ") if found.reason else _line(found)


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _line(error: BaseException) -> str:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return lines[0][:300]
