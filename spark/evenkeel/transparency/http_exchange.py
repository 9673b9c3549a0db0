"""One HTTP exchange with an untrusted server: bounded in bytes and time, without following redirects."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from evenkeel.errors import WitnessError
from evenkeel.transparency.keys import shown


def exchange(
    url: str,
    method: str,
    path: str = "",
    body: bytes | None = None,
    *,
    who: str,
    most_bytes: int,
    timeout_seconds: float,
    content_type: str = "text/plain",
) -> tuple[int, bytes]:
    """Return status and body of an answer from `url` and a path after it.

    `who` begins messages, e.g. `the witness`. Raises WitnessError if no answer of at most `most_bytes` comes in time.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise WitnessError(f"{who} {shown(url)}: the URL cannot be read: {error}") from None
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(host, port, timeout=timeout_seconds)
    end = threading.Timer(timeout_seconds, lambda: None)
    try:
        connection.connect()
        # A socket's own timeout begins again with every byte.
        end = threading.Timer(timeout_seconds, _cut, [connection.sock])
        end.daemon = True
        end.start()
        headers = {"Content-Type": content_type} if body else {}
        place = parts.path.rstrip("/") + path if path else parts.path or "/"
        connection.request(method, place, body, headers)
        response = connection.getresponse()
        data = response.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise WitnessError(f"{who} {url} answers with more than {most_bytes:,} bytes")
        return response.status, data
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise WitnessError(f"{who} {url} cannot be reached, or does not answer: {shown(reason)}") from None
    finally:
        end.cancel()
        connection.close()


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
