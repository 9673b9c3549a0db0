"""From the last question before a request to the request's arrival at its broker, in milliseconds.

`python -m benchmarks last_question [--commands 200] [--commits 1000]`. A pause or a newer plan that comes in this time
is not seen. Brokers answer on loopback. The publisher lists the newest versions of three tables of a lake in a folder,
each with so many commits; a change of one of them costs several queries, after which they are listed again. The agent
renews its hold on a queue that answers at once, and its ledger is synced: add a round trip to the service.
Goal: 95 of 100 within 50 ms.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.machine import description
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.store import Lake
from evenkeel.publish import dispatch
from evenkeel.publish.dispatch import GateReasons, OutcomeRecorder, Sending
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.processor import ClusterExecutor, Processor
from evenkeel.steering.agent.setup import AgentSettings, PauseSwitch
from evenkeel.steering.agent.work_queue import WorkQueue
from evenkeel.steering.command_executor import CommandExecutor
from evenkeel.steering.dispatcher import LeaseGuard, Timing, conduct
from evenkeel.steering.pulsar_admin import Pace, PulsarAdmin
from evenkeel.steering.queue.signing import Signature, keys_in
from evenkeel.times import elapsed
from tests.steering.commands import unload
from tests.steering.simulated import SimulatedPulsar, simulated

MOST_MS = 50.0
_CALM = Timing(lease_s=3600.0, renew_s=3600.0, write_s=3600.0)


class _Records(OutcomeRecorder):
    """A publisher's tables without Spark: nothing in them changes, so nothing but the list of versions is read."""

    def write(self, outcomes: Sequence[Any]) -> None:
        """Keep nothing."""


class _Held:
    """A queue that answers at once."""

    def __init__(self, asked: Callable[[], None]) -> None:
        self._asked = asked

    def renew(self, receipts: list[str], seconds: int) -> set[str]:
        """Return that no receipt is lost."""
        self._asked()
        return set()


class _Windows:
    """Times from the last question to the arrival of a request, in milliseconds."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []
        self._asked_at = 0.0

    def asked(self) -> None:
        """Note that the last question begins."""
        self._asked_at = time.perf_counter()

    def arrived(self, _broker: str, method: str, _path: str) -> None:
        """Note a request at its broker."""
        if method == "PUT":
            self.milliseconds.append(1000.0 * (time.perf_counter() - self._asked_at))


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line for the publisher and one for the agent; 0 if the goal was met by both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks last_question", description=__doc__)
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--commits", type=int, default=1_000)
    given = parser.parse_args(arguments)
    print(description(), flush=True)
    missed = 0
    for name, send in (("publisher", _publisher), ("agent", _agent)):
        with (
            tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
            _cluster(given.commands) as (lab, windows),
        ):
            send(Path(folder), lab, windows, given.commits)
        took = sorted(windows.milliseconds)
        late = took[int(0.95 * len(took))]
        print(
            f"    {name}: {len(took)} requests, {statistics.median(took):.1f} ms in the median, 95 of 100 within "
            f"{late:.1f} ms, the longest {took[-1]:.1f} ms",
            flush=True,
        )
        missed += late > MOST_MS or len(took) != given.commands
    return int(missed > 0)


@contextmanager
def _cluster(bundles: int) -> Iterator[tuple[SimulatedPulsar, _Windows]]:
    with simulated() as lab:
        windows = _Windows()
        lab.faults = windows.arrived
        lab.namespace("acme/orders", bundles)
        yield lab, windows


def _commands(lab: SimulatedPulsar) -> list[dict[str, Any]]:
    a, b, _ = lab.brokers
    return [unload(bundle, a, b, step=step) for step, bundle in enumerate(lab.bundles("acme/orders"), start=1)]


def _publisher(folder: Path, lab: SimulatedPulsar, windows: _Windows, commits: int) -> None:
    for table in ("cycles", "approvals", "controls"):
        log = folder / table / "_delta_log"
        log.mkdir(parents=True)
        for version in range(commits):
            (log / f"{version:020d}.json").touch()

    def listed(path: str) -> int:
        if path.endswith("cycles"):
            windows.asked()
        return newest_version(path)

    def work(stop: LeaseGuard, report: Any) -> str | None:
        executor = CommandExecutor(AdminClient(AdminConnection((lab.url,))))
        PulsarAdmin(executor, per_second=0, in_flight=1).send(_commands(lab), stop=stop, ask=stop.ask, report=report)
        return stop()

    sending = Sending(lambda cycle: AdminClient(AdminConnection((lab.url,))), timing=_CALM)
    nothing: Any = None
    records = _Records(nothing, Lake(str(folder)), nothing, sending, lambda _: GateReasons())
    with patch.multiple(dispatch, newest_version=listed, leases=lambda *_: {}):
        (done,) = conduct({"lab": work}, records, _CALM, {"lab": elapsed()}).values()
    if done.stopped is not None:
        raise RuntimeError(done.stopped)


def _agent(folder: Path, lab: SimulatedPulsar, windows: _Windows, _commits: int) -> None:
    def now() -> datetime:
        return datetime.now(UTC)

    ledger, work_queue = Ledger(folder / "ledger.db", "lab", "agent"), WorkQueue()
    settings = AgentSettings(Signature("lab", keys_in("k" * 32, "here")), "", "", folder, "agent", per_second=1e6)
    executor = ClusterExecutor(
        AdminClient(AdminConnection((lab.url,))), longest_request_s=settings.longest_request_s, now=now
    )
    pause = PauseSwitch(folder / "paused", ledger.paused, ledger.withdrawn)
    processor = Processor(settings, ledger, executor, work_queue, _Held(windows.asked), pause, Pace(0), now)
    for command in _commands(lab):
        ledger.receive(command, now())
        work_queue.put(command, command["command_id"], command["command_id"])
        in_flight = work_queue.take(1.0)
        assert in_flight is not None
        processor.go_on(in_flight)
        work_queue.forget(in_flight)
    ledger.close()
