"""The head of a landed snapshot: when it was taken and whether it holds the brokers' configuration.

The head of a folder is a small file of its own. A document is read once, as a stream, and not parsed: the members
before `requests` are read as JSON, the rest is only searched for an answered configuration request and checked for a
complete end. So a truncated gzip is found here.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from evenkeel.errors import BadInput

PART_PATTERNS = ("requests-*.jsonl", "requests-*.jsonl.gz")
FOLDER_HEADER = "snapshot.json"
RUNTIME_CONFIGURATION = "/admin/v2/brokers/configuration/runtime"

_CHUNK = 1 << 20
_HEAD = 1 << 16
_OVERLAP = 512
_REQUESTS = re.compile(rb'"requests"\s*:\s*\[')
_CONFIGURATION = re.compile(
    rb'"path"\s*:\s*"' + re.escape(RUNTIME_CONFIGURATION.encode()) + rb'"\s*,\s*"status"\s*:\s*200\b'
)
_DOCUMENT_END = re.compile(rb"\}\s*$")


@dataclass(frozen=True, slots=True)
class Header:
    """What a snapshot says of itself; times are UTC.

    `cycle_at` is the moment that it was taken for, where it was taken for one. `has_configuration`: later snapshots
    may borrow the brokers' configuration and the topic lists from it.
    """

    n: int | None
    started_at: datetime
    finished_at: datetime
    note: str
    has_configuration: bool
    cycle_at: datetime | None = None

    @property
    def moment(self) -> datetime:
        """The moment that the snapshot stands for."""
        return self.cycle_at or self.finished_at


def read_header(path: Path) -> Header:
    """The header of a snapshot in either layout; `BadInput` says what cannot be read and where."""
    return _folder_header(path) if path.is_dir() else _document_header(path)


def parts_of(folder: Path) -> list[Path]:
    """The parts of a snapshot folder, by name; a part that stands there twice, packed and not, is listed twice."""
    return sorted(part for pattern in PART_PATTERNS for part in folder.glob(pattern))


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where its name ends in .gz."""
    if path.name.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def utc(text: object) -> datetime:
    """An ISO-8601 moment with a time zone, as UTC; anything else is `BadInput`."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise BadInput(f"{text!r} is no ISO-8601 time")
    if moment.tzinfo is None:
        raise BadInput(f"{text!r} has no time zone: write UTC, as in 2026-01-31T09:15:00Z")
    return moment.astimezone(UTC)


def _document_header(path: Path) -> Header:
    head, found, tail = bytearray(), False, b""
    for chunk in _chunks(path):
        if len(head) < _HEAD:
            head += chunk[: _HEAD - len(head)]
        window = tail + chunk
        found = found or _CONFIGURATION.search(window) is not None
        tail = window[-_OVERLAP:]
    if not _DOCUMENT_END.search(tail):
        raise BadInput(_not_json(bytes(head)))
    return _header(_document_head(path, bytes(head)), has_configuration=found)


def _document_head(path: Path, head: bytes) -> dict[str, Any]:
    """The members before `requests`; where `requests` comes first, the whole document has to be read."""
    match = _REQUESTS.search(head)
    if match:
        text = head[: match.start()].decode("utf-8", "replace").rstrip().rstrip(",")
        try:
            body: dict[str, Any] = json.loads(text + "}")
        except ValueError as error:
            raise BadInput(f"the members before `requests` are no JSON ({error})") from error
        if "finished_at" in body:
            return body
    with open_bytes(path) as stream:
        return _object(stream.read())


def _folder_header(folder: Path) -> Header:
    place = folder / FOLDER_HEADER
    if not place.is_file():
        raise BadInput(f"the folder has no {FOLDER_HEADER}: the snapshot was not landed completely")
    if not parts_of(folder):
        raise BadInput("the folder has no requests-*.jsonl or requests-*.jsonl.gz: nothing was landed")
    body = _object(place.read_bytes())
    return _header(body, has_configuration=body.get("has_configuration") is True)


def _header(body: dict[str, Any], *, has_configuration: bool) -> Header:
    if body.get("format") != 1:
        raise BadInput(f"format is {body.get('format')!r}; this version reads format 1")
    n = body.get("n")
    return Header(
        n=n if isinstance(n, int) else None,
        started_at=_time(body, "started_at"),
        finished_at=_time(body, "finished_at"),
        note=str(body.get("note") or ""),
        has_configuration=has_configuration,
        cycle_at=_time(body, "cycle_at") if body.get("cycle_at") is not None else None,
    )


def _time(body: dict[str, Any], member: str) -> datetime:
    if member not in body:
        raise BadInput(f"member {member} is missing")
    return utc(body[member])


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except ValueError as error:
        raise BadInput(_not_json(data[:_HEAD])) from error
    if not isinstance(body, dict):
        raise BadInput(f"it is a JSON {type(body).__name__}, not an object")
    return body


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with open_bytes(path) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except EOFError as error:
        raise BadInput("the gzip file ends too early (truncated while it was written or copied)") from error
    except (OSError, zlib.error) as error:
        raise BadInput(f"it cannot be unpacked or read ({error})") from error


def _not_json(head: bytes) -> str:
    start = head.lstrip()[:1]
    if not start:
        return "the file is empty"
    if start == b"<":
        return "it is an HTML or XML page, not JSON"
    if start == b"{":
        return "the JSON document ends too early or is malformed"
    return "it is no JSON object"
