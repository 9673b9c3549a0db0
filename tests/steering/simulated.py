"""A small cluster that can be steered: brokers on this machine's loopback that own bundles, move and split them.

It answers as Pulsar was seen to answer, and can be told to misbehave in ways that a real broker shows only by chance:
to be slow, to fail before or after the work is done, to die. Every effect on a bundle is counted.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from evenkeel.model.bundles import initial_boundaries, range_of
from evenkeel.model.topics import topic_hash
from tests.pulsar.admin.simulated import Answer, Asked, SimulatedCluster

OFF = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false", "clusterName": "lab"}


@dataclass(frozen=True)
class Fault:
    """What happens to a request: wait, then answer so; the work is done before that, or not at all.

    `status` 0 breaks the connection; None answers as it should.
    """

    wait_s: float = 0.0
    status: int | None = None
    body: str = ""
    works: bool = True
    headers: dict[str, str] = field(default_factory=dict)


Answered = tuple[int, Any, str | None]
Faults = Callable[[str, str, str], Fault | None]
"""(broker, method, path) -> fault."""


class SimulatedPulsar(SimulatedCluster):
    """Brokers with bundles; the modular manager unless told otherwise. One that is not `alive` says nothing."""

    def __init__(self, brokers: int = 3, *, extensible: bool = False, clients: bool = True) -> None:
        self.extensible, self.clients = extensible, clients
        self.lock = threading.RLock()
        self.boundaries: dict[str, list[int]] = {}
        self.owner: dict[str, str] = {}
        self.pins: dict[str, str] = {}
        self.topics: set[str] = set()
        self.effects: list[tuple[str, str, str | None]] = []
        self.requests: list[tuple[str, str, str, str | None]] = []
        self.tokens: set[str | None] = set()
        self.token: str | None = None
        self.faults: Faults = lambda broker, method, path: None
        super().__init__(lambda ids: lambda asked: None, brokers)
        self.brokers, self.listed, self.alive = self.ids, list(self.ids), set(self.ids)
        self.configuration = {broker: dict(OFF) for broker in self.brokers}

    def namespace(self, name: str, bundles: int, owner: int = 0) -> list[str]:
        """Makes a namespace whose bundles all lie on one broker; their names."""
        self.boundaries[name] = list(initial_boundaries(bundles))
        found = self.bundles(name)
        self.owner |= dict.fromkeys(found, self.brokers[owner])
        return found

    def bundles(self, name: str) -> list[str]:
        bounds = self.boundaries[name]
        return [f"{name}/0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]

    def kill(self, broker: str, *, reassign_to: str | None = None) -> None:
        """Ends a broker; it stays listed and keeps its bundles, as long as its session lasts, or they go to another."""
        self.alive.discard(broker)
        super().kill(broker)
        with self.lock:
            for bundle in [name for name, owner in self.owner.items() if owner == broker and reassign_to]:
                self.owner[bundle] = str(reassign_to)

    def moves(self, bundle: str) -> int:
        """How often something was done to a bundle."""
        return sum(one[1] == bundle for one in self.effects)

    def answer(self, asked: Asked) -> Answer:
        """What this request gets: nothing, a fault, or what the brokers know; work is done before the answer."""
        if asked.broker not in self.alive:
            return Answer(drop=True)
        self.tokens.add(asked.authorization)
        self.requests.append((asked.broker, asked.method, asked.path, asked.body or None))
        fault = self.faults(asked.broker, asked.method, asked.path) or Fault()
        if self.token is not None and asked.authorization != f"Bearer {self.token}":
            fault = Fault(status=401, body="<html>Error 401</html>", works=False)
        status, found, owner = 200, None, None
        if fault.works:
            parts = urlsplit(asked.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            with self.lock:
                status, found, owner = self.known(asked.broker, asked.method, parts.path, query, asked.body)
        text = fault.body if fault.status else ("" if found is None else json.dumps(found))
        location = f"http://{owner}{asked.path}" if owner else None
        return Answer(fault.status or status, text, location, fault.headers, fault.wait_s, drop=fault.status == 0)

    # what the brokers do

    def known(self, broker: str, method: str, path: str, query: dict[str, str], body: str) -> Answered:
        """Status, JSON body, and where to be redirected to."""
        parts = [unquote(part) for part in path.split("/") if part][2:]
        if parts == ["brokers"]:
            return 200, self.listed, None
        if parts[:3] == ["brokers", "configuration", "runtime"]:
            return 200, self.configuration[broker], None
        if parts[0] == "namespaces" and parts[-1] == "bundles":
            return self._bounds("/".join(parts[1:3]))
        if method == "PUT" and parts[0] in ("persistent", "non-persistent") and parts[-1] == "unload":
            return self._unload_topic(broker, "/".join(parts[1:3]), f"{parts[0]}://{'/'.join(parts[1:4])}")
        if method == "PUT" and parts[-1] in ("unload", "split"):
            return self._act(broker, parts[-1], "/".join(parts[1:3]), parts[3], query, body)
        if parts[0] == "non-persistent" and len(parts) == 4:
            return self._topics_of(broker, "/".join(parts[1:3]), parts[3])
        return 404, {"reason": "HTTP 404 Not Found"}, None

    def _topics_of(self, broker: str, namespace: str, found: str) -> Answered:
        if namespace not in self.boundaries:
            return 404, {"reason": "Namespace not found"}, None
        if f"{namespace}/{found}" not in self.bundles(namespace):
            return 412, {"reason": f"Cannot find bundle {found} in the bundles list"}, None
        owner = self.owner.get(f"{namespace}/{found}")
        if owner is None:
            return 204, None, None
        return (200, [], None) if owner == broker else (307, None, owner)

    def _bounds(self, namespace: str) -> Answered:
        bounds = self.boundaries.get(namespace)
        if bounds is None:
            return 404, {"reason": "Namespace not found"}, None
        texts = [f"0x{bound:08x}" for bound in bounds]
        return 200, {"boundaries": texts, "numBundles": len(texts) - 1}, None

    def _act(self, broker: str, what: str, namespace: str, found: str, query: dict[str, str], body: str) -> Answered:
        bundle = f"{namespace}/{found}"
        if namespace not in self.boundaries:
            return 404, {"reason": "Namespace not found"}, None
        if bundle not in self.bundles(namespace):
            return 412, {"reason": f"Cannot find bundle {found} in the bundles list"}, None
        owner, destination = self.owner.get(bundle), query.get("destinationBroker")
        if destination and destination not in self.listed:
            return 409, {"reason": "Not allowed unload namespace bundle to inactive destination broker"}, None
        if destination and not self.extensible:
            self.pins[bundle] = destination
        if owner is None:
            return 204, None, None
        if owner != broker:
            return 307, None, owner
        return self._unload(bundle, owner, destination) if what == "unload" else self._split(bundle, query, body)

    def _unload(self, bundle: str, owner: str, destination: str | None) -> Answered:
        if self.extensible and destination == owner:
            return 500, {"reason": "\n --- An unexpected error ---\nMessage: cannot be transfer to same broker\n"}, None
        goal = destination or self.pins.pop(bundle, None)
        self.effects.append(("unload", bundle, goal))
        del self.owner[bundle]
        if self.clients or (self.extensible and goal):
            others = [one for one in self.listed if one != owner and one in self.alive]
            self.owner[bundle] = goal or others[0]
        return 204, None, None

    def _unload_topic(self, broker: str, namespace: str, topic: str) -> Answered:
        at = topic_hash(topic)
        owner = next((self.owner.get(name) for name in self.bundles(namespace) if range_of(name).includes(at)), None)
        if topic not in self.topics:
            return 404, {"reason": f"Topic {topic} not found"}, None
        if owner != broker:
            return 307, None, owner
        self.effects.append(("unload_topic", topic, None))
        return 204, None, None

    def _split(self, bundle: str, query: dict[str, str], body: str) -> Answered:
        cuts = json.loads(body)
        if self.extensible and len(cuts) > 1:
            return 412, {"reason": "Split bundle failed due to invalid request"}, None
        namespace = bundle.rpartition("/")[0]
        owner = self.owner.pop(bundle)
        self.effects.append(("split", bundle, None))
        self.boundaries[namespace] = sorted({*self.boundaries[namespace], *cuts})
        gone = query.get("unload") == "true" and not self.extensible and not self.clients
        for child in self.bundles(namespace):
            if child not in self.owner and not gone:
                self.owner[child] = owner
        return 204, None, None


@contextmanager
def simulated(**given: Any) -> Iterator[SimulatedPulsar]:
    """A cluster for the length of a test."""
    with closing(SimulatedPulsar(**given)) as cluster:
        yield cluster
