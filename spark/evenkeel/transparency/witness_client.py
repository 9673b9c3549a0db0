"""Submission of checkpoints to a witness by HTTP (C2SP tlog-witness, the client's side).

An exchange with an untrusted server is bounded in bytes and time, and follows no redirects.
"""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadNote, InconsistentLog, WitnessError
from evenkeel.transparency.keys import COSIGNATURE, NoteSignature, VerifierKey, base64_text, shown
from evenkeel.transparency.notes import MOST_BYTES, SignedCheckpoint, number_of, open_checkpoint, parse_signatures


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


Prove = Callable[[int, int], Sequence[bytes]]
"""Function from an old and a new size of a log to the consistency proof between them, e.g. `Tree.consistency`."""

_ROUNDS = 3  # the witness may meanwhile have received another checkpoint
_WHY_BYTES = 300
_MEANING = {
    400: "it finds the request malformed",
    403: "it does not know the key that signed; give it the log's newest verifier key",
    404: "it does not know this log; configure the log's origin and verifier key at the witness",
}


def origin_hash(origin: str) -> str:
    """Return the name of a log's folder at a witness, 64 hex digits (tlog-witness, *Monitor Retrieval Mechanism*)."""
    return hashlib.sha256(origin.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class WitnessAddress:
    """URL of a witness (`http://host:port`, or `https://…`, its prefix), and its keys."""

    url: str
    keys: tuple[VerifierKey, ...]

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise BadInput("the URL of a witness is http:// or https:// with host and port, without user and query")
        if not self.keys or any(key.kind != COSIGNATURE for key in self.keys):
            raise BadInput(f"the witness {self.url} needs a verifier key of a witness")


@dataclass(frozen=True, slots=True)
class Submitted:
    """Answer of a witness: its signatures, and the size that it had seen before.

    `old` below a size that the witness had cosigned means that the witness has lost its state.
    """

    signatures: tuple[NoteSignature, ...]
    old: int


def submit(
    address: WitnessAddress,
    checkpoint: SignedCheckpoint,
    log_keys: Collection[VerifierKey],
    prove: Prove,
    *,
    known: int = 0,
    timeout_seconds: float = 10.0,
) -> Submitted:
    """Have a witness cosign a checkpoint; return its signatures by known keys, verified.

    `known`: the size that the witness has cosigned last, as far as that is known; the witness reports it if it is
    another. `timeout_seconds`: for each of at most four exchanges. Raises WitnessError if the witness cannot be
    reached, refuses or gives an invalid answer; InconsistentLog, with both sizes and roots, if it has seen another
    tree.
    """
    new = checkpoint.checkpoint
    old = known if known <= new.size else 0
    for _ in range(_ROUNDS):
        proof = prove(old, new.size) if old else ()
        lines = [f"old {old}", *map(base64_text, proof)]
        body = "".join(f"{line}\n" for line in lines).encode() + b"\n" + checkpoint.note.data
        status, answer = _exchange(address.url, "POST", "/add-checkpoint", body, timeout_seconds)
        if status == 200:
            return Submitted(_cosignatures(address, checkpoint, log_keys, answer), old)
        if status != 409:
            break
        text = answer.decode("ascii", "replace")
        seen = number_of(text[:-1]) if text.endswith("\n") else None
        if seen is None:
            raise WitnessError(f"the witness {address.url} answers 409 without the size that it has seen")
        if seen > new.size:
            raise InconsistentLog(
                f"the witness {address.url} has seen the log {shown(new.origin)} at "
                f"{_seen(address, checkpoint, log_keys, timeout_seconds, seen)}, and now it is given {new.words}: the "
                "log was set back to an earlier state, or a second signer uses its key"
            )
        old = seen
    else:
        raise WitnessError(
            f"the witness {address.url} sees other checkpoints of {shown(new.origin)} meanwhile: try again"
        )
    if status == 422:
        raise InconsistentLog(
            f"split view: the witness {address.url} has seen the log {shown(new.origin)} at "
            f"{_seen(address, checkpoint, log_keys, timeout_seconds, old)}, and {new.words} has not grown from that"
        )
    why = _MEANING.get(status, "it cannot answer now")
    reason = shown(answer[:_WHY_BYTES].decode("utf-8", "replace").strip(), _WHY_BYTES)
    raise WitnessError(f"the witness {address.url} refuses with {status}: {why} (it says {reason})")


def latest_checkpoint(
    address: WitnessAddress, origin: str, log_keys: Collection[VerifierKey], *, timeout_seconds: float = 10.0
) -> SignedCheckpoint | None:
    """Return the last checkpoint of a log that a witness has cosigned, verified; None if it has none.

    Raises WitnessError if it cannot be reached or gives no valid checkpoint.
    """
    path = f"/{origin_hash(origin)}/checkpoint"
    status, answer = _exchange(address.url, "GET", path, None, timeout_seconds)
    if status == 404:
        return None
    if status != 200:
        raise WitnessError(f"the witness {address.url} does not give its checkpoint of {shown(origin)}: {status}")
    try:
        signed = open_checkpoint(answer, origin, log_keys, address.keys)
    except BadNote as error:
        raise WitnessError(f"the witness {address.url} gives a checkpoint that does not hold: {error}") from None
    if not signed.cosigned:
        raise WitnessError(f"the witness {address.url} gives a checkpoint that it has not cosigned")
    return signed


def fetch_note(url: str, *, timeout_seconds: float = 10.0) -> bytes:
    """Return the content at a URL (`http://` or `https://`), e.g. a published checkpoint, without verification.

    Raises WitnessError if it cannot be fetched.
    """
    status, answer = _exchange(url, "GET", "", None, timeout_seconds)
    if status != 200:
        raise WitnessError(f"{url} does not give a checkpoint: {status}")
    return answer


def _cosignatures(
    address: WitnessAddress, checkpoint: SignedCheckpoint, log_keys: Collection[VerifierKey], answer: bytes
) -> tuple[NoteSignature, ...]:
    ids = {(key.name, key.key_id) for key in address.keys}
    try:
        given = parse_signatures(answer.decode("utf-8", "replace"))
        cosignatures = tuple(signature for signature in given if (signature.name, signature.key_id) in ids)
        note = checkpoint.note.with_signatures(cosignatures)
        if not cosignatures:
            raise BadNote("no signature by its key")
        open_checkpoint(note.data, checkpoint.checkpoint.origin, log_keys, address.keys)
    except BadNote as error:
        raise WitnessError(f"the witness {address.url} answers with no valid cosignature: {error}") from None
    return cosignatures


def _seen(
    address: WitnessAddress,
    checkpoint: SignedCheckpoint,
    log_keys: Collection[VerifierKey],
    timeout_seconds: float,
    size: int,
) -> str:
    """Return size and root that a witness has seen, in words; only the size if it does not show more."""
    with suppress(WitnessError):
        signed = latest_checkpoint(address, checkpoint.checkpoint.origin, log_keys, timeout_seconds=timeout_seconds)
        if signed is not None:
            return signed.checkpoint.words
    return f"size {size}, root not shown"


def _exchange(url: str, method: str, path: str, body: bytes | None, timeout_seconds: float) -> tuple[int, bytes]:
    return exchange(url, method, path, body, who="the witness", most_bytes=MOST_BYTES, timeout_seconds=timeout_seconds)
