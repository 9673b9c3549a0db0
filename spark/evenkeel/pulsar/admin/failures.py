"""Reasons for a missing HTTP answer: written in the `body` of a hop with status 0, and read from it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum

import httpx

from evenkeel.pulsar.answers import TIMED_OUT


class Failure(StrEnum):
    """Kinds of failure; the value is the beginning of the hop's body."""

    NO_ADDRESS = "no usable address"
    UNKNOWN_NAME = "host name not known"
    REFUSED = "connection refused"
    UNREACHABLE = "no connection"
    TLS = "TLS failed"
    TIMED_OUT = TIMED_OUT
    BROKEN_OFF = "connection broken off"
    TOO_LARGE = "answer too large"
    PACKED = "answer packed"
    BUSY = "no free connection"
    NOT_FOLLOWED = "redirect not followed"
    NOT_SENT = "not sent"
    NO_CREDENTIALS = "no credentials"


NOTHING_SENT = frozenset(
    {
        Failure.NO_ADDRESS,
        Failure.UNKNOWN_NAME,
        Failure.REFUSED,
        Failure.UNREACHABLE,
        Failure.BUSY,
        Failure.NOT_FOLLOWED,
        Failure.NOT_SENT,
        Failure.NO_CREDENTIALS,
    }
)
"""Failures after which the request has certainly not reached the broker. A TLS failure may come after it was sent (TLS
1.3)."""

PASSING = frozenset({Failure.UNKNOWN_NAME, Failure.REFUSED, Failure.UNREACHABLE, Failure.BROKEN_OFF, Failure.BUSY})
"""Failures that may pass in a moment. A slow answer is not among them: a repeated request adds to the load."""


def failure_text(failure: Failure, detail: str) -> str:
    """Return the body of a failed hop."""
    return f"{failure}: {detail}" if detail else str(failure)


def failure_of(error: Exception) -> tuple[Failure, str]:
    """Return the failure behind an error of the HTTP library, and its detail in one line."""
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return Failure.TLS, _tls_detail(causes)
    if isinstance(error, httpx.PoolTimeout):
        return Failure.BUSY, "all connections of this client are in use"
    if isinstance(error, httpx.ConnectTimeout):
        return Failure.UNREACHABLE, "this address did not answer in time"
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
            return Failure.REFUSED, "no process listens at this address"
    return Failure.UNREACHABLE, _line(causes[-1])


def _tls_detail(causes: list[BaseException]) -> str:
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate is refused: {cause.verify_message}"
    tls_error = next(cause for cause in causes if isinstance(cause, ssl.SSLError))
    return tls_error.reason.lower().replace("_", " ") if tls_error.reason else _line(tls_error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _line(error: BaseException) -> str:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return lines[0][:300]


_OTHER_NAME = "use the name that the certificate was made for, or set check_hostname = false"
_NO_CLIENT_CERTIFICATE = "set `auth_plugin` to `tls`, and `auth_params` to a certificate that the broker accepts"
_BY_RFC_5280 = (
    "Python 3.13 and newer accept only certificates that follow RFC 5280. Have the authority issue them again with the "
    "extensions Authority Key Identifier (except for a root), Subject Key Identifier and Key Usage"
)
_TLS_ADVICE = (
    ("alert certificate expired", "renew the client certificate in `auth_params`"),
    ("alert certificate required", _NO_CLIENT_CERTIFICATE),
    ("alert handshake failure", f"if the broker demands client certificates, {_NO_CLIENT_CERTIFICATE}"),
    *((f"alert {sign}", _NO_CLIENT_CERTIFICATE) for sign in ("bad certificate", "certificate", "unknown ca")),
    ("wrong version number", "this port speaks no TLS: give http://, or `broker_url` with the brokers' TLS port"),
    ("hostname mismatch", _OTHER_NAME),
    ("ip address mismatch", _OTHER_NAME),
    *((sign, _BY_RFC_5280) for sign in ("key identifier", "key usage", "basic constraints", "marked critical")),
    ("expired", "renew the broker's certificate"),
    ("certificate", "set ca_file to the certificates that signed the broker's"),
)


def tls_advice(failure: str) -> str:
    """Return what to do about a TLS failure, by its text."""
    text = failure.lower()
    return next((advice for sign, advice in _TLS_ADVICE if sign in text), "check that the port speaks TLS")
