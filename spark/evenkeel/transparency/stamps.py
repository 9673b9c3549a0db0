"""Time stamps beside a log: for each stamped size a folder with its checkpoint, and the authorities' answers.

`stamps/<size>/checkpoint` is the signed note, `stamps/<size>/<hex>.tsr` an unchanged answer, over the SHA-256 of the
note's text. No file is ever changed. A folder without an answer is left by a killed process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, InconsistentLog, SettingsError
from evenkeel.transparency.checkpoint import SignedCheckpoint, number_of
from evenkeel.transparency.notes import parse_note
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.time_stamp import authorities_in, request_stamp

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
