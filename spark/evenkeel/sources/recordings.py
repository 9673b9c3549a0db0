"""Recordings: a folder of landed snapshots of one cluster, in the order of time, and the cluster that each shows.

A snapshot is a file `NNNN.json[.gz]` or `NNNN.jsonl[.gz]` (`evenkeel.sources.snapshot_files`). Other files of the
folder are ignored. The cluster is that of its answer to `/admin/v2/clusters`. If a folder holds snapshots of several
clusters, each snapshot has its own.
"""

from __future__ import annotations

import bisect
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput, NothingLanded
from evenkeel.handover import Snapshot
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.pulsar.snapshot import CLUSTERS, own_cluster
from evenkeel.sources.snapshot_files import (
    NAME,
    RUNTIME_CONFIGURATION,
    Header,
    is_in_lines,
    known_header,
    open_bytes,
    utc,
    whole_document,
)
from evenkeel.sources.snapshot_requests import read_requests
from evenkeel.times import utc_text


@dataclass(frozen=True, slots=True)
class Problem:
    """A landed file that is left out: its name, the place in it, and the reason."""

    file: str
    place: str
    reason: str


_NO_FOLDER = "the folder does not exist"
_EXPECTED = "expected files NNNN.json[.gz] or NNNN.jsonl[.gz]"


class Recording:
    """The snapshots of one folder: `snapshots` in time order, and `problems` with unreadable files.

    Raises `BadInput` if the folder is missing, or holds nothing readable. A file beyond `limits` is a problem; more
    snapshots than they allow raise `BeyondLimit`.
    """

    def __init__(self, path: str | Path, limits: Limits = DEFAULT) -> None:
        self.path, self.limits = Path(path), limits
        if not _is_folder(self.path):
            raise BadInput(f"no recording at {self.path}: {_NO_FOLDER}")
        self.problems: tuple[Problem, ...] = ()
        headers = self._headers()
        self.snapshots: tuple[Snapshot, ...] = tuple(_in_order(headers))
        if not self.snapshots:
            raise BadInput(self._nothing_readable())

    def at(self, time: str | datetime) -> Snapshot:
        """Return the moment's snapshot, else the latest before; without one raises `BadInput` with the nearest."""
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
        """Return the snapshots of a span of time, both ends included (None: no bound), in order.

        Raises `BadInput`, which names the nearest, if the span has none.
        """
        moments = [datetime.fromisoformat(snapshot.cycle_at) for snapshot in self.snapshots]
        return self.snapshots[in_span(moments, since, until, f"the recording {self.path} has no snapshot")]

    def unreadable(self) -> dict[str, tuple[Problem, ...]]:
        """Return path of a snapshot -> the problems of files between the previous snapshot and this one.

        The last snapshot also has those after it.
        """
        files = [problem.file for problem in self.problems]
        problems, before = {}, ""
        for snapshot in self.snapshots:
            last = snapshot is self.snapshots[-1]
            end = len(files) if last else bisect.bisect_left(files, snapshot.path)
            problems[snapshot.path] = self.problems[bisect.bisect_right(files, before) : end]
            before = snapshot.path
        return problems

    def _headers(self) -> list[tuple[Header, Path]]:
        """Return readable headers by time and name; of two with the same time the first by name stays."""
        headers: list[tuple[Header, Path]] = []
        problems = []
        for entry in self._entries():
            try:
                headers.append((known_header(entry, self.limits), entry))
            except BadInput as error:
                problems.append(Problem(str(entry), "snapshot", str(error)))
        headers.sort(key=lambda item: (item[0].moment, item[1].name))
        kept: list[tuple[Header, Path]] = []
        for header, entry in headers:
            if kept and kept[-1][0].moment == header.moment:
                place = "finished_at" if header.cycle_at is None else "cycle_at"
                reason = (
                    f"{place} {utc_text(header.moment)} is also that of {kept[-1][1].name}, which is kept: a cluster "
                    "has one cycle a moment; remove or re-date one of the two"
                )
                problems.append(Problem(str(entry), place, reason))
            else:
                kept.append((header, entry))
        self.problems = tuple(sorted(problems, key=lambda problem: problem.file))
        return kept

    def _entries(self) -> list[Path]:
        """Return the entries with the name of a snapshot, by name."""
        names: list[str] = []
        for name in names_in(self.path):
            if NAME.fullmatch(name):
                names.append(name)
                subject = f"the recording {self.path} has more than {self.limits.snapshots:,} snapshots"
                self.limits.demand("snapshots", len(names), subject, "divide it into several folders")
        return [self.path / name for name in sorted(names)]

    def _nothing_readable(self) -> str:
        if not self.problems:
            return f"no snapshot in {self.path}: {_EXPECTED}"
        first = self.problems[0]
        return f"no readable snapshot in {self.path}: {len(self.problems)} refused, first {first.file}: {first.reason}"


def missing_in(folder: Path) -> str | None:
    """Return what is missing in a recording before any file is read: its folder, or snapshots; None if nothing is."""
    if not _is_folder(folder):
        return f"No recording: {_NO_FOLDER}"
    return f"No snapshot: {_EXPECTED}" if is_empty(folder) else None


def is_empty(folder: Path) -> bool:
    """Return True if no entry of the folder has the name of a snapshot, or the folder does not exist yet."""
    try:
        return not any(NAME.fullmatch(name) for name in names_in(folder))
    except FileNotFoundError:
        return True
    except OSError:  # no folder, or an unreadable one: its reader reports it
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long, or an unreadable folder
        return False


def in_span(moments: Sequence[datetime], since: datetime | None, until: datetime | None, nothing: str) -> slice:
    """Return the slice of ordered moments in a span of time, both ends included (None: no bound).

    Raises `NothingLanded`, with `nothing` and the nearest moment, if the span has none.
    """
    first = 0 if since is None else bisect.bisect_left(moments, since)
    last = len(moments) if until is None else bisect.bisect_right(moments, until)
    if first < last:
        return slice(first, last)
    span = " ".join(f"{word} {utc_text(at)}" for word, at in (("from", since), ("to", until)) if at is not None)
    near = " and ".join(utc_text(at) for at in moments[max(first - 1, 0) : first + 1])
    raise NothingLanded(f"{nothing} {span or 'at all'}" + (f"; the nearest is {near}" if near else ""))


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


def names_in(folder: Path) -> Iterator[str]:
    """Yield the names in a folder, in no order, one by one: there may be very many."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


# As in Pulsar (NamedEntity), and no longer than a folder's name may be.
_NAME = re.compile(r"[-=:.\w]{1,200}", re.ASCII)
_BEGINNING, _MOST_ANSWER = 1 << 14, 1 << 16
_REQUESTS = re.compile(rb'"requests"\s*:\s*\[')


class ClusterNames:
    """The snapshots' clusters; one without an answer has the newest known one. Raises `BadInput` if none has one."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def of(self, snapshot: Snapshot) -> str:
        """Return the name of the snapshot's cluster."""
        try:
            return cluster_name(snapshot, limits=self._recording.limits)
        except BadInput:
            return self._newest

    @cached_property
    def _newest(self) -> str:
        errors = []
        for snapshot in reversed(self._recording.snapshots):
            try:
                return cluster_name(snapshot, limits=self._recording.limits)
            except BadInput as error:
                errors.append(error)
        raise errors[0]


def cluster_name(snapshot: Snapshot, wanted: str | None = None, limits: Limits = DEFAULT) -> str:
    """Return the cluster of a snapshot, by `/admin/v2/clusters`.

    If the answer names several (geo-replication), it is the one `wanted`, else the `clusterName` of the brokers'
    configuration. Raises `BadInput` if that leaves none or more than one, and if it is not a valid name in Pulsar.
    """
    clusters = _answer(Path(snapshot.path), CLUSTERS, limits)
    configuration = None
    if wanted is None and clusters is not None and snapshot.configuration_path:
        configuration = _answer(Path(snapshot.configuration_path), RUNTIME_CONFIGURATION, limits)
    name = own_cluster(clusters, configuration, wanted, where=snapshot.path)
    if not _NAME.fullmatch(name):
        raise BadInput(f"{snapshot.path} names its cluster {name[:100]!a}, which no cluster of Pulsar can be called")
    return name


def _answer(path: Path, wanted: str, limits: Limits) -> str | None:
    """Return the body of the first successful answer to this question; None if there is none."""
    try:
        body = None if is_in_lines(path) else _told(path, wanted, limits)
        if body is None:
            answers = (
                request for request in read_requests(path, limits) if request.path == wanted and request.status == 200
            )
            body = next((request.body for request in answers), None)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, zlib.error) as error:
        raise BadInput(f"snapshot {path} cannot be read: {error}") from error
    return body


def _told(path: Path, wanted: str, limits: Limits) -> str | None:
    """Return the answer by the text around the question, None if undecided: ten times faster than all its JSON."""
    pattern = re.compile(rb'"path"\s*:\s*"' + re.escape(wanted.encode()) + rb'"')
    with open_bytes(path) as stream:  # a document asks this question among the first
        beginning = stream.read(_BEGINNING)
    for text in (lambda: beginning, lambda: whole_document(path, limits)):
        for request in _in_document(text(), pattern):
            if request.get("path") == wanted and request.get("status") == 200:
                return str(request["body"])
    return None


def _in_document(text: bytes, pattern: re.Pattern[bytes]) -> Iterator[dict[str, Any]]:
    begin = _REQUESTS.search(text)
    for match in pattern.finditer(text, begin.end()) if begin else ():
        first = text.rfind(b"{", 0, match.start())
        try:
            request, _ = json.JSONDecoder().raw_decode(text[first : first + _MOST_ANSWER].decode(errors="replace"))
        except (ValueError, RecursionError):  # not so simple, or longer than this excerpt
            return
        yield request
