"""The requests of a snapshot, read in the task's process, once through its file.

Of topic-sized answers only the beginning is read and the rest is passed over: Spark reads it from the file
(`evenkeel.sources.landed_answers`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from evenkeel.errors import BadInput
from evenkeel.json_text import NotJson, parse_json
from evenkeel.pulsar.answers import RECORD_CHARACTERS
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.sources.snapshot_files import (
    MOST_HEADER_BYTES,
    SEE,
    demand_packed,
    header_of_line,
    is_in_lines,
    open_bytes,
    readable,
    whole_document,
)


def longest_line(limits: Limits) -> int:
    """Return the most bytes of a line: an answer of only quotes doubles as JSON, and some members are added."""
    return 2 * limits.bytes_of("answer_mib") + (1 << 16)


def _line_too_long(path: Path, number: int, limits: Limits) -> BeyondLimit:
    subject = f"line {number:,} of {path.name} is longer than {longest_line(limits):,} bytes"
    return BeyondLimit(limits.beyond("answer_mib", subject, "see what wrote it, remove the line"))


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A request with its answer. `size`: bytes of the answer; of a long text in lines as stored.

    `is_left`: `body` is the beginning of the answer only, the rest is left in the file. `unread` is the beginning of a
    line that cannot be read as a request; then only `n`, its position, is known of it. `at` is text as it came.
    """

    n: int
    broker: str | None = None
    method: str = "GET"
    path: str | None = None
    status: int = 0
    at: str | None = None
    elapsed_ms: float | None = None
    location: str | None = None
    body: str | None = None
    size: int = 0
    is_left: bool = False
    unread: str | None = None

    @property
    def is_topic_sized(self) -> bool:
        """Return True if the answer grows with the number of topics: figures and lists of topics."""
        return self.path is not None and _TOPIC_SIZED.search(self.path) is not None


# All long answers of which the task's process needs only the beginning.
_TOPIC_SIZED = re.compile(r"/broker-stats/topics/?(\?.*)?$|^/admin/v2/(persistent|non-persistent)/|^/metrics")
_BODY = re.compile(rb',\s*"body"\s*:\s*"')
_EXCERPT = re.compile(r'(?:[^"\\]+|\\u[0-9a-fA-F]{4}|\\[^u])*')
_BEGINNING, _PIECE = 1 << 16, 1 << 20
_MOST_N = 2**31


def read_requests(path: Path, limits: Limits = DEFAULT) -> Iterator[SnapshotRequest]:
    """Yield the requests of a snapshot, once through its file.

    Of topic-sized answers, and of those beyond `small_answer_mib`, the first 2,000 characters are read; the rest is
    passed over as a stream. Raises `BadInput` if the file cannot be read to its end or is not whole, and `BeyondLimit`
    if it is beyond `limits`.
    """
    with readable():
        demand_packed(path, limits)
        if is_in_lines(path):
            with open_bytes(path) as stream:
                yield from _Lines(path, stream, limits).requests()
            return
        for n, members in enumerate(_in_document(path, limits)):
            limits.demand("requests", n + 1, f"{path.name} has {n + 1:,} requests and more", SEE)
            yield _request(members, n, limits)


def _in_document(path: Path, limits: Limits) -> list[object]:
    """Return the members of `requests`; none if the JSON is malformed inside."""
    try:
        requests = parse_json(whole_document(path, limits))["requests"]
    except (NotJson, LookupError, TypeError):
        return []
    return requests if isinstance(requests, list) else []


def _request(members: object, n: int, limits: Limits) -> SnapshotRequest:
    if not isinstance(members, dict) or not isinstance(members.get("path"), str):
        return SnapshotRequest(n, unread=_text(members)[:RECORD_CHARACTERS])
    body = None if members.get("body") is None else _text(members["body"])
    size = 0 if body is None else len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))
    request = _with_members(members, n, body, size)
    is_long = request.is_topic_sized or size > limits.bytes_of("small_answer_mib")
    if not is_long or body is None or len(body) <= RECORD_CHARACTERS:
        return request
    return replace(request, body=body[:RECORD_CHARACTERS], is_left=True)


def _with_members(members: dict[str, Any], n: int, body: str | None, size: int) -> SnapshotRequest:
    return SnapshotRequest(
        n=n,
        broker=_optional(members.get("broker")),
        method=_optional(members.get("method")) or "GET",
        path=members["path"],
        status=_status(members.get("status")),
        at=_optional(members.get("at")),
        elapsed_ms=_number(members.get("elapsed_ms")),
        location=_optional(members.get("location")),
        body=body,
        size=size,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _status(value: object) -> int:
    try:
        status = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else 0
    except ValueError:
        return 0
    return status if -_MOST_N <= status < _MOST_N else 0


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None


class _Lines:
    """The lines of a snapshot, read once; raises `BeyondLimit` beyond a limit."""

    def __init__(self, path: Path, stream: IO[bytes], limits: Limits) -> None:
        self._path, self._stream, self._limits = path, stream, limits
        self._number = 1
        self._bytes = 0

    def requests(self) -> Iterator[SnapshotRequest]:
        """Yield the requests after the head."""
        due = header_of_line(self._stream.readline(MOST_HEADER_BYTES + 1)).requests
        while line := self._stream.readline(_BEGINNING):
            self._number += 1
            self._limits.demand(
                "requests", self._number - 1, f"{self._path.name} has {self._number - 1:,} requests and more", SEE
            )
            yield self._request(line)
        if due != self._number - 1:
            raise BadInput(f"it holds {self._number - 1:,} requests, and its head says {due:,}: it is not whole")

    def _request(self, line: bytes) -> SnapshotRequest:
        position = self._number - 2
        self._count(len(line), len(line))
        if line.endswith(b"\n") or len(line) < _BEGINNING:
            return self._whole(line, position)
        begin = _BODY.search(line)
        members = _members(line[: begin.start()] + b"}") if begin is not None else None
        if not isinstance(members, dict) or not isinstance(members.get("path"), str):
            members = None
        is_topic_sized = members is not None and _TOPIC_SIZED.search(members["path"]) is not None
        remainder, length, end = self._rest(0 if is_topic_sized else 2 * self._limits.bytes_of("small_answer_mib"))
        if remainder is not None:
            return self._whole(line + remainder, position)
        is_whole = end.rstrip().endswith(b'"}')
        if begin is None or members is None or not is_whole or not _is_position(members.get("n")):
            return _unread(line, position)
        size = len(line) + length - begin.end()
        return replace(_with_members(members, members["n"], _excerpt(line[begin.end() :]), size), is_left=True)

    def _whole(self, line: bytes, position: int) -> SnapshotRequest:
        members = _members(line)
        if members is None:
            return _unread(line, position)
        has_position = isinstance(members, dict) and _is_position(members.get("n"))
        request = _request(members, members["n"] if has_position else position, self._limits)
        if request.is_left and not has_position:  # without it Spark would not find the rest
            return _unread(line, position)
        return request

    def _rest(self, room: int) -> tuple[bytes | None, int, bytes]:
        """Return the rest of a line (None if it is longer than `room`), its length, and its last bytes."""
        pieces: list[bytes] = []
        length, end = 0, b""
        while piece := self._stream.readline(_PIECE):
            length += len(piece)
            self._count(len(piece), _BEGINNING + length)
            if length <= room:
                pieces.append(piece)
            else:
                pieces.clear()
            end = (end + piece)[-8:]
            if piece.endswith(b"\n"):
                break
        return (b"".join(pieces) if length <= room else None), length, end

    def _count(self, size: int, length: int) -> None:
        if length > longest_line(self._limits):
            raise _line_too_long(self._path, self._number, self._limits)
        self._bytes += size
        subject = f"{self._path.name} has {self._bytes:,} bytes and more, unpacked"
        self._limits.demand("snapshot_mib", self._bytes, subject, SEE)


def _unread(line: bytes, position: int) -> SnapshotRequest:
    return SnapshotRequest(position, unread=line.decode("utf-8", "replace").rstrip()[:RECORD_CHARACTERS])


def _members(line: bytes) -> Any:
    """Return the JSON of a line, None if it is malformed."""
    try:
        return parse_json(line.decode("utf-8", "replace"))
    except NotJson:
        return None


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_N


def _excerpt(begin: bytes) -> str:
    """Return the first 2,000 characters of a text, from the JSON in which it begins."""
    match = _EXCERPT.match(begin[: 16 * RECORD_CHARACTERS].decode("utf-8", "replace"))
    assert match is not None
    return str(json.loads(f'"{match.group()}"', strict=False))[:RECORD_CHARACTERS]
