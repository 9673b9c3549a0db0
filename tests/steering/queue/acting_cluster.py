"""A simulated cluster that counts effects: a server in the test's process, so that no agent's death takes it along.

It does what it is asked whenever it is asked, as Pulsar does: an unload sent twice is two effects. Tests hold *gates*:
points that a request (or a process, see `agent_process`) does not pass before the test opens them.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from evenkeel.steering.outcome import Outcome
from tests.serving import answering

PATIENCE_SECONDS = 60


class ActingCluster:
    """Bundles and their owners, what was done to them, and the gates."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.owners: dict[str, str] = dict(owners)
        self.effects: list[str] = []
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._arrived: Counter[str] = Counter()
        self._served = ExitStack()
        self.url = f"http://127.0.0.1:{self._served.enter_context(answering(self._answer))}"

    def close(self) -> None:
        self.open_all()
        self._served.close()

    # Gates

    def hold(self, *names: str) -> None:
        with self._changed:
            self._held |= set(names)

    def open(self, *names: str) -> None:
        with self._changed:
            self._held -= set(names)
            self._changed.notify_all()

    def open_all(self) -> None:
        self.open(*self._held)

    def pass_gate(self, name: str) -> None:
        """Waits while the gate is held."""
        with self._changed:
            self._arrived[name] += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: name not in self._held, PATIENCE_SECONDS)

    def arrived(self, name: str, seconds: float = 30) -> bool:
        """Waits until somebody stands at the gate, or has passed it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._arrived[name] > 0, seconds)

    # The cluster

    def request(self, command_id: str, kind: str, bundle: str, destination: str | None, cuts: list[int] | None) -> None:
        """What a request does, once the gate `request` lets it; the answer waits at the gate `answer`."""
        self.pass_gate("request")
        with self._changed:
            self.effects.append(command_id)
            owner = self.owners.pop(bundle, "nobody")
            if kind == "split":
                self.owners |= dict.fromkeys(children(bundle, cuts or []), owner)
            else:
                self.owners[bundle] = destination or "placed"
            self._changed.notify_all()
        self.pass_gate("answer")

    def acted(self, count: int, seconds: float = 30) -> bool:
        """Waits for so many effects."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.effects) >= count, seconds)

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        if handler.command == "POST":
            self.request(**json.loads(body))
            return 200, b"{}"
        asked = urlsplit(handler.path)
        name = parse_qs(asked.query)["name"][0]
        self.pass_gate(name if asked.path == "/gate" else "look")
        return 200, json.dumps({"owner": self.owners.get(name)}).encode()


def children(bundle: str, cuts: list[int]) -> list[str]:
    namespace, _, span = bundle.rpartition("/")
    lower, upper = span.split("_")
    edges = [lower, *(f"0x{cut:08x}" for cut in cuts), upper]
    return [f"{namespace}/{edges[i]}_{edges[i + 1]}" for i in range(len(edges) - 1)]


class ClusterExecutor:
    """Carries commands out on a simulated cluster: looks at the owner, asks, and believes the answer.

    `owner` and `request` are the cluster's own methods, or calls over HTTP from another process.
    """

    def __init__(self, owner: Callable[[str], str | None], request: Callable[..., None]) -> None:
        self._owner = owner
        self._request = request

    def carry_out(self, command: Mapping[str, Any], before_request: Callable[[], None]) -> Outcome:
        owner = self._owner(command["bundle"])
        if owner != command["from_broker"]:
            return self._outcome(command, "stale", f"owned by {owner}")
        before_request()
        names = ("command_id", "kind", "bundle", "destination", "cuts")
        self._request(**{name: command[name] for name in names})
        return self._outcome(command, "done", "answered")

    def look_again(self, command: Mapping[str, Any]) -> Outcome | None:
        owner = self._owner(command["bundle"])
        if owner == command["from_broker"]:
            return None
        there = owner is None if command["kind"] == "split" else owner == command["destination"]
        return self._outcome(command, "done" if there else "stale", f"found at {owner}")

    def _outcome(self, command: Mapping[str, Any], outcome: str, detail: str) -> Outcome:
        from datetime import UTC, datetime

        return Outcome(command["command_id"], outcome, datetime.now(UTC), detail)


def wait_until(condition: Callable[[], object], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False
