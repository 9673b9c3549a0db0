"""An agent killed (SIGKILL) at every step of its work, and started again: at most one effect, nothing lost.

The cases run beside each other, each with queues, a ledger and a cluster of its own; the tests look at what came of it.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer

import pytest

from evenkeel.steering.outcome import Outcome
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.acting_cluster import ActingCluster, wait_until
from tests.steering.queue.agent_process import start_agent
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import LAB, command, owners
from tests.steering.queue.running import collect, on_record, query, quick, waiting

pytestmark = pytest.mark.slow

POINTS = (
    "after:receive_message",
    "before:receive",
    "after:receive",
    "before:change_message_visibility_batch",
    "after:change_message_visibility_batch",
    "before:sending",
    "after:sending",
    "request",
    "answer",
    "before:settle",
    "after:settle",
    "before:send_message_batch",
    "after:send_message_batch",
    "before:paid",
    "after:paid",
    "before:delete_message_batch",
    "after:delete_message_batch",
)
ALWAYS = ("before:sending", "answer")  # before the effect, and after it; the others in `make test-all`
AT_ONCE = 6


@dataclass(frozen=True)
class Case:
    """What is left after an agent was killed at one point and another run of it went on to the end."""

    commands: list[dict]
    effects: Counter[str]
    outcomes: dict[str, Outcome]
    ledger: dict[str, str | None]
    owed: int
    left: int
    ended: bool


def run_case(point: str, queues: Pair, folder: Path) -> Case:
    commands = [command(1, "split", place=0), command(2, place=1), command(3, namespace="acme/ns1")]
    cluster = ActingCluster(owners(commands))
    settings = quick(queues, folder)
    effect_after = 0.0
    if point == "request":  # its effect comes while the next agent waits for it, though nobody waits for the answer
        settings, effect_after = replace(settings, visibility_s=15, longest_request_s=10), 4.0
    try:
        SqsSink(LAB, queues.commands, queues.reports).send(commands)
        cluster.hold(point)
        first = start_agent(settings, cluster.url, gated=True)
        assert cluster.arrived(point), f"no agent came to {point}"
        os.kill(first.pid or 0, 9)
        first.join()
        Timer(effect_after, cluster.open, [point]).start()
        second = start_agent(settings, cluster.url)
        outcomes = collect(queues, [row["command_id"] for row in commands])
        wait_until(lambda: waiting(queues) == 0, 10)  # what was settled and not deleted comes once more
        assert cluster.arrived("begun")
        second.terminate()
        # The exit code cannot tell: multiprocessing mixes it up where several threads look for it.
        ended = cluster.arrived("ended")
        second.join(20)
        return Case(
            commands,
            Counter(cluster.effects),
            outcomes,
            on_record(settings.ledger),
            owed(settings.ledger),
            waiting(queues),
            ended,
        )
    finally:
        cluster.close()


def owed(ledger: Path) -> int:
    return int(query(ledger, "SELECT count(*) FROM reports WHERE sent_at IS NULL")[0][0])


@pytest.fixture(scope="module")
def killed(
    request: pytest.FixtureRequest, make_queues: Callable[[], Pair], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Case]]]:
    """Every case that this run asks for, under way or done."""
    points = [point for point in POINTS if any(item.name.endswith(f"[{point}]") for item in request.session.items)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            point: pool.submit(run_case, point, make_queues(), tmp_path_factory.mktemp("killed")) for point in points
        }


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=() if point in ALWAYS else pytest.mark.exhaustive, id=point) for point in POINTS],
)
def test_an_agent_killed_at_any_point_has_one_effect_per_command_and_loses_nothing(
    killed: dict[str, Future[Case]], point: str
) -> None:
    case = killed[point].result(120)
    wanted = {row["command_id"] for row in case.commands}
    assert case.effects == Counter(wanted), "every premise held, so every command has its one effect"
    assert {one.outcome for one in case.outcomes.values()} == {"done"}
    assert set(case.outcomes) == wanted
    assert case.ledger == {command_id: one.outcome for command_id, one in case.outcomes.items()}
    assert (case.owed, case.left, case.ended) == (0, 0, True)
