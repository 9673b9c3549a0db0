"""Client of one cluster's admin API, and the meaning of a bad answer for an operator, in one sentence."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Event, Lock
from typing import Self
from urllib.parse import urljoin, urlsplit

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin.answer_text import LargeText
from evenkeel.pulsar.admin.connection import Address, AdminConnection, address_in
from evenkeel.pulsar.admin.failures import NOTHING_SENT, PASSING, Failure, tls_advice
from evenkeel.pulsar.admin.http_exchange import PREFIX, Hop, Question, Reply, Wire, failure_in, names_in, unsent
from evenkeel.pulsar.answers import Kind, server_reason, subject_of
from evenkeel.pulsar.limits import DEFAULT, MOST_BROKERS, Limits
from evenkeel.retrying import Doubling, retry

READ_SECONDS = 20.0
MOST_REDIRECTS = 5
LIST_AGAIN_AFTER_S = 1.0
"""Seconds for which a broker that the cluster does not list is not looked up again."""


class AdminClient:
    """Client for the brokers of one cluster; thread-safe, with at most `most_connections` open at once.

    An answer beyond `limits` counts as missing. A large one is kept in `folder`, None for the system's own, until it is
    closed. `heard` is called with the time of each answer (`Wire`).
    """

    def __init__(
        self,
        connection: AdminConnection,
        *,
        most_connections: int = 8,
        limits: Limits = DEFAULT,
        folder: Path | None = None,
        heard: Callable[[str, datetime, float], None] | None = None,
    ) -> None:
        self._wire = Wire(connection, most_connections, limits, folder, heard)
        self._known = KnownBrokers(connection)
        self._entries = connection.addresses()
        self._lock, self._closing = Lock(), Event()
        self._listing, self._list_again_at = Lock(), 0.0

    def ask(
        self,
        path: str,
        *,
        broker: str | None = None,
        method: str = "GET",
        body: str | None = None,
        timeout_s: float | None = None,
        until: float | None = None,
    ) -> tuple[Hop, ...]:
        """Return every hop of one request, in order; the last hop is the answer.

        `path` is `/admin/v2/…` with its names quoted (`admin_path`), `broker` the id of the broker to ask, None for any
        of the configured addresses. Nothing is sent to a broker that the cluster itself does not list. A redirect is
        followed with the same method, body and token, at most five times. `timeout_s` (20) bounds the request with its
        redirects. Commands on which Pulsar may spend a minute need more than its own 60 s. `until` (`time.monotonic`)
        bounds all tries at all addresses together: each gets an equal share of the remaining time.

        A GET that may pass is repeated, with jitter (`repeat`), and sent to the next configured address. A command is
        sent once: another address is tried only if nothing can have been sent. Never raises for faults of the network:
        the last hop then has status 0 and the reason.
        """
        question = Question(method, path, body)
        limit = _share(READ_SECONDS if timeout_s is None else timeout_s, until)
        hops: list[Hop] = []

        def attempt() -> TryVerdict:
            chain: Chain = ()
            addresses = tuple(self._addresses(broker, limit))
            for place, address in enumerate(addresses):
                chain = self._chain(question, address, _share(limit, until, len(addresses) - place))
                hops.extend(reply.hop for reply in chain)
                if not _no_use(question, chain):
                    with self._lock:  # the configured address that answered last is asked first
                        if address in self._entries[1:]:
                            self._entries = (address, *(other for other in self._entries if other != address))
                    break
            return verdict_on(chain)

        try:
            if question.is_reading:
                repeat(attempt, limit, self._closing)
            else:
                attempt()
        except SettingsError as error:
            hops.append(unsent(question, broker or "", Failure.NO_ADDRESS, str(error)).hop)
        return tuple(hops)

    def close(self) -> None:
        """Close all connections. Requests that wait for another try give up; later ones are not sent."""
        self._closing.set()
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _addresses(self, broker: str | None, limit: float) -> Iterable[Address]:
        if broker is None:
            return self._entries
        address = self._known.address_of(broker)
        if not self._known.lists(address):
            with self._listing:  # of many requests at once, or in a row, one reads which brokers the cluster lists
                if time.monotonic() >= self._list_again_at:
                    question = Question("GET", f"{PREFIX}/brokers", None)
                    any(self._chain(question, entry, limit)[-1].hop.status == 200 for entry in self._entries)
                    self._list_again_at = time.monotonic() + LIST_AGAIN_AFTER_S
        if not self._known.lists(address):
            raise SettingsError(f"{broker} is not a broker that the cluster lists: nothing is sent to it")
        return (address,)

    def _chain(self, question: Question, address: Address, limit: float) -> Chain:
        """Send one request and follow its redirects."""
        replies: list[Reply] = []
        deadline = time.monotonic() + limit
        while True:
            reply = self._send(question, address, deadline)
            replies.append(reply)
            self._known.learn(reply.hop)
            if not reply.hop.is_redirect:
                return tuple(replies)
            onward = self._onward(question, address, reply.hop, len(replies), deadline)
            if isinstance(onward, Reply):
                return (*replies, onward)
            address, path = onward
            question = replace(question, path=path)

    def _send(self, question: Question, address: Address, deadline: float) -> Reply:
        name = self._known.name_of(address)
        if self._closing.is_set():
            return unsent(question, name, Failure.NOT_SENT, "the client was closed")
        return self._wire.send(question, address, name, deadline)

    def _onward(
        self, question: Question, address: Address, hop: Hop, redirects: int, deadline: float
    ) -> tuple[Address, str] | Reply:
        """Return where a redirect leads, or the reply that says why it is not followed."""
        try:
            target, path = redirected_to(address, hop)
        except SettingsError as error:
            return unsent(question, hop.broker, Failure.NOT_FOLLOWED, f"{hop.location or 'no Location'} ({error})")
        name = self._known.name_of(target)
        if redirects > MOST_REDIRECTS:
            return unsent(question, name, Failure.NOT_FOLLOWED, f"{redirects} redirects, and no answer yet")
        if not self._known.may_follow(address, target):
            # The cluster may list it: the configured addresses alone do not name the brokers behind them.
            listing = self._send(Question("GET", f"{PREFIX}/brokers", None), address, deadline)
            self._known.learn(listing.hop)
            if not self._known.may_follow(address, target):
                return unsent(question, name, Failure.NOT_FOLLOWED, _foreign(address, target))
        return target, path


def _share(limit_s: float, until: float | None, among: int = 1) -> float:
    """Return the seconds that each of `among` tries may take: its share of the time left, at most `limit_s`."""
    return limit_s if until is None else min(limit_s, max(until - time.monotonic(), 0.0) / among)


def _no_use(question: Question, chain: Chain) -> bool:
    """Return True if the next configured address is to be asked: this one did not answer, and repeating does no
    harm."""
    last = chain[-1]
    if len(chain) > 1:
        return False  # it answered; the broker that it named does not
    if last.failure is not None:
        return question.is_reading or last.failure in NOTHING_SENT
    return question.is_reading and last.hop.status in RETRIED_STATUSES


def _foreign(address: Address, target: Address) -> str:
    if address.scheme == "https" and target.scheme == "http":
        return f"{target} is not encrypted, and {address} is: the token is not sent to it"
    return f"{target} is neither configured nor a broker that the cluster lists: the token is not sent to it"


TRIES = 3
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Not 401, 404, 409, 412 and 500: these are Pulsar's final answers, and a repeated request does not change them."""

_backoff = Doubling(first_s=0.2, longest_s=2.0, least=0.0, most=1.0)
_JITTER_S = 0.25

Chain = tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class TryVerdict:
    """Result of a try."""

    may_pass: bool
    retry_after_s: float | None


def verdict_on(chain: Chain) -> TryVerdict:
    """Judge whether the same request may get a better answer a moment later.

    It may not if a redirect led to a broker that does not answer. That broker is dead, and the cluster notices it only
    when its metadata session ends. Until then the owner is unknown.
    """
    last = chain[-1]
    if last.failure is not None:
        return TryVerdict(last.failure in PASSING and len(chain) == 1, None)
    return TryVerdict(last.hop.status in RETRIED_STATUSES, last.retry_after_s)


def repeat(attempt: Callable[[], TryVerdict], limit_s: float, closing: Event) -> None:
    """Repeat a reading while its fault may pass, at most 3 times; no try begins later than `limit_s` after the first.

    `closing` ends the waiting.
    """
    waits: list[float | None] = []

    def recorded_attempt() -> TryVerdict:
        verdict = attempt()
        waits.append(verdict.retry_after_s)
        return verdict

    def pause(failed: int) -> float:
        """Return the seconds to wait: as the server asks, else growing; jitter spreads the returning clients."""
        wait_s = waits[-1]
        return _backoff(failed) if wait_s is None else wait_s + random.uniform(0.0, _JITTER_S)

    retry(
        recorded_attempt,
        tries=TRIES,
        pause=pause,
        if_returned=lambda verdict: verdict.may_pass and not closing.is_set(),
        within_s=limit_s,
        sleep=closing.wait,
    )


class KnownBrokers:
    """The configured addresses and the brokers that the cluster has listed; thread-safe.

    A caller may name any broker, also one that comes from a queue of commands. So a name alone makes no broker. A
    redirect is followed only to a configured host or one that the cluster lists, and never from https to http. Brokers,
    proxies and login pages are treated alike.
    """

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection
        self._configured = {_origin(address) for address in connection.addresses()}
        self._hosts = {address.host.lower() for address in connection.addresses()}
        self._ids: dict[tuple[str, str, int], str] = {}
        self._lock = Lock()

    def address_of(self, broker: str) -> Address:
        """Return the address of the broker; raises `SettingsError` if the name is not a broker id."""
        return self._connection.address_of(broker)

    def lists(self, address: Address) -> bool:
        """Return True if the address is configured, or belongs to a broker that the cluster has listed."""
        return _origin(address) in self._ids or _origin(address) in self._configured

    def name_of(self, address: Address) -> str:
        """Return the broker id of an address if it is known, else host:port."""
        return self._ids.get(_origin(address), address.name)

    def learn(self, hop: Hop) -> None:
        """Add the brokers of an answer that lists them; ignore any other answer."""
        if hop.status != 200 or hop.method != "GET" or subject_of(hop.path).kind != Kind.BROKERS:
            return
        with LargeText.alone() if hop.large is not None else nullcontext():
            listed = hop.json
            names = names_in(listed) if isinstance(listed, list) and len(listed) <= MOST_BROKERS else None
        for name in names or ():
            try:
                address = self.address_of(name)
            except SettingsError:
                continue
            with self._lock:
                self._ids[_origin(address)] = name
                self._hosts.add(address.host.lower())

    def may_follow(self, origin: Address, target: Address) -> bool:
        """Return True if a request sent to `origin` may be sent to `target` as well."""
        return target.host.lower() in self._hosts and not (origin.scheme == "https" and target.scheme == "http")


def redirected_to(address: Address, hop: Hop) -> tuple[Address, str]:
    """Return address and path of an answer's `Location`; raises `SettingsError` if it has no usable one."""
    if not hop.location:
        raise SettingsError("it does not say where to")
    try:
        parts = urlsplit(urljoin(f"{address.scheme}://{address.name}{hop.path}", hop.location))
    except ValueError:  # brackets that hold no IPv6 address
        raise SettingsError("that is not an address") from None
    target = address_in(f"{parts.scheme}://{parts.netloc}")
    return target, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _origin(address: Address) -> tuple[str, str, int]:
    return address.scheme, address.host.lower(), address.port


_ADVICE = {
    Failure.NO_ADDRESS: "write admin addresses as http://host:port, and brokers as host:port",
    Failure.UNKNOWN_NAME: "check the host's name in the admin address, and this machine's DNS",
    Failure.REFUSED: "check host and port (Pulsar's web port, 8080 by default), and that the broker runs",
    Failure.UNREACHABLE: "check the address, and that no firewall blocks it",
    Failure.TIMED_OUT: "the broker is overloaded or hangs: look at its log, then try again",
    Failure.BROKEN_OFF: "the broker ended, or something between cut the connection: look at its log, then try again",
    Failure.TOO_LARGE: "check that the address is a broker's web address, or raise the limit",
    Failure.PACKED: "check that the address is a broker's web address: a proxy may pack what passes it",
    Failure.BUSY: "other requests hold every connection: raise the number of connections, or try again",
    Failure.NOT_FOLLOWED: "give the brokers' own web addresses, and `broker_url` where their ids name another port",
    Failure.NOT_SENT: "try again",
    Failure.NO_CREDENTIALS: "nothing was sent to the broker",
}
_NO_SUCH_PATH = ("HTTP 404 Not Found", "Not Found", "no text")


def trouble(hop: Hop, *, is_text: bool = False) -> str | None:
    """Return the fault of this answer, None for a good one. With `is_text` it need not be JSON."""
    if hop.status == 0:
        return _sentence(hop, hop.body.splitlines()[0] if hop.body else "no answer", _advice(hop))
    if hop.is_redirect:
        return _sentence(hop, f"redirected to {hop.location}", "give the brokers' own web addresses")
    if hop.is_good:
        advice = "a proxy or a login page is in front of the brokers: give the brokers' own web addresses"
        page = f"answered {hop.status} with an HTML page in place of JSON"
        return _sentence(hop, page, advice) if not is_text and _is_page(hop) else None
    reason = server_reason(hop.body) if not _is_page(hop) else "an HTML page"
    return _sentence(hop, f"answered {hop.status} ({reason})", _advice_of_status(hop, reason))


def _advice(hop: Hop) -> str:
    failure = failure_in(hop)
    if failure is None:
        return "check the address, and that the broker runs"
    if failure is Failure.TLS:
        return tls_advice(hop.body)
    return _ADVICE[failure]


def _advice_of_status(hop: Hop, reason: str) -> str:
    if hop.status == 401 and not _is_page(hop):  # Pulsar knows the caller
        return "the credentials are valid, but their role is not a super user: add it to superUserRoles, or take others"
    if hop.status == 401:
        return "the token (or password) is missing, wrong or expired: check the connection's token, or auth_params"
    if hop.status == 403:
        return "this role may not do that, or a proxy forbids it: take the token of a super user"
    if hop.status == 404 and (reason.startswith(_NO_SUCH_PATH) or _is_page(hop)):
        return "this path does not exist: the Pulsar version lacks it (4.0 and 4.2 do), or this is not Pulsar"
    if hop.status in (429, 502, 503, 504):
        return "the broker, or a proxy before it, is not ready or overloaded: try again later"
    if hop.status >= 500:
        return "look at the broker's log"
    return "check what was asked"


def _is_page(hop: Hop) -> bool:
    return hop.body.lstrip()[:1] == "<"


def _sentence(hop: Hop, fault: str, advice: str) -> str:
    return f"{hop.broker or 'no broker'}, {hop.method} {hop.path}: {fault}; {advice}"
