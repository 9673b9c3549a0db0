"""Writes a landed snapshot of any size, as a modular 4.2 cluster would have answered it (python -m).

Layout: a file `NNNN.jsonl.gz`, see `evenkeel.sources.snapshot_files`. Figures fit together:
every topic lies in the bundle of its hash, every bundle has one owner, the owner's report sums its topics (before they
are cut to three decimals, as Pulsar cuts them). The same seed writes the same requests.
"""

from __future__ import annotations

import argparse
import bisect
import gzip
import json
import random
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from evenkeel.settings.keys import registry

CLUSTER = "bench"
TENANT = "bench"
FULL_UPPER = 0xFFFFFFFF
FINISHED_AT = datetime(2026, 1, 1, tzinfo=UTC)

_BUNDLES_PER_NAMESPACE = 64
_LISTED_ONLY_PER_THOUSAND = 5
_CPU_LIMIT = 1600.0
_MSG_PER_CPU_PERCENT = 60.0
_IMPL = "org.apache.pulsar.broker.loadbalance.impl."
_RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the cluster is, and the seed of what it is and of its figures; with a `moment` the figures are others
    while the cluster stays as it is."""

    topics: int = 100_000
    bundles: int = 1_000
    brokers: int = 10
    seed: int = 1
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace with its boundaries and the topics (by number) of each of its bundles."""

    name: str
    boundaries: tuple[int, ...]
    topics: tuple[tuple[int, ...], ...]

    def range_of(self, bundle: int) -> str:
        return f"0x{self.boundaries[bundle]:08x}_0x{self.boundaries[bundle + 1]:08x}"


def write_snapshot(file: Path, shape: Shape, *, n: int = 0, finished_at: datetime = FINISHED_AT) -> None:
    """Writes one snapshot, packed, one request a line; its folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    requests, count = file.with_name(f".{file.name}.part"), 0
    with gzip.open(requests, "wb", compresslevel=3) as lines:
        for request in _requests(shape, finished_at):
            count += 1
            line = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
            lines.write(line.encode() + b"\n")
    header = {**_header(n, finished_at), "has_configuration": True, "requests": count}
    with file.open("wb") as whole, requests.open("rb") as packed:
        whole.write(gzip.compress(json.dumps(header).encode() + b"\n", mtime=0))
        shutil.copyfileobj(packed, whole)
    requests.unlink()


def write_document(file: Path, shape: Shape, *, n: int, finished_at: datetime, full: bool = True) -> None:
    """Writes one snapshot as one packed document; without `full` the brokers' configuration and topic lists are left
    to an earlier snapshot."""
    requests = [request for request in _requests(shape, finished_at) if full or not _now_and_then(request["path"])]
    text = json.dumps({**_header(n, finished_at), "requests": requests}, ensure_ascii=False, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))


def _now_and_then(path: str) -> bool:
    return path.endswith("/configuration/runtime") or path.startswith("/admin/v2/persistent/")


def _header(n: int, finished_at: datetime) -> dict[str, Any]:
    return {"format": 1, "n": n, "started_at": _z(_started(finished_at)), "finished_at": _z(finished_at), "note": ""}


def _started(finished_at: datetime) -> datetime:
    return finished_at - timedelta(seconds=5)


def _requests(shape: Shape, finished_at: datetime) -> Iterator[dict[str, Any]]:
    for position, (broker, path, body) in enumerate(_answers(shape, finished_at)):
        yield {
            "n": position,
            "broker": broker,
            "method": "GET",
            "path": path,
            "status": 200 if body is not None else 404,
            "at": _z(_started(finished_at) + timedelta(milliseconds=position % 5000)),
            "elapsed_ms": 1.0,
            "location": None,
            "body": body if body is not None else '{"reason":"does not exist"}',
        }


def broker_names(shape: Shape) -> list[str]:
    """Broker ids, in the order of their numbers."""
    return [f"broker-{number:04d}.{CLUSTER}:8080" for number in range(shape.brokers)]


def namespaces(shape: Shape) -> list[Namespace]:
    """Namespaces of up to 64 equal bundles, with `topics` spread over them in turn."""
    count = max(1, -(-shape.bundles // _BUNDLES_PER_NAMESPACE))
    found = []
    for number in range(count):
        bundles = shape.bundles // count + (number < shape.bundles % count)
        boundaries = tuple([i * (FULL_UPPER // bundles) for i in range(bundles)] + [FULL_UPPER])
        name = f"{TENANT}/ns{number:04d}"
        topics: list[list[int]] = [[] for _ in range(bundles)]
        for topic in range(number, shape.topics, count):
            position = zlib.crc32(topic_name(name, topic).encode())
            topics[min(bisect.bisect_right(boundaries, position) - 1, bundles - 1)].append(topic)
        found.append(Namespace(name, boundaries, tuple(tuple(inside) for inside in topics)))
    return found


def topic_name(namespace: str, topic: int) -> str:
    return f"persistent://{namespace}/orders-{topic:09d}"


def _answers(shape: Shape, now: datetime) -> Iterator[tuple[str, str, str | None]]:
    """(broker asked, path, body or None for 404), cluster-wide answers first, then broker by broker."""
    brokers, spaces = broker_names(shape), namespaces(shape)
    entry = brokers[0]
    owned = _owners(shape, spaces)
    for path, body in _cluster_answers(brokers, spaces):
        yield entry, path, _text(body) if body is not None else None
    for space in spaces:
        yield from ((entry, path, _text(body)) for path, body in _namespace_answers(space))
        yield entry, f"/admin/v2/namespaces/{space.name}/antiAffinity", ""
    told = _text(configuration())
    for number, broker in enumerate(brokers):
        topics, report = _broker_figures(shape, broker, [(spaces[s], b) for s, b in owned[number]], now)
        bundles = {f"{spaces[s].name}/{spaces[s].range_of(b)}": _OWNED for s, b in owned[number]}
        yield broker, "/admin/v2/broker-stats/load-report", _text(report)
        yield broker, "/admin/v2/broker-stats/topics", topics
        yield broker, "/admin/v2/brokers/version", "4.2.4"
        yield broker, f"/admin/v2/brokers/{CLUSTER}/{broker}/ownedNamespaces", _text(bundles)
        yield broker, "/admin/v2/brokers/configuration/runtime", told


_OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}


def _cluster_answers(brokers: list[str], spaces: list[Namespace]) -> Iterator[tuple[str, Any]]:
    half = len(brokers) // 2
    domains = {"east": {"brokers": brokers[half:]}, "west": {"brokers": brokers[:half]}}
    yield "/admin/v2/brokers", brokers
    yield "/admin/v2/brokers/leaderBroker", {"serviceUrl": f"http://{brokers[0]}", "brokerId": brokers[0]}
    yield "/admin/v2/clusters", [CLUSTER]
    yield f"/admin/v2/clusters/{CLUSTER}/failureDomains", domains
    yield f"/admin/v2/clusters/{CLUSTER}/namespaceIsolationPolicies", None
    yield "/admin/v2/tenants", [TENANT]
    yield f"/admin/v2/namespaces/{TENANT}", [space.name for space in spaces]


def _namespace_answers(space: Namespace) -> Iterator[tuple[str, Any]]:
    bundles = {"boundaries": [f"0x{edge:08x}" for edge in space.boundaries], "numBundles": len(space.topics)}
    numbers = [number for inside in space.topics for number in inside]
    names = [topic_name(space.name, number) for number in sorted(numbers)]
    idle = [f"persistent://{space.name}/idle-{i:06d}" for i in range(len(names) * _LISTED_ONLY_PER_THOUSAND // 1000)]
    yield (
        f"/admin/v2/namespaces/{space.name}",
        {"replication_clusters": [CLUSTER], "bundles": bundles, "deleted": False},
    )
    yield f"/admin/v2/namespaces/{space.name}/bundles", bundles
    yield f"/admin/v2/persistent/{space.name}", names + idle


def _owners(shape: Shape, spaces: list[Namespace]) -> list[list[tuple[int, int]]]:
    """Per broker the (namespace, bundle) that it owns: shuffled, then dealt out in turn."""
    bundles = [(s, b) for s, space in enumerate(spaces) for b in range(len(space.topics))]
    random.Random(f"owners {shape.seed}").shuffle(bundles)
    return [sorted(bundles[number :: shape.brokers]) for number in range(shape.brokers)]


def _broker_figures(
    shape: Shape, broker: str, owned: list[tuple[Namespace, int]], now: datetime
) -> tuple[str, dict[str, Any]]:
    """The body of `broker-stats/topics` as text, and the load report that sums it."""
    chance = random.Random(f"{broker} {shape.seed}" + (f" {shape.moment}" if shape.moment else ""))
    figures, texts = _topics(chance, sum(len(space.topics[bundle]) for space, bundle in owned))
    stats: dict[str, dict[str, Any]] = {}
    ranges: dict[str, list[str]] = {}
    first = 0
    for space, bundle in owned:
        numbers = space.topics[bundle]
        own = slice(first, first := first + len(numbers))
        if numbers:
            topics = ",".join(
                f'"{topic_name(space.name, number)}":{text}' for number, text in zip(numbers, texts[own], strict=True)
            )
            ranges.setdefault(space.name, []).append(f'"{space.range_of(bundle)}":{{"persistent":{{{topics}}}}}')
            total = {member: values[own].sum().item() for member, values in figures.items()}
            stats[f"{space.name}/{space.range_of(bundle)}"] = {**total, "topics": len(numbers), "cacheSize": 0}
    bodies = (f'"{name}":{{{",".join(found)}}}' for name, found in ranges.items())
    names = [f"{space.name}/{space.range_of(bundle)}" for space, bundle in owned]
    return "{" + ",".join(bodies) + "}", _report(broker, stats, names, chance, now)


def _topics(chance: random.Random, count: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """The exact figures of some topics, and the object of each as Pulsar writes it; heavy-tailed, a third without a
    subscription. Drawn all at once, since one by one ten million take minutes."""
    dice = np.random.default_rng(chance.getrandbits(64))
    rates = (dice.pareto(1.2, count) + 1) * 0.1
    sizes = dice.integers(100, 2001, count)
    consumers = dice.integers(0, 3, count)
    backlogs = dice.integers(0, 51, count)
    is_read = consumers > 0
    figures = {
        "msgRateIn": rates,
        "msgThroughputIn": rates * sizes,
        "msgRateOut": rates * is_read,
        "msgThroughputOut": rates * sizes * is_read,
        "consumerCount": consumers,
        "producerCount": np.ones(count, dtype=np.int64),
    }
    cut = [(np.trunc(figures[member] * 1000) / 1000).tolist() for member in _RATES]
    return figures, [*map(_topic_text, *cut, sizes.tolist(), consumers.tolist(), backlogs.tolist())]


def _topic_text(
    rate_in: float,
    throughput_in: float,
    rate_out: float,
    throughput_out: float,
    size: int,
    consumers: int,
    backlog: int,
) -> str:
    consumer = f'{{"consumerName":"c","msgRateOut":{rate_out}}}'
    listed = ",".join([consumer] * consumers)
    subscriptions = f'"work":{{"consumers":[{listed}],"msgBacklog":{backlog},"type":"Shared"}}' if consumers else ""
    return (
        f'{{"publishers":[],"replication":{{}},"subscriptions":{{{subscriptions}}},"producerCount":1,'
        f'"averageMsgSize":{size}.0,"msgRateIn":{rate_in},"msgRateOut":{rate_out},"msgInCount":1000,'
        f'"bytesInCount":{size * 1000},"msgOutCount":0,"bytesOutCount":0,"msgThroughputIn":{throughput_in},'
        f'"msgThroughputOut":{throughput_out},"storageSize":{size * 1000},"backlogSize":{backlog * size},'
        '"pendingAddEntriesCount":0,"filteredEntriesCount":0}'
    )


def _report(
    broker: str, stats: dict[str, dict[str, Any]], bundles: list[str], chance: random.Random, now: datetime
) -> dict[str, Any]:
    sums = {member: sum(each[member] for each in stats.values()) for member in (*_RATES, "topics")}
    cpu = min(_CPU_LIMIT, (sums["msgRateIn"] + sums["msgRateOut"]) / _MSG_PER_CPU_PERCENT + chance.uniform(1, 20))
    kbit = {direction: sums[f"msgThroughput{direction}"] * 8 / 1000 for direction in ("In", "Out")}
    return {
        "webServiceUrl": f"http://{broker}",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "cpu": {"usage": cpu, "limit": _CPU_LIMIT},
        "memory": {"usage": chance.uniform(500, 3000), "limit": 4096.0},
        "directMemory": {"usage": float(chance.randint(200, 2000)), "limit": 8192.0},
        "bandwidthIn": {"usage": kbit["In"], "limit": 1e7},
        "bandwidthOut": {"usage": kbit["Out"], "limit": 1e7},
        **{member: sums[member] for member in _RATES},
        "lastUpdate": int((now - timedelta(seconds=1)).timestamp() * 1000),
        "lastStats": stats,
        "numTopics": sums["topics"],
        "numBundles": len(bundles),
        "numConsumers": sum(each["consumerCount"] for each in stats.values()),
        "numProducers": sum(each["producerCount"] for each in stats.values()),
        "bundles": bundles,
        "brokerVersionString": "4.2.4",
        "loadManagerClassName": f"{_IMPL}ModularLoadManagerImpl",
        "startTimestamp": int((now - timedelta(days=1)).timestamp() * 1000),
        "loadReportType": "LocalBrokerData",
    }


def configuration(cluster: str = CLUSTER, set_keys: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Pulsar's compiled defaults, and over them `set_keys`, as a broker tells them: all values are text."""
    texts = {"clusterName": cluster}
    for name, key in registry().items():
        if name.startswith("evenkeel"):
            continue
        value = (set_keys or {}).get(name, key.default)
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, list | tuple | frozenset):
            texts[name] = f"[{', '.join(sorted(value))}]"
        elif value is None:
            texts[name] = "Optional.empty"
        else:
            texts[name] = f"{_IMPL if key.kind == 'class' else ''}{value}"
    return texts


def _text(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _z(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="recording to write into; the snapshot is FOLDER/0000.jsonl.gz")
    for name in ("topics", "bundles", "brokers", "seed"):
        parser.add_argument(f"--{name}", type=int, default=Shape.__dataclass_fields__[name].default)
    parser.add_argument("--number", type=int, default=0, help="number of the snapshot; one a minute")
    given = parser.parse_args()
    shape = Shape(given.topics, given.bundles, given.brokers, given.seed)
    at = FINISHED_AT + timedelta(minutes=given.number)
    write_snapshot(given.folder / f"{given.number:04d}.jsonl.gz", shape, n=given.number, finished_at=at)


if __name__ == "__main__":
    main()
