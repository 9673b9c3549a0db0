"""Sending a cluster's commands by its queue: an agent beside the cluster carries them out and reports back.

Commands that are on the queue may be carried out whatever becomes of the publisher, so nothing else is said of them
than what is reported, or what the next cycle sees. Sending them again does no harm: the agent knows them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from evenkeel.steering.outcome import Stop, Told, not_sent, standing

if TYPE_CHECKING:
    from evenkeel.steering.sqs import Reports, SqsSink

log = logging.getLogger(__name__)
_LOOK_S = 5.0


class ReportStore(Protocol):
    """The record of what was sent and reported, as far as a queue needs it."""

    @property
    def out(self) -> set[str]:
        """Ids of commands that may have gone out; added to before they are put on the queue."""
        ...

    def know_one(self, command_id: str, cluster: str, cycle_at: datetime) -> None:
        """Notes where an outcome of the command belongs."""
        ...

    def knows(self, command_id: str) -> bool:
        """Whether an outcome of the command can be put on record."""
        ...

    def confirm_later(self, confirm: Callable[[], None]) -> None:
        """Takes a call to be made once all reported outcomes are stored."""
        ...


def send_by_queue(
    sink: SqsSink, commands: Sequence[Mapping[str, Any]], records: ReportStore, wait_s: float, stop: Stop, told: Told
) -> str | None:
    """Puts the commands on the queue and tells what is reported within `wait_s`; a pause is handed on to the agents."""
    reason = stop()
    if reason is not None:
        return reason
    # From here on they may be out, whatever happens to this process.
    records.out.update(command["command_id"] for command in commands)
    sent = sink.send(commands)
    now = datetime.now(UTC)
    for one in sent.unqueued:
        if not one.possible:
            told(not_sent(one.command_id, now, one.reason))
    wanted = set(sent.queued) | {one.command_id for one in sent.unqueued if one.possible}
    until = time.monotonic() + wait_s
    while wanted and time.monotonic() < until:
        reason = stop()
        if reason is not None:
            sink.control("pause", made_at=datetime.now(UTC), by="evenkeel", reason=reason)
            return reason
        taken = sink.take(wanted, min(until, time.monotonic() + _LOOK_S))
        wanted -= _tell(taken, records, told)
        records.confirm_later(lambda taken=taken: sink.confirm(taken))  # type: ignore[misc]
    if wanted:
        log.info("%d commands are not reported yet; the next cycle sees what became of them", len(wanted))
    return None


def _tell(taken: Reports, records: ReportStore, told: Told) -> set[str]:
    """Tells every report of which it is known where it belongs, those of other cycles too; gives back all their ids."""
    for report in taken.reports:
        if report.cluster is not None and report.cycle_at is not None:
            records.know_one(report.outcome.command_id, report.cluster, report.cycle_at)
    found = standing(taken.outcomes)
    for command_id, outcome in found.items():
        if records.knows(command_id):
            told(outcome)
    return set(found)
