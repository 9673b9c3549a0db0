"""What the queues of several clusters have to do with one another: nothing."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.lake.controls import control_row
from evenkeel.lake.store import Lake
from evenkeel.publish import dispatch
from evenkeel.publish.dispatch import OutcomeRecorder, send_by_queue
from evenkeel.steering.dispatcher import LeaseGuard, Timing
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.fifo import QueueUnreachable, Unsent
from evenkeel.steering.queue.messages import AgentReport
from evenkeel.steering.sqs import Reports

CYCLE = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
AT = CYCLE.isoformat()


class QueueOf:
    """A cluster's two queues, with these reports on the one that agents write to."""

    def __init__(self, cluster: str, *reports: AgentReport) -> None:
        self.cluster, self.reports = cluster, reports

    def send(self, commands: Sequence[Any]) -> list[Unsent]:
        return []

    def take(self, wanted: Any, until: float) -> Reports:
        return Reports(self.reports)

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


def test_a_report_without_the_cycle_of_its_command_makes_none_known() -> None:
    outcome = Outcome("e0", "done", CYCLE, "moved")
    assert reported(done("e1", None), AgentReport(outcome, "agent-1", "east", None, None)) == [("e1", "east")]


def test_a_pause_is_sent_to_the_agents_of_all_clusters_at_once(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """A queue that does not answer holds up no other cluster's."""
    names = [f"c{number}" for number in range(12)]
    meeting, told = Barrier(len(names), timeout=10), list[tuple[str, str]]()

    class Slow:
        def __init__(self, cluster: str) -> None:
            self.cluster = cluster

        def control(self, kind: str, **said: Any) -> None:
            meeting.wait()
            if self.cluster == "c3":
                raise QueueUnreachable("no answer")
            told.append((self.cluster, kind))

    rows = {name: control_row(name, "pause", "olga", None) for name in names}
    monkeypatch.setattr(dispatch, "last_words", lambda lake, clusters: rows)
    monkeypatch.setattr(dispatch, "sink_of", lambda cycle, signature: Slow(cycle.cluster))
    cycles = [ClusterCycle(name, AT, Snapshot("", AT), {}, queues={"commands": "q"}) for name in names]
    dispatch.announce_controls(Lake("/"), cycles, lambda cycle: None, datetime.now(UTC))  # type: ignore
    assert sorted(told) == sorted((name, "pause") for name in names if name != "c3")
    assert "c3: the pause could not be sent to its agents: no answer" in caplog.text


@pytest.mark.parametrize(
    ("kind", "days", "is_sent"), [("resume", 14, True), ("resume", 14.1, False), ("pause", 99, True)]
)
def test_a_resume_is_sent_for_fourteen_days_and_a_pause_always(
    monkeypatch: pytest.MonkeyPatch, kind: str, days: float, is_sent: bool
) -> None:
    told: list[str] = []

    class Queue:
        def control(self, kind: str, **said: Any) -> None:
            told.append(kind)

    row = control_row("c1", kind, "olga", None)
    monkeypatch.setattr(dispatch, "last_words", lambda lake, clusters: {"c1": row})
    monkeypatch.setattr(dispatch, "sink_of", lambda cycle, signature: Queue())
    cycles = [ClusterCycle("c1", AT, Snapshot("", AT), {}, queues={"commands": "q"})]
    now = row["at"] + timedelta(days=days)
    dispatch.announce_controls(Lake("/"), cycles, lambda cycle: None, now)  # type: ignore[arg-type, return-value]
    assert told == [kind] * is_sent
