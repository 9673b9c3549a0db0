"""Agents in threads of the test, and what is left when they are done."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.service import Agent
from evenkeel.steering.agent.setup import AgentSettings, QueueClock
from evenkeel.steering.outcome import Outcome, decisive
from evenkeel.steering.queue.signing import TO_AGENTS
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import LAB


def quick(queues: Pair, folder: Path, name: str = "agent-1", **other: Any) -> AgentSettings:
    """Settings under which a test need not wait long."""
    made = AgentSettings(
        LAB, queues.commands, queues.reports, folder / f"{name}.db", name,
        per_second=100, visibility_s=3, longest_request_s=1.5, poll_s=1,
    )  # fmt: skip
    return replace(made, **other)


@contextmanager
def running(settings: AgentSettings, carrier: Any, clock: QueueClock | None = None) -> Iterator[Agent]:
    """An agent at work; it is stopped at the end, and what it raised is raised here."""
    ledger = Ledger(settings.ledger, settings.cluster, settings.name)
    agent = Agent(settings, carrier, ledger, clock)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            agent.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        thread.join(30)
        ledger.close()
        assert not thread.is_alive()
    if raised:
        raise raised[0]


def run_until_idle(settings: AgentSettings, carrier: Any, clock: QueueClock | None = None) -> None:
    """Runs an agent here until there is nothing to do for it."""
    ledger = Ledger(settings.ledger, settings.cluster, settings.name)
    try:
        Agent(replace(settings, idle_s=settings.idle_s or 0), carrier, ledger, clock).run()
    finally:
        ledger.close()


def collect(queues: Pair, wanted: list[str], seconds: float = 40) -> dict[str, Outcome]:
    """Takes and confirms reports until all wanted are there; the outcome of each that stands."""
    return decisive(reports(queues, wanted, seconds))


def reports(queues: Pair, wanted: list[str], seconds: float = 40) -> list[Outcome]:
    """All that was reported until the wanted ones were."""
    sink = SqsSink(LAB, queues.commands, queues.reports)
    until = time.monotonic() + seconds
    found: list[Outcome] = []
    while True:
        taken = sink.take(wanted, time.monotonic() + 1)
        found += taken.outcomes
        sink.confirm(taken)
        if {one.command_id for one in found} >= set(wanted) or time.monotonic() > until:
            return found


def on_record(ledger: Path) -> dict[str, str | None]:
    """Outcome per command in a ledger."""
    return dict(query(ledger, "SELECT command_id, outcome FROM commands"))


def query(ledger: Path, sql: str) -> list[Any]:
    db = sqlite3.connect(ledger)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def waiting(queues: Pair) -> int:
    """Messages on the command queue, in hand or not."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = queues.client.get_queue_attributes(QueueUrl=queues.commands, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in found.values())


def send_signed(queues: Pair, body: str, group: str = "acme/ns0") -> None:
    """Any body, as the pipeline signs it; the same body once more is a message of its own."""
    number = f"number-{time.monotonic_ns()}"
    send_raw(queues, LAB.signed(body, TO_AGENTS, datetime.now(UTC), number), group, number)


def send_raw(queues: Pair, body: str, group: str = "acme/ns0", dedup: str | None = None) -> None:
    queues.client.send_message(
        QueueUrl=queues.commands,
        MessageBody=body,
        MessageGroupId=group,
        MessageDeduplicationId=dedup or f"raw-{time.monotonic_ns()}",
    )
