"""The sink `sqs` on real queues: order, batches, reports in two steps."""

import json
import time
from datetime import UTC, datetime

import pytest

from evenkeel.errors import BadInput
from evenkeel.steering.outcome import Outcome, decisive
from evenkeel.steering.queue.fifo import Fifo, Letter
from evenkeel.steering.queue.messages import AgentReport, read_command, report_body
from evenkeel.steering.queue.signing import FROM_AGENTS, TO_AGENTS
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import LAB, command

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


@pytest.fixture
def sink(queues: Pair) -> SqsSink:
    return SqsSink(LAB, queues.commands, queues.reports)


def all_of(queue: Fifo) -> list[dict]:
    found = []
    while taken := queue.receive(most=10, wait_s=1, visibility_s=60):
        found += [
            (
                message.group,
                read_command(LAB.verified(message.body, TO_AGENTS, datetime.now(UTC), message.dedup_id)[0]),
            )
            for message in taken
        ]
        queue.delete([message.receipt for message in taken])
    return found


def signed(body: str, number: str) -> str:
    return LAB.signed(body, FROM_AGENTS, datetime.now(UTC), number)


def report(queues: Pair, command_id: str, outcome: str = "done", token: str = "") -> None:
    told = AgentReport(Outcome(command_id, outcome, NOW, "seen"), "agent-1", "lab", "plan-1", NOW)
    number = token or command_id
    assert Fifo(queues.reports).send([Letter(signed(report_body(told), number), command_id, number)]) == [None]


def test_commands_arrive_whole_and_in_the_order_of_their_steps_within_each_namespace(
    sink: SqsSink, queues: Pair
) -> None:
    rows = [command(step, namespace=f"acme/ns{step % 3}", place=step % 4) for step in range(1, 26)]
    assert sink.send(list(reversed(rows))) == []
    found = all_of(Fifo(queues.commands))
    assert sorted((row for _, row in found), key=lambda row: row["step"]) == rows
    for namespace in ("acme/ns0", "acme/ns1", "acme/ns2"):
        steps = [row["step"] for group, row in found if group == namespace]
        assert steps == sorted(steps)
        assert len(steps) >= 8


def test_a_publish_that_is_run_again_puts_nothing_on_the_queue_twice(sink: SqsSink, queues: Pair) -> None:
    rows = [command(1), command(2, place=1)]
    assert sink.send(rows) == sink.send(rows) == []
    assert len(all_of(Fifo(queues.commands))) == 2


def test_names_of_any_kind_survive(sink: SqsSink, queues: Pair) -> None:
    names = ["ácme/Ünïcode", 'ten"ant/n%2Fs', "acme/" + "n" * 200, "acme/a b"]
    rows = [command(step, namespace=name) for step, name in enumerate(names, start=1)]
    assert sink.send(rows) == []
    arrived = sorted(all_of(Fifo(queues.commands)), key=lambda one: one[1]["step"])
    assert [found for _, found in arrived] == rows
    for (group, _), name in zip(arrived, names, strict=True):
        assert group.startswith("sha256-") or group == name


def test_rows_that_no_agent_would_take_are_refused_before_anything_is_sent(sink: SqsSink, queues: Pair) -> None:
    with pytest.raises(BadInput, match="has no time zone"):
        sink.send([command(1), command(2, expires_at=datetime(2026, 1, 1))])
    with pytest.raises(BadInput, match="for the queue of 'lab'"):
        sink.send([command(1), command(2, cluster="other")])
    with pytest.raises(BadInput, match="bytes when signed; a queue takes"):
        sink.send([command(1), command(2, plan_id="x" * 300_000)])
    assert all_of(Fifo(queues.commands)) == []


def test_large_commands_go_in_as_many_batches_as_their_size_needs(sink: SqsSink, queues: Pair) -> None:
    rows = [command(step, namespace=f"acme/ns{step}", plan_id="x" * 100_000) for step in range(1, 6)]
    assert sink.send(rows) == []
    assert len(all_of(Fifo(queues.commands))) == 5


def test_reports_stay_until_they_are_confirmed(sink: SqsSink, queues: Pair) -> None:
    report(queues, "c1")
    first = sink.take(["c1"], time.monotonic() + 1, record_s=1)
    assert [one.outcome for one in first.outcomes] == ["done"]
    # The publisher died before it wrote that down: the next one finds the same report.
    again = sink.take(["c1"], time.monotonic() + 10)
    assert again.reports == first.reports
    sink.confirm(again)
    sink.confirm(first)  # too late, and of no harm
    assert sink.take([], time.monotonic()).reports == ()


def test_reports_of_other_cycles_and_doubled_ones_are_taken_along(sink: SqsSink, queues: Pair) -> None:
    for number in range(12):
        report(queues, f"old-{number}")
    report(queues, "c1", "stale", "a")
    report(queues, "c1", "done", "b")
    taken = sink.take(["c1", "c2"], time.monotonic() + 2)
    assert len(taken.reports) >= 13  # the second word on c1 waits behind the first one
    assert "c2" not in {one.command_id for one in taken.outcomes}
    sink.confirm(taken)
    rest = sink.take([], time.monotonic() + 2)
    outcomes = decisive([*taken.outcomes, *rest.outcomes])
    assert len(outcomes) == 13
    assert outcomes["c1"].outcome == "done"


def test_what_is_no_report_is_told_and_removed(sink: SqsSink, queues: Pair, caplog: pytest.LogCaptureFixture) -> None:
    queues.client.send_message(
        QueueUrl=queues.reports, MessageBody="hello", MessageGroupId="g", MessageDeduplicationId="d"
    )
    body = json.loads(report_body(AgentReport(Outcome("c9", "done", NOW, ""), "agent-1")))
    body["report"]["outcome"] = "wonderful"
    queues.client.send_message(
        QueueUrl=queues.reports,
        MessageBody=signed(json.dumps(body), "e"),
        MessageGroupId="h",
        MessageDeduplicationId="e",
    )
    taken = sink.take([], time.monotonic() + 4)
    assert (taken.reports, len(taken.receipts)) == ((), 2)
    assert caplog.text.count("is not believed") == 2
    assert "unknown outcome 'wonderful'" in caplog.text
    sink.confirm(taken)
    assert sink.take([], time.monotonic() + 2).receipts == ()


def test_a_queue_that_is_not_there_is_named_with_what_to_do(queues: Pair) -> None:
    sink = SqsSink(LAB, queues.commands.replace("commands", "absent"), queues.reports)
    sent = sink.send([command(1), command(2, namespace="acme/ns1"), command(3)])
    assert len(sent) == 3
    assert "Make the queue, or correct its URL" in sent[0].reason
    assert not any(one.possible for one in sent)
