"""Steering of a cluster by its queues: an agent beside the cluster executes commands and reports back.

Commands on the queue may be executed whatever happens to the publisher. So their outcomes come only from reports, or
from the next cycle. Sending them again does no harm: the agent recognises them. If a publisher has to stop while it
waits for reports, it withdraws this plan alone from the agents; they take the next one again. A pause lasts with the
agents exactly as long as on record: every publish that may act sends them the newest recorded control, pause or resume.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from evenkeel.errors import EvenkeelError
from evenkeel.handover import ClusterCycle
from evenkeel.lake.controls import PAUSE, last_words
from evenkeel.lake.store import Lake
from evenkeel.settings import settings_in
from evenkeel.settings.names import default_keys
from evenkeel.steering.outcome import ReportOutcome, decisive, not_sent

if TYPE_CHECKING:
    from evenkeel.steering.dispatcher import LeaseGuard
    from evenkeel.steering.queue.signing import KeyResolver, Signature
    from evenkeel.steering.sqs import Reports, SqsSink


log = logging.getLogger(__name__)
Row = Mapping[str, Any]
_LOOK_S = 5.0
_SENT_FOR = timedelta(days=14)
"""Time for which a resume is sent again; no queue keeps a message for longer."""
PUBLISHER = "evenkeel"
"""The sender of a withdrawal."""


class ReportStore(Protocol):
    """The record of sent commands and reported outcomes, as far as a queue needs it.

    `out`: ids of commands that may have been sent; ids are added before a command is queued.
    """

    out: set[str]

    def know_one(self, command_id: str, cluster: str, cycle_at: datetime) -> None:
        """Note where an outcome of the command belongs."""

    def cluster_of(self, command_id: str) -> str | None:
        """Return the cluster of the command; None if its outcome cannot be recorded."""

    def confirm_later(self, confirm: Callable[[], None]) -> None:
        """Take a call to be made once all reported outcomes are stored."""


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
    commands: Sequence[Mapping[str, Any]],
    records: ReportStore,
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
    sent = sink.send(commands)
    now = datetime.now(UTC)
    for entry in sent.unqueued:
        if not entry.possible:
            report(not_sent(entry.command_id, now, entry.reason))
    wanted = set(sent.queued) | {entry.command_id for entry in sent.unqueued if entry.possible}
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


def _withdraw(sink: SqsSink, commands: Sequence[Mapping[str, Any]], reason: str) -> None:
    from evenkeel.steering.queue.messages import WITHDRAW

    for plan_id in sorted({str(command["plan_id"]) for command in commands}):
        sink.control(WITHDRAW, made_at=datetime.now(UTC), by=PUBLISHER, reason=reason, plan_id=plan_id)


def _report(cluster: str, taken: Reports, records: ReportStore, report: ReportOutcome) -> set[str]:
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
    due: list[tuple[SqsSink, Row]] = []
    for cluster, row in last_words(lake, sorted(by_queue)).items():
        if row["kind"] != PAUSE and now - row["at"] > _SENT_FOR:
            continue
        try:
            due.append((sink_of(by_queue[cluster], sign(by_queue[cluster])), row))
        except EvenkeelError as error:
            _log_unsent(row, error)
    with ThreadPoolExecutor(max(1, len(due)), thread_name_prefix="control") as pool:
        list(pool.map(lambda control: _send_control(*control), due))


def _send_control(sink: SqsSink, row: Row) -> None:
    try:
        sink.control(row["kind"], made_at=row["at"], by=row["by"], reason=row["reason"] or "")
    except EvenkeelError as error:
        _log_unsent(row, error)


def _log_unsent(row: Row, error: EvenkeelError) -> None:
    log.warning("%s: the %s could not be sent to its agents: %s", row["cluster"], row["kind"], error)
