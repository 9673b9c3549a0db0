"""Asking a time stamp authority by HTTP (RFC 3161, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadStamp, WitnessError
from evenkeel.transparency.http_exchange import exchange
from evenkeel.transparency.time_stamp import MOST_RESPONSE_BYTES, demand_stamp, query_for, read_stamp

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_QUERY_TYPE = "application/timestamp-query"


@dataclass(frozen=True, slots=True)
class AuthorityAddress:
    """Where a time stamp authority listens: `https://…`, or `http://…` on loopback or with `plain_http`."""

    url: str
    plain_http: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        _ = parts.port  # raises ValueError where it is none
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise BadInput("the URL of a time stamp authority is https:// with a host, without user and query")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not self.plain_http:
            raise BadInput(
                "a time stamp authority by plain HTTP: whoever is on the way sees when a lake publishes, and can keep "
                "stamps from it. Write https://, or plain_http=true behind the URL"
            )


def request_stamp(
    address: AuthorityAddress, text: bytes, authorities: Sequence[Certificate], *, timeout_seconds: float
) -> bytes:
    """An authority's answer for a text, as it came, signed under one of these certificates.

    Raises WitnessError where none comes in `timeout_seconds`, or it is not one for this request.
    """
    query = query_for(text)
    status, answer = exchange(
        address.url,
        "POST",
        body=query.data,
        who="the time stamp authority",
        most_bytes=MOST_RESPONSE_BYTES,
        timeout_seconds=timeout_seconds,
        content_type=_QUERY_TYPE,
    )
    if status != 200:
        raise WitnessError(f"the time stamp authority {address.url} answers with status {status}")
    try:
        demand_stamp(read_stamp(answer), text, authorities, query.nonce)
    except BadStamp as error:
        raise WitnessError(f"the time stamp authority {address.url} gives no stamp that holds: {error}") from None
    return answer
