"""Recordings: a folder of landed snapshots of one cluster, in the order of time.

A snapshot lies there in one of two layouts:

* `NNNN.json` or `NNNN.json.gz`: one JSON document, {"format": 1, "n", "started_at", "finished_at", "note",
  "requests": [...]};
* a folder `NNNN/` for snapshots too large for one document: `snapshot.json` with the same members but `requests`, and
  with `has_configuration`; and `requests-*.jsonl[.gz]`, one request a line. `has_configuration` says that later
  snapshots may borrow the brokers' configuration and the topic lists from this one.

A snapshot that was taken for a cycle also has `cycle_at`, the moment that it stands for; without it that is
`finished_at`.

A request is {"broker" asked, "method", "path", "status" (0: no HTTP answer), "at", "elapsed_ms", "location", "body" as
text}; in JSON lines also `n`, its position in the snapshot. Other files of the folder are not looked at, nor
is anything but regular files (a pipe, a device). How much is read is bounded (`evenkeel.pulsar.limits`), and
what is packed is counted while it is unpacked.
"""

from __future__ import annotations

import bisect
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

from evenkeel.errors import BadInput, NothingLanded
from evenkeel.handover import Snapshot
from evenkeel.json_text import NotJson, TooMuchJson, parse_json
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.times import utc_text

_NAME = re.compile(r"\d+(\.json(\.gz)?)?")
_EARLIEST, _LATEST = 1970, 9000


@dataclass(frozen=True, slots=True)
class Problem:
    """A landed file that is left out: which file, where in it, and why."""

    file: str
    place: str
    reason: str


class Recording:
    """The snapshots of one folder: `snapshots` in time order, and `problems` with what cannot be read.

    A folder that is missing, or that holds nothing readable, is `BadInput`. What is beyond `limits` is a problem; more
    snapshots than they allow are `BeyondLimit`.
    """

    def __init__(self, path: str | Path, limits: Limits = DEFAULT) -> None:
        self.path, self._limits = Path(path), limits
        if not _is_folder(self.path):
            raise BadInput(f"no recording at {self.path}: there is no such folder")
        self.problems: tuple[Problem, ...] = ()
        headers = self._headers()
        self.snapshots: tuple[Snapshot, ...] = tuple(_in_order(headers))
        if not self.snapshots:
            raise BadInput(self._nothing_readable())

    def at(self, time: str | datetime) -> Snapshot:
        """The snapshot of that moment, else the latest before it; without either, `BadInput` names the nearest."""
        moment = utc(time.isoformat() if isinstance(time, datetime) else time)
        before = [snapshot for snapshot in self.snapshots if datetime.fromisoformat(snapshot.cycle_at) <= moment]
        if before:
            return before[-1]
        first = self.snapshots[0]
        raise BadInput(
            f"the recording {self.path} has no snapshot at or before {utc_text(moment)}; the nearest is "
            f"{first.cycle_at} ({Path(first.path).name})"
        )

    def between(self, since: datetime | None, until: datetime | None) -> tuple[Snapshot, ...]:
        """The snapshots of a span of time, both ends included (None: no bound), in order; where it has none,
        `BadInput` names the nearest."""
        moments = [datetime.fromisoformat(snapshot.cycle_at) for snapshot in self.snapshots]
        return self.snapshots[in_span(moments, since, until, f"the recording {self.path} has no snapshot")]

    def unreadable(self) -> dict[str, tuple[Problem, ...]]:
        """Path of a snapshot -> the problems of files between the snapshot before it and this one; with the last one
        those behind it as well."""
        files = [problem.file for problem in self.problems]
        found, before = {}, ""
        for snapshot in self.snapshots:
            last = snapshot is self.snapshots[-1]
            end = len(files) if last else bisect.bisect_left(files, snapshot.path)
            found[snapshot.path] = self.problems[bisect.bisect_right(files, before) : end]
            before = snapshot.path
        return found

    def _headers(self) -> list[tuple[Header, Path]]:
        """Readable headers by time and name; of two with the same time the first by name stays."""
        found: list[tuple[Header, Path]] = []
        problems = []
        for entry in self._entries():
            try:
                if entry.is_dir() != entry.name.endswith((".json", ".gz")):
                    found.append((known_header(entry, self._limits), entry))
            except BadInput as error:
                problems.append(Problem(str(entry), "snapshot", str(error)))
            except OSError as error:
                problems.append(Problem(str(entry), "snapshot", f"it cannot be read ({error.strerror or error})"))
        found.sort(key=lambda item: (item[0].moment, item[1].name))
        kept: list[tuple[Header, Path]] = []
        for header, entry in found:
            if kept and kept[-1][0].moment == header.moment:
                place = "finished_at" if header.cycle_at is None else "cycle_at"
                problems.append(Problem(str(entry), place, _same_moment(place, header, kept[-1][1])))
            else:
                kept.append((header, entry))
        self.problems = tuple(sorted(problems, key=lambda problem: problem.file))
        return kept

    def _entries(self) -> list[Path]:
        """What bears the name of a snapshot, by name."""
        names: list[str] = []
        for name in names_in(self.path):
            if _NAME.fullmatch(name):
                names.append(name)
                what = f"the recording {self.path} has more than {self._limits.snapshots:,} snapshots"
                self._limits.demand("snapshots", len(names), what, "divide it into several folders")
        return [self.path / name for name in sorted(names)]

    def _nothing_readable(self) -> str:
        if not self.problems:
            return f"no snapshot in {self.path}: expected files NNNN.json, NNNN.json.gz or folders NNNN/"
        first = self.problems[0]
        return f"no readable snapshot in {self.path}: {len(self.problems)} refused, first {first.file}: {first.reason}"


def is_empty(folder: Path) -> bool:
    """Whether nothing in the folder bears the name of a snapshot, or the folder itself is still to come."""
    try:
        return not any(_NAME.fullmatch(name) for name in names_in(folder))
    except FileNotFoundError:
        return True
    except OSError:  # no folder, or one that may not be looked into: whoever reads it says so
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long, a folder that may not be looked into
        return False


def in_span(moments: Sequence[datetime], since: datetime | None, until: datetime | None, nothing: str) -> slice:
    """Where in these moments, which are in order, a span of time lies, both ends included (None: no bound); where it
    holds none, `NothingLanded` says `nothing`, and the nearest."""
    first = 0 if since is None else bisect.bisect_left(moments, since)
    last = len(moments) if until is None else bisect.bisect_right(moments, until)
    if first < last:
        return slice(first, last)
    span = " ".join(f"{word} {utc_text(at)}" for word, at in (("from", since), ("to", until)) if at is not None)
    near = " and ".join(utc_text(at) for at in moments[max(first - 1, 0) : first + 1])
    raise NothingLanded(f"{nothing} {span or 'at all'}" + (f"; nearest to that lies {near}" if near else ""))


def requests_of(path: Path, limits: Limits = DEFAULT) -> Iterator[dict[str, Any]]:
    """The requests of a snapshot in either layout, in this process; for small questions, not for a whole cycle."""
    if path.is_dir():
        for part in parts_of(path):
            yield from (parse_json(line) for line in lines_of(part, limits) if line.strip())
    else:
        yield from parse_json(whole_document(path, limits))["requests"]


def _in_order(headers: list[tuple[Header, Path]]) -> Iterator[Snapshot]:
    configuration: Snapshot | None = None
    previous: str | None = None
    for header, entry in headers:
        moment = utc_text(header.moment)
        snapshot = Snapshot(str(entry), moment, previous_at=previous)
        if header.has_configuration:
            configuration = snapshot
        if configuration is not None:
            snapshot = Snapshot(str(entry), moment, configuration.path, configuration.cycle_at, previous)
        yield snapshot
        previous = moment


def _same_moment(place: str, header: Header, other: Path) -> str:
    return (
        f"{place} {utc_text(header.moment)} is also that of {other.name}, which is kept: a cluster has one cycle a "
        "moment; remove or re-date one of the two"
    )


# The head of a landed snapshot: when it was taken and whether it holds the brokers' configuration.
#
# The head of a folder is a small file of its own. A document is read once, as a stream, and not parsed: the members
# before `requests` are read as JSON, the rest is only searched for an answered configuration request and checked for a
# complete end. So a truncated gzip is found here.

FOLDER_HEADER = "snapshot.json"
RUNTIME_CONFIGURATION = "/admin/v2/brokers/configuration/runtime"

_PART = re.compile(r"requests-.*\.jsonl(\.gz)?", re.DOTALL)
_CHUNK = 1 << 20
_HEAD = 1 << 16
# The head of a snapshot is some hundred bytes; a note may be longer.
_MOST_HEADER_BYTES = 1 << 20
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


def read_header(path: Path, limits: Limits = DEFAULT) -> Header:
    """The header of a snapshot in either layout; `BadInput` says what cannot be read and where, or what is beyond
    `limits`."""
    try:
        return _folder_header(path) if path.is_dir() else _document_header(path, limits)
    except OSError as error:
        raise BadInput(f"it cannot be read ({error.strerror or error})") from error


def known_header(path: Path, limits: Limits = DEFAULT) -> Header:
    """The header, read (`read_header`) once for as long as the file stays as it is: each chunk of a window lists its
    folder anew, and a document is unpacked for it."""
    try:
        return _kept_header(path, _signature(path), limits)
    except OSError as error:
        raise BadInput(f"it cannot be read ({error.strerror or error})") from error


def _signature(path: Path) -> tuple[tuple[int, int, int, int], ...]:
    """What tells whether a snapshot is still the one that was read: it changes with the file, and with the files of a
    folder."""
    seen = [path.stat()]
    if stat.S_ISDIR(seen[0].st_mode) and (path / FOLDER_HEADER).exists():
        seen.append((path / FOLDER_HEADER).stat())
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in seen)


@lru_cache(maxsize=1 << 16)
def _kept_header(path: Path, _: tuple[tuple[int, int, int, int], ...], limits: Limits) -> Header:
    return read_header(path, limits)


def parts_of(folder: Path) -> list[Path]:
    """The parts of a snapshot folder, by name; a part that stands there twice, packed and not, is listed twice."""
    return sorted(folder / name for name in names_in(folder) if _PART.fullmatch(name))


def names_in(folder: Path) -> Iterator[str]:
    """The names in a folder, in no order, one by one: there may be very many."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where its name ends in .gz. `BadInput` for all but regular files: reading a pipe or a
    device would never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) if _is_regular(path) else None
    if descriptor is None or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        if descriptor is not None:
            os.close(descriptor)
        raise BadInput(f"{path.name} is no regular file (a pipe, a device, a socket or a folder): remove it")
    file = os.fdopen(descriptor, "rb")
    return cast("IO[bytes]", _Unpacked(file)) if path.name.endswith(".gz") else file


class _Unpacked(gzip.GzipFile):
    """What a file unpacks to; it closes the file as well."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.stat().st_mode)


def lines_of(part: Path, limits: Limits) -> Iterator[bytes]:
    """The lines of a part; one that is longer than an answer may be is `BeyondLimit`."""
    most = longest_line(limits)
    with open_bytes(part) as stream:
        number = 0
        while line := stream.readline(most + 1):
            number += 1
            if len(line) > most:
                raise line_too_long(part, number, limits)
            yield line


def longest_line(limits: Limits) -> int:
    """Bytes of a line: an answer of nothing but quotes doubles when it becomes JSON, and some members go with it."""
    return 2 * limits.bytes_of("answer_mib") + (1 << 16)


def line_too_long(part: Path, number: int, limits: Limits) -> BeyondLimit:
    """The error for a line of a part that is longer than an answer may be."""
    what = f"line {number:,} of {part.name} is longer than {longest_line(limits):,} bytes"
    return BeyondLimit(limits.beyond("answer_mib", what, "see what wrote it, remove the line"))


def utc(text: object) -> datetime:
    """An ISO-8601 moment with a time zone, as UTC; anything else is `BadInput`."""
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
        raise BadInput(f"{text!r} lies before the year 1 or after 9999 in UTC") from None


def _document_header(path: Path, limits: Limits) -> Header:
    head, found, tail = bytearray(), False, b""
    for chunk in _chunks(path, limits):
        if len(head) < _HEAD:
            head += chunk[: _HEAD - len(head)]
        window = tail + chunk
        found = found or _CONFIGURATION.search(window) is not None
        tail = window[-_OVERLAP:]
    if not _DOCUMENT_END.search(tail):
        raise BadInput(_not_json(bytes(head)))
    return _header(_document_head(path, bytes(head), limits), has_configuration=found)


def _document_head(path: Path, head: bytes, limits: Limits) -> dict[str, Any]:
    """The members before `requests`; where `requests` comes first, the whole document has to be read."""
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


def _folder_header(folder: Path) -> Header:
    place = folder / FOLDER_HEADER
    if not place.exists():
        raise BadInput(f"the folder has no {FOLDER_HEADER}: the snapshot was not landed completely")
    if not parts_of(folder):
        raise BadInput("the folder has no requests-*.jsonl or requests-*.jsonl.gz: nothing was landed")
    with open_bytes(place) as stream:
        text = stream.read(_MOST_HEADER_BYTES + 1)
    if len(text) > _MOST_HEADER_BYTES:
        raise BeyondLimit(f"{FOLDER_HEADER} has more than {_MOST_HEADER_BYTES:,} bytes; a snapshot's head has some 200")
    body = _object(text)
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
    moment = utc(body[member])
    if not _EARLIEST <= moment.year <= _LATEST:  # what is a day before or after it would be no time at all
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


def _chunks(path: Path, limits: Limits) -> Iterator[bytes]:
    """A document piece by piece; `BeyondLimit` as soon as it is larger than it may be, packed or unpacked."""
    demand_packed(path.name, packed_bytes([path]), limits)
    size = 0
    try:
        with open_bytes(path) as stream:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > limits.bytes_of("document_mib"):
                    raise _document_too_large(limits)
                yield chunk
    except EOFError as error:
        raise BadInput("the gzip file ends too early (truncated while it was written or copied)") from error
    except (OSError, zlib.error) as error:
        raise BadInput(f"it cannot be unpacked or read ({error})") from error


def whole_document(path: Path, limits: Limits) -> bytes:
    """The bytes of a document, unpacked; `BeyondLimit` where they are more than it may have."""
    most = limits.bytes_of("document_mib")
    with open_bytes(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise _document_too_large(limits)
    return data


def _document_too_large(limits: Limits) -> BeyondLimit:
    what = f"the document is larger than {limits.bytes_of('document_mib'):,} bytes, unpacked"
    advice = "lay it down as a folder with requests-*.jsonl.gz, which is not read as a whole"
    return BeyondLimit(limits.beyond("document_mib", what, advice))


def packed_bytes(files: Iterable[Path]) -> int:
    """The size of files as they lie there."""
    return sum(file.stat().st_size for file in files)


def demand_packed(name: str, size: int, limits: Limits) -> None:
    """Raises `BeyondLimit` where a snapshot's files are larger than they may be; call before any of them is read."""
    limits.demand("packed_mib", size, f"{name} has {size:,} bytes as it lies there", "see what wrote it")


def _not_json(head: bytes) -> str:
    start = head.lstrip()[:1]
    if not start:
        return "the file is empty"
    if start == b"<":
        return "it is an HTML or XML page, not JSON"
    if start == b"{":
        return "the JSON document ends too early or is malformed"
    return "it is not a JSON object"
