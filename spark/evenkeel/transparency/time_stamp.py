"""Time stamps of RFC 3161: an authority's signature over a digest and the time of its observation.

An authority's answer is kept unchanged (a `TimeStampResp` in DER), so `openssl ts -verify` reads it, too. Its time
counts once the signature leads to a certificate of an authority that the reader trusts. The certificate must be for
time stamps and valid at that time. A later revocation is not checked.

Time stamps are kept beside the log, in a folder for each stamped size: `stamps/<size>/checkpoint` is the signed note,
`stamps/<size>/<hex>.tsr` an answer over the SHA-256 of the note's text. No file is ever changed. A folder without an
answer is left by a killed process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadStamp, EvenkeelError, InconsistentLog, SettingsError, WitnessError
from evenkeel.transparency.keys import shown
from evenkeel.transparency.notes import SignedCheckpoint, number_of, parse_note
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.witness_client import exchange

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


MOST_RESPONSE_BYTES = 64 * 1024
"""Largest answer of an authority that is read; it holds certificates, of some kB each."""
_SHA256 = "2.16.840.1.101.3.4.2.1"
_GRANTED = 0
_QUERY_TYPE = "application/timestamp-query"
_WHY = 300  # shown characters of another library's message


@dataclass(frozen=True, slots=True)
class TimeStamp:
    """A parsed answer; its signature is not verified.

    `at`: the time in it. `by`: the subject of the certificate that signed, as it names itself. `digest`: SHA-256 of the
    stamped bytes. `nonce`: the request's, None if it has none.
    """

    at: datetime
    by: str
    digest: bytes
    nonce: int | None
    response: Any


def query_for(text: bytes) -> Any:
    """Return the library's request for the SHA-256 of a text, with a random `nonce`; it also requests the
    certificate."""
    library = rfc3161_library()
    return library.TimestampRequestBuilder().data(text).hash_algorithm(library.HashAlgorithm.SHA256).build()


def read_stamp(data: bytes) -> TimeStamp:
    """Read an authority's answer; raises BadStamp if it grants no stamp over a SHA-256."""
    if len(data) > MOST_RESPONSE_BYTES:
        raise BadStamp(f"an answer of {len(data):,} bytes: {MOST_RESPONSE_BYTES:,} are read at most")
    with _refused("no answer of a time stamp authority"):
        response = rfc3161_library().decode_timestamp_response(data)
        status, words = int(response.status), " ".join(map(str, response.status_string or ()))
        if status != _GRANTED:
            raise BadStamp(f"the request was not granted: status {status} {shown(words)}")
        info = response.tst_info
        imprint = info.message_imprint
        if imprint.hash_algorithm.dotted_string != _SHA256 or len(imprint.message) != hashlib.sha256().digest_size:
            raise BadStamp("a time stamp over another digest than SHA-256")
        return TimeStamp(info.gen_time, _signer(response), bytes(imprint.message), info.nonce, response)


def demand_stamp(stamp: TimeStamp, text: bytes, authorities: Sequence[Certificate], nonce: int | None = None) -> None:
    """Demand that a stamp is over this text, and signed under one of these certificates.

    `nonce`: of the request, if known. Without certificates the signature is not checked. Raises BadStamp.
    """
    if stamp.digest != hashlib.sha256(text).digest():
        raise BadStamp("the stamp is over another text")
    if nonce is not None and stamp.nonce != nonce:
        raise BadStamp("the answer is to another request: its nonce is another")
    if not authorities:
        return
    with _refused("not signed under the given certificates"):
        rfc3161_library().VerifierBuilder(roots=[*authorities], nonce=nonce).build().verify(
            stamp.response, stamp.digest
        )


def request_stamp(url: str, text: bytes, authorities: Sequence[Certificate], *, timeout_seconds: float) -> bytes:
    """Ask an authority by HTTP (RFC 3161, section 3.4); return its answer for a text unchanged, signed as demanded.

    It is signed under one of these certificates. Raises WitnessError if none comes in `timeout_seconds`, or it is not
    one for this request.
    """
    query = query_for(text)
    status, answer = exchange(
        url,
        "POST",
        body=query.as_bytes(),
        who="the time stamp authority",
        most_bytes=MOST_RESPONSE_BYTES,
        timeout_seconds=timeout_seconds,
        content_type=_QUERY_TYPE,
    )
    if status != 200:
        raise WitnessError(f"the time stamp authority {url} answers with status {status}")
    try:
        demand_stamp(read_stamp(answer), text, authorities, query.nonce)
    except BadStamp as error:
        raise WitnessError(f"the time stamp authority {url} gives no stamp that holds: {error}") from None
    return answer


def authorities_in(pem: bytes, place: str) -> tuple[Certificate, ...]:
    """Return the certificates in a text in PEM; raises BadInput, which names the place, if it holds none."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return tuple(load_pem_x509_certificates(pem))
    except ValueError:
        raise BadInput(f"{place} holds no certificates in PEM (-----BEGIN CERTIFICATE-----)") from None


@contextmanager
def _refused(words: str) -> Iterator[None]:
    """Raise BadStamp, which begins with these words, for every error of reading a hostile answer.

    The readers are libraries without a common error, and a panic of Rust is not even an `Exception`.
    """
    try:
        yield
    except EvenkeelError:
        raise
    except Exception as error:
        raise BadStamp(f"{words}: {shown(str(error), _WHY)}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise BadStamp(f"{words}: {shown(str(error), _WHY)}") from None


def _signer(response: Any) -> str:
    """Return the subject of the certificate that a response names as its signer."""
    from cryptography.x509 import load_der_x509_certificate

    signers = [*response.signed_data.signer_infos]
    for data in sorted(response.signed_data.certificates) if len(signers) == 1 else ():
        certificate = load_der_x509_certificate(data)
        if (certificate.issuer, certificate.serial_number) == (signers[0].issuer, signers[0].serial_number):
            return certificate.subject.rfc4514_string()
    raise BadStamp("a time stamp without the certificate of its one signer")


def rfc3161_library() -> Any:
    """Return the package `rfc3161-client`, which is needed only for time stamps."""
    try:
        import rfc3161_client
    except ImportError:
        raise SettingsError("time stamps need the package rfc3161-client: install requirements.txt once more") from None
    return rfc3161_client


STAMPS = "stamps"
"""The folder's name; one of Evenkeel's, outside tlog-tiles."""
DEFAULT_EVERY = 3_600
"""Default seconds between two requests to an authority: public ones limit them."""
RETRY_SECONDS = 300
"""Seconds after a failed request in which none is sent, or `every` if that is less."""
MOST_STAMPED = 1_000_000
"""Most stamped sizes that are read: nine years of the most frequent stamps."""
_MOST_ANSWERS = 64
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_CHECKPOINT, _ANSWER = "checkpoint", ".tsr"
_MOST_CA_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StampAuthority:
    """A time stamp authority of a lake, at `https://…`, or at `http://…` on loopback or with `plain_http`.

    `ca_file`: the certificates under which it signs, in PEM. `every`: seconds between two requests at least.
    """

    url: str
    ca_file: Path
    every: int = DEFAULT_EVERY
    plain_http: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        _ = parts.port  # raises ValueError if it is not a number
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise BadInput("the URL of a time stamp authority is https:// with a host, without user and query")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not self.plain_http:
            raise BadInput(
                "a time stamp authority by plain HTTP: anyone on the network path sees when a lake publishes, and "
                "can withhold stamps. Write https://, or plain_http=true behind the URL"
            )

    def is_due(self, stamped_at: int, tried_at: int, now: float) -> bool:
        """Return True if it may be asked, by the moments (seconds since 1970; 0: never) of the last stamp and request.

        A moment in the future, by a clock that was set back, does not count.
        """
        waits = ((stamped_at, self.every), (tried_at, min(self.every, RETRY_SECONDS)))
        return all(at > now or now - at >= seconds for at, seconds in waits)


@dataclass(frozen=True, slots=True)
class KeptStamps:
    """Files of a stamped size, without verification: the checkpoint (None if the file is gone), and the answers by
    name."""

    size: int
    checkpoint: bytes | None
    answers: tuple[tuple[str, bytes], ...]


def stamp(
    storage: LogStorage, authority: StampAuthority, checkpoint: SignedCheckpoint, *, timeout_seconds: float
) -> None:
    """Have an authority stamp a checkpoint, and keep its answer.

    Raises WitnessError if it gives no valid stamp, SettingsError if its certificates cannot be read, InconsistentLog if
    another checkpoint of that size was stamped, and LogError if a file cannot be written.
    """
    folder = f"{STAMPS}/{checkpoint.checkpoint.size}"
    kept = storage.get(f"{folder}/{_CHECKPOINT}")
    if kept is not None and parse_note(kept).text != checkpoint.note.text:
        raise InconsistentLog(
            f"{folder} is of another tree of that size than {checkpoint.checkpoint.words}: the log was set back and "
            "written again, or the file was changed"
        )
    certificates = authorities_in(_pem(authority), str(authority.ca_file))
    text = checkpoint.note.text.encode()
    answer = request_stamp(authority.url, text, certificates, timeout_seconds=timeout_seconds)
    if kept is None:
        storage.put(f"{folder}/{_CHECKPOINT}", checkpoint.note.data)
    storage.put(f"{folder}/{hashlib.sha256(answer).hexdigest()[:16]}{_ANSWER}", answer)


def kept_stamps(storage: LogStorage) -> Iterator[KeptStamps]:
    """Yield the kept files, by size; raises DamagedLog if they are more than are ever kept."""
    sizes = [size for name in storage.names(STAMPS, MOST_STAMPED) if (size := number_of(name)) is not None]
    for size in sorted(sizes):
        folder = f"{STAMPS}/{size}"
        names = [name for name in storage.names(folder, _MOST_ANSWERS) if name.endswith(_ANSWER)]
        answers = [(name, storage.get(f"{folder}/{name}")) for name in names]
        yield KeptStamps(
            size,
            storage.get(f"{folder}/{_CHECKPOINT}"),
            tuple((name, answer) for name, answer in answers if answer is not None),
        )


def _pem(authority: StampAuthority) -> bytes:
    try:
        with authority.ca_file.open("rb") as file:
            return file.read(_MOST_CA_BYTES)
    except OSError as error:
        raise SettingsError(f"ca_file={authority.ca_file} cannot be read: {error.strerror}") from None
