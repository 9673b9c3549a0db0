"""One cluster's snapshot: its cluster, its load manager, and the consistency of its times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.json_text import NotJson, parse_json
from evenkeel.pulsar.answers import (
    Answer,
    Answers,
    Kind,
    Reading,
    Rejection,
    Rejections,
    place_of,
    read_json,
    rejection,
)
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.times import utc_seconds

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """`own` are the snapshot's answers, `lent` those of the earlier snapshot that holds the configuration.

    `cluster` is the cluster's name in Pulsar; `rejections` collects the records rejected while reading, and `limits`
    bound how much is read.
    """

    cluster: str
    file: str
    started_at: datetime | None
    finished_at: datetime
    own: Answers
    lent: Answers
    lent_age_seconds: float | None
    rejections: Rejections = field(default_factory=Rejections)
    limits: Limits = DEFAULT

    def json(self, answer: Answer | None, expected: type, table: str, *, nothing_at: tuple[int, ...] = ()) -> Reading:
        """Read the JSON of an answer; a text that is at fault is rejected as a record meant for `table`."""
        reading = read_json(answer, expected, nothing_at=nothing_at, depth=self.limits.json_depth)
        return self.noted(reading, answer, table)

    def noted(self, reading: Reading, answer: Answer | None, table: str) -> Reading:
        """Return the reading, and reject a record at fault."""
        record = rejection(reading, answer, table) if answer is not None else None
        if record is not None:
            self.rejections.append(record)
        return reading

    def configuration_source(self) -> tuple[Answers, float | None]:
        """Return the answers that hold the configuration, and their age against the snapshot in seconds."""
        if self.own.answered(Kind.CONFIGURATION):
            return self.own, 0.0
        return self.lent, self.lent_age_seconds

    def topic_list_source(self) -> tuple[Answers, float | None]:
        """Return the answers that hold the topic lists, and their age against the snapshot in seconds."""
        if self.own.answered(Kind.TOPIC_LIST):
            return self.own, 0.0
        return self.lent, self.lent_age_seconds


TIMES_DO_NOT_FIT = "times_do_not_fit"


def times_that_do_not_fit(view: SnapshotView, tolerance_seconds: float) -> Rejection | None:
    """Return why the snapshot cannot be of the moment that it names, None if it can.

    It must have finished after it started. Every request must lie between the two, within the tolerance in seconds (the
    collector's clock may be set meanwhile).
    """
    start, end = view.started_at, view.finished_at
    if start is not None and end < start:
        return _rejection("snapshot", f"finished_at {utc_seconds(end)} is before started_at {utc_seconds(start)}")
    tolerance = timedelta(seconds=tolerance_seconds)
    outside = [
        (at, answer) for answer, at in view.own.times() if at > end + tolerance or at < (start or end) - tolerance
    ]
    if not outside:
        return None
    at, answer = min(outside, key=lambda item: (item[0], item[1].n))
    misfits = (
        f"{len(outside)} of {len(view.own)} requests lie outside the snapshot's time "
        f"({utc_seconds(start or end)} to {utc_seconds(end)}) by more than "
        f"evenkeelFutureToleranceSeconds = {tolerance_seconds:g}, the first at {utc_seconds(at)}"
    )
    return _rejection(place_of(answer), misfits)


def _rejection(place: str, fault: str) -> Rejection:
    reason = f"{fault}: the moment of the snapshot is unknown; set the collector's clock and take a new one"
    return Rejection("cluster_policies", place, TIMES_DO_NOT_FIT, reason, None)


CLUSTERS = "/admin/v2/clusters"


def own_cluster(clusters: str | None, configuration: str | None, wanted: str | None, *, where: str) -> str:
    """Return the cluster's name from the bodies of `/admin/v2/clusters` and of a broker's runtime configuration.

    A single name is the answer. Of several (geo-replication lists its peers) it is the one `wanted`, else the
    configuration's `clusterName`. Raises `BadInput`, which names `where` and the names in the answers.
    """
    try:
        listed = parse_json(clusters) if clusters is not None else None
    except NotJson:
        listed = None
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise BadInput(f"{where} has no readable answer of {CLUSTERS}: the cluster's name is unknown")
    names: list[str] = sorted(set(listed))
    if wanted is not None:
        if wanted in names:
            return wanted
        raise BadInput(f"{where} knows no cluster {wanted!r}; it lists {', '.join(names)}")
    if len(names) == 1:
        return names[0]
    named = _cluster_name(configuration)
    if named in names:
        return str(named)
    raise BadInput(f"{where} lists several clusters ({', '.join(names)}) and does not say which is its own: name one")


def _cluster_name(configuration: str | None) -> object:
    try:
        body = parse_json(configuration) if configuration is not None else None
    except NotJson:
        return None
    return body.get("clusterName") if isinstance(body, dict) else None


MODULAR = "modular"
EXTENSIBLE = "extensible"
MIXED = "mixed"
UNKNOWN = "unknown"

CLASSES = {MODULAR: "ModularLoadManagerImpl", EXTENSIBLE: "ExtensibleLoadManagerImpl"}
_MANAGERS = {name: manager for manager, name in CLASSES.items()}


def manager_of_class(name: object) -> str:
    """Return the manager of a `loadManagerClassName`, full or simple; unknown for any other class."""
    return _MANAGERS.get(name.rpartition(".")[2], UNKNOWN) if isinstance(name, str) else UNKNOWN


def refuses_load_reports(answer: Answer | None) -> bool:
    """Return True for the extensible manager's answer to a load report: 500, UnsupportedOperationException."""
    return answer is not None and answer.status == 500 and "UnsupportedOperationException" in (answer.body or "")


def manager_of_cluster(managers: Iterable[str]) -> str:
    """Return the manager that all known brokers run; mixed if they differ (during a migration), else unknown."""
    known = {manager for manager in managers if manager != UNKNOWN}
    if len(known) > 1:
        return MIXED
    return known.pop() if known else UNKNOWN
