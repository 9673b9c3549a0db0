"""What changes while an agent looks at the cluster is asked right before the request leaves."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.processor import ANSWER_COUNTS_SECONDS, Finished, Gone, Later, Processor, Step
from evenkeel.steering.agent.setup import AgentSettings, PauseSwitch
from evenkeel.steering.agent.work_queue import WorkQueue
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.pulsar_admin import Pace
from evenkeel.steering.queue.fifo import QueueUnreachable
from evenkeel.steering.queue.messages import Control, read_report
from tests.steering.queue.examples import LAB, command

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
COMMAND = command(cycle_at=START, expires_at=START + timedelta(minutes=20))


class SlowDisk(Ledger):
    """A ledger whose next note of a request takes its time."""

    stall: Callable[[], None] = staticmethod(lambda: None)

    def sending(self, command_id: str, now: datetime) -> None:
        super().sending(command_id, now)
        self.stall()
        self.stall = lambda: None


@dataclass
class Agent:
    """One agent with a command; `look` is what happens while its cluster is looked at, which takes half a minute."""

    ledger: SlowDisk
    look: Callable[[], None] = lambda: None
    receipts: str = "kept"
    seconds: float = 0.0
    sent: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.work_queue = WorkQueue(lambda: self.seconds)
        self.processor = Processor(
            AgentSettings(LAB, "", "", Path(), "agent-1"),
            self.ledger,
            self,
            self.work_queue,
            self,
            PauseSwitch(None, self.ledger.paused, self.ledger.withdrawn),
            Pace(0, clock=lambda: self.seconds),
            self.now,
            lambda: self.seconds,
        )
        self.ledger.receive(COMMAND, self.now())
        self.work_queue.put(COMMAND, "m1", "r1")

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def renew(self, receipts: list[str], seconds: int) -> set[str]:
        if self.receipts == "silent":
            raise QueueUnreachable("no answer")
        return set(receipts) if self.receipts == "lost" else set()

    def carry_out(self, command: Mapping[str, Any], before_request: Callable[[], None]) -> Outcome:
        self.seconds += 33.0
        self.look()
        before_request()
        self.sent.append(self.seconds)
        return Outcome(command["command_id"], "done", self.now(), "")

    def look_again(self, command: Mapping[str, Any]) -> Outcome | None:
        return pytest.fail("no request is under way")

    def step(self) -> Step:
        in_flight = self.work_queue.take(0)
        assert in_flight is not None
        step = self.processor.go_on(in_flight)
        self.work_queue.back(in_flight, 0)
        return step

    def state(self) -> str:
        return self.ledger.entry(COMMAND["command_id"]).state


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    ledger = SlowDisk(tmp_path / "ledger.db", "lab", "agent-1")
    yield Agent(ledger)
    ledger.close()


def paused(agent: Agent) -> None:
    agent.ledger.control(Control("pause", "lab", agent.now(), "olga", "the disk of b2 is full"))


def withdrawn(agent: Agent) -> None:
    agent.ledger.control(Control("withdraw", "lab", agent.now(), "evenkeel", "rejected", COMMAND["plan_id"]))


def newer_plan(agent: Agent) -> None:
    agent.ledger.receive(command(cycle_at=START + timedelta(minutes=1), plan_id="plan-2"), agent.now())


def expired(agent: Agent) -> None:
    agent.seconds += 1200


@pytest.mark.parametrize(
    ("what", "outcome", "words"),
    [
        (paused, "withheld", "paused by olga"),
        (withdrawn, "withheld", "withdrawn by evenkeel"),
        (newer_plan, "stale", "superseded"),
        (expired, "stale", "expired at"),
    ],
)
def test_what_comes_while_the_cluster_is_looked_at_holds_the_request(
    agent: Agent, what: Callable[[Agent], None], outcome: str, words: str
) -> None:
    agent.look = lambda: what(agent)
    assert agent.step() == Finished()
    assert agent.sent == []
    (owed,) = agent.ledger.owed(10)
    told = read_report(owed.body).outcome
    assert (told.outcome, told.detail.startswith(words)) == (outcome, True)


@pytest.mark.parametrize(("mood", "step"), [("lost", Gone()), ("silent", Later(2.0))])
def test_a_hold_that_was_lost_or_cannot_be_asked_for_holds_the_request(agent: Agent, mood: str, step: Step) -> None:
    def changes() -> None:
        agent.receipts = mood

    agent.look = changes
    assert agent.step() == step
    assert (agent.sent, agent.state()) == ([], "received")


def test_a_hold_that_another_thread_found_lost_holds_the_request(agent: Agent) -> None:
    agent.look = lambda: agent.work_queue.lose(["r1"])
    assert agent.step() == Gone()
    assert agent.sent == []


def test_a_successor_waits_from_when_the_request_left_and_not_from_the_look(agent: Agent) -> None:
    noted: list[datetime | None] = []
    agent.ledger.stall = lambda: noted.append(agent.ledger.entry(COMMAND["command_id"]).sending_at)
    assert agent.step() == Finished()
    assert (noted, agent.sent) == ([START + timedelta(seconds=33)], [33.0])


def test_after_a_stop_between_question_and_request_the_questions_are_asked_again(agent: Agent) -> None:
    def stalls() -> None:
        agent.seconds += ANSWER_COUNTS_SECONDS + 0.1
        paused(agent)

    agent.ledger.stall = stalls
    assert agent.step() == Later(0.0)
    assert (agent.sent, agent.state()) == ([], "received")
    assert agent.step() == Finished()
    assert agent.sent == []
    assert read_report(agent.ledger.owed(10)[0].body).outcome.outcome == "withheld"
