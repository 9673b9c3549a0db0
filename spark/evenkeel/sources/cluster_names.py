"""Cluster of a landed snapshot, by its answer to `/admin/v2/clusters`.

A recording shows one cluster. If a folder holds snapshots of several, each snapshot has its own cluster.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.handover import Snapshot
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.pulsar.snapshot import CLUSTERS, own_cluster
from evenkeel.sources.recordings import Recording
from evenkeel.sources.snapshot_files import RUNTIME_CONFIGURATION, is_in_lines, open_bytes, whole_document
from evenkeel.sources.snapshot_requests import read_requests

# As in Pulsar (NamedEntity), and no longer than a folder's name may be.
_NAME = re.compile(r"[-=:.\w]{1,200}", re.ASCII)
_BEGINNING, _MOST_ANSWER = 1 << 14, 1 << 16
_REQUESTS = re.compile(rb'"requests"\s*:\s*\[')


class ClusterNames:
    """The clusters of a recording's snapshots; one without an answer has the cluster of the newest that has one.

    Raises `BadInput` if none has an answer.
    """

    def __init__(self, recording: Recording, limits: Limits = DEFAULT) -> None:
        self._recording, self._limits = recording, limits

    def of(self, snapshot: Snapshot) -> str:
        """Return the name of the snapshot's cluster."""
        try:
            return cluster_name(snapshot, limits=self._limits)
        except BadInput:
            return self._newest

    @cached_property
    def _newest(self) -> str:
        errors = []
        for snapshot in reversed(self._recording.snapshots):
            try:
                return cluster_name(snapshot, limits=self._limits)
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
    """Return the answer by the text around the question; None if undecided.

    Reading all of a document's JSON takes ten times as long.
    """
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
