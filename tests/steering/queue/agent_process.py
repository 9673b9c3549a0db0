"""An agent in a process of its own, to be killed at a marked point: a gate of the simulated cluster.

Gates: `before:X` and `after:X` for the ledger's `receive`, `sending`, `settle` and `paid`, and for the queues'
`receive_message`, `change_message_visibility_batch`, `send_message_batch` and `delete_message_batch`; `request` and
`answer` inside the cluster, and `look` where it is asked for a bundle's owner; `begun` where an agent without such
gates listens to signals, and `ended` where an agent has ended as it should. Processes are started by a fork server that
has imported everything already.
"""

import functools
import json
import logging
import multiprocessing
import os
import signal
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, fields
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3  # noqa: F401  (so that the fork server has it)

from evenkeel.ending import until_signalled
from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.service import Agent
from evenkeel.steering.agent.setup import AgentSettings
from evenkeel.steering.queue.fifo import Fifo
from tests.steering.queue.acting_cluster import PATIENCE_SECONDS, ClusterExecutor, wait_until
from tests.steering.queue.examples import LAB

LEDGER_POINTS = ("receive", "sending", "settle", "paid")


@dataclass(frozen=True)
class OverHttp:
    """A simulated cluster in another process."""

    url: str

    def pass_gate(self, name: str) -> None:
        self._ask(f"/gate?name={quote(name)}")

    def owner(self, bundle: str) -> str | None:
        owner: str | None = self._ask(f"/owner?name={quote(bundle)}")["owner"]
        return owner

    def request(self, **asked: Any) -> None:
        self._ask("/request", json.dumps(asked).encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.url + path, body, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)


def start_agent(settings: AgentSettings, cluster: str, *, gated: bool = False) -> ForkServerProcess:
    """Starts an agent that carries out on the simulated cluster of this URL."""
    # Keys enter no hand-over, so the process has its own.
    plain = {one.name: getattr(settings, one.name) for one in fields(settings) if one.name != "signature"}
    process = _context().Process(target=_run, args=(plain, cluster, gated, dict(os.environ)), daemon=True)
    process.start()
    return process


def freeze(process: ForkServerProcess) -> None:
    """Stops an agent's process, and comes back once all its threads stand still: they go on until each has seen it."""
    os.kill(process.pid or 0, signal.SIGSTOP)
    threads = Path("/proc", str(process.pid), "task")
    assert wait_until(lambda: {_state(thread) for thread in threads.iterdir()} == {"T"})


def _state(thread: Path) -> str:
    """The letter of the state of a thread, which stands behind its name in parentheses."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


@functools.cache
def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _run(plain: dict[str, Any], url: str, gated: bool, environment: dict[str, str]) -> None:
    settings = AgentSettings(signature=LAB, **plain)
    os.environ.update(environment)  # the fork server may be older than the test's credentials
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {settings.name} %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    cluster = OverHttp(url)
    ledger = Ledger(settings.ledger, settings.cluster, settings.name)
    if gated:
        _gate(Fifo, "_ask", cluster.pass_gate, lambda arguments: str(arguments[1]))
        for name in LEDGER_POINTS:
            _gate(Ledger, name, cluster.pass_gate, lambda _, name=name: name)
    agent = Agent(settings, ClusterExecutor(cluster.owner, cluster.request), ledger)
    if not gated:
        real = agent.run

        def run() -> None:
            cluster.pass_gate("begun")  # from here on a signal lets it finish; before, it would just be dead
            real()

        agent.run = run  # type: ignore[method-assign]
    until_signalled(agent.run, agent.stop)
    ledger.close()
    cluster.pass_gate("ended")


def _gate(owner: type, name: str, gate: Callable[[str], None], named: Callable[[Any], str]) -> None:
    real = getattr(owner, name)

    def through(*arguments: Any, **values: Any) -> Any:
        gate(f"before:{named(arguments)}")
        result = real(*arguments, **values)
        gate(f"after:{named(arguments)}")
        return result

    setattr(owner, name, through)
