"""Taking in one cluster's snapshot: what can be read, what is set aside, which settings hold, why it is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenkeel.errors import BadInput, SettingsError
from evenkeel.handover import ClusterCycle
from evenkeel.pulsar.answers import Answers, Kind, Rejection
from evenkeel.pulsar.observed_rows import Observed, observe
from evenkeel.pulsar.snapshot import CLASSES, View, own_cluster, times_that_do_not_fit
from evenkeel.settings import Detected, EffectiveSettings, resolve
from evenkeel.sources.landed import LENT, OWN, Landed, open_landed

UNREADABLE_SNAPSHOT = "unreadable_snapshot"
BROKEN_PART = "broken_part"
UNREADABLE_REQUEST = "unreadable_request"
REFUSED_SETTINGS = "refused_settings"
ODD_SETTING = "odd_setting"


@dataclass
class SnapshotIntake:
    """One cluster while it is taken in. `rejections` stand with the file they were found in; `failed` tells a cluster
    that an operator's override keeps out from one whose snapshot does."""

    cycle: ClusterCycle
    own: Landed | None = None
    lent: Landed | None = None
    observed: Observed | None = None
    settings: EffectiveSettings | None = None
    rejections: list[tuple[str, Rejection]] = field(default_factory=list)
    left_out: str | None = None
    failed: bool = False

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.cycle.cluster

    @property
    def manager(self) -> str | None:
        """The operator's word, else what the brokers showed."""
        if self.settings is not None and self.settings.settings.evenkeelManager != "auto":
            return self.settings.settings.manager
        return str(self.observed.policies["manager"]) if self.observed is not None else None

    def file(self, source: str) -> str:
        """The file of the snapshot's own or lent answers."""
        landed = self.lent if source == LENT else self.own
        return str(landed.path) if landed is not None else self.cycle.snapshot.path

    def refuse(self, rejection: Rejection, file: str | None = None) -> None:
        """Sets an answer aside, found in `file` or else in the cycle's own snapshot."""
        self.rejections.append((file or self.cycle.snapshot.path, rejection))

    def leave_out(self, reason: str, *, failed: bool = False) -> None:
        """Of several reasons the first counts."""
        if self.left_out is None:
            self.left_out, self.failed = reason, failed


def opened(cycle: ClusterCycle) -> SnapshotIntake:
    """Looks whether the cycle's snapshot, and the one that lends configuration and topic lists, can be read at all."""
    intake = SnapshotIntake(cycle)
    for file, place, reason in cycle.unreadable:
        intake.refuse(Rejection("raw_answers", place, UNREADABLE_SNAPSHOT, reason, None), file)
    path, lender = cycle.snapshot.path, cycle.snapshot.configuration_path
    try:
        intake.own = open_landed(path)
    except BadInput as error:
        intake.refuse(_unreadable(str(error)), path)
        intake.leave_out(f"the snapshot {path} cannot be read: {error}")
        return intake
    if lender is not None and lender != path:
        try:
            intake.lent = open_landed(lender)
        except BadInput as error:
            intake.refuse(_unreadable(f"{error}; configuration and topic lists are unknown in this cycle"), lender)
    for landed in (intake.own, intake.lent):
        for part, reason in landed.broken_parts if landed is not None else ():
            intake.refuse(Rejection("raw_answers", "end of file", BROKEN_PART, reason, None), str(part))
    return intake


def look_at(intake: SnapshotIntake, answers: dict[tuple[str, str], Answers], unread: list[Any]) -> None:
    """Reads the small answers, resolves the settings and judges whether the snapshot can be decided on."""
    for row in unread:
        _refuse_request(intake, row)
    if (intake.cluster, OWN) not in answers:
        reason = "it holds no request that can be read: `requests` is empty, or the JSON is malformed inside"
        intake.refuse(_unreadable(reason))
        intake.leave_out(f"the snapshot {intake.cycle.snapshot.path} cannot be read: {reason}")
    view = _view(intake, answers)
    intake.observed = observe(view)
    for rejection in intake.observed.rejections:
        intake.refuse(rejection)
    if intake.observed.left_out is not None:
        intake.leave_out(intake.observed.left_out.reason)
    _settle(intake)
    if intake.settings is None:
        return
    misfit = times_that_do_not_fit(view, intake.settings.settings.evenkeelFutureToleranceSeconds)
    if misfit is not None:
        intake.refuse(misfit)
        intake.leave_out(misfit.reason)


def mark_unreadable_figures(intake: SnapshotIntake, brokers: set[str]) -> None:
    """Topic figures of these brokers came and could not be read: they are unknown, not none."""
    for row in intake.observed.rows["broker_reports"] if intake.observed is not None else ():
        if row["broker"] in brokers:
            row["has_topic_figures"] = False


def _view(intake: SnapshotIntake, answers: dict[tuple[str, str], Answers]) -> View:
    assert intake.own is not None
    own = answers.get((intake.cluster, OWN), Answers(()))
    lent = answers.get((intake.cluster, LENT), Answers(()))
    header, age = intake.own.header, None
    if intake.lent is not None:
        age = (header.finished_at - intake.lent.header.finished_at).total_seconds()
    name = _pulsar_name(intake.cluster, own, lent)
    return View(name, str(intake.own.path), header.started_at, header.finished_at, own, lent, age)


def _pulsar_name(cluster: str, own: Answers, lent: Answers) -> str:
    """The cluster's name in Pulsar, which its paths carry; a run may know it under another name."""
    answer = own.about(Kind.CLUSTERS)
    body = answer.body if answer is not None and answer.status == 200 else None
    configurations = [found for answers in (own, lent) for _, found in answers.each(Kind.CONFIGURATION)]
    configuration = next((found.body for found in configurations if found.status == 200), None)
    for wanted in (cluster, None):
        try:
            return own_cluster(body, configuration, wanted, where="the snapshot")
        except BadInput:
            continue
    return cluster


def _settle(intake: SnapshotIntake) -> None:
    """Settings in force: an override over the leader's runtime configuration over the defaults."""
    assert intake.observed is not None
    policies = intake.observed.policies
    versions = [row.get("pulsar_version") for row in intake.observed.rows["broker_reports"]]
    try:
        settings = resolve(
            observed=configuration_of(policies),
            overrides=intake.cycle.overrides,
            generation=Detected(policies["generation"], tuple(versions)),
        )
    except SettingsError as error:
        intake.refuse(Rejection("settings", "overrides", REFUSED_SETTINGS, str(error), None))
        intake.leave_out(f"the settings given for {intake.cluster} are refused: {error}", failed=True)
        return
    intake.settings = settings
    for n, problem in enumerate(settings.problems):
        place = f"configuration of {policies['configuration_broker']}, problem {n + 1}"
        intake.refuse(Rejection("settings", place, ODD_SETTING, problem, None))


def configuration_of(policies: Mapping[str, Any]) -> dict[str, str]:
    """The configuration, with the load manager that the brokers show to run: the file may be of an earlier snapshot."""
    shown = {"loadManagerClassName": CLASSES[policies["manager"]]} if policies["manager"] in CLASSES else {}
    return dict(policies["configuration"] or {}) | shown


def _refuse_request(intake: SnapshotIntake, row: Any) -> None:
    place = f"request {row['n']}"
    reason = f"{place} cannot be read as a request; whatever was answered to it is unknown in this cycle"
    intake.refuse(
        Rejection("raw_answers", place, UNREADABLE_REQUEST, reason, row["unread"]), intake.file(row["source"])
    )


def _unreadable(reason: str) -> Rejection:
    return Rejection("raw_answers", "snapshot", UNREADABLE_SNAPSHOT, reason, None)
