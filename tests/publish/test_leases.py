"""Waiting for leases: what is ours is kept meanwhile, and another's is taken only where it stood still."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.lake.controls import Lease
from evenkeel.lake.store import Lake
from evenkeel.publish import dispatch
from evenkeel.publish.dispatch import MORE_WAITING_S, ClusterCommands, OutcomeRecorder, Sending
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.steering import broker_switches
from evenkeel.steering.command_executor import CommandExecutor
from evenkeel.steering.dispatcher import LeaseGuard, Timing
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.sqs import SqsSink
from evenkeel.times import elapsed
from tests.steering.commands import unload
from tests.steering.queue.examples import LAB

RIVAL = "rival"
TIMING = Timing()


class Clock:
    """Takes the place of `time` and `elapsed` where leases are waited for."""

    def __init__(self) -> None:
        self.now = 1000.0

    def elapsed(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class LeaseTable:
    """Leases in memory. `asked`: when each was taken or renewed. A rival may renew its own while others look, and a
    look may take its time (`look_s`)."""

    def __init__(self, clock: Clock, *, rival_renews: bool, look_s: float = 0.1) -> None:
        now = datetime.now(UTC)
        self.clock, self.rival_renews, self.look_s = clock, rival_renews, look_s
        self.rows = {"b": Lease("b", RIVAL, 7, now, now + timedelta(seconds=TIMING.lease_s))}
        self.asked: dict[str, list[float]] = {}

    def take(
        self,
        _spark: Any,
        _lake: Any,
        clusters: Sequence[str],
        holder: str,
        length: timedelta,
        *,
        stood_still: Iterable[Lease] = (),
    ) -> dict[str, Lease]:
        now = datetime.now(UTC)
        if self.rival_renews:
            self.rows["b"] = Lease("b", RIVAL, 7, now, now + timedelta(seconds=TIMING.lease_s))
        still = {lease.cluster: lease.step for lease in stood_still}
        for cluster in clusters:
            head = self.rows.get(cluster)
            if head is None or head.holder == holder or still.get(cluster) == head.step:
                token = 1 if head is None else head.token + (head.holder != holder)
                self.rows[cluster] = Lease(cluster, holder, token, now, now + length)
                self.asked.setdefault(cluster, []).append(self.clock.now)
        self.clock.sleep(self.look_s)
        return {cluster: self.rows[cluster] for cluster in clusters}


def taken(table: LeaseTable, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, dispatch.HeldLease], dict[str, str]]:
    monkeypatch.setattr(dispatch, "take_leases", table.take)
    monkeypatch.setattr(dispatch, "time", table.clock)
    monkeypatch.setattr(dispatch, "elapsed", table.clock.elapsed)
    sending = Sending(reach=lambda cycle: pytest.fail("nothing is reached here"), timing=TIMING)
    return OutcomeRecorder(None, Lake("/"), None, sending).take(["a", "b"])  # type: ignore[arg-type]


def test_a_lease_that_is_ours_is_renewed_while_another_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival that sees it stand still for as long as it lasts would take it, and both would send."""
    clock = Clock()
    table = LeaseTable(clock, rival_renews=True)
    found, refused = taken(table, monkeypatch)
    assert (set(found), set(refused)) == ({"a"}, {"b"})
    assert clock.now - 1000.0 > TIMING.lease_s, "it was waited for"
    assert max(after - before for before, after in pairwise(table.asked["a"])) < TIMING.lease_s / 2
    assert found["a"].asked_at == table.asked["a"][-1], "it counts from the last time that it was asked for"


@pytest.mark.parametrize("look_s", [5.0, 10.0, 20.0, 100.0])
def test_a_slow_lake_keeps_nobody_from_the_lease_of_a_dead_publisher(
    monkeypatch: pytest.MonkeyPatch, look_s: float
) -> None:
    found, refused = taken(LeaseTable(Clock(), rival_renews=False, look_s=look_s), monkeypatch)
    assert ("b" in found, refused) == (True, {})


@pytest.mark.parametrize("look_s", [5.0, 10.0, 20.0, 100.0])
def test_a_slow_lake_keeps_nobody_waiting_for_ever(monkeypatch: pytest.MonkeyPatch, look_s: float) -> None:
    clock = Clock()
    _, refused = taken(LeaseTable(clock, rival_renews=True, look_s=look_s), monkeypatch)
    assert set(refused) == {"b"}
    assert clock.now - 1000.0 <= TIMING.lease_s + MORE_WAITING_S + 3 * look_s


def test_a_lease_of_another_is_taken_once_it_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, since = Clock(), datetime.now(UTC)
    found, refused = taken(LeaseTable(clock, rival_renews=False), monkeypatch)
    assert (set(found), refused) == ({"a", "b"}, {})
    assert TIMING.lease_s <= clock.now - 1000.0 < TIMING.lease_s + MORE_WAITING_S
    before = found["b"].lease.before
    assert before is not None, "requests of the holder before may still be under way"
    assert before >= since, "by our own clock: that of the holder before may be wrong"


@pytest.mark.parametrize("queues", [None, {"commands": "http://q/lab.fifo", "reports": "http://q/lab-reports.fifo"}])
def test_a_publishers_last_question_is_a_read_of_the_tables(
    monkeypatch: pytest.MonkeyPatch, queues: dict[str, str] | None
) -> None:
    """Nothing was known against the plan when its cluster's thread began."""

    def carried_out(_: Any, command: Any, before_request: Callable[[], None]) -> Outcome:
        before_request()
        return pytest.fail("it was sent")

    now, guard = datetime.now(UTC), LeaseGuard("a", TIMING, elapsed())
    monkeypatch.setattr(guard, "ask", lambda: guard.halt("jo rejected the plan") or guard.reason)
    monkeypatch.setattr(broker_switches, "hands_off", lambda _client: ())
    monkeypatch.setattr(CommandExecutor, "carry_out", carried_out)
    monkeypatch.setattr(SqsSink, "send", lambda *_: pytest.fail("it was sent"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    cycle = ClusterCycle("a", now.isoformat(), Snapshot("", now.isoformat()), {}, queues=queues)
    batch = ClusterCommands(cycle, [unload("t/n/0x00000000_0xffffffff", "b1:8080", "b2:8080")])
    client = AdminClient(AdminConnection(("http://127.0.0.1:1",)))
    sending = Sending(reach=lambda cycle: client, signature=lambda cycle: LAB, timing=TIMING)
    lease = dispatch.HeldLease(Lease("a", "us", 8, now, now + timedelta(seconds=30)), elapsed())
    records = OutcomeRecorder(None, Lake("/"), None, sending)  # type: ignore[arg-type]
    works, unreachable = dispatch._works({"a": batch}, {"a": lease}, records, sending)
    assert unreachable == {}
    assert works["a"](guard, lambda outcome: pytest.fail("it is reported")) == "jo rejected the plan"


@pytest.mark.parametrize("jump", [timedelta(hours=-3), timedelta(hours=3)], ids=["back", "ahead"])
@pytest.mark.parametrize("skew", [timedelta(minutes=-9), timedelta(0), timedelta(minutes=9)], ids=str)
def test_a_clock_that_jumps_makes_nobody_wait_longer_than_one_request(
    monkeypatch: pytest.MonkeyPatch, jump: timedelta, skew: timedelta
) -> None:
    """The clock jumps while requests of an earlier try are waited out; the earlier holder's clock was another one."""
    clock, asked = Clock(), []

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + (jump if clock.now > 1000.0 else timedelta(0))

    class Cluster:
        def look_again(self, command: Any) -> None:
            asked.append(command["command_id"])

    monkeypatch.setattr(dispatch, "time", clock)
    monkeypatch.setattr(dispatch, "elapsed", clock.elapsed)
    monkeypatch.setattr(dispatch, "datetime", Jumping)
    now = datetime.now(UTC)
    lease = Lease("a", "us", 8, now, now + timedelta(seconds=30), before=now + skew)
    cycle = ClusterCycle("a", now.isoformat(), Snapshot("", now.isoformat()), {})
    batch = ClusterCommands(cycle, [{"command_id": "c1"}], frozenset({"c1"}))
    guard = LeaseGuard("a", TIMING, elapsed())
    left = dispatch._not_done_yet(batch, Cluster(), lease, TIMING, guard, lambda _: None)  # type: ignore[arg-type]
    assert [one["command_id"] for one in left] == asked == ["c1"]
    assert clock.now - 1000.0 <= TIMING.longest_request_s + 1
    if skew >= timedelta(0):
        short = 0.001 if skew else 1  # without skew the time that this test takes is no part of the wait
        assert clock.now - 1000.0 >= TIMING.longest_request_s - short, "a request may still be under way"
