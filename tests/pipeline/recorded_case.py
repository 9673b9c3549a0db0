"""A `cycle` case as its cluster would have answered it: a recording with one snapshot a round.

What a case states and what a broker answers are the same thing in other words. A bundle's figures stand in the report
of its broker and, in whole, on its first topic; its other topics are idle, so that sums are exact. A report's totals
are sums over its bundles, as a broker makes them.
"""

import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from benchmarks.synthetic_snapshot import configuration
from devtools.conformance.cases import Case
from devtools.conformance.reading import rounds_of
from tests.pulsar.small_cluster import FULL, MODULAR, Answering

MOST_TOPICS = 5_000
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)

TWO_REPORTS = "two brokers report one bundle: their figures would stand on the same topics"
UNKNOWN_BUNDLES = "brokers report bundles outside the boundaries, where Evenkeel puts no topic"
LOAD_WITHOUT_TOPICS = "a bundle without topics has load, and load is told per topic"
TOO_LARGE = f"a snapshot of more than {MOST_TOPICS} topics: too slow for a test"
NO_SHEDDING = "a round leaves out shedding: a cycle never does"
HASH_ORDER = "equal scores in the order of Pulsar's hash map, where Evenkeel goes by name"

_HASH_ORDER_DECIDES = frozenset({"cycle-901-equal-scores", "cycle-902-equal-scores"})
_RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
_LOAD = (*_RATES, "consumerCount", "producerCount")
_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
# Pulsar's switches are not Evenkeel's: an operator says so.
_SWITCHES = {
    "loadBalancerEnabled": "evenkeelSheddingEnabled",
    "loadBalancerSheddingEnabled": "evenkeelSheddingEnabled",
    "loadBalancerAutoBundleSplitEnabled": "evenkeelSplitEnabled",
}
_OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}

Json = Mapping[str, Any]


def why_left_aside(case: Case) -> str | None:
    """None if snapshots can say what the case says; else why not."""
    if case.id in _HASH_ORDER_DECIDES:
        return HASH_ORDER
    known = set(_bundles(case.input["boundaries"]))
    for given in rounds_of(case.input["rounds"], "brokers"):
        stats = [(bundle, body) for report in given["brokers"].values() for bundle, body in _stats(report).items()]
        names = [bundle for bundle, _ in stats]
        if len(names) > len(set(names)):
            return TWO_REPORTS
        if not known.issuperset(names):
            return UNKNOWN_BUNDLES
        if any(not body.get("topics") and any(body.get(name) for name in _LOAD) for _, body in stats):
            return LOAD_WITHOUT_TOPICS
        if sum(body.get("topics", 0) for _, body in stats) > MOST_TOPICS:
            return TOO_LARGE
        if given.get("shed") is False:
            return NO_SHEDDING
    return None


def looks_up_ownerless(case: Case) -> bool:
    """Whether all bundles looked up are without owner and in name order, so that a cycle places the same ones.

    Pulsar can be asked for any bundle in any order, also for one that a broker still reports.
    """
    if not any(given.get("place") for given in case.input["rounds"]):
        return False
    for given in rounds_of(case.input["rounds"], "brokers"):
        owned = {bundle for report in _reports(given) for bundle in _stats(report)}
        place = given.get("place", [])
        if owned.intersection(place) or place != sorted(place):
            return False
    return True


@dataclass(frozen=True)
class RecordedCase:
    """A case and the folder of its recording. `steps` are its snapshots: its rounds, before them perhaps a past.

    A bundle is placed if it lost its owner: the past is a snapshot in which it still had one and nothing was measured.
    """

    case: Case
    folder: Path
    most_rounds: int

    @cached_property
    def rounds(self) -> list[Json]:
        """The rounds to be compared, `repeat` unrolled."""
        return list(rounds_of(self.case.input["rounds"], "brokers"))[: self.most_rounds]

    @cached_property
    def lost(self) -> list[str]:
        """Bundles that lose their owner before the first round."""
        looked_up = looks_up_ownerless(self.case)
        return sorted({bundle for given in self.rounds for bundle in given.get("place", ())}) if looked_up else []

    @property
    def steps(self) -> int:
        """How many snapshots there are."""
        return self.past + len(self.rounds)

    @property
    def past(self) -> int:
        """How many of them come before the first round."""
        return 1 if self.lost else 0

    def overrides(self, step: int) -> dict[str, Any]:
        """What an operator sets in that step: what Pulsar's own switches say; before the first round all is off."""
        if step < self.past:
            return {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
        config = self.case.input.get("config") or {}
        found = {own: False for theirs, own in _SWITCHES.items() if config.get(theirs) is False}
        classes = {report.get("loadManagerClassName", MODULAR) for given in self.rounds for report in _reports(given)}
        return found | ({"evenkeelManager": "modular"} if classes != {MODULAR} else {})

    def land(self, step: int) -> None:
        """Writes the snapshot of that step."""
        given = self.rounds[max(step - self.past, 0)]
        snapshot = self._cluster(sorted(given["brokers"]), step)
        if step < self.past:
            self._owned_once(snapshot)
        else:
            for broker, report in sorted(given["brokers"].items()):
                self._report(snapshot, broker, report)
        snapshot.land(self.folder, f"{step:04d}.json")

    def _cluster(self, brokers: list[str], step: int) -> Answering:
        """What does not hang on the round: names, namespaces, policies, configuration."""
        case, name = self.case.input, self.case.id
        snapshot = Answering(brokers, cluster=name, finished_at=self._at(step))
        groups = case.get("groups") or {}
        # Pulsar takes a namespace that it knows no boundaries of for one bundle.
        whole = {bundle.rpartition("/")[0]: FULL.split("_") for bundle in self.lost if bundle.endswith(FULL)}
        for namespace, boundaries in sorted({**whole, **case["boundaries"]}.items()):
            snapshot.namespace(namespace, boundaries, groups.get(namespace, ""))
        domains = {domain: {"brokers": members} for domain, members in (case.get("domains") or {}).items()}
        snapshot.reply(f"/admin/v2/clusters/{name}/failureDomains", domains)
        if case.get("isolation"):
            snapshot.reply(f"/admin/v2/clusters/{name}/namespaceIsolationPolicies", case["isolation"])
        strategies = {
            "loadBalancerLoadSheddingStrategy": case["shedder"],
            "loadBalancerLoadPlacementStrategy": case["placement"],
        }
        told = configuration(name, {**strategies, **(case.get("config") or {})})
        for broker in brokers:
            snapshot.reply("/admin/v2/brokers/configuration/runtime", told, broker=broker)
        return snapshot

    def _at(self, step: int) -> datetime:
        """The snapshot's time: a round's `minutes` after the one before, and never within the shedding interval."""
        waits = [max(given.get("minutes") or 0, 1) for given in self.rounds[: max(step - self.past + 1, 0)]]
        return BEGIN + timedelta(minutes=sum(waits))

    def _owned_once(self, snapshot: Answering) -> None:
        """The brokers say what they own and nothing about its load."""
        for number, broker in enumerate(snapshot.names):
            owned = self.lost if number == 0 else []
            _reply_owned(snapshot, broker, owned)
            snapshot.reply("/admin/v2/broker-stats/load-report", _load_report({}, snapshot.started_at), broker=broker)
            snapshot.reply("/admin/v2/broker-stats/topics", "not ready", 503, broker=broker)

    def _report(self, snapshot: Answering, broker: str, given: Json) -> None:
        _reply_owned(snapshot, broker, _stats(given))
        snapshot.reply("/admin/v2/broker-stats/load-report", _load_report(given, snapshot.started_at), broker=broker)
        topics: dict[str, dict[str, Any]] = {}
        for bundle, stats in sorted(_stats(given).items()):
            namespace, _, part = bundle.rpartition("/")
            topics.setdefault(namespace, {})[part] = {"persistent": self._topics(bundle, stats)}
        snapshot.reply("/admin/v2/broker-stats/topics", topics, broker=broker)

    def _topics(self, bundle: str, stats: Json) -> dict[str, Any]:
        names = self._names[bundle][: stats.get("topics", 0)]
        bodies = [_topic(stats if position == 0 else {}) for position in range(len(names))]
        return dict(zip(names, bodies, strict=True))

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        """Bundle -> as many names of topics as it needs in any round, each with its hash in the bundle's range."""
        needed: dict[str, int] = {}
        for given in self.rounds:
            for report in _reports(given):
                for bundle, stats in _stats(report).items():
                    needed[bundle] = max(needed.get(bundle, 0), stats.get("topics", 0))
        found: dict[str, list[str]] = {}
        for namespace, boundaries in self.case.input["boundaries"].items():
            bundles = list(_bundles({namespace: boundaries}))
            found |= topic_names(namespace, boundaries, [needed.get(bundle, 0) for bundle in bundles])
        return found


def topic_names(namespace: str, boundaries: list[str], needed: list[int]) -> dict[str, list[str]]:
    """Bundle -> that many names of topics that lie in it, found by trying numbers."""
    limits = [int(text, 16) for text in boundaries]
    found: list[list[str]] = [[] for _ in needed]
    missing = sum(needed)
    for number in count():
        if not missing:
            break
        name = f"persistent://{namespace}/t-{number}"
        place = min(bisect_right(limits, zlib.crc32(name.encode())) - 1, len(needed) - 1)
        if len(found[place]) < needed[place]:
            found[place].append(name)
            missing -= 1
    return dict(zip(_bundles({namespace: boundaries}), found, strict=True))


def _topic(stats: Json) -> dict[str, Any]:
    rates = {name: stats.get(name, 0.0) for name in _RATES}
    consumers = [{"consumerName": "c"}] * stats.get("consumerCount", 0)
    return {
        **rates,
        "producerCount": stats.get("producerCount", 0),
        "subscriptions": {"work": {"consumers": consumers}},
    }


def _load_report(given: Json, at: datetime) -> dict[str, Any]:
    stats = [body for _, body in sorted(_stats(given).items())]
    pairs = {name: given.get(name) or (0.0, 0.0) for name in _RESOURCES}
    return {
        **{name: {"usage": usage, "limit": limit} for name, (usage, limit) in pairs.items()},
        **{name: sum(body.get(name, 0.0) for body in stats) for name in _RATES},
        "lastUpdate": int(at.timestamp() * 1000),
        "lastStats": _stats(given),
        "bundles": sorted(_stats(given)),
        "numBundles": len(stats),
        "numTopics": sum(body.get("topics", 0) for body in stats),
        "numConsumers": sum(body.get("consumerCount", 0) for body in stats),
        "numProducers": sum(body.get("producerCount", 0) for body in stats),
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "brokerVersionString": given.get("brokerVersionString", "4.2.4"),
        "loadManagerClassName": given.get("loadManagerClassName", MODULAR),
        "loadReportType": "LocalBrokerData",
    }


def _reply_owned(snapshot: Answering, broker: str, bundles: Iterable[str]) -> None:
    path = f"/admin/v2/brokers/{snapshot.cluster}/{broker}/ownedNamespaces"
    snapshot.reply(path, dict.fromkeys(sorted(bundles), _OWNED), broker=broker)


def _reports(given: Json) -> Iterable[Json]:
    return given["brokers"].values()


def _stats(report: Json) -> dict[str, Json]:
    return report.get("lastStats") or {}


def _bundles(boundaries: Mapping[str, list[str]]) -> Iterator[str]:
    for namespace, limits in boundaries.items():
        yield from (f"{namespace}/{lower}_{upper}" for lower, upper in pairwise(limits))


def write_configuration(file: Path, cases: Iterable[tuple[RecordedCase, int]]) -> None:
    """The clusters of one run, each with its step, and with what an operator sets for it."""
    lines = ["[settings]", "evenkeelAssumeUnloadsSucceed = true"]
    for recorded, step in cases:
        lines += [f'[clusters."{recorded.case.id}"]', f"recording = {json.dumps(str(recorded.folder))}"]
        lines += [f'[clusters."{recorded.case.id}".settings]']
        lines += [f"{name} = {json.dumps(value)}" for name, value in recorded.overrides(step).items()]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
