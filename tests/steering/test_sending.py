"""How commands go out: order, pace, how many at once, and when they stop."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.steering.admin_request import acquiring_broker
from evenkeel.steering.command_executor import CommandExecutor, Patience
from evenkeel.steering.dispatcher import DispatchResult, Halt, LeaseGuard, Timing, conduct
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.premise import Command
from evenkeel.steering.pulsar_admin import Pace, PulsarAdmin
from evenkeel.times import elapsed
from tests.steering.commands import split, unload
from tests.steering.simulated import Fault, simulated

BUNDLES = [f"acme/ns{n}/0x00000000_0xffffffff" for n in range(6)]
QUICK = Timing(lease_s=0.5, renew_s=0.05, look_s=0.01, write_s=0.02, longest_request_s=0.1)


class Noting:
    """Carries nothing out, and notes what was under way with what."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.order, self.most, self.now = seconds, list[str](), 0, dict[str, str | None]()
        self._lock = threading.Lock()

    def carry_out(self, command: Command, before_request: Callable[[], None]) -> Outcome:
        before_request()
        with self._lock:
            assert command["bundle"] not in self.now
            broker = acquiring_broker(command)
            assert broker is None or {broker, "*"}.isdisjoint(self.now.values()), "it acquires bundles already"
            assert broker != "*" or not any(self.now.values()), "it may be any of those that acquire bundles"
            self.now[command["bundle"]] = broker
            self.most = max(self.most, len(self.now))
            self.order.append(command["command_id"])
        time.sleep(self.seconds)
        with self._lock:
            del self.now[command["bundle"]]
        return Outcome(command["command_id"], "done", datetime.now(UTC), "")


def sent(carrier: Noting, commands: Sequence[dict[str, Any]], **pace: Any) -> list[str]:
    told: list[str] = []
    sink = PulsarAdmin(carrier, **({"per_second": 0.0, "in_flight": 4} | pace))
    sink.send(commands, stop=lambda: None, ask=lambda: None, report=lambda one: told.append(one.command_id))
    return told


def test_all_splits_are_done_before_any_unload_goes_out() -> None:
    carrier = Noting(0.02)
    splits = [split(bundle, "a", 1, step=n) for n, bundle in enumerate(BUNDLES[:3], start=1)]
    unloads = [unload(bundle, "a", step=n) for n, bundle in enumerate(BUNDLES[3:], start=4)]
    told = sent(carrier, [*reversed(unloads), *splits])
    assert set(told) == {one["command_id"] for one in (*splits, *unloads)}
    assert set(carrier.order[:3]) == {one["command_id"] for one in splits}


def test_no_more_are_under_way_than_allowed_and_one_per_bundle() -> None:
    carrier = Noting(0.02)
    sent(carrier, [unload(BUNDLES[n % 3], "a", f"b{n % 3}", step=n) for n in range(9)], in_flight=2)
    assert carrier.most == 2


def test_a_broker_acquires_the_bundles_of_one_command_at_a_time() -> None:
    carrier = Noting(0.02)
    splits = [split(bundle, "abc"[n % 3], 1, step=n, children=n > 3) for n, bundle in enumerate(BUNDLES)]
    unloads = [unload(b, "a", (None, "b", "c", "d")[n % 4], step=10 + n) for n, b in enumerate([*BUNDLES, *BUNDLES])]
    told = sent(carrier, [*splits, *unloads])
    assert sorted(told) == sorted(one["command_id"] for one in (*splits, *unloads))
    assert carrier.most > 1, "those of several brokers go side by side"
    for bundle in BUNDLES:
        steps = [int(one.partition(":")[0]) for one in carrier.order if one.endswith(bundle)]
        assert steps == sorted(steps)


def test_what_is_left_out_is_said_and_the_others_go_on() -> None:
    carrier, told = Noting(), list[Outcome]()
    commands = [split(BUNDLES[0], "a", 1), unload(BUNDLES[1], "a", step=2), unload(BUNDLES[2], "a", step=3)]
    left_out = {commands[0]["command_id"]: "jo said so", commands[2]["command_id"]: "jo said so"}
    sink = PulsarAdmin(carrier, per_second=0.001, in_flight=4)  # the second turn would come after a quarter of an hour
    sink.send(
        commands,
        stop=lambda: None,
        ask=lambda: None,
        report=told.append,
        leave_out=lambda one: left_out.get(one["command_id"]),
    )
    assert {one.command_id: (one.outcome, one.detail) for one in told if one.command_id in left_out} == dict.fromkeys(
        left_out, ("withheld", "not sent: jo said so")
    )
    assert len(told) == 3
    assert carrier.order == [commands[1]["command_id"]]


def test_an_answer_that_leaves_out_the_splits_reaches_the_sender_while_it_sends() -> None:
    desk, seen = Desk(), list[str | None]()

    def work(stop: Any, told: Any) -> str | None:
        until = time.monotonic() + 5
        while stop.without_splits is None and time.monotonic() < until:
            desk.without_splits = {"east": "jo said so"}
            time.sleep(0.01)
        seen.append(stop.without_splits)
        return None

    assert conduct({"east": work}, desk, QUICK, {"east": elapsed()}) == {"east": DispatchResult()}
    assert seen == ["jo said so"]


def test_commands_are_spaced_evenly() -> None:
    now = [100.0]
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    pace = Pace(2.0, clock=lambda: now[0], pause=pause)
    for _ in range(3):
        pace.wait()
    assert waited == [0.5, 0.5]
    unlimited = Pace(0.0, clock=lambda: now[0], pause=pause)
    unlimited.wait()
    assert len(waited) == 2


class Desk:
    """Tables in memory."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.halted: dict[str, Halt] = {}
        self.without_splits: dict[str, str] = {}
        self.asked = 0
        self.lost: set[str] = set()
        self.is_stuck = self.is_unreadable = False

    def renewed(self, clusters: Sequence[str]) -> frozenset[str]:
        while self.is_stuck:
            time.sleep(0.01)
        return frozenset(clusters) - self.lost

    def halts(self, clusters: Sequence[str]) -> Mapping[str, Halt]:
        self.asked += 1
        if self.is_unreadable:
            raise OSError("the disk is gone")
        return {cluster: self.halted[cluster] for cluster in clusters if cluster in self.halted}

    def write(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes += outcomes


def endless(started: threading.Event) -> Any:
    """A cluster's work that goes on until it is stopped, or for seconds."""

    def work(stop: Any, told: Any) -> str | None:
        number = 0
        while (reason := stop()) is None and number < 1_000:
            number += 1
            told(Outcome(f"c{number}", "done", datetime.now(UTC), ""))
            started.set()
            time.sleep(0.005)
        return str(reason)

    return work


def while_under_way(desk: Desk, act: Any) -> dict[str, DispatchResult]:
    started = threading.Event()

    def later() -> None:
        assert started.wait(5)
        act()

    thread = threading.Thread(target=later)
    thread.start()
    done = conduct({"lab": endless(started)}, desk, QUICK, {"lab": elapsed()})
    thread.join()
    return done


def test_a_word_in_the_middle_stops_the_sending_and_keeps_what_was_seen() -> None:
    desk = Desk()
    done = while_under_way(desk, lambda: desk.halted.update(lab=Halt("by jo")))
    assert done == {"lab": DispatchResult("by jo")}
    assert desk.outcomes


def test_a_lost_lease_stops_the_sending() -> None:
    desk = Desk()
    (done,) = while_under_way(desk, lambda: desk.lost.add("lab")).values()
    assert done.is_lost
    assert "another publisher has taken over" in (done.stopped or "")


def test_a_lease_that_cannot_be_renewed_in_time_stops_the_sending_by_itself() -> None:
    desk = Desk()
    started, ended = threading.Event(), threading.Event()
    work = endless(started)

    def stuck() -> None:
        started.wait(5)
        desk.is_stuck = True
        assert ended.wait(5)
        desk.is_stuck = False

    def watched(stop: Any, told: Any) -> Any:
        reason = work(stop, told)
        ended.set()
        return reason

    thread = threading.Thread(target=stuck)
    thread.start()
    (done,) = conduct({"lab": watched}, desk, QUICK, {"lab": elapsed()}).values()
    thread.join()
    assert "not renewed in time" in (done.stopped or "")
    assert done.is_lost


def test_one_cluster_that_fails_holds_no_other_up() -> None:
    desk = Desk()

    def broken(_stop: Any, _told: Any) -> str | None:
        raise RuntimeError("out of cheese")

    def fine(_stop: Any, told: Any) -> str | None:
        told(Outcome("c", "done", datetime.now(UTC), ""))
        return None

    done = conduct({"a": broken, "b": fine}, desk, QUICK, dict.fromkeys("ab", elapsed()))
    assert done["b"] == DispatchResult()
    assert isinstance(done["a"].error, RuntimeError)
    assert [one.command_id for one in desk.outcomes] == ["c"]


WORDS = {
    "pause": "east is paused by jo",
    "newer plan": "a newer cycle is on record",
    "lost hold": "another publisher has taken over east",
    "expiry": "not sent: expired at",
    "unreadable": "what may be sent cannot be read (OSError: the disk is gone)",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", [None, *WORDS])
def test_what_changes_while_the_cluster_is_looked_at_is_asked_before_the_request(what: str | None) -> None:
    """It takes effect with the last read of the look, right before the request would leave."""
    desk, skew = Desk(), timedelta(0)
    slow = replace(QUICK, lease_s=60.0, look_s=60.0)  # nothing is read but for a question

    def looked_at(_broker: str, _method: str, path: str) -> Fault | None:
        nonlocal skew
        if path.startswith("/admin/v2/non-persistent"):
            if what in ("pause", "newer plan", "lost hold"):
                desk.halted["east"] = Halt(WORDS[what], is_lost=what == "lost hold")
            skew = timedelta(days=2) if what == "expiry" else skew
            desk.is_unreadable = what == "unreadable"
        return None

    with simulated() as lab:
        lab.faults = looked_at
        first, *_ = lab.namespace("acme/orders", 4)
        client = AdminClient(AdminConnection((lab.url,)))
        patience = Patience(answered_s=0.4, unanswered_s=0.6, unowned_s=0.1)
        executor = CommandExecutor(client, patience=patience, now=lambda: datetime.now(UTC) + skew)

        def work(stop: LeaseGuard, report: Any) -> str | None:
            command = unload(first, lab.brokers[0], lab.brokers[1])
            PulsarAdmin(executor, per_second=0, in_flight=1).send([command], stop=stop, ask=stop.ask, report=report)
            return stop()

        (done,) = conduct({"east": work}, desk, slow, {"east": elapsed()}).values()
        assert len(lab.effects) == (what is None)
        assert any(method == "PUT" for _, method, *_ in lab.requests) == (what is None)
    outcomes = [(one.outcome, one.detail) for one in desk.outcomes]
    if what is None:
        assert (done, [outcome for outcome, _ in outcomes]) == (DispatchResult(), ["done"])
    elif what == "expiry":
        assert done == DispatchResult()
        assert outcomes[0][0] == "stale"
        assert outcomes[0][1].startswith(WORDS[what])
    else:
        assert (done.stopped or "").startswith(WORDS[what])
        assert (done.is_lost, outcomes) == (what == "lost hold", [])


def test_an_answer_counts_only_for_questions_from_before_its_read() -> None:
    """A question that comes while the tables are read gets an answer of the next read."""
    desk, reading, asked, answered = Desk(), threading.Event(), threading.Event(), threading.Event()

    def slow_read(clusters: Sequence[str]) -> Mapping[str, Halt]:
        halts = Desk.halts(desk, clusters)
        if not reading.is_set():
            reading.set()
            assert asked.wait(5)
            time.sleep(0.05)
        else:
            answered.wait(0.3)  # an answer of the first read would come now
        return halts

    def work(stop: LeaseGuard, _report: Any) -> str | None:
        assert reading.wait(5)
        desk.halted["east"] = Halt("by jo")
        threading.Timer(0.02, asked.set).start()
        told.append(stop.ask())
        answered.set()
        return None

    told: list[str | None] = []
    desk.halts = slow_read  # type: ignore[method-assign]
    conduct({"east": work}, desk, QUICK, {"east": elapsed()})
    assert told == ["by jo"]


def test_who_asks_comes_back_where_the_lease_is_lost() -> None:
    desk = Desk()
    desk.lost.add("lab")

    def waits(stop: LeaseGuard, _told: Any) -> str | None:
        while stop() is None:
            time.sleep(0.01)
        return stop.ask()

    assert conduct({"lab": waits}, desk, QUICK, {"lab": elapsed()})["lab"].is_lost


def test_a_lease_runs_out_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLOCK_MONOTONIC stands still meanwhile, and CLOCK_BOOTTIME goes on."""
    guard = LeaseGuard("lab", Timing(lease_s=30.0), elapsed())
    assert guard() is None
    real, asleep_s = time.clock_gettime, 31.0
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: real(clock) + asleep_s * (clock == getattr(time, "CLOCK_BOOTTIME", -1))
    )
    assert (guard() is not None) == hasattr(time, "CLOCK_BOOTTIME")


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    """Not from when sending begins: secrets are looked up and outcomes read in between."""
    guard = LeaseGuard("lab", QUICK, elapsed() - QUICK.lease_s)
    assert "not renewed in time" in (guard() or "")
    assert guard.is_lost


@pytest.mark.parametrize("lost", [False, True])
def test_a_lease_that_was_asked_for_some_time_ago_is_renewed_before_anything_is_sent(lost: bool) -> None:
    desk = Desk()
    desk.lost |= {"lab"} if lost else set()
    stops: list[str | None] = []
    conduct({"lab": lambda stop, told: stops.append(stop())}, desk, QUICK, {"lab": elapsed() - 1.0})
    assert (stops[0] is not None) == lost
