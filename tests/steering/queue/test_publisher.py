"""A publisher that sends by queue: what it tells, what it leaves open, and a pause that reaches the agents."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.publish.dispatch import send_by_queue
from evenkeel.sources.configuration import QueueSource, read_configuration
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.messages import AgentReport, report_body
from evenkeel.steering.queue.signing import FROM_AGENTS, TO_AGENTS, Signature, keys_in
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.acting_cluster import ActingCluster, ClusterExecutor
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import CYCLE, LAB, command, owners
from tests.steering.queue.running import collect, query, quick, run_until_idle, running, waiting

pytestmark = pytest.mark.slow


@dataclass
class Records:
    """What a publisher keeps, without tables."""

    known: set[str] = field(default_factory=set)
    out: set[str] = field(default_factory=set)
    later: list[Callable[[], None]] = field(default_factory=list)

    def know_one(self, command_id: str, cluster: str, cycle_at: datetime) -> None:
        self.known.add(command_id)

    def cluster_of(self, command_id: str) -> str | None:
        return "lab" if command_id in self.known else None

    def confirm_later(self, confirm: Callable[[], None]) -> None:
        self.later.append(confirm)

    def confirm(self) -> None:
        for one in self.later:
            one()


@dataclass
class StopSign:
    """Gives these answers one after the other, the last one for good."""

    answers: list[str | None]
    is_lost: bool = False

    def __call__(self) -> str | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def cluster() -> Iterator[ActingCluster]:
    made = ActingCluster({})
    yield made
    made.close()


def sent(
    queues: Pair, commands: list[Any], records: Any, wait_s: float = 30, stop: Any = None
) -> tuple[str | None, list[Outcome]]:
    told: list[Outcome] = []
    sink = SqsSink(LAB, queues.commands, queues.reports)
    return send_by_queue(sink, commands, records, wait_s, stop or StopSign([None]), told.append), told


def carrier_for(cluster: ActingCluster, commands: list[Any]) -> ClusterExecutor:
    cluster.owners |= owners(commands)
    return ClusterExecutor(cluster.owners.get, cluster.request)


def test_what_the_agent_did_is_told_and_confirmed_once_it_is_on_record(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    commands = [command(n + 1, place=n) for n in range(3)]
    records = Records(known={row["command_id"] for row in commands})
    with running(quick(queues, tmp_path), carrier_for(cluster, commands)):
        reason, told = sent(queues, commands, records)
    assert reason is None
    assert {one.command_id: one.outcome for one in told} == {row["command_id"]: "done" for row in commands}
    assert len(cluster.effects) == 3
    sink = SqsSink(LAB, queues.commands, queues.reports)
    records.confirm()
    assert sink.take([], time.monotonic()).reports == ()


@pytest.mark.exhaustive
def test_a_report_of_another_cycle_is_told_too(queues: Pair, cluster: ActingCluster, tmp_path: Path) -> None:
    earlier, now = command(1), command(2, place=1)
    sent(queues, [earlier], Records(), wait_s=0.0)
    run_until_idle(quick(queues, tmp_path), carrier_for(cluster, [earlier, now]))
    records = Records(known={now["command_id"]})
    with running(quick(queues, tmp_path), carrier_for(cluster, [now])):
        _, told = sent(queues, [now], records)
    assert {one.command_id for one in told} == {earlier["command_id"], now["command_id"]}


def test_commands_on_the_queue_that_nobody_reports_stay_open(queues: Pair) -> None:
    records = Records()
    reason, told = sent(queues, [command()], records, wait_s=0.5)
    assert (reason, told) == (None, [])
    assert records.out == {command()["command_id"]}


def test_what_stops_a_publisher_withdraws_its_plan_from_the_agents_and_no_other(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    records = Records()
    assert sent(queues, [command()], records, stop=StopSign(["paused by jo"])) == ("paused by jo", [])
    assert records.out == set()
    assert sent(queues, [command()], records, stop=StopSign([None, "paused by jo"]))[0] == "paused by jo"
    later = command(9, place=2, plan_id="plan-2")
    sent(queues, [later], records, wait_s=0.0)
    settings = quick(queues, tmp_path)
    run_until_idle(settings, carrier_for(cluster, [command(), later]))  # whichever message comes first
    run_until_idle(settings, carrier_for(cluster, []))
    assert later["command_id"] in cluster.effects
    found = collect(queues, [command()["command_id"], later["command_id"]], 5)
    assert found[later["command_id"]].outcome == "done"
    assert query(settings.ledger, "SELECT plan_id, reason FROM withdrawn") == [("plan-1", "paused by jo")]


def test_a_publisher_whose_lease_went_to_another_withdraws_nothing(queues: Pair) -> None:
    stop = StopSign([None, "another publisher has taken over"], is_lost=True)
    assert sent(queues, [command()], Records(), stop=stop)[0] == "another publisher has taken over"
    assert waiting(queues) == 1, "the command alone"


def test_a_report_that_no_agent_of_the_cluster_signed_is_not_taken(queues: Pair) -> None:
    row = command()
    told = AgentReport(Outcome(row["command_id"], "done", CYCLE, ""), "agent-1", "lab", "plan-1", CYCLE)
    west = replace(told, cluster="west")
    foreign = Signature("lab", keys_in("another-key-of-somebody-who-may-write", "here"))
    bodies = [
        report_body(told),
        foreign.signed(report_body(told), FROM_AGENTS, CYCLE, "1"),
        LAB.signed(report_body(told), TO_AGENTS, CYCLE, "2"),
        Signature("west", LAB.keys).signed(report_body(west), FROM_AGENTS, CYCLE, "3"),
        LAB.signed(report_body(west), FROM_AGENTS, CYCLE, "4"),
    ]
    for number, body in enumerate(bodies):
        queues.client.send_message(
            QueueUrl=queues.reports, MessageBody=body, MessageGroupId=f"g{number}", MessageDeduplicationId=str(number)
        )
    taken = SqsSink(LAB, queues.commands, queues.reports).take([row["command_id"]], time.monotonic() + 2)
    assert taken.reports == ()
    assert len(taken.receipts) == len(bodies)


def test_queues_are_configured_in_pairs(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    pair = 'queue = "http://q/far.fifo"\nreports = "http://q/far-reports.fifo"\n'
    file.write_text(f'[clusters.far]\ns3 = "s3://bucket/far"\n{pair}')
    (source,) = read_configuration(file)
    assert source.queues == QueueSource("http://q/far.fifo", "http://q/far-reports.fifo", "queue_far")


def test_a_pause_by_command_says_where_the_queue_is_missing(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text('[clusters.far]\ns3 = "s3://bucket/far"\n')
    assert main(["pause", "far", "--lake", str(tmp_path / "lake"), "--config", str(file)]) == 2
    assert "names no `queue` for far" in capsys.readouterr().err
