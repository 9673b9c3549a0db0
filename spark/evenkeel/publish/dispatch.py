"""Execution of a run's plans: leases, the outbox, and the observed outcome of each command.

Commands recorded by a killed try are checked before anything is sent. Once that try's longest request is over, the
cluster itself shows their outcome. A command is sent (again) only if it left no trace and its premise still holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EvenkeelError, SettingsError
from evenkeel.handover import ClusterCycle, Handover, Write
from evenkeel.lake.controls import (
    PAUSE,
    Lease,
    give_back,
    holder_name,
    last_words,
    leases,
    renew_leases,
    take_leases,
)
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.outbox import OPEN, SENT, on_record
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.pulsar.admin import AdminClient
from evenkeel.pulsar.admin.connection import Resolver, from_environment
from evenkeel.settings import settings_in
from evenkeel.settings.names import default_keys
from evenkeel.sources.collecting import connection_of
from evenkeel.sources.configuration import LiveSource
from evenkeel.steering.dispatcher import DispatchResult, Halt, LeaseGuard, Timing, Work, conduct
from evenkeel.steering.outcome import Outcome, ReportOutcome, Stop, decisive, not_sent
from evenkeel.steering.pulsar_admin import PulsarAdmin
from evenkeel.times import elapsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.steering.command_executor import CommandExecutor
    from evenkeel.steering.queue.signing import KeyResolver, Signature
    from evenkeel.steering.sqs import Reports, SqsSink


log = logging.getLogger(__name__)

MORE_WAITING_S = 5.0
"""So much longer than a lease lasts another's is waited for."""

_GATING = ("cycles", "approvals", "controls")
"""Tables whose rows may close the gate while commands go out."""

Command = Mapping[str, Any]
Reach = Callable[[ClusterCycle], "AdminClient"]
"""A client for a cluster, with its secrets."""


@dataclass(frozen=True, slots=True)
class GateReasons:
    """Reasons against sending now, by cluster.

    `withheld`: why nothing of its plan may be sent; `without_splits`: why nothing that splits or depends on a split
    may.
    """

    withheld: Mapping[str, str] = field(default_factory=dict)
    without_splits: Mapping[str, str] = field(default_factory=dict)


Gate = Callable[[Sequence[str]], GateReasons]
"""Function from clusters to the reasons against sending their plans."""

Sign = Callable[[ClusterCycle], "Signature"]
"""The pipeline's end of a cluster's queues, with its keys."""

Halted = Callable[[str], str | None]
"""Function to the reason why a switch outside the lake (an Airflow variable) stops a cluster."""


@dataclass(frozen=True, slots=True)
class Sending:
    """Access to clusters, and time limits."""

    reach: Reach
    halted: Halted = field(default=lambda cluster: None)
    signature: Sign = field(default_factory=lambda: sign_with())
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class ClusterCommands:
    """One cluster's commands.

    `tried`: ids that another try has recorded without a final outcome; they may have been sent. `on_splits`: ids of
    commands that split, or depend on a split of the plan.
    """

    cycle: ClusterCycle
    commands: Sequence[Command]
    tried: frozenset[str] = frozenset()
    on_splits: frozenset[str] = frozenset()


class OutcomeRecorder:
    """The tables that sending writes: outcomes, and steps of the leases. Used by one thread."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        handover: Handover,
        sending: Sending | None,
        gate: Gate = lambda _: GateReasons(),
    ) -> None:
        self._gate = gate
        self._spark, self._lake, self._handover = spark, lake, handover
        self._timing = sending.timing if sending is not None else Timing()
        self._halted: Halted = sending.halted if sending is not None else lambda cluster: None
        self._holder = holder_name()
        self._length = timedelta(seconds=self._timing.lease_s)
        self._of: dict[str, dict[str, Any]] = {}
        self._own: set[str] = set()
        self._confirmations: list[Callable[[], None]] = []
        self._read_at: tuple[object, ...] = ()
        self._halts: dict[str, Halt] = {}
        self.without_splits: Mapping[str, str] = {}
        self.out: set[str] = set()
        self.writes: list[Write] = []
        self.reported: set[str] = set()
        self.sent: set[str] = set()

    def know(self, commands: Sequence[Command]) -> None:
        """Allow outcomes of these commands to be written from now on."""
        self._of |= {
            command["command_id"]: {"cluster": command["cluster"], "cycle_at": command["cycle_at"]}
            for command in commands
        }

    def know_one(self, command_id: str, cluster: str, cycle_at: datetime) -> None:
        """Allow an outcome of another cycle's command, which a report may bring."""
        self._of.setdefault(command_id, {"cluster": cluster, "cycle_at": cycle_at})

    def cluster_of(self, command_id: str) -> str | None:
        """Return the cluster of the command; None if its outcome cannot be recorded."""
        known = self._of.get(command_id)
        return None if known is None else str(known["cluster"])

    def confirm_later(self, confirm: Callable[[], None]) -> None:
        """Register a call for when all reported outcomes are recorded."""
        self._confirmations.append(confirm)

    def confirm(self) -> None:
        """Run the queued confirmations; call once all outcomes are stored."""
        for confirm in self._confirmations:
            confirm()
        self._confirmations.clear()

    def take(self, clusters: Sequence[str]) -> tuple[dict[str, HeldLease], dict[str, str]]:
        """Return the clusters whose lease is ours, and why the others' are not; wait for a lease to end, once.

        Leases that are ours are renewed while another one is waited for.
        """
        leases: dict[str, HeldLease] = {}
        others: dict[str, _SeenLease] = {}
        until: float | None = None
        while True:
            asked_at = elapsed()
            still = [seen.lease for seen in others.values() if seen.stood_still(asked_at)]
            now = take_leases(self._spark, self._lake, clusters, self._holder, self._length, stood_still=still)
            seen_at = elapsed()
            held = {cluster: lease for cluster, lease in now.items() if lease.holder == self._holder}
            taken_over = {lease.cluster for lease in still} & held.keys()
            leases = {c: _held(lease, asked_at, leases.get(c), c in taken_over) for c, lease in held.items()}
            before, others = others, {c: _SeenLease(lease, seen_at) for c, lease in now.items() if c not in held}
            others |= {c: seen for c, seen in before.items() if c in others and seen.lease.step == now[c].step}
            # Counted from the first look, which may have taken long itself; a lease that stood still is requested once
            # more.
            until = until or seen_at + self._timing.lease_s + MORE_WAITING_S
            if not others or (seen_at > until and not any(seen.stood_still(seen_at) for seen in others.values())):
                return leases, {c: _taken(seen.lease) for c, seen in others.items()}
            log.info("waiting for the lease of %s", "; ".join(_taken(seen.lease) for seen in others.values()))
            time.sleep(min(2.0, self._timing.look_s))

    def own(self, writes: Sequence[Write]) -> None:
        """Note that rows of `commands` in these writes belong to this try."""
        self._own |= {write.write_id for write in writes}
        self.writes += writes

    def as_they_stand(self, batch: ClusterCommands) -> ClusterCommands:
        """Return the batch without commands that have an outcome, and with the ids that another try recorded."""
        ids = [command["command_id"] for command in batch.commands]
        clusters = [batch.cycle.cluster]
        seen = on_record(self._spark, self._lake, "outcomes", clusters, ids, ("command_id", "outcome"))
        final = {row["command_id"] for row in seen if row["outcome"] not in OPEN}
        put = on_record(self._spark, self._lake, "commands", clusters, ids, ("command_id", "write_id"))
        others = frozenset(row["command_id"] for row in put if row["write_id"] not in self._own)
        self.sent |= {row["command_id"] for row in seen if row["outcome"] in SENT}
        left = [command for command in batch.commands if command["command_id"] not in final]
        return replace(batch, commands=left, tried=others - final)

    def renewed(self, clusters: Sequence[str]) -> frozenset[str]:
        """Renew the leases; return the clusters whose lease is still ours."""
        steps = renew_leases(self._spark, self._lake, clusters, self._holder, self._length)
        return frozenset(cluster for cluster, lease in steps.items() if lease.holder == self._holder)

    def give_back(self, clusters: Sequence[str]) -> None:
        """End our leases of these clusters, so that the next publisher need not wait."""
        if clusters:
            give_back(self._spark, self._lake, clusters, self._holder)

    def halts(self, clusters: Sequence[str]) -> Mapping[str, Halt]:
        """Return the clusters whose plan may not be sent now, each with the reason in words.

        The last read is always the list of the newest versions of the gate's tables: while it changes, the gate is
        asked again. Clusters whose plan may be sent without its splits are in `without_splits` from then on. The age of
        a command is checked by its executor.
        """
        if not clusters:
            return {}
        while (versions := (*clusters, *(newest_version(self._lake.path(name)) for name in _GATING))) != self._read_at:
            reasons = self._gate(clusters)
            self.without_splits = reasons.without_splits
            self._halts = {cluster: Halt(why) for cluster, why in reasons.withheld.items()}
            for cluster, lease in leases(self._lake, clusters).items():
                if lease.holder != self._holder:
                    self._halts[cluster] = Halt(f"another publisher has taken over {cluster}", is_lost=True)
            self._read_at = versions
        outside = {cluster: Halt(why) for cluster in clusters if (why := self._halted(cluster)) is not None}
        return {**outside, **self._halts}

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Append outcomes to the table in one write; from then on they count as recorded."""
        if not outcomes:
            return
        rows = [{**self._of[outcome.command_id], **asdict(outcome)} for outcome in outcomes]
        frame = self._spark.createDataFrame(rows, TABLES["outcomes"].body_type())
        appended = self._lake.append(self._spark, {"outcomes": frame}, handover=self._handover, task="publish")
        self.writes += appended
        self.reported |= {outcome.command_id for outcome in outcomes}
        self.sent |= {outcome.command_id for outcome in outcomes if outcome.outcome in SENT}


def send_all(
    records: OutcomeRecorder, batches: Sequence[ClusterCommands], sending: Sending
) -> dict[str, DispatchResult]:
    """Execute the batches of all clusters, side by side; cluster -> why its batch was not (wholly) executed.

    The gate is checked once the leases are taken: earlier answers may have changed during the wait for them.
    """
    if not batches:
        return {}
    by_cluster = {batch.cycle.cluster: batch for batch in batches}
    leases, refused = records.take(sorted(by_cluster))
    try:
        # The previous holder of a lease may have recorded more than was known before.
        by_cluster |= {cluster: records.as_they_stand(by_cluster[cluster]) for cluster in leases}
        closed = {c: DispatchResult(halt.reason, halt.is_lost) for c, halt in records.halts(sorted(leases)).items()}
        open_to = {cluster: lease for cluster, lease in leases.items() if cluster not in closed}
        works, unreachable = _works(by_cluster, open_to, records, sending)
        since = {cluster: held.asked_at for cluster, held in leases.items()}
        done = closed | unreachable | (conduct(works, records, sending.timing, since) if works else {})
        records.confirm()
        unsent = [
            outcome for cluster, result in done.items() for outcome in _unsent(by_cluster[cluster], result, records)
        ]
        if unsent:
            records.write(unsent)
    finally:
        records.give_back(sorted(leases))
    return {**done, **{cluster: DispatchResult(reason, is_lost=True) for cluster, reason in refused.items()}}


def _works(
    batches: Mapping[str, ClusterCommands], leases: Mapping[str, HeldLease], records: OutcomeRecorder, sending: Sending
) -> tuple[dict[str, Work], dict[str, DispatchResult]]:
    """Return the work of each cluster's thread, and why some clusters have none. The main thread reads the secrets."""
    works: dict[str, Work] = {}
    unreachable: dict[str, DispatchResult] = {}
    for cluster, lease in sorted(leases.items()):
        batch = batches[cluster]
        try:
            if batch.cycle.queues is not None:
                works[cluster] = _queue_work(batch, records, sending.signature(batch.cycle))
            else:
                works[cluster] = _work(batch, lease.lease, sending, sending.reach(batch.cycle))
        except EvenkeelError as error:
            unreachable[cluster] = DispatchResult(str(error))
    return works, unreachable


def _queue_work(batch: ClusterCommands, records: OutcomeRecorder, signature: Signature) -> Work:
    sink = sink_of(batch.cycle, signature)
    wait_s = settings_in(batch.cycle.settings).evenkeelReportWaitSeconds

    def work(stop: LeaseGuard, report: ReportOutcome) -> str | None:
        stop.ask()
        return send_by_queue(sink, for_queue(batch, stop, report), records, wait_s, stop, report)

    return work


def _work(batch: ClusterCommands, lease: Lease, sending: Sending, client: AdminClient) -> Work:
    # Imported late: a dry run needs no HTTP client, and loading it takes a tenth of a second.
    from evenkeel.steering.broker_switches import hands_off
    from evenkeel.steering.command_executor import CommandExecutor, Patience

    def work(stop: LeaseGuard, report: ReportOutcome) -> str | None:
        try:
            objections = hands_off(client)
            if objections:
                return "; ".join(objections)
            settings = settings_in(batch.cycle.settings)
            patience = Patience(settings.evenkeelOutcomeWaitSeconds, sending.timing.longest_request_s)
            steering = CommandExecutor(client, patience=patience)
            left = _not_done_yet(batch, steering, lease, sending.timing, stop, report)
            per_second, in_flight = settings.evenkeelCommandsPerSecond, settings.evenkeelCommandsInFlight
            sink = PulsarAdmin(steering, per_second=per_second, in_flight=in_flight)
            sink.send(left, stop=stop, ask=stop.ask, report=report, leave_out=_left_out(batch, stop))
            return stop()
        finally:
            client.close()

    return work


def for_queue(batch: ClusterCommands, guard: LeaseGuard, report: ReportOutcome) -> list[Command]:
    """Return the commands that go onto the queue; report those that are left out.

    A command that an earlier try recorded is not reported: it may be on the queue and be executed.
    """
    leave_out, going = _left_out(batch, guard), []
    for command in batch.commands:
        why = leave_out(command)
        if why is None:
            going.append(command)
        elif command["command_id"] not in batch.tried:
            report(not_sent(command["command_id"], datetime.now(UTC), why))
    return going


def _left_out(batch: ClusterCommands, guard: LeaseGuard) -> Callable[[Command], str | None]:
    """Return the reason why a command of the batch is left out while the others go, as far as the guard knows now."""
    return lambda command: guard.without_splits if command["command_id"] in batch.on_splits else None


def _not_done_yet(
    batch: ClusterCommands,
    steering: CommandExecutor,
    lease: Lease,
    timing: Timing,
    stop: LeaseGuard,
    report: ReportOutcome,
) -> list[Command]:
    """Return the commands to send: all but those of which an earlier try left a trace on the cluster."""
    if batch.tried and lease.before is not None:
        over = lease.before + timedelta(seconds=timing.longest_request_s)
        # The earlier holder has sent nothing since its lease ended, so no clock makes this longer than one request.
        left_s = min((over - datetime.now(UTC)).total_seconds(), timing.longest_request_s)
        _wait(left_s, stop, f"{batch.cycle.cluster}: requests of an earlier try may still be under way")
    left = []
    for command in batch.commands:
        seen = None
        if command["command_id"] in batch.tried:
            if stop() is not None:
                return []
            seen = steering.look_again(command)
        if seen is None:
            left.append(command)
        else:
            report(seen)
    return left


def _wait(seconds: float, stop: Stop, why: str) -> None:
    """Wait by this machine's own clock, or until there is a reason to stop."""
    if seconds > 0:
        log.info("%s: waiting %.0f s", why, seconds)
    until = elapsed() + seconds
    while (left := until - elapsed()) > 0 and stop() is None:
        time.sleep(min(left, 1.0))


def _unsent(batch: ClusterCommands, done: DispatchResult, records: OutcomeRecorder) -> list[Outcome]:
    """Return the outcomes of commands held back for good, since sending stopped before their turn.

    Commands that another publisher took over, or that may have been sent, are left out.
    """
    if done.stopped is None or done.is_lost or done.error is not None:
        return []
    now = datetime.now(UTC)
    return [
        not_sent(command["command_id"], now, done.stopped)
        for command in batch.commands
        if command["command_id"] not in records.reported | records.out | batch.tried
    ]


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease of ours; `asked_at`: when it was last asked for, by `times.elapsed`. It counts from then."""

    lease: Lease
    asked_at: float


@dataclass(frozen=True, slots=True)
class _SeenLease:
    """A lease of another; `since`: from when on it was seen at this step, by `times.elapsed`."""

    lease: Lease
    since: float

    def stood_still(self, now: float) -> bool:
        return now - self.since >= (self.lease.until - self.lease.at).total_seconds()


def _held(lease: Lease, asked_at: float, before: HeldLease | None, stood_still: bool) -> HeldLease:
    """Return the lease with its earlier holder, whose clock counts for nothing if the lease just stood still."""
    if before is not None:
        lease = replace(lease, before=before.lease.before)
    elif stood_still:
        lease = replace(lease, before=datetime.now(UTC))
    return HeldLease(lease, asked_at)


def _taken(lease: Lease) -> str:
    return f"{lease.cluster} is being steered by {lease.holder} until {lease.until.isoformat()}"


_CONNECTIONS = 16


def reach_with(resolve: Resolver = from_environment) -> Callable[[ClusterCycle], AdminClient]:
    """Return a client for a cluster. In Airflow, call it in the main thread, for `resolve`."""

    def reach(cycle: ClusterCycle) -> AdminClient:
        if cycle.admin is None:
            raise SettingsError(f"no admin address of {cycle.cluster} is configured")
        return AdminClient(
            connection_of(LiveSource(**{**cycle.admin, "admin": tuple(cycle.admin["admin"])}), resolve),
            most_connections=_CONNECTIONS,
        )

    return reach


# Steering of a cluster by its queues: an agent beside the cluster executes commands and reports back.
#
# Commands on the queue may be executed whatever happens to the publisher. So their outcomes come only from reports, or
# from the next cycle. Sending them again does no harm: the agent recognises them. If a publisher has to stop while it
# waits for reports, it withdraws this plan alone from the agents; they take the next one again. A pause lasts with the
# agents exactly as long as on record: every publish that may act sends them the newest recorded control, pause or
# resume.

_LOOK_S = 5.0
_SENT_FOR = timedelta(days=14)
"""Time for which a resume is sent again; no queue keeps a message for longer."""
PUBLISHER = "evenkeel"
"""The sender of a withdrawal."""


def sign_with(resolve: KeyResolver | None = None) -> Callable[[ClusterCycle], Signature]:
    """Return the pipeline's end of a cluster's queues. In Airflow, call it in the main thread, for `resolve`."""

    def signature(cycle: ClusterCycle) -> Signature:
        from evenkeel.steering.queue.signing import TOLERANCE, Signature, keys_from_environment, resolved_keys

        name = (cycle.queues or {}).get("keys") or default_keys(cycle.cluster)
        tolerance = TOLERANCE
        if cycle.settings is not None:  # a cluster that was left out early has none
            tolerance = timedelta(seconds=settings_in(cycle.settings).evenkeelFutureToleranceSeconds)
        return Signature(cycle.cluster, resolved_keys(name, resolve or keys_from_environment), tolerance)

    return signature


def sink_of(cycle: ClusterCycle, signature: Signature) -> SqsSink:
    """The queues of a cycle's cluster."""
    from evenkeel.steering.sqs import SqsSink

    queues = cycle.queues or {}
    return SqsSink(signature, queues["commands"], queues["reports"])


def send_by_queue(
    sink: SqsSink,
    commands: Sequence[Command],
    records: OutcomeRecorder,
    wait_s: float,
    stop: LeaseGuard,
    report: ReportOutcome,
) -> str | None:
    """Put the commands on the queue, and record the outcomes reported within `wait_s` seconds.

    A stop withdraws the plan from the agents, unless another publisher continues it.
    """
    reason = stop()
    if reason is not None:
        return reason
    # From this line on the commands may be out, whatever happens to this process.
    records.out.update(command["command_id"] for command in commands)
    unqueued = {unsent.letter.dedup_id: unsent.reason for unsent in sink.send(commands) if not unsent.possible}
    now = datetime.now(UTC)
    for command_id, why in unqueued.items():
        report(not_sent(command_id, now, why))
    wanted = {command["command_id"] for command in commands} - unqueued.keys()
    until = time.monotonic() + wait_s
    while wanted and time.monotonic() < until:
        reason = stop()
        if reason is not None:
            if not stop.is_lost:
                _withdraw(sink, commands, reason)
            return reason
        taken = sink.take(wanted, min(until, time.monotonic() + _LOOK_S))
        wanted -= _report(sink.cluster, taken, records, report)
        records.confirm_later(lambda taken=taken: sink.confirm(taken))  # type: ignore[misc]
    if wanted:
        log.info("%d commands are not reported yet; the next cycle sees what became of them", len(wanted))
    return None


def _withdraw(sink: SqsSink, commands: Sequence[Command], reason: str) -> None:
    from evenkeel.steering.queue.messages import WITHDRAW

    for plan_id in sorted({str(command["plan_id"]) for command in commands}):
        sink.control(WITHDRAW, made_at=datetime.now(UTC), by=PUBLISHER, reason=reason, plan_id=plan_id)


def _report(cluster: str, taken: Reports, records: OutcomeRecorder, report: ReportOutcome) -> set[str]:
    """Report the outcomes of known commands, also of other cycles; return the ids of all.

    Clusters of one run share their records. A key of one cluster's queue is valid for that cluster alone.
    """
    for entry in taken.reports:
        if entry.cluster is not None and entry.cycle_at is not None:
            records.know_one(entry.outcome.command_id, entry.cluster, entry.cycle_at)
    outcomes = decisive(taken.outcomes)
    for command_id, outcome in outcomes.items():
        owner = records.cluster_of(command_id)
        if owner == cluster:
            report(outcome)
        elif owner is not None:
            log.error("an agent of %s reports on command %s of %s: not believed", cluster, command_id[:12], owner)
    return set(outcomes)


def announce_controls(
    lake: Lake,
    cycles: Sequence[ClusterCycle],
    sign: Callable[[ClusterCycle], Signature],
    now: datetime,
) -> None:
    """Send the agents of these cycles' clusters the newest pause or resume on record; a failure is only logged.

    All at once: a queue that does not answer takes most of a minute, and holds up no other cluster's.
    """
    by_queue = {cycle.cluster: cycle for cycle in cycles if cycle.queues is not None}
    if not by_queue:
        return
    due: list[tuple[SqsSink, Mapping[str, Any]]] = []
    for cluster, row in last_words(lake, sorted(by_queue)).items():
        if row["kind"] != PAUSE and now - row["at"] > _SENT_FOR:
            continue
        try:
            due.append((sink_of(by_queue[cluster], sign(by_queue[cluster])), row))
        except EvenkeelError as error:
            _log_unsent(row, error)
    with ThreadPoolExecutor(max(1, len(due)), thread_name_prefix="control") as pool:
        list(pool.map(lambda control: _send_control(*control), due))


def _send_control(sink: SqsSink, row: Mapping[str, Any]) -> None:
    try:
        sink.control(row["kind"], made_at=row["at"], by=row["by"], reason=row["reason"] or "")
    except EvenkeelError as error:
        _log_unsent(row, error)


def _log_unsent(row: Mapping[str, Any], error: EvenkeelError) -> None:
    log.warning("%s: the %s could not be sent to its agents: %s", row["cluster"], row["kind"], error)
