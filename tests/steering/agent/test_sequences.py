"""Any sequence of deliveries, crashes, pauses and lost leases: at most one effect, one outcome for ever, nothing lost.

The carrier of this test has no fence: it sends whenever it is asked, so that the ledger and the waiting alone have to
hold. A request that was under way when the agent died takes its effect at any moment of its longest time.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.processor import Finished, Gone, Later, Processor
from evenkeel.steering.agent.setup import AgentSettings, PauseSwitch
from evenkeel.steering.agent.work_queue import WorkQueue
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.pulsar_admin import Pace
from evenkeel.steering.queue.fifo import QueueUnreachable
from tests.steering.queue.examples import LAB, command

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
LONGEST = 65.0
SETTINGS = AgentSettings(LAB, "", "", Path(), "agent-1")
CYCLES = (START - timedelta(minutes=5), START)
COMMANDS = [
    command(step, namespace=namespace, place=step % 2, cycle_at=cycle, plan_id=f"plan-{number}",
            expires_at=cycle + timedelta(minutes=20))
    for number, cycle in enumerate(CYCLES)
    for step, namespace in ((1, "acme/ns0"), (2, "acme/ns1"))
]  # fmt: skip
IN_MEMORY = Path("/dev/shm")  # many small ledgers, each of them synced at every step
POINTS = ("before request", "request under way", "after effect", "before settle", "after settle", "after release")


class Crash(BaseException):
    """The process is gone."""


class World:
    """What outlives an agent: time, the cluster, and where the next crash is to happen."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.effects: Counter[str] = Counter()
        self.under_way: list[tuple[float, str]] = []
        self.crash_at: str | None = None
        self.lateness = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def elapsed(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.effects.update(who for due, who in self.under_way if due <= self.seconds)
        self.under_way = [(due, who) for due, who in self.under_way if due > self.seconds]

    def pass_point(self, name: str) -> None:
        if self.crash_at == name:
            self.crash_at = None
            raise Crash

    # The carrier

    def carry_out(self, asked: Mapping[str, Any], before_request: Callable[[], None]) -> Outcome:
        before_request()
        self.pass_point("before request")
        if self.crash_at == "request under way":
            self.under_way.append((self.seconds + self.lateness * LONGEST, asked["command_id"]))
            self.pass_point("request under way")
        self.effects[asked["command_id"]] += 1
        self.pass_point("after effect")
        return Outcome(asked["command_id"], "done", self.now(), "")

    def look_again(self, asked: Mapping[str, Any]) -> Outcome | None:
        return Outcome(asked["command_id"], "done", self.now(), "") if self.effects[asked["command_id"]] else None


class CrashingLedger(Ledger):
    """A ledger beside which the process may die."""

    world: World

    def settle(self, outcome: Outcome, now: datetime) -> bool:
        self.world.pass_point("before settle")
        done = super().settle(outcome, now)
        self.world.pass_point("after settle")
        return done

    def release(self, command_id: str) -> None:
        super().release(command_id)
        self.world.pass_point("after release")


class Receipts:
    """A queue that keeps, loses, or does not answer for receipts."""

    def __init__(self) -> None:
        self.mood = "kept"

    def renew(self, receipts: list[str], seconds: int) -> set[str]:
        if self.mood == "silent":
            raise QueueUnreachable("no answer")
        return set(receipts) if self.mood == "lost" else set()


class Sequences(RuleBasedStateMachine):
    """One cluster, one ledger, one agent after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="evenkeel-agent-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        self.world = World()
        self.queue = Receipts()
        self.pause_file = self.folder / "paused"
        self.delivered: set[str] = set()
        self.settled: dict[str, str] = {}
        self.deliveries = 0
        self.start()

    def start(self) -> None:
        self.ledger = CrashingLedger(self.folder / "ledger.db", "lab", "agent-1")
        self.ledger.world = self.world
        self.lanes = WorkQueue(self.world.elapsed)
        pause = PauseSwitch(self.pause_file, self.ledger.paused, self.ledger.withdrawn)
        pace = Pace(1000, clock=self.world.elapsed)
        self.handling = Processor(
            SETTINGS, self.ledger, self.world, self.lanes, self.queue, pause, pace, self.world.now, self.world.elapsed
        )
        for asked in self.ledger.half_way():
            self.lanes.put(asked)

    @rule()
    def crash(self) -> None:
        self.ledger.close()
        self.start()

    @rule(numbers=st.lists(st.integers(0, len(COMMANDS) - 1), min_size=1, max_size=3))
    def deliver(self, numbers: list[int]) -> None:
        for asked in (COMMANDS[number] for number in numbers):
            self.deliveries += 1
            self.ledger.receive(asked, self.world.now())
            self.lanes.put(asked, f"m{self.deliveries}", f"r{self.deliveries}")
            self.delivered.add(asked["command_id"])

    @rule(
        crash_at=st.none() | st.sampled_from(POINTS),
        lateness=st.floats(0, 0.99),
        steps=st.integers(1, 6),
        delivered_again=st.booleans(),
    )
    def work(self, crash_at: str | None, lateness: float, steps: int, delivered_again: bool) -> None:
        """Some steps of the agent; where it dies, it is started again, and the queue may give it all anew."""
        self.world.crash_at, self.world.lateness = crash_at, lateness
        for _ in range(steps):
            self.world.advance(0.01)
            try:
                self.step()
            except Crash:
                self.crash()
                if delivered_again:
                    self.deliver_known()

    def deliver_known(self) -> None:
        self.deliver([number for number, asked in enumerate(COMMANDS) if asked["command_id"] in self.delivered])

    def step(self) -> None:
        hand = self.lanes.take(0)
        if hand is None:
            return
        match self.handling.go_on(hand):
            case Later(seconds):
                self.lanes.back(hand, seconds)
            case Gone() | Finished():
                self.lanes.forget(hand)

    @rule(seconds=st.sampled_from([0.5, 20.0, 64.0, 66.0, 600.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(paused=st.sampled_from([False, False, True]))
    def pause(self, paused: bool) -> None:
        self.pause_file.touch() if paused else self.pause_file.unlink(missing_ok=True)

    @rule(mood=st.sampled_from(["kept", "kept", "lost", "silent"]))
    def receipts(self, mood: str) -> None:
        self.queue.mood = mood

    @invariant()
    def at_most_one_effect(self) -> None:
        assert all(count == 1 for count in self.world.effects.values()), self.world.effects

    @invariant()
    def outcomes_are_for_ever_and_true(self) -> None:
        rows = self.ledger._rows("SELECT command_id, outcome FROM commands WHERE outcome IS NOT NULL")
        found = dict(rows)
        assert self.settled.items() <= found.items()
        self.settled = found
        for command_id, outcome in found.items():
            assert (outcome == "done") == (self.world.effects[command_id] == 1)

    def teardown(self) -> None:
        try:
            self.come_to_an_end()
        finally:
            self.ledger.close()
            shutil.rmtree(self.folder)

    def come_to_an_end(self) -> None:
        """However it went: once the trouble is over and all is delivered again, every command has its outcome."""
        self.pause_file.unlink(missing_ok=True)
        self.queue.mood = "kept"
        self.world.crash_at = None
        self.deliver_known()
        for _ in range(200):
            if not self.lanes.open():
                break
            self.step()
            self.time_passes(5.0)
        assert not self.lanes.open()
        self.at_most_one_effect()
        self.outcomes_are_for_ever_and_true()
        assert set(self.settled) == self.delivered
        assert {one.command_id for one in self.ledger.owed(1000)} == self.delivered


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=60, stateful_step_count=20)
