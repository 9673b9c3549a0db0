"""How many commands a second does the publisher send to a fast endpoint? Real HTTP on loopback, simulated brokers.

`python -m benchmarks publish [--commands 1000] [--brokers 3] [--in-flight 8] [--runs 3]`. The brokers are a process of
their own. Every command is whole: its premise is read again, it is sent, and its outcome is seen on the cluster. The
rate is not limited (`evenkeelCommandsPerSecond` 0). The goal is 50 commands a second.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection

from benchmarks.apart import apart, until_closed
from benchmarks.machine import description
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.steering.command_executor import CommandExecutor
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.pulsar_admin import PulsarAdmin
from tests.steering.commands import unload
from tests.steering.simulated import simulated

LEAST_PER_SECOND = 50.0
BUNDLES_PER_NAMESPACE = 64


def serve(bundles: int, brokers: int, end: Connection) -> None:
    """Brokers of which the first has all bundles, until the other end is closed."""
    with simulated(brokers=brokers) as cluster:
        names: list[str] = []
        for number in range(-(-bundles // BUNDLES_PER_NAMESPACE)):
            names += cluster.namespace(f"acme/ns{number:03d}", BUNDLES_PER_NAMESPACE)
        end.send((cluster.url, cluster.brokers, names[:bundles]))
        until_closed(end)


def sent(commands: int, brokers: int, in_flight: int) -> tuple[float, Counter[str]]:
    """Commands a second, and how many came to what."""
    with apart(serve, commands, brokers) as (url, ids, bundles):
        plan = [
            unload(bundle, ids[0], ids[1 + step % (len(ids) - 1)], step=step) for step, bundle in enumerate(bundles, 1)
        ]
        told: list[Outcome] = []
        with AdminClient(AdminConnection((url,)), most_connections=2 * in_flight) as client:
            begin = time.monotonic()
            sink = PulsarAdmin(CommandExecutor(client), per_second=0, in_flight=in_flight)
            sink.send(plan, stop=lambda: None, ask=lambda: None, report=told.append)
            seconds = time.monotonic() - begin
    return len(plan) / seconds, Counter(outcome.outcome for outcome in told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints every run; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks publish", description=__doc__)
    for name, default in (("commands", 1_000), ("brokers", 3), ("in-flight", 8), ("runs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    print(description(), flush=True)
    rates = []
    for _ in range(given.runs):
        rate, outcomes = sent(given.commands, given.brokers, given.in_flight)
        rates.append(rate)
        print(f"    {rate:.0f} commands/s: {dict(outcomes)}", flush=True)
        if outcomes != Counter(done=given.commands):
            return 1
    print(f"    {min(rates):.0f} / {statistics.median(rates):.0f} / {max(rates):.0f} commands/s (min, median, max)")
    return 0 if statistics.median(rates) >= LEAST_PER_SECOND else 1
