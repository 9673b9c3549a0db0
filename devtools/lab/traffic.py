"""Load on a cluster, bounded in rate and time, with a check for lost messages afterwards.

    with traffic_for(cluster, skewed("acme", cluster.broker_ids), seconds=60) as traffic:
        ...
        tally = traffic.stop()

The senders are a separate process, so that a test's own work does not disturb them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from devtools.lab.cluster import Cluster
from devtools.lab.errors import LabError
from devtools.lab.jvms import child_environment, tail
from devtools.lab.laying_out import lay_out
from devtools.lab.layout import Layout
from devtools.lab.sender import PROGRESS, RESULT, Order
from devtools.lab.tally import Tally
from devtools.lab.waiting import wait_until
from evenkeel.spark.home import identity

MOST_MESSAGES_A_SECOND = 5000.0
MOST_SECONDS = 1800.0
CONNECT_SECONDS = 90.0
DRAIN_SECONDS = 60.0
END_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Senders at work."""

    layout: Layout
    folder: Path
    process: subprocess.Popen[str]

    def so_far(self) -> Tally:
        """Return the counts of the last second; nothing counts as lost yet."""
        path = self.folder / PROGRESS
        return Tally.read(path) if path.exists() else Tally()

    def await_acknowledged(self, messages: int, *, seconds: float = CONNECT_SECONDS) -> None:
        """Return when so many messages have been acknowledged in all."""
        wait_until(
            f"{messages} acknowledged messages",
            lambda: self.so_far().acknowledged >= messages,
            seconds=seconds,
            meanwhile=self._demand_life,
            why=lambda: str(self.so_far()),
        )

    def stop(self) -> Tally:
        """End the sending, wait for messages under way, and report the outcome of every message."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(timeout=DRAIN_SECONDS + END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if not (self.folder / RESULT).exists():
            raise LabError(f"The senders ended without a tally. {tail(self.folder / 'sender.log')}")
        return Tally.read(self.folder / RESULT)

    def _demand_life(self) -> None:
        if self.process.poll() is not None and not (self.folder / RESULT).exists():
            raise LabError(f"The senders ended. {tail(self.folder / 'sender.log')}")


@contextmanager
def traffic_for(cluster: Cluster, layout: Layout, *, seconds: float) -> Iterator[Traffic]:
    """Make the layout, start the senders for at most `seconds`, and return them when the first messages have arrived.

    They end with the block, and with this process.
    """
    rate = sum(topic.rate for topic in layout.topics)
    if rate > MOST_MESSAGES_A_SECOND or seconds > MOST_SECONDS:
        raise LabError(
            f"{rate:.0f} messages/s for {seconds:.0f} s is too much: up to {MOST_MESSAGES_A_SECOND:.0f}/s "
            f"for up to {MOST_SECONDS:.0f} s."
        )
    lay_out(cluster, layout)
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-traffic-"))
    traffic = Traffic(layout, folder, _spawn(_order(cluster, layout, seconds, folder)))
    try:
        traffic.await_acknowledged(1)
        yield traffic
    finally:
        traffic.process.kill()
        traffic.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _order(cluster: Cluster, layout: Layout, seconds: float, folder: Path) -> Order:
    return Order(
        service_url=cluster.service_url,
        token=cluster.token(),
        topics=[(topic.name, topic.rate) for topic in layout.topics],
        message_bytes=layout.message_bytes,
        is_batched=layout.is_batched,
        seconds=seconds,
        drain_seconds=DRAIN_SECONDS,
        owner=identity(os.getpid()) or "",
        folder=str(folder),
    )


def _spawn(order: Order) -> subprocess.Popen[str]:
    with (Path(order.folder) / "sender.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "devtools.lab.sender"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=child_environment(),
            start_new_session=True,
            text=True,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it ended at once; the reason is in its log
        process.stdin.write(json.dumps(asdict(order)))
        process.stdin.close()
    return process
