"""A pause lasts with the agents exactly as long as it lasts on record, whoever began it and whoever ends it."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.lake.controls import control_row
from evenkeel.lake.store import Lake, append_row
from evenkeel.publish.dispatch import announce_controls, sign_with
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.acting_cluster import ActingCluster, ClusterExecutor
from tests.steering.queue.conftest import Pair
from tests.steering.queue.examples import KEY, LAB, command, owners
from tests.steering.queue.running import collect, quick, run_until_idle, waiting

pytestmark = [pytest.mark.spark, pytest.mark.slow]
AT = "2026-11-21T09:00:00.000000+00:00"


class Operator:
    """Says pause and resume to a lake, and no word to the agents; publishes without a plan."""

    def __init__(self, spark: Any, lake: Lake, queues: Pair) -> None:
        self.spark, self.lake = spark, lake
        urls = {"commands": queues.commands, "reports": queues.reports, "keys": "tests"}
        self.cycle = ClusterCycle("lab", AT, Snapshot("", AT), {}, queues=urls)
        self.other = ClusterCycle("by-admin", AT, Snapshot("", AT), {}, admin={})

    def says(self, kind: str, cluster: str = "lab") -> None:

        row = control_row(cluster, kind, "olga", "release night")
        append_row(self.lake, "controls", row)

    def publishes(self, now: datetime | None = None) -> None:
        announce_controls(self.lake, [self.other, self.cycle], sign_with(), now or datetime.now(UTC))


@pytest.fixture
def operator(spark: Any, empty_lake: Callable[[Path], Path], tmp_path: Path, queues: Pair) -> Operator:
    return Operator(spark, Lake(str(empty_lake(tmp_path / "lake"))), queues)


def test_agents_hear_of_a_pause_and_of_its_end_with_the_next_publish(
    operator: Operator, queues: Pair, cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_KEYS_TESTS", KEY)
    queued, later = command(1), command(2, place=1, plan_id="plan-2")
    cluster.owners |= owners([queued, later])
    carrier = ClusterExecutor(cluster.owners.get, cluster.request)
    settings, sink = quick(queues, tmp_path), SqsSink(LAB, queues.commands, queues.reports)
    operator.publishes()
    assert waiting(queues) == 0, "nobody has said anything yet"
    operator.says("pause", "by-admin")
    operator.says("pause")
    operator.publishes()
    operator.publishes()  # the same word once more
    run_until_idle(settings, carrier)
    sink.send([queued])
    run_until_idle(settings, carrier)
    found = collect(queues, [queued["command_id"]], 5)
    assert found[queued["command_id"]].outcome == "withheld"
    assert "paused by olga" in found[queued["command_id"]].detail
    operator.says("resume")
    operator.publishes()
    run_until_idle(settings, carrier)
    sink.send([later])
    run_until_idle(settings, carrier)
    assert collect(queues, [later["command_id"]], 5)[later["command_id"]].outcome == "done"
    assert cluster.effects == [later["command_id"]]


def test_a_resume_of_long_ago_is_not_told_any_more_and_a_pause_is(
    operator: Operator, queues: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_KEYS_TESTS", KEY)
    operator.says("resume")
    operator.publishes(datetime.now(UTC) + timedelta(days=15))
    assert waiting(queues) == 0
    operator.says("pause")
    operator.publishes(datetime.now(UTC) + timedelta(days=15))
    assert waiting(queues) == 1


def test_agents_that_cannot_be_told_stop_no_publish(operator: Operator, caplog: pytest.LogCaptureFixture) -> None:
    operator.says("pause")
    with caplog.at_level(logging.WARNING):
        operator.publishes()
    assert "lab: the pause could not be sent to its agents: messages of a queue are signed" in caplog.text
