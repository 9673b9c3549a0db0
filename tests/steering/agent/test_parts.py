"""The small parts: pace, clock, pause, lanes, what the ledger keeps."""

import os
import stat
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from evenkeel.cli import agent, parser
from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.setup import LedgerError, PauseSwitch, QueueClock
from evenkeel.steering.agent.work_queue import InFlight, WorkQueue
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.pulsar_admin import Pace
from evenkeel.steering.queue.messages import Control, read_report
from tests.steering.queue.examples import KEY, command

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def test_the_pace_is_never_above_its_rate() -> None:
    time = [100.0]
    pace = Pace(2.0, clock=lambda: time[0])
    taken = []
    for _ in range(40):
        wait = pace.take()
        if wait:
            assert 0 < wait <= 0.5
            time[0] += wait
        else:
            taken.append(time[0])
    assert all(later - earlier >= 0.5 - 1e-9 for earlier, later in pairwise(taken))
    assert len(taken) == 20
    time[0] += 3600
    assert pace.take() == 0.0
    assert pace.take() > 0, "an hour without work does not allow a burst"


@pytest.mark.parametrize("ahead", [-600, -3, 0, 3, 600])
def test_the_queues_clock_counts_where_the_two_are_far_apart(ahead: int) -> None:
    clock = QueueClock(lambda: NOW + timedelta(seconds=ahead))
    clock.heard(NOW, 0.1)
    assert abs(clock.now() - NOW) <= timedelta(seconds=5)
    clock.heard(NOW - timedelta(hours=1), 20.0)  # a long poll's date may be that of its beginning
    assert abs(clock.now() - NOW) <= timedelta(seconds=5)


def test_the_pause_file_pauses_also_where_it_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "paused"
    pause = PauseSwitch(file, lambda: None, lambda _: None)
    assert pause.reason("p") is None
    file.write_bytes(b"\xff why \n more")
    assert pause.reason("p") == f"paused by the file {file}: \ufffd why"
    file.write_text("")
    assert pause.reason("p") == f"paused by the file {file}"
    file.unlink()
    file.mkdir()
    assert "cannot be read" in (pause.reason("p") or "")
    assert PauseSwitch(None, lambda: "by a control", lambda _: None).reason("p") == "by a control"
    assert PauseSwitch(tmp_path / "paused.txt" / "below", lambda: None, lambda _: None).reason("p") is None


def test_an_agent_closes_the_folder_that_it_makes_for_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_HOME", str(tmp_path))
    monkeypatch.setenv("EVENKEEL_KEYS_QUEUE_LAB", KEY)
    queues = ["--queue", "http://q/lab.fifo", "--reports", "http://q/lab-reports.fifo"]
    given = parser().parse_args(["agent", "--cluster", "lab", *queues, "--admin", "http://127.0.0.1:1"])
    Ledger(agent._settings(given, None).ledger, "lab", "a").close()
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "agent" / "lab.db").is_file()


def test_only_the_agents_user_may_read_its_ledger(tmp_path: Path) -> None:
    """Bodies of commands are in it; one of an earlier version, which others may read, is mended as it is opened."""
    path, before = tmp_path / "l.db", os.umask(0o022)
    try:
        for _ in range(2):
            ledger = Ledger(path, "lab", "a")
            ledger.receive(command(1), NOW)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
            assert {"l.db", "l.db-wal", "l.db.lock"} <= {*modes}
            assert {*modes.values()} == {0o600}, modes
            ledger.close()
            path.chmod(0o644)
    finally:
        os.umask(before)


def test_of_several_controls_the_one_made_last_holds(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", "lab", "a")
    minutes = {kind: NOW + timedelta(minutes=n) for n, kind in enumerate(["pause", "resume"])}
    assert ledger.paused() is None
    assert ledger.control(Control("resume", "lab", minutes["resume"], "olga", ""))
    assert ledger.control(Control("pause", "lab", minutes["pause"], "olga", "late on its way"))
    assert ledger.paused() is None
    assert ledger.control(Control("pause", "lab", minutes["resume"], "max", "at the same moment"))
    assert ledger.paused() == "paused by max at 2026-11-21T09:01:00.000000+00:00: at the same moment"
    assert not ledger.control(Control("pause", "lab", minutes["resume"], "max", "at the same moment"))
    ledger.close()


def test_lanes_keep_order_and_let_nobody_wait_for_another_namespace() -> None:
    time = [0.0]
    lanes = WorkQueue(lambda: time[0])
    late, early = command(2), command(1, place=1)
    other = command(3, namespace="acme/ns1", destination="b3:8080")
    for number, row in enumerate((late, early, other)):
        lanes.put(row, f"m{number}", f"r{number}")
    first = lanes.take(0)
    assert first is not None
    assert first.command == early
    second = lanes.take(0)
    assert second is not None
    assert second.command == other
    assert lanes.take(0) is None, "one of a namespace at a time"
    lanes.back(first, 10)
    assert lanes.take(0) is None, "the order holds also while the first one waits"
    time[0] = 10
    again = lanes.take(0)
    assert again is first
    lanes.finish(first)
    third = lanes.take(0)
    assert third is not None
    assert third.command == late
    assert lanes.finished() == [first]
    assert lanes.open()


def test_a_broker_acquires_the_bundles_of_one_command_at_a_time() -> None:
    time = [0.0]
    lanes = WorkQueue(lambda: time[0])
    rows = [
        command(1, namespace="acme/ns1"),
        command(2, namespace="acme/ns2"),
        command(3, namespace="acme/ns3", destination="b3:8080"),
        command(4, kind="split", namespace="acme/ns4", from_broker="b3:8080"),
        command(5, namespace="acme/ns5", destination=None),
        command(6, namespace="acme/ns6", destination="b4:8080"),
    ]
    for row in rows:
        lanes.put(row, f"m{row['step']}", f"r{row['step']}")

    def taken() -> list[InFlight]:
        return list(iter(lambda: lanes.take(0), None))

    first = taken()
    assert [one.command["step"] for one in first] == [1, 3], "behind one that may come to any broker none goes"
    lanes.forget(first[1])
    second = taken()
    assert [one.command["step"] for one in second] == [4]
    lanes.back(first[0], 10.0)
    lanes.forget(second[0])
    assert taken() == [], "a request of one that was put back may be under way"
    time[0] = 10.0
    steps = []
    while lanes.open():
        hands = taken()
        steps.append([one.command["step"] for one in hands])
        for one in hands:
            lanes.forget(one)
    assert steps == [[2], [5], [6, 1]]


def test_a_command_that_waits_and_lost_its_messages_is_let_go_and_one_under_way_is_not() -> None:
    lanes = WorkQueue()
    busy, idle = command(1), command(2, place=1)
    lanes.put(busy, "m1", "r1")
    lanes.put(idle, "m2", "r2")
    lanes.put(idle, "m3", "r3")
    hand = lanes.take(0)
    assert hand is not None
    lanes.lose(["r1", "r2"])
    assert lanes.held() == 2
    lanes.lose(["r3"])
    assert lanes.held() == 1
    assert lanes.open()
    lanes.close()
    assert lanes.take(1) is None


def test_the_ledger_lets_no_command_go_out_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", "lab", "a")
    row = command()
    assert ledger.receive(row, NOW)
    assert not ledger.receive(row, NOW)
    ledger.sending(row["command_id"], NOW)
    with pytest.raises(LedgerError, match="is not waiting to be sent"):
        ledger.sending(row["command_id"], NOW)
    assert ledger.half_way() == [row]
    assert ledger.settle(Outcome(row["command_id"], "done", NOW, "seen"), NOW)
    assert not ledger.settle(Outcome(row["command_id"], "stale", NOW, "later"), NOW)
    with pytest.raises(LedgerError, match="is not waiting to be sent"):
        ledger.sending(row["command_id"], NOW)
    (owed,) = ledger.owed(10)
    report = read_report(owed.body)
    assert report.outcome == Outcome(row["command_id"], "done", NOW, "seen")
    assert (report.agent, report.cluster, report.plan_id, report.cycle_at) == ("a", "lab", "plan-1", row["cycle_at"])
    ledger.report_again(row["command_id"], NOW)
    assert len(ledger.owed(10)) == 1, "one that is owed already need not be owed twice"
    ledger.paid([owed.number], NOW)
    ledger.report_again(row["command_id"], NOW)
    (again,) = ledger.owed(10)
    assert again.token != owed.token, "the reports queue must not take it for the one before"
    ledger.close()


def test_what_was_tried_and_never_came_again_is_settled_when_it_has_expired(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", "lab", "a")
    tried, untried = (command(step, place=step, expires_at=NOW) for step in (1, 2))
    for row in (tried, untried):
        ledger.receive(row, NOW)
    ledger.sending(tried["command_id"], NOW)
    assert ledger.settle_forgotten(NOW, NOW + timedelta(hours=1)) == [], "it may be under way"
    ledger.release(tried["command_id"])
    assert ledger.settle_forgotten(NOW, NOW) == []
    assert ledger.settle_forgotten(NOW, NOW + timedelta(seconds=1)) == [tried["command_id"]]
    assert len(ledger.owed(10)) == 1, "another agent may have the other one"
    ledger.close()


def test_old_rows_are_forgotten_and_nothing_that_is_owed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", "lab", "a")
    paid, owed, under_way = (command(step, place=step, expires_at=NOW) for step in (1, 2, 3))
    for row in (paid, owed, under_way):
        ledger.receive(row, NOW)
    ledger.settle(Outcome(paid["command_id"], "done", NOW, ""), NOW)
    ledger.paid([ledger.owed(1)[0].number], NOW)
    ledger.settle(Outcome(owed["command_id"], "done", NOW, ""), NOW)
    ledger.sending(under_way["command_id"], NOW)
    ledger.forget_old(NOW + timedelta(days=29))
    assert len(ledger._rows("SELECT * FROM commands")) == 3
    ledger.forget_old(NOW + timedelta(days=31))
    left = {row[0] for row in ledger._rows("SELECT command_id FROM commands")}
    assert left == {owed["command_id"], under_way["command_id"]}
    ledger.close()
