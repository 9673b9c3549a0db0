"""A cluster of a few brokers as its admin API would answer, for tests to bend: `SmallCluster().reply(...)`."""

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.snapshot import SnapshotView

FINISHED_AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
STARTED_AT = FINISHED_AT - timedelta(seconds=1)
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
REFUSED_REPORT = json.dumps(
    {"reason": "Message: null\n\nStacktrace:\n\njava.lang.UnsupportedOperationException\n\tat x"}
)
FULL = "0x00000000_0xffffffff"


class Answering:
    """What the brokers `names` answer: every answer stands under (broker, path) and can be replaced by `reply`.

    They know their names, their leader (the first), their cluster, no failure domain and no isolation policy.
    """

    def __init__(self, names: Sequence[str], *, cluster: str = "lab", finished_at: datetime = FINISHED_AT) -> None:
        self.names, self.cluster = list(names), cluster
        self.entry = self.names[0] if self.names else "b1:8080"
        self.started_at, self.finished_at = finished_at - timedelta(seconds=1), finished_at
        self.answers: dict[tuple[str, str], dict[str, Any]] = {}
        self.reply("/admin/v2/brokers", self.names)
        self.reply("/admin/v2/brokers/leaderBroker", {"brokerId": self.entry})
        self.reply("/admin/v2/clusters", [cluster])
        self.reply(f"/admin/v2/clusters/{cluster}/failureDomains", {})
        self.reply(f"/admin/v2/clusters/{cluster}/namespaceIsolationPolicies", {"reason": "none"}, 404)

    def reply(self, path: str, body: Any, status: int = 200, *, broker: str | None = None, **more: Any) -> Self:
        """`body`: text goes as it is, anything else as JSON. Without a `broker` the first one is asked."""
        asked = self.entry if broker is None else broker
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        request = {"broker": asked, "method": "GET", "path": path, "status": status, "at": _z(self.finished_at)}
        self.answers[asked, path] = {**request, "elapsed_ms": 1.0, "location": None, "body": text, **more}
        return self

    def namespace(self, name: str, boundaries: list[str], group: str = "") -> Self:
        bundles = {"boundaries": boundaries, "numBundles": len(boundaries) - 1}
        self.reply(f"/admin/v2/namespaces/{name}", {"bundles": bundles})
        self.reply(f"/admin/v2/namespaces/{name}/bundles", bundles)
        return self.reply(f"/admin/v2/namespaces/{name}/antiAffinity", group, 200 if group else 204)

    def requests(self) -> list[dict[str, Any]]:
        return list(self.answers.values())

    def document(self) -> dict[str, Any]:
        times = {"started_at": _z(self.started_at), "finished_at": _z(self.finished_at)}
        return {"format": 1, "n": 0, **times, "note": "", "requests": self.requests()}

    def land(self, folder: Path, name: str = "0000.json") -> Path:
        """Writes the snapshot as one JSON document; packed if the name says so."""
        folder.mkdir(parents=True, exist_ok=True)
        data = json.dumps(self.document(), ensure_ascii=False).encode("utf-8", "surrogatepass")
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return folder / name


class SmallCluster(Answering):
    """Brokers `b1:8080`, …; namespace `shop/orders` of one bundle, owned by the first broker with one topic loaded.

    Answers can also be taken away (`silent`, `never_asked`).
    """

    def __init__(self, brokers: int = 2, *, manager: str = MODULAR, cluster: str = "lab") -> None:
        super().__init__([f"b{number + 1}:8080" for number in range(brokers)], cluster=cluster)
        self.manager = manager
        for name in self.names:
            self._broker(name)
        if self.names:
            self.namespace("shop/orders", ["0x00000000", "0xffffffff"])
            self.topics(self.entry, {"persistent://shop/orders/t1": topic()})

    def _broker(self, name: str) -> None:
        bundles = [f"shop/orders/{FULL}"] if name == self.names[0] else []
        owned = {bundle: {"is_active": True} for bundle in [*bundles, f"pulsar/{name}/{FULL}"]}
        self.reply(f"/admin/v2/brokers/{self.cluster}/{name}/ownedNamespaces", owned, broker=name)
        self.reply("/admin/v2/broker-stats/topics", {}, broker=name)
        self.reply("/admin/v2/brokers/version", "4.2.4", broker=name)
        configuration = {"clusterName": self.cluster, "loadManagerClassName": self.manager}
        self.reply("/admin/v2/brokers/configuration/runtime", configuration, broker=name)
        self.reply("/admin/v2/broker-stats/metrics", metrics(), broker=name)
        if self.manager == EXTENSIBLE:
            self.reply("/admin/v2/broker-stats/load-report", REFUSED_REPORT, 500, broker=name)
        else:
            self.reply("/admin/v2/broker-stats/load-report", load_report(bundles), broker=name)

    def topics(self, broker: str, topics: dict[str, Any], namespace: str = "shop/orders") -> Self:
        body = {namespace: {FULL: {"persistent": topics}}}
        return self.reply("/admin/v2/broker-stats/topics", body, broker=broker)

    def silent(self, broker: str) -> Self:
        """The broker is dead: every question to it stays without an answer."""
        for (asked, path), answer in self.answers.items():
            if asked == broker:
                self.answers[asked, path] = {
                    **answer,
                    "status": 0,
                    "body": "ConnectionRefusedError: [Errno 111] refused",
                }
        return self

    def never_asked(self, path: str, broker: str = "b1:8080") -> Self:
        del self.answers[broker, path]
        return self

    def view(self, extra: Iterable[dict[str, Any]] = ()) -> SnapshotView:
        """The answers as `evenkeel.pulsar` reads them; `extra` requests come after them."""
        own = Answers(
            Answer(n, r["broker"], r["path"], r["status"], r["body"], _time(r["at"]), r["location"], r["method"])
            for n, r in enumerate([*self.requests(), *extra])
        )
        return SnapshotView(self.cluster, "0000.json", self.started_at, self.finished_at, own, Answers(()), None)


def topic(rate: float | str = 1.0, **more: Any) -> dict[str, Any]:
    """A topic's object with one producer and one subscription of two consumers."""
    subscription = {"msgBacklog": 7, "consumers": [{"consumerName": "a"}, {"consumerName": "b"}]}
    figures = {"msgRateIn": rate, "msgRateOut": 2.0, "msgThroughputIn": 100.0, "msgThroughputOut": 200.0}
    return {**figures, "producerCount": 1, "subscriptions": {"work": subscription}, "storageSize": 5, **more}


def load_report(bundles: list[str]) -> dict[str, Any]:
    """A modular broker's report; each of its bundles has rates of 1, 2, 100 and 200."""
    stats = {"msgRateIn": 1.0, "msgRateOut": 2.0, "msgThroughputIn": 100.0, "msgThroughputOut": 200.0, "topics": 1}
    return {
        "cpu": {"usage": 30.0, "limit": 200.0},
        "memory": {"usage": 80.0, "limit": 250.0},
        "directMemory": {"usage": 16.0, "limit": 256.0},
        "bandwidthIn": {"usage": 1.0, "limit": 1000.0},
        "bandwidthOut": {"usage": 2.0, "limit": 1000.0},
        "msgRateIn": 1.0,
        "lastUpdate": int(STARTED_AT.timestamp() * 1000),
        "lastStats": dict.fromkeys(bundles, stats),
        "bundles": bundles,
        "numTopics": len(bundles),
        "brokerVersionString": "4.2.4",
        "loadManagerClassName": MODULAR,
        "loadReportType": "LocalBrokerData",
    }


def metrics() -> list[dict[str, Any]]:
    usage = {
        f"brk_lb_{name}_usage": 25.5 for name in ("cpu", "memory", "directMemory", "bandwidth_in", "bandwidth_out")
    }
    rates = {"brk_in_rate": 3.0, "brk_out_rate": 1.5, "brk_in_tp_rate": 300.0, "brk_out_tp_rate": 150.0}
    counts = {"brk_no_of_consumers": 2, "brk_no_of_producers": 1}
    return [
        {"metrics": usage, "dimensions": {"metric": "loadBalancing", "broker": "b"}},
        {"metrics": {"brk_lb_resource_usage": 0.19}, "dimensions": {"metric": "loadBalancing", "feature": "max_ema"}},
        {"metrics": {"brk_lb_resource_usage": 0.33}, "dimensions": {"metric": "loadBalancing", "feature": "max"}},
        {"metrics": {**rates, **counts}, "dimensions": {"namespace": "shop/orders"}},
        {"metrics": {**rates, **counts}, "dimensions": {"namespace": "shop/returns"}},
    ]


def pulsar_hash(name: str) -> int:
    """Pulsar's hash of a topic's full name."""
    return zlib.crc32(name.encode())


def _z(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
