"""One HTTP request and its whole answer, or the reason for a missing one. Faults of the network raise nothing."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from evenkeel.errors import EvenkeelError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.pulsar.admin.answer_text import (
    AnswerText,
    BoundedTransport,
    Deadline,
    LargeText,
    TooLarge,
    Unreadable,
    of_text,
    unpacked,
)
from evenkeel.pulsar.admin.authentication import Authorization
from evenkeel.pulsar.admin.connection import Address, AdminConnection
from evenkeel.pulsar.admin.failures import Failure, failure_of, failure_text
from evenkeel.pulsar.answers import NO_TOPIC
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.secret import HIDDEN
from evenkeel.times import utc_milliseconds

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a request.

    `broker` is the id of the broker asked, else host:port. `status` 0: no HTTP answer came, or the request was not
    sent, and `body` is the reason (`failures`). `at` is the moment of sending, ISO-8601 UTC with milliseconds;
    `location` the answer's header of that name; `sent` the request's body. It never contains a credential. Of a `large`
    answer `body` is only the beginning.
    """

    broker: str
    method: str
    path: str
    status: int
    at: str
    elapsed_ms: float
    location: str | None
    body: str
    sent: str | None = None
    large: LargeText | None = field(default=None, compare=False, repr=False)

    @property
    def characters(self) -> int:
        """Length of the whole answer, in characters."""
        return len(self.body) if self.large is None else self.large.characters

    @property
    def is_redirect(self) -> bool:
        """True if the broker answered with a redirect."""
        return self.status in REDIRECTS

    @property
    def is_good(self) -> bool:
        """True if the broker did, or answered, what was requested."""
        return 200 <= self.status < 300

    @property
    def json(self) -> Any:
        """Return the JSON of an answer with status 200; None for any other answer, and if the body is not JSON.

        Release the JSON of a `large` answer within `LargeText.alone`.
        """
        if self.status != 200:
            return None
        try:
            return parse_json(self.body if self.large is None else self.large.whole())
        except NotJson:
            return None

    def as_request(self) -> dict[str, Any]:
        """Return the members of a request in a recording; `sent` only if the request had a body."""
        members = {
            "broker": self.broker,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "at": self.at,
            "elapsed_ms": self.elapsed_ms,
            "location": self.location,
            "body": self.body,
        }
        return members if self.sent is None else {**members, "sent": self.sent}


def failure_in(hop: Hop) -> Failure | None:
    """Return the failure of a hop; None if an HTTP answer came, or if another tool recorded the hop."""
    if hop.status != 0:
        return None
    return next((failure for failure in Failure if hop.body.startswith(failure)), None)


PREFIX = "/admin/v2"
_HALF = re.compile("[\ud800-\udfff]")
# Characters that a path may hold unquoted: those of RFC 3986 (pchar and /), `?`, and the `%` of quoted ones.
_AS_IT_IS = "%/?:@!$&'()*+,;=-._~"


def admin_path(*segments: str, **query: str) -> str:
    """Return `/admin/v2/…` of plain names: a slash, a quote, `%2F` or a character of any script survives.

    The colon of a broker id stays, as Pulsar's own clients send it.
    """
    path = "/".join([PREFIX, *(_segment(segment) for segment in segments)])
    if not query:
        return path
    return "?".join([path, urlencode(query, safe=":", quote_via=quote)])


def metadata_read() -> str:
    """Return the path of a read that a broker cannot answer while its metadata store's completion thread hangs.

    It reads the partitions of a topic that does not exist, with a new name each time, so that no cache has the answer,
    which is 404 (BrokerService.fetchPartitionedTopicMetadataAsync, TopicResources.persistentTopicExists). No thread of
    the broker waits for it.
    """
    return admin_path("persistent", "pulsar", "system", f"{NO_TOPIC}{secrets.token_hex(8)}", "partitions")


def _segment(name: str) -> str:
    # A proxy would take a segment of only dots for a folder.
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe=":", errors="surrogatepass")


def names_in(answer: Any) -> list[str] | None:
    """Return the names in an answer that lists some, sorted, each once; None if it is not a list.

    Entries that are not text, or hold half a character, are left out: no request could name them.
    """
    if not isinstance(answer, list):
        return None
    return sorted({name for name in answer if isinstance(name, str) and name and not _HALF.search(name)})


# Secrets that Pulsar itself shows: they are hidden before the answer is kept.
#
# A broker's runtime configuration shows the token for other brokers (`brokerClientAuthenticationParameters`) and the
# passwords of its key stores, all in plain text to any super user. A namespace's policies show the keys of its offload
# store (`offload_policies`), a cluster's data the same as a broker's.

_TOLD_BY = tuple(f"{PREFIX}/{part}" for part in ("brokers/configuration", "clusters/", "namespaces/"))
_NAMES = re.compile("password|secret|credential|token|privatekey|parameters|params", re.IGNORECASE)
# Possessive: each text is scanned once.
_MEMBER = re.compile(r'("([^"\\]*+)"\s*+:\s*+)"(?:[^"\\]++|\\.)++"')


def without_secrets(path: str, body: str) -> str:
    """Return the body with the texts of such settings hidden; the rest is unchanged."""
    return _MEMBER.sub(_hidden_member, body) if path.startswith(_TOLD_BY) else body


def _hidden_member(match: re.Match[str]) -> str:
    return f'{match[1]}"{HIDDEN}"' if _NAMES.search(match[2]) else match[0]


def _without_secrets(path: str, text: str | LargeText, folder: Path | None) -> str | LargeText:
    if isinstance(text, str):
        return without_secrets(path, text)
    if not path.startswith(_TOLD_BY):
        return text
    with text.alone():
        hidden = without_secrets(path, text.whole())
        text.close()
        return of_text((hidden[start : start + _PIECE] for start in range(0, len(hidden), _PIECE)), folder)


CONNECT_SECONDS = 5.0
_PIECE = 1 << 20

# At DEBUG it prints the headers of answers, in which a server may echo the request's token.
logging.getLogger("httpcore").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Question:
    """A request, independent of the address that it is sent to."""

    method: str
    path: str
    body: str | None

    @property
    def is_reading(self) -> bool:
        """True if the request changes nothing at the broker."""
        return self.method == "GET"


@dataclass(frozen=True, slots=True)
class Reply:
    """A hop, the failure if no answer came, and the seconds for which the server asks clients to wait."""

    hop: Hop
    failure: Failure | None = None
    retry_after_s: float | None = None


def unsent(question: Question, broker: str, failure: Failure, detail: str) -> Reply:
    """Return the reply to a request that was not sent."""
    hop = Hop(
        broker=broker,
        method=question.method,
        path=question.path,
        status=0,
        at=utc_milliseconds(datetime.now(UTC)),
        elapsed_ms=0.0,
        location=None,
        body=failure_text(failure, detail),
        sent=question.body,
    )
    return Reply(hop, failure)


class _OutOfTime(Exception):
    """The answer did not end in time, though it went on arriving."""


class Wire:
    """Sender of requests over kept connections; thread-safe.

    Proxies, cookies and credentials of the environment are left out: a broker is asked directly or not at all. Answers
    are requested uncompressed, since compression costs the brokers more than the network. An answer beyond `limits`
    counts as missing. A large one is on disk, in `folder` or the system's folder for such files. `heard` is called with
    the broker's name, the time in its answer, and the seconds from the request to it.
    """

    def __init__(
        self,
        connection: AdminConnection,
        most_connections: int,
        limits: Limits = DEFAULT,
        folder: Path | None = None,
        heard: Callable[[str, datetime, float], None] | None = None,
    ) -> None:
        self._authentication, self._limits = connection.authentication, limits
        self._folder, self._heard = folder, heard
        self._deadline, self._tls = Deadline(), connection.tls()
        self._transport = BoundedTransport(self._tls, most_connections, self._deadline)

    def send(self, question: Question, address: Address, broker: str, deadline: float) -> Reply:
        """Send the request to the address and read the answer until `deadline` (`time.monotonic`).

        The credentials are looked up for each request. After a 401 it is sent once more if there are newer ones.
        """
        try:
            self._authentication.present_in(self._tls)
            authorization = self._authentication.authorization(deadline)
        except EvenkeelError as error:
            return unsent(question, broker, Failure.NO_CREDENTIALS, str(error))
        reply = self._exchange(question, address, broker, deadline, authorization)
        if reply.hop.status == HTTPStatus.UNAUTHORIZED and authorization is not None:
            renewed = self._authentication.renewed(authorization, deadline)
            if renewed is not None:
                return self._exchange(question, address, broker, deadline, renewed)
        return reply

    def _exchange(
        self, question: Question, address: Address, broker: str, deadline: float, authorization: Authorization | None
    ) -> Reply:
        def hide(text: str) -> str:
            return text if authorization is None else authorization.hide_in(text)

        at, begin = datetime.now(UTC), time.perf_counter()
        status, location, retry_after = 0, None, None
        failure: Failure | None = None
        text: str | LargeText
        try:
            with self._deadline.until(deadline):
                response = self._transport.handle_request(self._request(question, address, deadline, authorization))
                try:
                    text = self._text_of(response, question, deadline, hide, authorization)
                finally:
                    response.close()
            status, location = response.status_code, response.headers.get("location")
            retry_after = _seconds(response.headers.get("retry-after"))
            self._tell_time(broker, response.headers.get("date"), time.perf_counter() - begin)
        except _OutOfTime as error:
            failure = Failure.TIMED_OUT
            text = failure_text(failure, str(error))
        except TooLarge as error:
            failure, limit = Failure.TOO_LARGE, self._limits.words(self._limits.name_for(question.path))
            text = failure_text(failure, f"{error}, beyond {limit}")
        except Unreadable as error:
            failure = Failure.PACKED
            text = failure_text(failure, str(error))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            failure, detail = failure_of(error)
            text = failure_text(failure, detail)
        elapsed = round((time.perf_counter() - begin) * 1000, 1)
        text = _without_secrets(question.path, text, self._folder)
        body = hide(text) if isinstance(text, str) else text.beginning()
        hop = Hop(
            broker=broker,
            method=question.method,
            path=question.path,
            status=status,
            at=utc_milliseconds(at),
            elapsed_ms=elapsed,
            location=hide(location) if location is not None else None,
            body=body,
            sent=question.body,
            large=text if isinstance(text, LargeText) else None,
        )
        return Reply(hop, failure, retry_after)

    def close(self) -> None:
        """Close the kept connections."""
        self._transport.close()

    def _request(
        self, question: Question, address: Address, deadline: float, authorization: Authorization | None
    ) -> httpx.Request:
        headers = {"Accept-Encoding": "identity", "User-Agent": "evenkeel"}
        if authorization is not None:
            headers["Authorization"] = authorization.header()
        content = None
        if question.body is not None:
            headers["Content-Type"], content = "application/json", question.body.encode("utf-8", "surrogatepass")
        left = max(deadline - time.monotonic(), 0.001)
        limits = {"connect": min(CONNECT_SECONDS, left), "read": left, "write": left, "pool": left}
        url = httpx.URL(scheme=address.scheme, host=address.host, port=address.port, path="/")
        # As the target the path is sent unchanged: the library would quote and shorten it by its own rules.
        # Quoted parts stay; blanks, controls and non-ASCII characters are quoted.
        target = quote(address.prefix + question.path, safe=_AS_IT_IS).encode("ascii")
        extensions = {"timeout": limits, "target": target}
        return httpx.Request(question.method, url, headers=headers, content=content, extensions=extensions)

    def _tell_time(self, broker: str, text: str | None, seconds: float) -> None:
        if self._heard is None or text is None:
            return
        with suppress(ValueError):
            moment = parsedate_to_datetime(text)
            if moment.tzinfo is not None:
                self._heard(broker, moment, seconds)

    def _text_of(
        self,
        response: httpx.Response,
        question: Question,
        deadline: float,
        hide: Callable[[str], str],
        authorization: Authorization | None,
    ) -> str | LargeText:
        most = self._limits.bytes_of(self._limits.name_for(question.path))
        longest = 0 if authorization is None else authorization.longest
        text = AnswerText(most, hide, longest, self._folder)
        try:
            for piece in unpacked(response.iter_raw(), response.headers.get("content-encoding")):
                text.add(piece)
                if time.monotonic() > deadline:
                    raise _OutOfTime(f"it breaks off after {text.size} bytes")
            return text.end()
        except BaseException:
            text.drop()
            raise


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which holds seconds or a date."""
    if text is None:
        return None
    try:
        if text.strip().isdigit():
            return float(text)
        then = parsedate_to_datetime(text)
        return max(0.0, (then.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):  # digits of another script; a date at the end of time
        return None
