"""How commands go out: order, pace, how many at once, and when they stop."""

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from evenkeel.steering.admin_request import acquiring_broker
from evenkeel.steering.dispatcher import DispatchResult, LeaseGuard, Timing, conduct
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.premise import Command
from evenkeel.steering.pulsar_admin import Pace, PulsarAdmin
from tests.steering.commands import split, unload

BUNDLES = [f"acme/ns{n}/0x00000000_0xffffffff" for n in range(6)]
QUICK = Timing(lease_s=0.5, renew_s=0.05, look_s=0.01, write_s=0.02, longest_request_s=0.1)


class Noting:
    """Carries nothing out, and notes what was under way with what."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.order, self.most, self.now = seconds, list[str](), 0, dict[str, str | None]()
        self._lock = threading.Lock()

    def carry_out(self, command: Command) -> Outcome:
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
    sink.send(commands, stop=lambda: None, report=lambda one: told.append(one.command_id))
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
    sink.send(commands, stop=lambda: None, report=told.append, leave_out=lambda one: left_out.get(one["command_id"]))
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

    assert conduct({"east": work}, desk, QUICK, {"east": time.monotonic()}) == {"east": DispatchResult()}
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
        self.pauses: dict[str, str] = {}
        self.closed: dict[str, str] = {}
        self.rejected: dict[str, str] = {}
        self.without_splits: dict[str, str] = {}
        self.gate_asked = 0
        self.lost: set[str] = set()
        self.is_stuck = False

    def renewed(self, clusters: Sequence[str]) -> frozenset[str]:
        while self.is_stuck:
            time.sleep(0.01)
        return frozenset(clusters) - self.lost

    def paused(self, clusters: Sequence[str]) -> Mapping[str, str]:
        return {cluster: self.pauses[cluster] for cluster in clusters if cluster in self.pauses}

    def withheld(self, clusters: Sequence[str]) -> Mapping[str, str]:
        self.gate_asked += 1
        return {cluster: self.closed[cluster] for cluster in clusters if cluster in self.closed}

    def withheld_anew(self, clusters: Sequence[str]) -> Mapping[str, str]:
        return {cluster: self.rejected[cluster] for cluster in clusters if cluster in self.rejected}

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
    done = conduct({"lab": endless(started)}, desk, QUICK, {"lab": time.monotonic()})
    thread.join()
    return done


@pytest.mark.parametrize("said", ["pauses", "rejected"])
def test_a_word_in_the_middle_stops_the_sending_and_keeps_what_was_seen(said: str) -> None:
    desk = Desk()
    done = while_under_way(desk, lambda: getattr(desk, said).update(lab="by jo"))
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
    (done,) = conduct({"lab": watched}, desk, QUICK, {"lab": time.monotonic()}).values()
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

    done = conduct({"a": broken, "b": fine}, desk, QUICK, dict.fromkeys("ab", time.monotonic()))
    assert done["b"] == DispatchResult()
    assert isinstance(done["a"].error, RuntimeError)
    assert [one.command_id for one in desk.outcomes] == ["c"]


@pytest.mark.parametrize("answer", [None, "a newer cycle is on record"])
def test_after_a_wait_the_gate_is_asked_before_anything_is_sent(answer: str | None) -> None:
    desk = Desk()

    def waits(stop: LeaseGuard, told: Any) -> str | None:
        time.sleep(0.05)
        if answer is not None:
            desk.closed["lab"] = answer
        stop.ask_gate()
        reason = stop()
        if reason is None:
            told(Outcome("c", "done", datetime.now(UTC), ""))
        return reason

    done = conduct({"lab": waits}, desk, QUICK, {"lab": time.monotonic()})
    assert desk.gate_asked == 1
    assert done == {"lab": DispatchResult(answer)}
    assert [one.command_id for one in desk.outcomes] == ([] if answer else ["c"])


def test_who_waits_for_the_gate_comes_back_where_the_lease_is_lost() -> None:
    desk = Desk()
    desk.lost.add("lab")

    def waits(stop: LeaseGuard, _told: Any) -> str | None:
        while stop() is None:
            time.sleep(0.01)
        stop.ask_gate()
        return stop()

    assert conduct({"lab": waits}, desk, QUICK, {"lab": time.monotonic()})["lab"].is_lost


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    """Not from when sending begins: secrets are looked up and outcomes read in between."""
    guard = LeaseGuard("lab", QUICK, time.monotonic() - QUICK.lease_s)
    assert "not renewed in time" in (guard() or "")
    assert guard.is_lost


@pytest.mark.parametrize("lost", [False, True])
def test_a_lease_that_was_asked_for_some_time_ago_is_renewed_before_anything_is_sent(lost: bool) -> None:
    desk = Desk()
    desk.lost |= {"lab"} if lost else set()
    stops: list[str | None] = []
    conduct({"lab": lambda stop, told: stops.append(stop())}, desk, QUICK, {"lab": time.monotonic() - 1.0})
    assert (stops[0] is not None) == lost
