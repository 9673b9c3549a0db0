"""Reports that come over one cluster's queue say nothing of another's commands, whoever signed them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from evenkeel.lake.store import Lake
from evenkeel.publish.dispatch import OutcomeRecorder
from evenkeel.publish.dispatch_sqs import send_by_queue
from evenkeel.steering.dispatcher import LeaseGuard, Timing
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.messages import AgentReport
from evenkeel.steering.sqs import QueuedCommands, Reports

CYCLE = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


class QueueOf:
    """A cluster's two queues, with these reports on the one that agents write to."""

    def __init__(self, cluster: str, *reports: AgentReport) -> None:
        self.cluster, self.reports = cluster, reports

    def send(self, commands: Sequence[Any]) -> QueuedCommands:
        return QueuedCommands(tuple(command["command_id"] for command in commands), ())

    def take(self, wanted: Any, until: float) -> Reports:
        return Reports(self.reports, frozenset())

    def confirm(self, taken: Reports) -> None:
        """Removes nothing."""


def command(command_id: str, cluster: str) -> dict[str, Any]:
    return {"command_id": command_id, "cluster": cluster, "cycle_at": CYCLE, "plan_id": f"plan-{cluster}"}


def done(command_id: str, cluster: str | None) -> AgentReport:
    outcome = Outcome(command_id, "done", CYCLE, "moved")
    return AgentReport(outcome, "agent-1", cluster, None, CYCLE if cluster else None)


def reported(*reports: AgentReport) -> list[tuple[str, str]]:
    """What is put on record of which command and cluster, while east waits for its agents and west does so too."""
    records = OutcomeRecorder(None, Lake("/"), None, None)  # type: ignore[arg-type]
    records.know([command("e1", "east"), command("w1", "west")])
    told: list[Outcome] = []
    guard = LeaseGuard("east", Timing(), float("inf"))
    send_by_queue(QueueOf("east", *reports), [command("e1", "east")], records, 0.2, guard, told.append)  # type: ignore[arg-type]
    return [(one.command_id, records.cluster_of(one.command_id) or "") for one in told]


def test_an_agent_reports_on_its_own_clusters_commands_alone() -> None:
    assert reported(done("e1", "east"), done("w1", "east"), done("w1", None)) == [("e1", "east")]


def test_a_report_on_an_earlier_cycle_of_its_own_is_taken() -> None:
    assert sorted(reported(done("e1", None), done("e0", "east"))) == [("e0", "east"), ("e1", "east")]
