"""One HTTP request and its whole answer, or why none came. Nothing here raises for what the network does."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from evenkeel.pulsar.admin.connection import Address, AdminConnection
from evenkeel.pulsar.admin.failures import Failure, failure_of, told
from evenkeel.pulsar.admin.hiding import without_secrets
from evenkeel.pulsar.admin.hop import Hop
from evenkeel.pulsar.admin.quoting import request_target

CONNECT_SECONDS = 5.0
MOST_BYTES = 512 * 1024 * 1024
# Longer than a client pauses between the requests of one snapshot, shorter than Jetty's idle limit (30 s and more).
_KEPT_SECONDS = 15.0

# At DEBUG it prints the headers of answers, and a server may echo there what it was sent.
logging.getLogger("httpcore").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, wherever it goes."""

    method: str
    path: str
    body: str | None

    @property
    def is_reading(self) -> bool:
        """Whether the request changes nothing at the broker."""
        return self.method == "GET"


@dataclass(frozen=True, slots=True)
class Reply:
    """A hop, why it failed where no answer came, and for how long the server asks to be left alone."""

    hop: Hop
    failure: Failure | None = None
    retry_after_s: float | None = None


class _OutOfTime(Exception):
    """The answer did not end in time, though it went on coming."""


class _TooLarge(Exception):
    """The answer is larger than any that Pulsar gives."""


class Wire:
    """Sends requests over kept connections; thread-safe.

    Proxies, cookies and credentials of the environment are left out: a broker is asked directly or not at all. Answers
    are asked for unpacked, since packing costs the brokers more than the network.
    """

    def __init__(self, connection: AdminConnection, most_connections: int) -> None:
        self._token = connection.token
        self._transport = httpx.HTTPTransport(
            verify=connection.tls(),
            trust_env=False,
            limits=httpx.Limits(
                max_connections=most_connections,
                max_keepalive_connections=most_connections,
                keepalive_expiry=_KEPT_SECONDS,
            ),
        )

    def send(self, question: Question, address: Address, broker: str, deadline: float) -> Reply:
        """Sends the question to the address and reads the answer until `deadline` (`time.monotonic`)."""
        at, begin = datetime.now(UTC), time.perf_counter()
        status, location, retry_after = 0, None, None
        failure: Failure | None = None
        try:
            response = self._transport.handle_request(self._request(question, address, deadline))
            try:
                text = _text_of(response, deadline)
            finally:
                response.close()
            status, location = response.status_code, response.headers.get("location")
            retry_after = _seconds(response.headers.get("retry-after"))
        except (_OutOfTime, _TooLarge) as error:
            failure = Failure.TIMED_OUT if isinstance(error, _OutOfTime) else Failure.TOO_LARGE
            text = told(failure, str(error))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            failure, detail = failure_of(error)
            text = told(failure, detail)
        elapsed = round((time.perf_counter() - begin) * 1000, 1)
        hop = Hop(
            broker=broker,
            method=question.method,
            path=question.path,
            status=status,
            at=moment(at),
            elapsed_ms=elapsed,
            location=self._hidden(location) if location is not None else None,
            body=without_secrets(question.path, self._hidden(text)),
            sent=question.body,
        )
        return Reply(hop, failure, retry_after)

    def close(self) -> None:
        """Closes the kept connections."""
        self._transport.close()

    def _request(self, question: Question, address: Address, deadline: float) -> httpx.Request:
        headers = {"Accept-Encoding": "identity", "User-Agent": "evenkeel"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        content = None
        if question.body is not None:
            headers["Content-Type"], content = "application/json", question.body.encode("utf-8", "surrogatepass")
        left = max(deadline - time.monotonic(), 0.001)
        limits = {"connect": min(CONNECT_SECONDS, left), "read": left, "write": left, "pool": left}
        url = httpx.URL(scheme=address.scheme, host=address.host, port=address.port, path="/")
        # As the target the path goes over the wire as it is: the library would quote and shorten it by its own rules.
        extensions = {"timeout": limits, "target": request_target(address.prefix + question.path)}
        return httpx.Request(question.method, url, headers=headers, content=content, extensions=extensions)

    def _hidden(self, text: str) -> str:
        return text if self._token is None else self._token.hide_in(text)


def moment(at: datetime) -> str:
    """ISO-8601 UTC with milliseconds, as times stand in a recording."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text_of(response: httpx.Response, deadline: float) -> str:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            raise _TooLarge(f"more than {MOST_BYTES // 2**20} MiB")
        if time.monotonic() > deadline:
            raise _OutOfTime(f"it breaks off after {len(body)} bytes")
    return body.decode("utf-8", "replace")


def _seconds(text: str | None) -> float | None:
    """Seconds of a Retry-After header, which gives seconds or a date."""
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (then.astimezone(UTC) - datetime.now(UTC)).total_seconds())
