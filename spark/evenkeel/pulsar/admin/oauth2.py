"""OAuth2 client credentials, by the JSON and the key file of Pulsar's own clients.

The issuer names its token endpoint in `/.well-known/openid-configuration`. An access token is used for 90 % of its
life, and renewed once if a broker refuses it. All clients of this process with the same parameters share one token.
"""

from __future__ import annotations

import base64
import binascii
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from evenkeel.errors import EvenkeelError, SettingsError, Unreachable, visible
from evenkeel.json_text import NotJson, parse_json
from evenkeel.pulsar.admin.authentication import Authentication, Authorization, trusting
from evenkeel.secret import Secret, content_of

log = logging.getLogger(__name__)

WELL_KNOWN = "/.well-known/openid-configuration"
USED_SHARE = 0.9
"""Share of an access token's life after which a new one is requested; as in Pulsar's Java client."""
UNKNOWN_LIFE_S = 600.0
"""Life of a token if neither the issuer nor the token itself states it."""
SHORTEST_S = 10.0
"""Shortest time for which a token is used: an issuer is not asked for each request."""
ISSUER_SECONDS = 15.0
"""Time for both requests to the issuer."""
AGAIN_AFTER_S = 10.0
"""Time after a failure for which the issuer is not asked again."""
REFUSED_AGAIN_S = 60.0
"""Time for which a token that replaced a refused one is not replaced itself: the broker may refuse the role."""
_MOST_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Parameters of the flow: the issuer, and the key file with the client's name and secret.

    `private_key`: the path of the key file, or a `data:` URL with its content. `trust`: file of PEM certificates to
    trust at the issuer instead of the system's. `place` is the origin of the parameters, for messages.
    """

    issuer_url: str
    private_key: Path | Secret
    audience: str | None
    scope: str | None
    trust: str | None
    well_known: str
    place: str = field(compare=False)

    def identity(self) -> tuple[str, Secret]:
        """Return the client's name and secret; raises `SettingsError` if the key file has none."""
        place = f"`private_key` of {self.place}"
        if isinstance(self.private_key, Path):
            text = content_of(str(self.private_key), place)
        else:
            text = _of_data_url(self.private_key.reveal(), place)
        try:
            key = parse_json(text)
        except NotJson:
            key = None
        if not isinstance(key, dict) or not all(isinstance(key.get(n), str) for n in ("client_id", "client_secret")):
            raise SettingsError(f"{place}: it is not a JSON object with the texts client_id and client_secret")
        return key["client_id"], _secret_of(key["client_secret"], f"{place}: its client_secret")


@lru_cache
def oauth2(flow: ClientCredentials) -> OAuth2:
    """Return the authentication of this process by that flow."""
    return OAuth2(flow)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token. `got_at`, `renew_at` and `expires_at` are times of the clock; `replaces`: a refused one."""

    authorization: Authorization
    got_at: float
    renew_at: float
    expires_at: float
    replaces: bool = False


class OAuth2(Authentication):
    """Authentication by access tokens of an issuer. `clock`: that of the tokens' lives, in seconds."""

    def __init__(self, flow: ClientCredentials, clock: Callable[[], float] = time.monotonic) -> None:
        self.files = (flow.private_key,) if isinstance(flow.private_key, Path) else ()
        self._flow, self._clock = flow, clock
        self._lock = Lock()
        self._token: AccessToken | None = None
        self._failure: tuple[EvenkeelError, float] | None = None

    def check(self) -> None:
        """Read the key file and the certificates to trust."""
        self._flow.identity()
        trusting(self._flow.trust, f"{self._flow.place}: trustCertsFilePath")

    def authorization(self, deadline: float) -> Authorization:
        """Return the header; a token that is due is renewed first, and used to its end if that fails."""
        with _held(self._lock, deadline, self._flow):
            token, now = self._token, self._clock()
            if token is not None and now < token.renew_at:
                return token.authorization
            try:
                return self._request(deadline).authorization
            except EvenkeelError as error:
                if token is None or now >= token.expires_at:
                    raise
                log.warning("%s. The access token is used for %.0f s more", error, token.expires_at - now)
                return token.authorization

    def renewed(self, refused: Authorization, deadline: float) -> Authorization | None:
        """Return the header of a newer token, once for each refused one; None if the issuer gives none."""
        try:
            with _held(self._lock, deadline, self._flow):
                token = self._token
                if token is not None and token.authorization != refused:
                    return token.authorization
                if token is not None and token.replaces and self._clock() < token.got_at + REFUSED_AGAIN_S:
                    return None
                return self._request(deadline, replaces=True).authorization
        except EvenkeelError as error:
            log.warning("%s", error)
            return None

    def _request(self, deadline: float, *, replaces: bool = False) -> AccessToken:
        if self._failure is not None and self._clock() < self._failure[1]:
            raise type(self._failure[0])(str(self._failure[0]))
        try:
            body, moment = _answer(self._flow, min(deadline, time.monotonic() + ISSUER_SECONDS)), self._clock()
            token = _secret_of(body.get("access_token"), f"{self._flow.issuer_url}: access_token of its answer")
            life = _life(body.get("expires_in"), token)
        except EvenkeelError as error:
            self._failure = error, self._clock() + AGAIN_AFTER_S
            raise
        renew_at = moment + max(life * USED_SHARE, SHORTEST_S)
        self._token = AccessToken(Authorization("Bearer", token), moment, renew_at, moment + life, replaces)
        self._failure = None
        return self._token


@contextmanager
def _held(lock: Lock, deadline: float, flow: ClientCredentials) -> Iterator[None]:
    """Hold the lock, for which another thread's request to the issuer may have to end."""
    if not lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
        raise Unreachable(f"the issuer {flow.issuer_url} did not answer in time")
    try:
        yield
    finally:
        lock.release()


def _life(expires_in: object, token: Secret) -> float:
    """Return the life of a token in seconds: as the issuer states it, else by the claim `exp` of a JWT."""
    import jwt

    with suppress(TypeError, ValueError):
        if (seconds := float(expires_in)) > 0:  # type: ignore[arg-type]
            return seconds
    with suppress(jwt.InvalidTokenError, TypeError, ValueError, RecursionError):
        claims = jwt.decode(token.reveal(), options={"verify_signature": False})
        return max(float(claims["exp"]) - time.time(), 0.0) if "exp" in claims else UNKNOWN_LIFE_S
    return UNKNOWN_LIFE_S


def _answer(flow: ClientCredentials, deadline: float) -> dict[str, Any]:
    """Return the issuer's answer with the access token."""
    client_id, client_secret = flow.identity()
    trust = trusting(flow.trust, f"{flow.place}: trustCertsFilePath")
    url = flow.issuer_url + "/" + flow.well_known.lstrip("/")
    endpoint = _exchange(url, None, trust, client_secret, deadline).get("token_endpoint")
    fault = fault_of_url(endpoint) if isinstance(endpoint, str) else "is missing"
    if fault is None and url.startswith("https:") and not str(endpoint).startswith("https:"):
        fault = "is not encrypted, and the issuer is"
    if fault is not None:
        raise Unreachable(f"{url}: token_endpoint {fault}. Check that `issuer_url` is the issuer's own address")
    form = {
        "grant_type": "client_credentials",
        "client_id": client_id,
        "client_secret": client_secret.reveal(),
        **{name: text for name, text in (("audience", flow.audience), ("scope", flow.scope)) if text is not None},
    }
    return _exchange(str(endpoint), urlencode(form), trust, client_secret, deadline)


def _exchange(url: str, form: str | None, trust: ssl.SSLContext, secret: Secret, deadline: float) -> dict[str, Any]:
    """Return the JSON object with which the issuer answers; raises `Unreachable` if there is none."""
    import httpx

    from evenkeel.pulsar.admin.answer_text import AnswerText, BoundedTransport, Deadline, TooLarge
    from evenkeel.pulsar.admin.failures import Failure, failure_of, failure_text, tls_advice

    bound, left = Deadline(), max(deadline - time.monotonic(), 0.001)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "evenkeel"}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    text = AnswerText(_MOST_BYTES, secret.hide_in, len(secret.reveal()))
    try:
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), left)
        request = httpx.Request(
            "GET" if form is None else "POST", url, headers=headers, content=form, extensions={"timeout": timeouts}
        )
        with bound.until(deadline), BoundedTransport(trust, 1, bound) as transport:
            response = transport.handle_request(request)
            for piece in response.iter_raw():
                text.add(piece)
            response.close()
    except TooLarge as error:
        raise Unreachable(f"{url}: the answer is too large for an issuer's ({error}). Check `issuer_url`") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        failure, detail = failure_of(error)
        reason = failure_text(failure, detail)
        advice = "check `issuer_url`, and that the issuer can be reached from this machine"
        if failure is Failure.TLS:
            advice = tls_advice(reason).replace("ca_file", "trustCertsFilePath").replace("the broker's", "the issuer's")
        raise Unreachable(f"{url}: {reason}; {advice}") from None
    return _object_in(url, response.status_code, response.headers.get("location"), str(text.end()))


def _object_in(url: str, status: int, location: str | None, text: str) -> dict[str, Any]:
    try:
        body = parse_json(text)
    except NotJson:
        body = None
    if 300 <= status < 400:
        parts = urlsplit(location or "")
        raise Unreachable(
            f"{url} redirects to {parts.scheme}://{parts.hostname}, and is not followed: set `issuer_url` to the "
            "issuer's own address"
        )
    if status == 200 and isinstance(body, dict):
        return body
    reason = "no JSON object"
    if isinstance(body, dict):
        words = [str(body[name]) for name in ("error", "error_description") if body.get(name)]
        reason = visible(": ".join(words))[:300] or "no reason"
    raise Unreachable(
        f"{url}: the issuer answered {status} ({reason}). Check client_id, client_secret, audience and scope"
    )


def fault_of_url(url: str) -> str | None:
    """Return the fault of an address of an issuer; None for a good one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "is not an http:// or https:// address"
    if parts.username is not None or parts.password is not None:
        return "holds credentials: leave them out"
    return "holds more than an address: leave out what follows #" if parts.fragment else None


def _of_data_url(url: str, place: str) -> str:
    """Return the text of a `data:` URL with JSON."""
    kind, comma, data = url.removeprefix("data:").partition(",")
    words = [word.strip().lower() for word in kind.split(";")]
    if not comma or words[0] not in ("", "application/json"):
        raise SettingsError(f"{place}: it is not data:application/json;base64,…")
    try:
        return base64.b64decode(unquote(data), validate=True).decode() if "base64" in words else unquote(data)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{place}: its base64 cannot be read") from None


def _secret_of(text: object, subject: str) -> Secret:
    """Return the secret; raises `SettingsError` with the subject if the text is not one."""
    if not isinstance(text, str):
        raise SettingsError(f"{subject} is missing, or not text")
    try:
        return Secret(text)
    except SettingsError:
        raise SettingsError(f"{subject} is empty, or holds blanks or characters outside ASCII") from None
