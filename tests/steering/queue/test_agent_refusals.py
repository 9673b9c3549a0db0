"""What an agent must not carry out, and says so: expired, superseded, paused, and what is not a command at all."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.steering.agent.ledger import LONGEST_REJECTED
from evenkeel.steering.agent.setup import QueueClock
from evenkeel.steering.queue.fifo import MOST_IN_BATCH, Fifo
from evenkeel.steering.queue.messages import Control, command_body, control_body
from evenkeel.steering.queue.signing import FROM_AGENTS, TO_AGENTS, Signature, keys_in
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.acting_cluster import ActingCluster, ClusterExecutor, wait_until
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import CYCLE, LAB, command, owners
from tests.steering.queue.running import (
    collect,
    query,
    quick,
    reports,
    run_until_idle,
    running,
    send_raw,
    send_signed,
    waiting,
)

pytestmark = pytest.mark.slow


def acting_on(cluster: ActingCluster, *commands: dict) -> ClusterExecutor:
    cluster.owners |= owners(list(commands))
    return ClusterExecutor(cluster.owners.get, cluster.request)


@pytest.mark.parametrize("minutes", [-10, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (0, 10))])
def test_an_expired_command_is_stale_and_a_clock_ten_minutes_off_neither_revives_nor_kills_one(
    queues: Pair, cluster: ActingCluster, tmp_path: Path, minutes: int
) -> None:
    expired = command(1, place=0, expires_at=datetime.now(UTC) - timedelta(minutes=3))
    fresh = command(2, place=1, expires_at=datetime.now(UTC) + timedelta(minutes=3))
    SqsSink(LAB, queues.commands, queues.reports).send([expired, fresh])
    clock = QueueClock(lambda: datetime.now(UTC) + timedelta(minutes=minutes))
    run_until_idle(quick(queues, tmp_path), acting_on(cluster, expired, fresh), clock)
    outcomes = collect(queues, [expired["command_id"], fresh["command_id"]], 5)
    assert outcomes[expired["command_id"]].outcome == "stale"
    assert outcomes[expired["command_id"]].detail.startswith("expired at ")
    assert outcomes[fresh["command_id"]].outcome == "done"
    assert cluster.effects == [fresh["command_id"]]
    assert waiting(queues) == 0


def test_a_pause_over_the_queue_reaches_every_agent_and_overtakes_what_waits(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    rows = [command(step, namespace=f"acme/ns{step}") for step in range(1, 9)]
    carrier = acting_on(cluster, *rows)
    sink = SqsSink(LAB, queues.commands, queues.reports)
    first, second = quick(queues, tmp_path, "agent-1"), quick(queues, tmp_path, "agent-2")
    with running(first, carrier), running(second, carrier):
        sink.control("pause", made_at=CYCLE, by="olga", reason="brokers are being upgraded")
        for settings in (first, second):
            assert wait_until(lambda settings=settings: query(settings.ledger, "SELECT * FROM controls"))
        sink.send(rows)
        outcomes = collect(queues, [row["command_id"] for row in rows])
        assert {one.outcome for one in outcomes.values()} == {"withheld"}
        assert all("paused by olga" in one.detail for one in outcomes.values())
        sink.control("resume", made_at=CYCLE + timedelta(seconds=1), by="olga", reason="")
        sink.control("pause", made_at=CYCLE - timedelta(hours=1), by="olga", reason="an old one, delivered late")
        for settings in (first, second):
            kinds = "SELECT kind FROM controls WHERE kind = 'resume'"
            assert wait_until(lambda settings=settings, kinds=kinds: query(settings.ledger, kinds))
        more = [command(step, namespace=f"acme/more{step}", plan_id="plan-2") for step in range(1, 5)]
        cluster.owners |= owners(more)
        sink.send(more)
        outcomes = collect(queues, [row["command_id"] for row in more])
        assert {one.outcome for one in outcomes.values()} == {"done"}
    assert sorted(cluster.effects) == sorted(row["command_id"] for row in more)


def changed(row: dict, **changes: Any) -> str:
    body = json.loads(command_body(row))
    body["command"] |= changes
    return json.dumps(body)


ROW = command()
POISON = {
    "not JSON": ("hello", "not JSON", False),
    "half a character": (changed(ROW, plan_id="\ud800"), "not JSON", False),
    "deep": ("[" * 100_000, "not JSON", False),
    "a list": ("[1]", "not a message of Evenkeel: JSON list", False),
    "another kind": (json.dumps({"evenkeel": "report", "schema": 1, "report": {}}), "kind 'report'", False),
    "a newer schema": (command_body(ROW).replace('"schema":1', '"schema":2'), "unknown schema version 2", True),
    "another cluster": (changed(ROW, cluster="west"), "for cluster 'west'; this agent serves 'lab'", True),
    "no bundle": (changed(ROW, bundle="acme/ns0"), "is not a bundle's name", True),
    "a line feed in a name": (changed(ROW, bundle=f"ac\nme/ns0/{ROW['bundle'][9:]}"), "is not a bundle's name", True),
    "not a time zone": (changed(ROW, expires_at="2026-11-21T09:00:00"), "not a moment with a time zone", True),
    "cuts in hex": (changed(ROW, cuts=["0x10"]), "are not whole numbers", True),
    "a strange kind": (changed(ROW, kind="drop"), "unknown kind 'drop'", True),
    "another request": (changed(ROW, request="PUT /admin/v2/tenants/evil {}"), "is not that of its fields", True),
    "a dry run": (changed(ROW, mode="dry_run"), "mode 'dry_run' sends nothing", True),
    "a strange id": (changed(ROW, command_id="a b\nc"), "is not a command's id", False),
    "no id": (changed(ROW, command_id=None), "no text in command_id", False),
}


def test_what_is_no_command_for_this_agent_is_kept_reported_and_in_nobodys_way(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    good = command(2, place=1)
    carrier = acting_on(cluster, ROW, good)
    for body, _, _ in POISON.values():
        send_signed(queues, body)
    send_signed(queues, command_body(good))  # behind all of them, in the same group
    settings = quick(queues, tmp_path)
    run_until_idle(settings, carrier)
    kept = dict(query(settings.ledger, "SELECT body, reason FROM rejected"))
    assert len(kept) == len(POISON)
    for name, (body, reason, _) in POISON.items():
        assert reason in kept[body.encode("utf-8", "backslashreplace").decode()[:LONGEST_REJECTED]], name
    assert cluster.effects == [good["command_id"]]
    assert waiting(queues) == 0
    found = reports(queues, [good["command_id"], ROW["command_id"]], 10)
    refused = [one for one in found if one.command_id == ROW["command_id"]]
    assert {one.outcome for one in refused} == {"refused"}
    assert all("the agent cannot take the message" in one.detail for one in refused)


@pytest.mark.exhaustive
def test_an_agent_that_ends_when_idle_first_takes_what_waits_behind_messages_that_it_deletes_slowly(
    queues: Pair, cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Fifo.delete

    def slowly(queue: Fifo, receipts: Sequence[str]) -> set[str]:
        time.sleep(1.5)  # longer than the agent's look at the queue, shorter than the messages stay invisible
        return delete(queue, receipts)

    monkeypatch.setattr(Fifo, "delete", slowly)
    row = command()
    for _ in range(MOST_IN_BATCH):
        send_signed(queues, "[1]")
    send_signed(queues, command_body(row))
    run_until_idle(quick(queues, tmp_path), acting_on(cluster, row))
    assert cluster.effects == [row["command_id"]]
    assert waiting(queues) == 0


def test_of_a_message_that_the_pipeline_did_not_sign_nothing_is_believed_and_nothing_reported(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    row = command()
    evil = command(destination="evil:8080", command_id=row["command_id"])
    stranger = Signature("lab", keys_in("another-key-of-somebody-who-may-write", "here"))
    pause = control_body(Control("pause", "lab", datetime.now(UTC), "nobody", "forged"))
    forged = [
        command_body(evil),
        changed(row, bundle="nonsense"),
        pause,
        *(stranger.signed(body, TO_AGENTS, CYCLE, "n") for body in (command_body(evil), pause)),
        Signature("west", LAB.keys).signed(command_body(evil), TO_AGENTS, CYCLE, "n"),
        LAB.signed(command_body(evil), FROM_AGENTS, CYCLE, "n"),
        LAB.signed(command_body(evil), TO_AGENTS, datetime.now(UTC) + timedelta(hours=1), "n"),
    ]
    for body in forged:
        send_raw(queues, body)
    SqsSink(LAB, queues.commands, queues.reports).send([row])  # behind all of them, in the same group
    settings = quick(queues, tmp_path)
    run_until_idle(settings, acting_on(cluster, row))
    assert [one.outcome for one in reports(queues, [row["command_id"]], 5)] == ["done"]
    assert cluster.owners[row["bundle"]] == "b2:8080"
    assert cluster.effects == [row["command_id"]]
    kept = query(settings.ledger, "SELECT body, reason FROM rejected")
    assert sorted(body for body, _ in kept) == sorted(forged)
    assert query(settings.ledger, "SELECT * FROM controls") == []


def test_a_plan_that_is_withdrawn_is_not_begun_and_the_next_one_is_carried_out(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    old, new = command(1), command(2, place=1, plan_id="plan-2")
    carrier = acting_on(cluster, old, new)
    sink = SqsSink(LAB, queues.commands, queues.reports)
    sink.control("withdraw", made_at=CYCLE, by="evenkeel", reason="lab is paused by jo", plan_id="plan-1")
    settings = quick(queues, tmp_path)
    run_until_idle(settings, carrier)
    sink.send([old, new])
    run_until_idle(settings, carrier)
    outcomes = collect(queues, [old["command_id"], new["command_id"]], 5)
    assert outcomes[old["command_id"]].outcome == "withheld"
    assert outcomes[old["command_id"]].detail.startswith("withdrawn by evenkeel at ")
    assert outcomes[old["command_id"]].detail.endswith("lab is paused by jo")
    assert outcomes[new["command_id"]].outcome == "done"
