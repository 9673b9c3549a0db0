"""One cluster's snapshot: which cluster it shows, which load manager runs, and whether its times fit together."""

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

    `cluster` is the cluster's name in Pulsar; `rejections` collects what had to be set aside while reading, and
    `limits` says how much is read.
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
        """The JSON of an answer; text that is at fault is set aside as a record meant for `table`."""
        reading = read_json(answer, expected, nothing_at=nothing_at, depth=self.limits.json_depth)
        return self.noted(reading, answer, table)

    def noted(self, reading: Reading, answer: Answer | None, table: str) -> Reading:
        """The reading, after a record at fault was set aside."""
        found = rejection(reading, answer, table) if answer is not None else None
        if found is not None:
            self.rejections.append(found)
        return reading

    def configuration_source(self) -> tuple[Answers, float | None]:
        """The answers that hold the configuration, and their age against the snapshot in seconds."""
        if self.own.answered(Kind.CONFIGURATION):
            return self.own, 0.0
        return self.lent, self.lent_age_seconds

    def topic_list_source(self) -> tuple[Answers, float | None]:
        """The answers that hold the topic lists, and their age against the snapshot in seconds."""
        if self.own.answered(Kind.TOPIC_LIST):
            return self.own, 0.0
        return self.lent, self.lent_age_seconds


# Whether a snapshot's own times fit together; no clock is asked.

TIMES_DO_NOT_FIT = "times_do_not_fit"


def times_that_do_not_fit(view: SnapshotView, tolerance_seconds: float) -> Rejection | None:
    """Why the snapshot cannot be of the moment that it names, or None.

    It must have finished after it started, and every request must lie between, give or take the tolerance (the
    collector's clock may be set meanwhile).
    """
    start, end = view.started_at, view.finished_at
    if start is not None and end < start:
        return _rejection("snapshot", f"finished_at {utc_seconds(end)} lies before started_at {utc_seconds(start)}")
    tolerance = timedelta(seconds=tolerance_seconds)
    outside = [
        (at, answer) for answer, at in view.own.times() if at > end + tolerance or at < (start or end) - tolerance
    ]
    if not outside:
        return None
    at, answer = min(outside, key=lambda item: (item[0], item[1].n))
    found = (
        f"{len(outside)} of {len(view.own)} requests lie outside the snapshot's time "
        f"({utc_seconds(start or end)} to {utc_seconds(end)}) by more than "
        f"evenkeelFutureToleranceSeconds = {tolerance_seconds:g}, the first at {utc_seconds(at)}"
    )
    return _rejection(place_of(answer), found)


def _rejection(place: str, found: str) -> Rejection:
    reason = f"{found}: it is not known of which moment the snapshot is; set the collector's clock and take a new one"
    return Rejection("cluster_policies", place, TIMES_DO_NOT_FIT, reason, None)


# Which cluster a snapshot shows.

CLUSTERS = "/admin/v2/clusters"


def own_cluster(clusters: str | None, configuration: str | None, wanted: str | None, *, where: str) -> str:
    """The cluster's name from the bodies of `/admin/v2/clusters` and of a broker's runtime configuration.

    One name answers itself. Of several (geo-replication lists its peers) it is the one `wanted`, else the
    configuration's `clusterName`. `BadInput` names `where` and what was found.
    """
    names = _names(clusters, where)
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


def _names(body: str | None, where: str) -> list[str]:
    try:
        names = parse_json(body) if body is not None else None
    except NotJson:
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{where} has no readable answer of {CLUSTERS}: the cluster's name is not known")
    return sorted(set(names))


def _cluster_name(configuration: str | None) -> object:
    try:
        body = parse_json(configuration) if configuration is not None else None
    except NotJson:
        return None
    return body.get("clusterName") if isinstance(body, dict) else None


# Which load manager runs: per broker by what it answers, and for the cluster as a whole; which Pulsar generation.

MODULAR = "modular"
EXTENSIBLE = "extensible"
MIXED = "mixed"
UNKNOWN = "unknown"

CLASSES = {MODULAR: "ModularLoadManagerImpl", EXTENSIBLE: "ExtensibleLoadManagerImpl"}
_MANAGERS = {name: manager for manager, name in CLASSES.items()}


def manager_of_class(name: object) -> str:
    """The manager of a `loadManagerClassName`, full or simple; unknown for any other class."""
    return _MANAGERS.get(name.rpartition(".")[2], UNKNOWN) if isinstance(name, str) else UNKNOWN


def refuses_load_reports(answer: Answer | None) -> bool:
    """Whether this is the extensible manager's answer to a load report: 500, UnsupportedOperationException."""
    return answer is not None and answer.status == 500 and "UnsupportedOperationException" in (answer.body or "")


def manager_of_cluster(managers: Iterable[str]) -> str:
    """One manager that all known brokers run; mixed where they differ (a migration under way), else unknown."""
    known = {manager for manager in managers if manager != UNKNOWN}
    if len(known) > 1:
        return MIXED
    return known.pop() if known else UNKNOWN


def generation_of(versions: Iterable[str | None]) -> str:
    """ "5.0" where every broker that named its version runs 5 or later, else "4.x" (also where none did)."""
    majors = [int(head) for head in (str(version).split(".")[0] for version in versions if version) if head.isdigit()]
    return "5.0" if majors and min(majors) >= 5 else "4.x"
