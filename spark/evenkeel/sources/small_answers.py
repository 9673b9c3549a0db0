"""The answers of a landed snapshot in the task's memory: all but the long texts of topic-sized ones."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle
from evenkeel.json_text import values_in
from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.snapshot_files import SEE, Header, read_header, utc
from evenkeel.sources.snapshot_requests import SnapshotRequest, read_requests


@dataclass(frozen=True, slots=True)
class Landed:
    """A snapshot that was read to its end: its file and its header."""

    path: Path
    header: Header


@dataclass
class SmallAnswers:
    """A landed snapshot's requests. `size` is the memory of their texts, in bytes; `values` is an upper bound for their
    JSON values."""

    landed: Landed
    requests: list[SnapshotRequest]
    size: int
    values: int

    @cached_property
    def answers(self) -> Answers:
        """Return the answers by subject."""
        return Answers([_answer(request) for request in self.requests if request.unread is None])


def read_small_answers(path: str, limits: Limits = DEFAULT) -> SmallAnswers:
    """Read a landed snapshot, once through its file; raises `BadInput` if it is unreadable or beyond `limits`."""
    place = Path(path)
    if not place.exists():
        raise BadInput(f"no snapshot at {path}")
    landed = Landed(place, read_header(place, limits))
    requests: list[SnapshotRequest] = []
    size = values = 0
    for request in read_requests(place, limits):
        size += sum(sys.getsizeof(text) for text in (request.body, request.unread) if text is not None)
        values += values_in(request.body) if request.body is not None else 0
        requests.append(request)
        demand_few(len(requests), size, values, limits)
    return SmallAnswers(landed, requests, size, values)


def demand_few(requests: int, size: int, values: int, limits: Limits) -> None:
    """Raise `BeyondLimit` if the small answers of a cycle are more than this process may hold."""
    answers = "its answers, without those of topics,"
    limits.demand("requests", requests, f"the snapshot has {requests:,} requests and more", SEE)
    limits.demand("small_answers_mib", size, f"{answers} have {size:,} bytes and more", SEE)
    limits.demand("json_values", values, f"{answers} hold {values:,} values of JSON and more", SEE)


def _answer(request: SnapshotRequest) -> Answer:
    return Answer(
        n=request.n,
        broker=request.broker or "",
        path=request.path or "",
        status=request.status,
        body=request.body,
        at=utc_or_none(request.at),
        location=request.location,
        method=request.method,
        size=request.size,
        is_cut=request.is_left and not request.is_topic_sized,
    )


def utc_or_none(text: str | None) -> datetime | None:
    """Return a request's time, None if it has none."""
    try:
        return utc(text)
    except BadInput:
        return None


class SnapshotsOfRun:
    """The snapshots of a run's cycles. One that lends to many cycles is read once, and released after the last."""

    def __init__(self, cycles: Iterable[ClusterCycle]) -> None:
        self._uses = Counter(path for cycle in cycles for path in _paths(cycle))
        self._known: dict[tuple[str, Limits], SmallAnswers | BadInput] = {}

    def read(self, path: str, limits: Limits) -> SmallAnswers:
        """Return the snapshot's answers; raises `BadInput` if it cannot be read."""
        if (path, limits) not in self._known:
            try:
                self._known[path, limits] = read_small_answers(path, limits)
            except BadInput as error:
                self._known[path, limits] = error
        answers = self._known[path, limits]
        if isinstance(answers, BadInput):
            raise answers
        return answers

    def release(self, cycle: ClusterCycle) -> None:
        """Forget the snapshots that only this cycle still needed."""
        for path in _paths(cycle):
            self._uses[path] -= 1
            if self._uses[path] <= 0:
                for key in [key for key in self._known if key[0] == path]:
                    del self._known[key]


def _paths(cycle: ClusterCycle) -> set[str]:
    return {path for path in (cycle.snapshot.path, cycle.snapshot.configuration_path) if path}
