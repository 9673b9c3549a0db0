"""What simulated brokers answer: a recorded snapshot replayed, or a cluster of any size."""

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evenkeel.pulsar.answers import BROKER_SCOPED, Kind, subject_of
from tests.pulsar.admin.simulated import Answer, Asked, Book
from tests.snapshot_lines import requests_of

Requests = Sequence[Mapping[str, Any]]
_HASH_END = 0xFFFFFFFF


def requests_in(*snapshots: Path) -> list[dict[str, Any]]:
    """The requests of snapshots, the first one's last, so that they count where both asked the same."""
    return [request for snapshot in reversed(snapshots) for request in requests_of(snapshot)]


def brokers_in(requests: Requests) -> list[str]:
    """The brokers that the snapshot lists."""
    (body,) = [r["body"] for r in requests[::-1] if r["path"] == "/admin/v2/brokers" and r["status"] == 200][:1]
    return sorted(json.loads(body))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with broker ids replaced."""
    if not names:
        return text
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return pattern.sub(lambda match: names[match.group()], text)


def silent_brokers(requests: Requests) -> list[str]:
    """Brokers that gave no answer to any question in the snapshot."""
    asked = {request["broker"] for request in requests}
    return sorted(asked - {request["broker"] for request in requests if request["status"] != 0})


def replayed(requests: Requests) -> Callable[[Sequence[str]], Book]:
    """The book of a snapshot's requests, for as many brokers as it lists; their ids are put in place of the recorded.

    Of the cluster as a whole any broker tells; of itself only the broker asked. What a broker owns it tells itself, and
    every other sends on to it.
    """

    def book(ids: Sequence[str]) -> Book:
        names = dict(zip(brokers_in(requests), ids, strict=True))
        told: dict[tuple[str, str], Answer] = {}
        for request in requests:
            if request["method"] != "GET" or request["status"] == 0 or request["location"]:
                continue
            path = renamed(request["path"], names)
            told[_teller(path, names.get(request["broker"], "")), path] = Answer(
                request["status"], renamed(request["body"], names)
            )

        def answer(asked: Asked) -> Answer | None:
            teller = _teller(asked.path, asked.broker)
            if subject_of(asked.path).kind == Kind.OWNED and asked.broker != teller:
                return Answer(307, "", location=f"http://{teller}{asked.path}")
            return told.get((teller, asked.path))

        return answer

    return book


def _teller(path: str, broker: str) -> str:
    """Who answers a path: the broker asked, the broker that it names, or ("") any."""
    subject = subject_of(path)
    if subject.kind == Kind.OWNED:
        return subject.name.split(" ")[1]
    return broker if subject.kind in BROKER_SCOPED else ""


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster's size; about a kilobyte of figures per topic, as a topic with a producer and a consumer has."""

    topics: int = 1_000
    namespaces: int = 10
    bundles: int = 16


def sized(
    size: Size, manager: str = "Modular", quotas: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[Sequence[str]], Book]:
    """The book of a cluster `sim` of that size: bundles dealt out in turn, topics in the bundle of their hash.

    `quotas`: bundle -> its resource quota; of any other bundle the default is answered, as Pulsar does.
    """

    def book(ids: Sequence[str]) -> Book:
        owned = _owned(size, ids)
        known = dict(_cluster_wide(size, ids))
        runtime = json.dumps(_configuration(manager))
        own: dict[str, Callable[[str], str]] = {
            "/admin/v2/brokers/version": lambda broker: "4.2.4",
            "/admin/v2/brokers/configuration/runtime": lambda broker: runtime,
            "/admin/v2/broker-stats/load-report": lambda broker: _load_report(owned[broker]),
            "/admin/v2/broker-stats/metrics": lambda broker: _metrics(),
            "/admin/v2/broker-stats/topics": cache(lambda broker: _topic_figures(owned[broker])),
        }

        def answer(asked: Asked) -> Answer | None:
            if asked.path in own:
                return Answer(200, own[asked.path](asked.broker))
            if subject_of(asked.path).kind == Kind.OWNED:
                held = owned.get(_teller(asked.path, ""))
                return None if held is None else Answer(200, json.dumps(dict.fromkeys(held, _OWNED)))
            subject = subject_of(asked.path)
            if subject.kind == Kind.QUOTA:
                return Answer(200, json.dumps((quotas or {}).get(subject.name, DEFAULT_QUOTA)))
            body = known.get(asked.path)
            return None if body is None else Answer(200, body)

        return answer

    return book


DEFAULT_QUOTA = {
    **{"msgRateIn": 40.0, "msgRateOut": 120.0, "bandwidthIn": 100000.0, "bandwidthOut": 300000.0},
    **{"memory": 80.0, "dynamic": True},
}
"""What Pulsar answers until an operator has set another one."""
_OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
_STATS = {"msgRateIn": 10.0, "msgRateOut": 10.0, "msgThroughputIn": 7000.0, "msgThroughputOut": 7000.0}
_FILLER = "x" * 220


def _owned(size: Size, ids: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Broker → bundle → its topics."""
    owned: dict[str, dict[str, list[str]]] = {broker: {f"pulsar/{broker}/{_range(0, 1)}": []} for broker in ids}
    owner, turn = {}, 0
    for namespace in range(size.namespaces):
        for bundle in range(size.bundles):
            name = f"acme/ns{namespace:04d}/{_range(bundle, size.bundles)}"
            owner[namespace, bundle] = owned[ids[turn % len(ids)]].setdefault(name, [])
            turn += 1
    width = _HASH_END // size.bundles
    for number in range(size.topics):
        namespace = number % size.namespaces
        topic = f"persistent://acme/ns{namespace:04d}/orders-{number:07d}"
        owner[namespace, min(zlib.crc32(topic.encode()) // width, size.bundles - 1)].append(topic)
    return owned


def _edges(bundles: int) -> list[str]:
    width = _HASH_END // bundles
    return [f"0x{number * width:08x}" for number in range(bundles)] + [f"0x{_HASH_END:08x}"]


def _range(bundle: int, bundles: int) -> str:
    edges = _edges(bundles)
    return f"{edges[bundle]}_{edges[bundle + 1]}"


def _cluster_wide(size: Size, ids: Sequence[str]) -> Iterable[tuple[str, str]]:
    names = [f"acme/ns{number:04d}" for number in range(size.namespaces)]
    bundles = {"boundaries": _edges(size.bundles), "numBundles": size.bundles}
    yield "/admin/v2/brokers", json.dumps(list(ids))
    yield "/admin/v2/brokers/leaderBroker", json.dumps({"serviceUrl": f"http://{ids[0]}", "brokerId": ids[0]})
    yield "/admin/v2/brokers/configuration/values", "{}"
    yield "/admin/v2/clusters", '["sim"]'
    yield "/admin/v2/clusters/sim/failureDomains", "{}"
    yield "/admin/v2/tenants", '["acme"]'
    yield "/admin/v2/namespaces/acme", json.dumps(names)
    listed: dict[str, list[str]] = {name: [] for name in names}
    for number in range(size.topics):
        name = names[number % size.namespaces]
        listed[name].append(f"persistent://{name}/orders-{number:07d}")
    for name in names:
        yield f"/admin/v2/namespaces/{name}", json.dumps({"replication_clusters": ["sim"], "bundles": bundles})
        yield f"/admin/v2/namespaces/{name}/antiAffinity", ""
        yield f"/admin/v2/persistent/{name}", json.dumps(listed[name])


def _configuration(manager: str) -> dict[str, str]:
    """As large as a broker's own: 26 kB."""
    own = {
        "clusterName": "sim",
        "loadManagerClassName": f"org.apache.pulsar.broker.loadbalance.impl.{manager}LoadManagerImpl",
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
    }
    return own | {f"someSettingOfTheBroker{number:04d}": f"value {number}" for number in range(540)}


def _load_report(owned: Mapping[str, Sequence[str]]) -> str:
    loaded = {bundle: {**_STATS, "topics": len(topics)} for bundle, topics in owned.items() if topics}
    usage = {name: {"usage": 30.0, "limit": 100.0} for name in ("cpu", "memory", "directMemory")}
    report = {**usage, **_STATS, "lastStats": loaded, "bundles": list(owned), "brokerVersionString": "4.2.4"}
    return json.dumps({**report, "loadManagerClassName": "x.ModularLoadManagerImpl"})


def _metrics() -> str:
    usage = {f"brk_lb_{name}_usage": 25.5 for name in ("cpu", "memory", "directMemory", "bandwidth_in")}
    return json.dumps([{"metrics": usage, "dimensions": {"metric": "loadBalancing"}}])


def _topic_figures(owned: Mapping[str, Sequence[str]]) -> str:
    publisher = {"accessMode": "Shared", "msgRateIn": 1.5, "producerName": "sim-0-1", "address": f"/{_FILLER}"}
    consumer = {"consumerName": "c", "msgRateOut": 1.5, "availablePermits": 900, "address": f"/{_FILLER}"}
    subscription = {"msgBacklog": 3, "type": "Shared", "consumers": [consumer]}
    figures = {**_STATS, "publishers": [publisher], "subscriptions": {"work": subscription}, "producerCount": 1}
    text = json.dumps({**figures, "storageSize": 70_000, "backlogSize": 2_100, "averageMsgSize": 700.0})
    spaces: dict[str, list[str]] = {}
    for bundle, topics in owned.items():
        namespace, _, bundle_range = bundle.rpartition("/")
        if topics:
            inside = ",".join(f'"{topic}":{text}' for topic in topics)
            spaces.setdefault(namespace, []).append(f'"{bundle_range}":{{"persistent":{{{inside}}}}}')
    return "{" + ",".join(f'"{name}":{{{",".join(ranges)}}}' for name, ranges in spaces.items()) + "}"
