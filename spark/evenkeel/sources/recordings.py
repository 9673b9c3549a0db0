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
text}; in JSON lines also `n`, its position in the snapshot. Other files of the folder are not looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.handover import Snapshot
from evenkeel.pulsar.clusters import CLUSTERS, own_cluster
from evenkeel.sources.headers import RUNTIME_CONFIGURATION, Header, open_bytes, parts_of, read_header, utc

_NAME = re.compile(r"\d+(\.json(\.gz)?)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """A landed file that is left out: which file, where in it, and why."""

    file: str
    place: str
    reason: str


class Recording:
    """The snapshots of one folder: `snapshots` in time order, and `problems` with what cannot be read.

    A folder that is missing, or that holds nothing readable, is `BadInput`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
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
            f"the recording {self.path} has no snapshot at or before {iso(moment)}; the nearest is {first.cycle_at} "
            f"({Path(first.path).name})"
        )

    def _headers(self) -> list[tuple[Header, Path]]:
        """Readable headers by time and name; of two with the same time the first by name stays."""
        found: list[tuple[Header, Path]] = []
        problems = []
        for entry in sorted(self.path.iterdir()):
            if not _NAME.fullmatch(entry.name) or entry.is_dir() == entry.name.endswith((".json", ".gz")):
                continue
            try:
                found.append((read_header(entry), entry))
            except BadInput as error:
                problems.append(Problem(str(entry), "snapshot", str(error)))
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

    def _nothing_readable(self) -> str:
        if not self.problems:
            return f"no snapshot in {self.path}: expected files NNNN.json, NNNN.json.gz or folders NNNN/"
        first = self.problems[0]
        return f"no readable snapshot in {self.path}: {len(self.problems)} refused, first {first.file}: {first.reason}"


def cluster_name(snapshot: Snapshot, wanted: str | None = None) -> str:
    """The cluster that a snapshot shows, by `/admin/v2/clusters`.

    Where the answer names several (geo-replication), it is the one `wanted`, else the `clusterName` of the brokers'
    configuration. `BadInput` if that leaves none or more than one.
    """
    clusters = next(_bodies(Path(snapshot.path), CLUSTERS), None)
    configuration = None
    if wanted is None and clusters is not None and snapshot.configuration_path:
        configuration = next(_bodies(Path(snapshot.configuration_path), RUNTIME_CONFIGURATION), None)
    return own_cluster(clusters, configuration, wanted, where=snapshot.path)


def requests_of(path: Path) -> Iterator[dict[str, Any]]:
    """The requests of a snapshot in either layout, in this process; for small questions, not for a whole cycle."""
    if path.is_dir():
        for part in parts_of(path):
            with open_bytes(part) as stream:
                yield from (json.loads(line) for line in stream if line.strip())
    else:
        with open_bytes(path) as stream:
            yield from json.loads(stream.read())["requests"]


def iso(moment: datetime) -> str:
    """UTC with microseconds, the form of every `cycle_at`."""
    return moment.isoformat(timespec="microseconds")


def _bodies(path: Path, wanted: str) -> Iterator[str]:
    try:
        for request in requests_of(path):
            if request.get("path") == wanted and request.get("status") == 200:
                yield request["body"]
    except (OSError, EOFError, ValueError, KeyError, AttributeError) as error:
        raise BadInput(f"snapshot {path} cannot be read: {error}") from error


def _in_order(headers: list[tuple[Header, Path]]) -> Iterator[Snapshot]:
    configuration: Snapshot | None = None
    previous: str | None = None
    for header, entry in headers:
        moment = iso(header.moment)
        snapshot = Snapshot(str(entry), moment, previous_at=previous)
        if header.has_configuration:
            configuration = snapshot
        if configuration is not None:
            snapshot = Snapshot(str(entry), moment, configuration.path, configuration.cycle_at, previous)
        yield snapshot
        previous = moment


def _same_moment(place: str, header: Header, other: Path) -> str:
    return (
        f"{place} {iso(header.moment)} is also that of {other.name}, which is kept: a cluster has one cycle a "
        "moment; remove or re-date one of the two"
    )
