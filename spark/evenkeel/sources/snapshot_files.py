"""Snapshot files: a head, and the requests to the admin API with their answers.

Two layouts:

* lines, `NNNN.jsonl[.gz]`, which Evenkeel writes. The first line is the head, {"format": 1, "n", "started_at",
  "finished_at", "note", "has_configuration", "requests": how many}. Each further line is one request with `n`, its
  position, as first and `body` as last member. A file with fewer lines than its head states is not whole, and refused.
* a document, `NNNN.json[.gz]`, for small snapshots: the same head with "requests": [...]. It has the brokers'
  configuration if such an answer is in it.

`has_configuration` means that later snapshots may borrow the brokers' configuration and the topic lists from this one.
A snapshot that was taken for a cycle also has `cycle_at`, its moment; without it the moment is `finished_at`.
`collector` names the machine that put it into a landing zone.

A request is {"broker" asked, "method", "path", "status" (0: no HTTP answer), "at", "elapsed_ms", "location", "body" as
text}. Limits bound how much is read (`evenkeel.pulsar.limits`), packed bytes are counted while they are unpacked, and
only regular files are read.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

from evenkeel.errors import BadInput
from evenkeel.json_text import NotJson, TooMuchJson, parse_json
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.times import utc_milliseconds

NAME = re.compile(r"(\d+)\.jsonl?(\.gz)?")
"""Pattern of a snapshot's file name."""
SEE = "see what wrote it"
"""Advice for a file beyond a limit."""
MOST_HEADER_BYTES = 1 << 20
"""The head of a snapshot is some hundred bytes; a note may be longer."""
RUNTIME_CONFIGURATION = "/admin/v2/brokers/configuration/runtime"

_EARLIEST, _LATEST = 1970, 9000
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
    """The head of a snapshot; times are UTC. `requests` is the number of requests that follow, None if it has none."""

    n: int | None
    started_at: datetime
    finished_at: datetime
    note: str = ""
    has_configuration: bool = False
    cycle_at: datetime | None = None
    collector: str = ""
    requests: int | None = None

    @property
    def moment(self) -> datetime:
        """The moment of the snapshot."""
        return self.cycle_at or self.finished_at

    def to_line(self) -> bytes:
        """Return the first line of a snapshot in lines."""
        body = {
            "format": 1,
            "n": self.n,
            "started_at": utc_milliseconds(self.started_at),
            "finished_at": utc_milliseconds(self.finished_at),
            "note": self.note,
            "has_configuration": self.has_configuration,
            "requests": self.requests,
        }
        if self.cycle_at is not None:
            body["cycle_at"] = self.cycle_at.astimezone(UTC).isoformat(timespec="milliseconds")
        if self.collector:
            body["collector"] = self.collector
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def is_in_lines(path: Path) -> bool:
    """Return True if the file's name is one of a snapshot in lines, False for a document."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def read_header(path: Path, limits: Limits = DEFAULT) -> Header:
    """Read the header of a snapshot; raises `BadInput` if it is unreadable, `BeyondLimit` if it is beyond `limits`."""
    with readable():
        if not is_in_lines(path):
            return _document_header(path, limits)
        with open_bytes(path) as stream:
            return header_of_line(stream.readline(MOST_HEADER_BYTES + 1))


def known_header(path: Path, limits: Limits = DEFAULT) -> Header:
    """Read the header (`read_header`) once as long as the file is unchanged.

    Each chunk of a window lists its folder again, and a document is unpacked for its header.
    """
    with readable():
        seen = path.stat()
    return _kept_header(path, (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns), limits)


@lru_cache(maxsize=1 << 16)
def _kept_header(path: Path, _: tuple[int, int, int, int], limits: Limits) -> Header:
    return read_header(path, limits)


def header_of_line(line: bytes) -> Header:
    """Read the header in the first line of a snapshot in lines; raises `BadInput` if it is not one."""
    if len(line) > MOST_HEADER_BYTES:
        raise BeyondLimit(f"its first line has more than {MOST_HEADER_BYTES:,} bytes; a snapshot's head has some 200")
    body = _object(line)
    if not isinstance(body.get("requests"), int):
        raise BadInput("its first line does not say how many `requests` follow: it is not the head of a snapshot")
    return _header(body, has_configuration=body.get("has_configuration") is True)


@contextmanager
def readable() -> Iterator[None]:
    """Turn errors of reading and unpacking into `BadInput`."""
    try:
        yield
    except EOFError as error:
        raise BadInput("the gzip file ends too early (truncated while it was written or copied)") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"it cannot be unpacked or read ({error})") from error
    except OSError as error:
        raise BadInput(f"it cannot be read ({error.strerror or error})") from error


def open_bytes(path: Path) -> IO[bytes]:
    """Open the file, unpacked if it ends in .gz. Raises `BadInput` for a pipe or device: reading it never ends."""
    is_regular = stat.S_ISREG(path.lstat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW) if is_regular else None
    if descriptor is None or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        if descriptor is not None:
            os.close(descriptor)
        raise BadInput(f"{path.name} is not a regular file (a link, a pipe, a device, a socket or a folder): remove it")
    file = os.fdopen(descriptor, "rb")
    return cast("IO[bytes]", _Unpacked(file)) if path.name.endswith(".gz") else file


class _Unpacked(gzip.GzipFile):
    """A packed file, unpacked while it is read; closing it closes the file as well."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


def utc(text: object) -> datetime:
    """Read an ISO-8601 moment with a time zone, as UTC; raises `BadInput` for anything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise BadInput(f"{text!r} is not an ISO-8601 time")
    if moment.tzinfo is None:
        raise BadInput(f"{text!r} has no time zone: write UTC, as in 2026-01-31T09:15:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadInput(f"{text!r} is before the year 1 or after 9999 in UTC") from None


def _header(body: dict[str, Any], *, has_configuration: bool) -> Header:
    if body.get("format") != 1:
        raise BadInput(f"format is {body.get('format')!r}; this version reads format 1")
    n, requests, collector = body.get("n"), body.get("requests"), body.get("collector")
    return Header(
        n=n if isinstance(n, int) else None,
        started_at=_time(body, "started_at"),
        finished_at=_time(body, "finished_at"),
        note=str(body.get("note") or ""),
        has_configuration=has_configuration,
        cycle_at=_time(body, "cycle_at") if body.get("cycle_at") is not None else None,
        collector=collector if isinstance(collector, str) else "",
        requests=requests if isinstance(requests, int) else None,
    )


def _time(body: dict[str, Any], member: str) -> datetime:
    if member not in body:
        raise BadInput(f"member {member} is missing")
    moment = utc(body[member])
    if not _EARLIEST <= moment.year <= _LATEST:  # a day before or after it would be out of range
        raise BadInput(f"{member} is {body[member]!r}, and at that time nobody asked a cluster")
    return moment


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = parse_json(data)
    except NotJson as error:
        reason = str(error) if isinstance(error, TooMuchJson) else _not_json(data[:_HEAD])
        raise BadInput(reason) from error
    if not isinstance(body, dict):
        raise BadInput(f"it is a JSON {type(body).__name__}, not an object")
    return body


def _not_json(head: bytes) -> str:
    start = head.lstrip()[:1]
    if not start:
        return "the file is empty"
    if start == b"<":
        return "it is an HTML or XML page, not JSON"
    if start == b"{":
        return "the JSON document ends too early or is malformed"
    return "it is not a JSON object"


# Documents: the head is read as a stream and not parsed as a whole. The members before `requests` are read as JSON. The
# rest is only searched for an answered configuration request and checked for a complete end.


def _document_header(path: Path, limits: Limits) -> Header:
    head, has_configuration, tail = bytearray(), False, b""
    for chunk in _chunks(path, limits):
        if len(head) < _HEAD:
            head += chunk[: _HEAD - len(head)]
        window = tail + chunk
        has_configuration = has_configuration or _CONFIGURATION.search(window) is not None
        tail = window[-_OVERLAP:]
    if not _DOCUMENT_END.search(tail):
        raise BadInput(_not_json(bytes(head)))
    return _header(_document_head(path, bytes(head), limits), has_configuration=has_configuration)


def _document_head(path: Path, head: bytes, limits: Limits) -> dict[str, Any]:
    """Return the members before `requests`; if `requests` comes first, the whole document is read."""
    match = _REQUESTS.search(head)
    if match:
        text = head[: match.start()].decode("utf-8", "replace").rstrip().rstrip(",")
        try:
            body: dict[str, Any] = parse_json(text + "}")
        except NotJson as error:
            raise BadInput(f"the members before `requests` are not JSON ({error})") from error
        if "finished_at" in body:
            return body
    return _object(whole_document(path, limits))


def _chunks(path: Path, limits: Limits) -> Iterator[bytes]:
    """Yield a document piece by piece; raises `BeyondLimit` as soon as it is too large, packed or unpacked."""
    demand_packed(path, limits)
    size = 0
    with open_bytes(path) as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limits.bytes_of("document_mib"):
                raise _document_too_large(limits)
            yield chunk


def whole_document(path: Path, limits: Limits) -> bytes:
    """Return the bytes of a document, unpacked; raises `BeyondLimit` if they are more than the limit."""
    most = limits.bytes_of("document_mib")
    with open_bytes(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise _document_too_large(limits)
    return data


def _document_too_large(limits: Limits) -> BeyondLimit:
    subject = f"the document is larger than {limits.bytes_of('document_mib'):,} bytes, unpacked"
    advice = "write it as NNNN.jsonl.gz, one request a line, which is not read as a whole"
    return BeyondLimit(limits.beyond("document_mib", subject, advice))


def demand_packed(path: Path, limits: Limits) -> None:
    """Raise `BeyondLimit` if a snapshot's file is larger than it may be; call before any of it is read."""
    size = path.stat().st_size
    limits.demand("packed_mib", size, f"{path.name} has {size:,} bytes as stored", SEE)
