"""Queues that do not answer or refuse, and ledgers that cannot be used: what the agent says and does."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.service import Agent
from evenkeel.steering.agent.setup import AgentError, LedgerError
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.fifo import QueueRefused, QueueUnreachable
from evenkeel.steering.sqs import SqsSink
from tests.serving import answering
from tests.steering.queue.acting_cluster import ActingCluster, ClusterExecutor, wait_until
from tests.steering.queue.conftest import SECRET, Pair
from tests.steering.queue.elasticmq import born_with, free_port
from tests.steering.queue.examples import LAB, command, owners
from tests.steering.queue.running import collect, on_record, quick, run_until_idle, running, waiting

pytestmark = pytest.mark.slow


@pytest.fixture
def nowhere() -> Pair:
    """Queues on a port where nobody listens yet."""
    url = f"http://127.0.0.1:{free_port()}/000000000000"
    return Pair(f"{url}/commands.fifo", f"{url}/reports.fifo", None)


def acting_on(cluster: ActingCluster, *commands: dict) -> ClusterExecutor:
    cluster.owners |= owners(list(commands))
    return ClusterExecutor(cluster.owners.get, cluster.request)


@pytest.mark.exhaustive
def test_an_agent_waits_for_queues_that_come_late_and_for_those_that_went_away(
    nowhere: Pair, cluster: ActingCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evenkeel.steering.agent")
    first, second = command(1), command(2, place=1)
    carrier = acting_on(cluster, first, second)
    port = int(nowhere.commands.split(":")[2].split("/")[0])
    with running(quick(nowhere, tmp_path), carrier):
        assert wait_until(lambda: caplog.text.count("cannot be reached: EndpointConnectionError") > 1)
        assert "trying again in 1 s" in caplog.text or "trying again in 2 s" in caplog.text
        for row in (first, second):
            # One that knows nothing of the one before. It is born with its queues: an agent that meets a server
            # without them for the first time ends, since then its configuration is wrong.
            with born_with(["commands.fifo", "reports.fifo"], tmp_path, port):
                SqsSink(LAB, nowhere.commands, nowhere.reports).send([row])
                assert collect(nowhere, [row["command_id"]], 90)[row["command_id"]].outcome == "done"
    assert "works again after" in caplog.text
    assert sorted(cluster.effects) == sorted([first["command_id"], second["command_id"]])


@pytest.mark.exhaustive
def test_reports_wait_in_the_ledger_while_their_queue_is_away(
    queues: Pair, cluster: ActingCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evenkeel.steering.agent")
    row = command()
    settings = quick(queues, tmp_path)
    with running(settings, acting_on(cluster, row)):
        assert wait_until(lambda: "receives commands" in caplog.text)
        queues.client.delete_queue(QueueUrl=queues.reports)
        SqsSink(LAB, queues.commands, queues.reports).send([row])
        assert wait_until(lambda: caplog.text.count("1 of 1 reports not sent") > 1)
        assert on_record(settings.ledger) == {row["command_id"]: "done"}
        assert waiting(queues) == 1, "the message is not deleted before its command is reported"
        name = queues.reports.rpartition("/")[2]
        queues.client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})
        assert collect(queues, [row["command_id"]])[row["command_id"]].outcome == "done"
        assert wait_until(lambda: waiting(queues) == 0)
    assert cluster.effects == [row["command_id"]]


def test_one_that_is_to_end_says_so_where_the_queue_cannot_be_reached(nowhere: Pair, tmp_path: Path) -> None:
    with pytest.raises(QueueUnreachable, match=r"commands\.fifo cannot be reached: EndpointConnectionError"):
        run_until_idle(quick(nowhere, tmp_path), ClusterExecutor(lambda _: None, lambda **_: None))


@pytest.fixture
def pair_answered() -> Iterator[Callable[[int, str, str], Pair]]:
    """Queues at a server that gives every request the same answer."""
    with ExitStack() as servers:

        def serve(status: int, body: str, kind: str = "application/x-amz-json-1.0") -> Pair:
            def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
                handler.send_response(status)
                handler.send_header("Content-Type", kind)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body.encode())

            url = f"http://127.0.0.1:{servers.enter_context(answering(answer))}/1"
            return Pair(f"{url}/commands.fifo", f"{url}/reports.fifo", None)

        yield serve


REFUSALS = {
    "InvalidClientTokenId": "Check the credentials that boto3 finds",
    "SignatureDoesNotMatch": "Check the secret key, the region and this machine's clock",
    "ExpiredToken": "Renew the session's credentials",
    "QueueDoesNotExist": "Make the queue, or correct its URL",
}


@pytest.mark.parametrize("code", REFUSALS)
def test_wrong_credentials_and_queues_end_the_agent_at_once_with_what_to_do(
    pair_answered: Callable[..., Pair], tmp_path: Path, code: str
) -> None:
    pair = pair_answered(403, f'{{"__type": "com.amazonaws.sqs#{code}", "message": "No.\\nMore."}}')
    with pytest.raises(QueueRefused) as caught, running(quick(pair, tmp_path), ClusterExecutor(len, print)) as agent:  # type: ignore[arg-type]
        assert wait_until(agent._stopping.is_set)
    assert REFUSALS[code] in str(caught.value)
    assert "More" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_no_credentials_at_all_are_named(queues: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(QueueRefused, match="Give boto3 credentials"):
        run_until_idle(quick(queues, tmp_path), ClusterExecutor(len, print))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, '{"__type": "InternalFailure", "message": "x"}', "application/json"),
        (503, "<html>away</html>", "text/html"),
        (200, "<html>log in</html>", "text/html"),
        (400, '{"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow"}', "application/json"),
    ],
)
def test_what_may_pass_is_waited_for(
    pair_answered: Callable[..., Pair], tmp_path: Path, status: int, body: str, kind: str
) -> None:
    with pytest.raises(QueueUnreachable):
        run_until_idle(quick(pair_answered(status, body, kind), tmp_path), ClusterExecutor(len, print))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1/plain", "is not a FIFO queue"),
        ("commands.fifo", "is not a queue's URL"),
        ("https://me:hunter2@127.0.0.1/1/q.fifo", "credentials do not belong into a URL"),
    ],
)
def test_urls_that_cannot_work_are_refused_unshown(url: str, reason: str) -> None:
    with pytest.raises(QueueRefused, match=reason) as caught:
        SqsSink(LAB, url, url)
    assert "hunter2" not in str(caught.value)


def test_a_ledger_serves_one_agent_of_one_cluster(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "l.db", "lab", "a")
    with pytest.raises(LedgerError, match=r"is in use by another agent \(pid \d+\)"):
        Ledger(tmp_path / "l.db", "lab", "b")
    first.close()
    with pytest.raises(LedgerError, match="belongs to cluster 'lab', not to 'west'"):
        Ledger(tmp_path / "l.db", "west", "a")
    Ledger(tmp_path / "l.db", "lab", "b").close()
    (tmp_path / "damaged.db").write_bytes(b"SQLite format 3\0" + b"?" * 5000)
    with pytest.raises(LedgerError, match="Nothing is sent without it"):
        Ledger(tmp_path / "damaged.db", "lab", "a")
    with pytest.raises(LedgerError, match="cannot be made or opened"):
        Ledger(tmp_path / "damaged.db" / "below" / "l.db", "lab", "a")


def test_without_a_ledger_that_can_be_written_the_agent_ends_and_sends_nothing(
    queues: Pair, cluster: ActingCluster, tmp_path: Path
) -> None:
    rows = [command(step, namespace=f"acme/ns{step}", plan_id="x" * 20_000) for step in range(20)]
    settings = quick(queues, tmp_path)
    agent = Agent(settings, acting_on(cluster, rows[0]), Ledger(settings.ledger, "lab", "agent-1"))
    agent._ledger._db.execute("PRAGMA max_page_count = 30")  # a disk that is full soon
    SqsSink(LAB, queues.commands, queues.reports).send(rows)
    with pytest.raises(LedgerError, match="database or disk is full"):
        agent.run()
    agent._ledger.close()
    assert set(cluster.effects) <= set(on_record(settings.ledger))
    assert waiting(queues) == 20, "what could not be noted is still on the queue"


class Failing:
    """A carrier with a fault of its own."""

    def __init__(self, *, looking: bool = False) -> None:
        self.sent = 0
        self._looking = looking

    def carry_out(self, command: Any, before_request: Any) -> Outcome:
        before_request()
        self.sent += 1
        raise RuntimeError("a fault")

    def look_again(self, command: Any) -> Outcome | None:
        if self._looking:
            raise RuntimeError("another fault")
        from datetime import UTC, datetime

        return Outcome(
            command["command_id"], "done", datetime.now(UTC), "found\x00 at\nits \ud800 place " + "x" * 10_000
        )


@pytest.mark.parametrize(
    ("looking", "outcome"), [(False, "done"), pytest.param(True, "unknown", marks=pytest.mark.exhaustive)]
)
def test_a_fault_in_carrying_out_is_looked_into_and_nothing_is_sent_twice(
    queues: Pair, tmp_path: Path, looking: bool, outcome: str
) -> None:
    row = command()
    SqsSink(LAB, queues.commands, queues.reports).send([row])
    carrier = Failing(looking=looking)
    run_until_idle(quick(queues, tmp_path), carrier)
    found = collect(queues, [row["command_id"]], 5)[row["command_id"]]
    assert found.outcome == outcome
    assert len(found.detail) <= 4_000
    assert "\n" not in found.detail
    assert carrier.sent == 1


def test_settings_that_break_the_promise_are_refused(queues: Pair, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"hold them for at least 97\.5 s"):
        quick(queues, tmp_path, longest_request_s=65.0, visibility_s=90)
