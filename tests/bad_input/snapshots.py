"""Snapshots that are wrong in one answer, in one member of an answer, or in their head."""

import json
from collections.abc import Iterator
from typing import Any

from tests.bad_input.values import BROKEN_JSON, JSON_VALUES, TIMES
from tests.pulsar.small_cluster import FULL, SmallCluster

B1 = "b1:8080"
ANSWERS = {
    "brokers": "/admin/v2/brokers",
    "leader": "/admin/v2/brokers/leaderBroker",
    "clusters": "/admin/v2/clusters",
    "domains": "/admin/v2/clusters/lab/failureDomains",
    "isolation": "/admin/v2/clusters/lab/namespaceIsolationPolicies",
    "owned": f"/admin/v2/brokers/lab/{B1}/ownedNamespaces",
    "version": "/admin/v2/brokers/version",
    "configuration": "/admin/v2/brokers/configuration/runtime",
    "metrics": "/admin/v2/broker-stats/metrics",
    "report": "/admin/v2/broker-stats/load-report",
    "policies": "/admin/v2/namespaces/shop/orders",
    "bundles": "/admin/v2/namespaces/shop/orders/bundles",
    "group": "/admin/v2/namespaces/shop/orders/antiAffinity",
}
# The members of an object, as a path into the answer of a sound cluster.
MEMBERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "leader": (("brokerId",),),
    "owned": ((f"shop/orders/{FULL}",), (f"shop/orders/{FULL}", "is_active")),
    "configuration": (
        ("clusterName",),
        ("loadManagerClassName",),
        ("loadBalancerBrokerOverloadedThresholdPercentage",),
    ),
    "report": (
        *(("cpu",), ("cpu", "usage"), ("cpu", "limit"), ("memory", "usage"), ("directMemory", "usage")),
        *(("bandwidthIn", "limit"), ("msgRateIn",), ("msgThroughputOut",), ("lastUpdate",), ("numTopics",)),
        *(("lastStats",), ("lastStats", f"shop/orders/{FULL}"), ("lastStats", f"shop/orders/{FULL}", "msgRateIn")),
        *(("lastStats", f"shop/orders/{FULL}", "topics"), ("bundles",), ("brokerVersionString",)),
        *(("loadManagerClassName",), ("loadReportType",)),
    ),
    "bundles": (("boundaries",), ("numBundles",)),
    "policies": (("bundles",), ("bundles", "boundaries")),
    "domains": (("east",), ("east", "brokers")),
    "isolation": (("p1",), ("p1", "namespaces")),
}
STATUSES = (0, 100, 204, 301, 307, 401, 403, 404, 412, 418, 500, 503, 599, 999, -1)


def clusters() -> Iterator[tuple[str, SmallCluster]]:
    """Id and a cluster of two brokers with one thing wrong in what its first one answers."""
    for answer, path in ANSWERS.items():
        for name, body in BROKEN_JSON.items():
            # A snapshot's text is what UTF-8 makes of the bytes.
            yield f"{answer} body {name}", SmallCluster().reply(path, body.decode("utf-8", "replace"))
        for status in STATUSES:
            yield f"{answer} status {status}", SmallCluster().reply(path, "{}", status)
    for answer, places in MEMBERS.items():
        for place in places:
            for name, value in JSON_VALUES.items():
                label = ".".join("BUNDLE" if "/" in part else part for part in place)
                yield f"{answer} {label} {name}", _bent(answer, place, value)


def _bent(answer: str, place: tuple[str, ...], value: Any) -> SmallCluster:
    cluster = SmallCluster()
    sound = cluster.answers[B1, ANSWERS[answer]]
    body = json.loads(sound["body"]) if sound["status"] == 200 else {}
    inner = body
    for part in place[:-1]:
        inner = inner.setdefault(part, {})
    inner[place[-1]] = value
    # Escaped: a lone surrogate is text of a JSON document all the same.
    return cluster.reply(ANSWERS[answer], json.dumps(body))


HEAD = {"format": 1, "n": 0, "started_at": "2026-03-01T12:00:04Z", "finished_at": "2026-03-01T12:00:05Z", "note": ""}


def heads() -> Iterator[tuple[str, bytes]]:
    """Id and content of a document that is no snapshot."""
    for name, content in BROKEN_JSON.items():
        yield f"document {name}", content
    for member in ("format", "started_at", "finished_at"):
        yield f"{member} missing", _document({key: value for key, value in HEAD.items() if key != member})
        for name, value in JSON_VALUES.items():
            if (member, name) == ("format", "true"):  # to Python it is 1
                continue
            yield f"{member} {name}", _document({**HEAD, member: value})
    for member in ("started_at", "finished_at", "cycle_at"):
        for name, text in TIMES.items():
            if name != "range":
                yield f"{member} time-{name}", _document({**HEAD, member: text})


def _document(head: dict[str, Any]) -> bytes:
    return json.dumps({**head, "requests": []}).encode()
