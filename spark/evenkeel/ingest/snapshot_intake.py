"""Intake of a cycle's snapshot: readable answers, rejected ones, the settings in force, and the reason if it is left
out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenkeel.errors import BadInput, SettingsError
from evenkeel.handover import ClusterCycle, CycleKey
from evenkeel.pulsar.answers import BEYOND_LIMIT, MOST_REJECTIONS, Answers, Kind, Rejection
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.pulsar.observed_rows import ObservedRows, observe
from evenkeel.pulsar.snapshot import CLASSES, SnapshotView, own_cluster, times_that_do_not_fit
from evenkeel.settings import Detected, EffectiveSettings, resolve
from evenkeel.sources.landed_answers import Landed, SmallAnswers, SnapshotsOfRun, demand_few
from evenkeel.sources.snapshot_requests import SnapshotRequest

UNREADABLE_SNAPSHOT = "unreadable_snapshot"
UNREADABLE_REQUEST = "unreadable_request"
REFUSED_SETTINGS = "refused_settings"
ODD_SETTING = "odd_setting"
_ROW_BYTES, _REQUEST_BYTES = 1_500, 500


@dataclass
class SnapshotIntake:
    """Intake of one cycle.

    `rejections` have the file they were found in. `failed` marks a cycle that an operator's override leaves out, unlike
    one that its snapshot does. `requests` are those of its own snapshot, `figures` of these the topic figures that
    count, `left` the positions of those whose texts Spark reads. `held` is the memory of its rows and their texts in
    this process, in bytes; `is_sent`: most of them are with the server. `texts` is the size of its small answers, in
    bytes.
    """

    cycle: ClusterCycle
    own: Landed | None = None
    lent: Landed | None = None
    observed: ObservedRows | None = None
    settings: EffectiveSettings | None = None
    rejections: list[tuple[str, Rejection]] = field(default_factory=list)
    left_out: str | None = None
    failed: bool = False
    held: int = 0
    requests: list[SnapshotRequest] = field(default_factory=list)
    figures: list[SnapshotRequest] = field(default_factory=list)
    left: tuple[int, ...] = ()
    texts: int = 0
    is_sent: bool = False

    @property
    def key(self) -> CycleKey:
        """Key of the cycle within the run."""
        return self.cycle.key

    @property
    def limits(self) -> Limits:
        """Limits on what is read of the cluster."""
        return Limits(**self.cycle.limits) if self.cycle.limits is not None else DEFAULT

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.cycle.cluster

    @property
    def manager(self) -> str | None:
        """The operator's setting, else the brokers' manager."""
        if self.settings is not None and self.settings.settings.evenkeelManager != "auto":
            return self.settings.settings.manager
        return str(self.observed.policies["manager"]) if self.observed is not None else None

    def refuse(self, rejection: Rejection, file: str | None = None) -> None:
        """Reject an answer, found in `file` or else in the cycle's own snapshot."""
        self.rejections.append((file or self.cycle.snapshot.path, rejection))

    def leave_out(self, reason: str, *, failed: bool = False) -> None:
        """Leave the cycle out; of several reasons the first counts."""
        if self.left_out is None:
            self.left_out, self.failed = reason, failed


def taken_in(cycle: ClusterCycle, snapshots: SnapshotsOfRun, known: SettingsInForce) -> SnapshotIntake:
    """Read the cycle's snapshot, and the one that lends configuration and topic lists, and judge if it can be decided
    on."""
    intake = SnapshotIntake(cycle)
    for file, place, reason in cycle.unreadable:
        intake.refuse(Rejection("raw_answers", place, UNREADABLE_SNAPSHOT, reason, None), file)
    path, lender = cycle.snapshot.path, cycle.snapshot.configuration_path
    own_answers, lent = None, None
    try:
        own_answers = snapshots.read(path, intake.limits)
        intake.own = own_answers.landed
    except BadInput as error:
        intake.refuse(_unreadable(error), path)
        intake.leave_out(f"the snapshot {path} cannot be read: {error}")
    if own_answers is not None and lender is not None and lender != path:
        try:
            lent = snapshots.read(lender, intake.limits)
            intake.lent = lent.landed
        except BadInput as error:
            intake.refuse(_unreadable(error, "; configuration and topic lists are unknown in this cycle"), lender)
    if own_answers is not None:
        _look_at(intake, own_answers, lent, known)
    snapshots.release(cycle)
    return intake


class SettingsInForce:
    """Settings, resolved once for each input: cycles of a window mostly have equal ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], EffectiveSettings] = {}

    def resolve(
        self, observed: Mapping[str, str], overrides: Mapping[str, Any], detected: Detected
    ) -> EffectiveSettings:
        """Return the settings in force, see `settings.resolve`; raises `SettingsError` for invalid overrides."""
        given = json.dumps(overrides, sort_keys=True, default=repr)
        key = (tuple(sorted(observed.items())), given, detected)
        if key not in self._known:
            self._known[key] = resolve(observed=observed, overrides=overrides, generation=detected)
        return self._known[key]


def _look_at(
    intake: SnapshotIntake, own_answers: SmallAnswers, lent: SmallAnswers | None, known: SettingsInForce
) -> None:
    """Read the small answers, resolve the settings and judge if the snapshot can be decided on."""
    path = intake.cycle.snapshot.path
    parts = [own_answers] if lent is None else [own_answers, lent]
    size = sum(part.size for part in parts)
    try:
        demand_few(sum(len(part.requests) for part in parts), size, sum(part.values for part in parts), intake.limits)
    except BeyondLimit as error:
        intake.refuse(_beyond("raw_answers", "snapshot", str(error)))
        intake.leave_out(f"the snapshot {path} is not read: {error}")
        return
    unread = [(part, request) for part in parts for request in part.requests if request.unread is not None]
    for part, request in unread[:MOST_REJECTIONS]:
        place = f"request {request.n}"
        reason = f"{place} cannot be read as a request; whatever was answered to it is unknown in this cycle"
        unreadable = Rejection("raw_answers", place, UNREADABLE_REQUEST, reason, request.unread)
        intake.refuse(unreadable, str(part.landed.path))
    if len(unread) > MOST_REJECTIONS:
        reason = f"{len(unread):,} of its requests cannot be read; the first {MOST_REJECTIONS:,} are on record"
        intake.refuse(Rejection("raw_answers", "snapshot", UNREADABLE_REQUEST, reason, None))
    if not len(own_answers.answers):
        reason = "it holds no request that can be read: `requests` is empty, or the JSON is malformed inside"
        intake.refuse(_unreadable(reason))
        intake.leave_out(f"the snapshot {path} cannot be read: {reason}")
    view = _view(intake, own_answers.answers, lent.answers if lent is not None else Answers(()))
    try:
        intake.observed = observe(view)
    except BeyondLimit as error:
        intake.refuse(_beyond("raw_answers", "snapshot", str(error)))
        intake.leave_out(f"the snapshot {path} is not read: {error}")
        return
    figures = set(intake.observed.topic_figures)
    intake.figures = [request for request in own_answers.requests if request.n in figures and request.unread is None]
    intake.requests = [
        request for request in own_answers.requests if request.n not in figures or request.unread is not None
    ]
    intake.left = tuple(request.n for request in intake.requests if request.is_left)
    intake.texts = size
    rows = sum(len(rows) for rows in intake.observed.rows.values())
    intake.held = size + _ROW_BYTES * rows + _REQUEST_BYTES * len(own_answers.requests)
    for rejection in intake.observed.rejections:
        intake.refuse(rejection)
    if intake.observed.left_out is not None:
        intake.leave_out(intake.observed.left_out.reason)
    _settle(intake, known)
    if intake.settings is None:
        return
    misfit = times_that_do_not_fit(view, intake.settings.settings.evenkeelFutureToleranceSeconds)
    if misfit is not None:
        intake.refuse(misfit)
        intake.leave_out(misfit.reason)


def mark_unreadable_figures(intake: SnapshotIntake, brokers: set[str]) -> None:
    """Mark the topic figures of these brokers as unreadable: they are unknown, not none."""
    for row in intake.observed.rows["broker_reports"] if intake.observed is not None else ():
        if row["broker"] in brokers:
            row["has_topic_figures"] = False


def leave_out_the_largest(intakes: Sequence[SnapshotIntake]) -> None:
    """Leave out the clusters that take most of this process's memory, until the others fit into it (`run_mib`)."""
    limits = max((intake.limits for intake in intakes), key=lambda each: each.run_mib)
    while (together := sum(intake.held for intake in intakes)) > limits.bytes_of("run_mib"):
        largest = max(intakes, key=lambda intake: (intake.held, intake.cluster))
        subject = f"its rows and their texts take {largest.held:,} bytes, and those of all clusters {together:,}"
        reason = limits.beyond("run_mib", subject, "give it a run of its own, see what answers in the brokers' place")
        largest.refuse(_beyond("raw_answers", "snapshot", reason))
        largest.leave_out(f"the snapshot {largest.cycle.snapshot.path} is not read: {reason}")
        largest.observed, largest.settings, largest.held = None, None, 0
        largest.requests, largest.figures, largest.left = [], [], ()


def without_rows(intake: SnapshotIntake) -> None:
    """Release the rows that were sent to the server. Rows of brokers stay: their topic figures may prove unreadable."""
    if intake.observed is not None:
        rows = {"broker_reports": intake.observed.rows["broker_reports"]}
        policies = [{"manager": intake.observed.policies["manager"]}]
        intake.observed = replace(intake.observed, rows={**rows, "cluster_policies": policies}, rejections=())
    intake.rejections.clear()
    intake.requests.clear()
    intake.held, intake.is_sent = 0, True


def leave_out_topics(intake: SnapshotIntake, count: int) -> None:
    """Leave out a cycle whose answers name more topics than its limit allows."""
    advice = "see what answers in the brokers' place"
    reason = intake.limits.beyond("topics", f"its answers name {count:,} topics", advice)
    intake.refuse(_beyond("topic_stats", "topic figures", reason))
    intake.leave_out(f"the snapshot {intake.cycle.snapshot.path} is not read: {reason}")


def _view(intake: SnapshotIntake, own_answers: Answers, lent: Answers) -> SnapshotView:
    assert intake.own is not None
    header, age = intake.own.header, None
    if intake.lent is not None:
        age = (header.finished_at - intake.lent.header.finished_at).total_seconds()
    name = _pulsar_name(intake.cluster, own_answers, lent)
    return SnapshotView(
        name, str(intake.own.path), header.started_at, header.finished_at, own_answers, lent, age, limits=intake.limits
    )


def _pulsar_name(cluster: str, own_answers: Answers, lent: Answers) -> str:
    """Return the cluster's name in Pulsar, which is in its paths; a run may know it under another name."""
    answer = own_answers.about(Kind.CLUSTERS)
    body = answer.body if answer is not None and answer.status == 200 else None
    configurations = [found for answers in (own_answers, lent) for _, found in answers.each(Kind.CONFIGURATION)]
    configuration = next((found.body for found in configurations if found.status == 200), None)
    for wanted in (cluster, None):
        try:
            return own_cluster(body, configuration, wanted, where="the snapshot")
        except BadInput:
            continue
    return cluster


def _settle(intake: SnapshotIntake, known: SettingsInForce) -> None:
    """Resolve the settings in force: an override over the leader's runtime configuration over the defaults."""
    assert intake.observed is not None
    policies = intake.observed.policies
    versions = [row.get("pulsar_version") for row in intake.observed.rows["broker_reports"]]
    try:
        detected = Detected(policies["generation"], tuple(versions))
        settings = known.resolve(configuration_of(policies), intake.cycle.overrides, detected)
    except SettingsError as error:
        intake.refuse(Rejection("settings", "overrides", REFUSED_SETTINGS, str(error), None))
        intake.leave_out(f"the settings given for {intake.cluster} are refused: {error}", failed=True)
        return
    intake.settings = settings
    for n, problem in enumerate(settings.problems):
        place = f"configuration of {policies['configuration_broker']}, problem {n + 1}"
        intake.refuse(Rejection("settings", place, ODD_SETTING, problem, None))


def configuration_of(policies: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration, with the load manager that the brokers run: the file may be of an earlier snapshot."""
    shown = {"loadManagerClassName": CLASSES[policies["manager"]]} if policies["manager"] in CLASSES else {}
    return dict(policies["configuration"] or {}) | shown


def _unreadable(reason: str | BadInput, more: str = "") -> Rejection:
    rule = BEYOND_LIMIT if isinstance(reason, BeyondLimit) else UNREADABLE_SNAPSHOT
    return Rejection("raw_answers", "snapshot", rule, f"{reason}{more}", None)


def _beyond(table: str, place: str, reason: str) -> Rejection:
    return Rejection(table, place, BEYOND_LIMIT, reason, None)
