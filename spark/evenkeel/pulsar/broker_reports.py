"""Brokers as they answered: rows of `broker_reports`, and the state of each broker.

A broker has one of these states:

- `reported`: its figures are known.
- `no_answer`: no answer came, or an error, or a page that is not JSON.
- `not_ready`: an extensible broker reports that it owns nothing. Its web port is up before its load manager, and a
  ready broker owns at least its heartbeat bundle.
- `hung`: the broker gave its version, but its reads of the metadata store, or its load manager, do not answer in time.
- `unreadable`: the text breaks off.

Figures of any but a reported broker are NULL, never 0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evenkeel.json_text import NotJson, parse_json
from evenkeel.pulsar.answers import TIMED_OUT, Answer, Kind, Members, Reading, Rejection, owned_by, read_text
from evenkeel.pulsar.snapshot import (
    CLASSES,
    EXTENSIBLE,
    MODULAR,
    UNKNOWN,
    Row,
    SnapshotView,
    manager_of_class,
    refuses_load_reports,
)

TABLE = "broker_reports"
REPORTED = "reported"
NO_ANSWER = "no_answer"
NOT_READY = "not_ready"
HUNG = "hung"
UNREADABLE = "unreadable"

DUPLICATED_BROKER = "duplicated_broker"

# A dead broker answers none of these; all are sent to the broker itself.
_ASKED_OF_IT = (Kind.LOAD_REPORT, Kind.TOPIC_FIGURES, Kind.METRICS, Kind.VERSION)


@dataclass(frozen=True, slots=True)
class ObservedBroker:
    """One broker as it answered. `owned` and `report` are None if they are missing or not certain."""

    name: str
    manager: str
    state: str
    row: Row
    owned: dict[str, Any] | None
    report: dict[str, Any] | None


def brokers_answer(view: SnapshotView) -> Answer | None:
    """Return the answer with the list of available brokers, requested with or without the cluster's name."""
    return view.own.about(Kind.BROKERS) or view.own.about(Kind.BROKERS, view.cluster)


def listed_brokers(view: SnapshotView) -> list[str] | None:
    """Return the available brokers, sorted, each once; None without the list. Repeated names are rejected."""
    answer = brokers_answer(view)
    reading = view.json(answer, list, "cluster_policies")
    if not reading.is_read:
        return None
    names = [name for name in reading.value if isinstance(name, str) and name]
    for name, times in sorted(Counter(names).items()):
        if times > 1:
            reason = f"{name} is {times} times in the list of available brokers; it counts once"
            place = f"list of brokers: {name}"
            view.rejections.append(Rejection("cluster_policies", place, DUPLICATED_BROKER, reason, name))
    for odd in [name for name in reading.value if not isinstance(name, str) or not name]:
        text = json.dumps(odd, ensure_ascii=False)[:2_000]
        reason = f"{text[:60]} in the list of available brokers is not a broker id; it is left out"
        view.rejections.append(Rejection("cluster_policies", "list of brokers", "unreadable_name", reason, text))
    brokers = sorted(set(names))
    subject = f"{answer.broker if answer is not None else 'a broker'} lists {len(brokers):,} brokers"
    view.limits.demand("rows", len(brokers), subject, "see what answers in the brokers' place")
    return brokers


def leader_of(view: SnapshotView) -> str | None:
    """Return the leader's broker id; a dead broker is named as leader until its metadata session ends."""
    reading = view.json(view.own.about(Kind.LEADER), dict, "cluster_policies", nothing_at=(404,))
    leader = reading.value.get("brokerId") if reading.is_read else None
    return leader if isinstance(leader, str) and leader else None


def brokers_of(view: SnapshotView) -> list[ObservedBroker]:
    """Return all brokers that are listed, named as leader or were asked for their figures, by name."""
    listed, leader = listed_brokers(view), leader_of(view)
    names = set(listed or ()) | ({leader} if leader else set())
    names |= {name for kind in (Kind.LOAD_REPORT, Kind.TOPIC_FIGURES) for name, _ in view.own.each(kind)}
    return [_broker(view, name, name in (listed or ()), name == leader) for name in sorted(names)]


def _broker(view: SnapshotView, name: str, is_listed: bool, is_leader: bool) -> ObservedBroker:
    manager = _manager(view, name)
    figures = _topic_figures_came(view, name)
    reading, figures_of_it, report = _figures(view, name, manager)
    owned = _owned(view, name, manager, figures_of_it)
    silence = _silence(view, name)
    state, reason = silence or _state(reading)
    if state == REPORTED and manager == EXTENSIBLE:
        state, reason = _readiness(owned, figures_of_it)
    certain = state == REPORTED
    owned_bundles = owned.value if owned.is_read and state != NOT_READY else None
    version = read_text(view.own.about(Kind.VERSION, name))
    row: Row = {
        **(figures_of_it if certain else {}),
        "broker": name,
        "state": state,
        "state_reason": reason,
        "is_listed": is_listed,
        "is_leader": is_leader,
        "manager": manager,
        "asked_at": _asked_at(view, name),
        "has_topic_figures": figures and state != NOT_READY,
        "owned_bundles": None if owned_bundles is None else len(owned_bundles),
    }
    if certain and manager == EXTENSIBLE:
        row["load_manager_class"] = CLASSES[EXTENSIBLE]  # it answers no report that would name it
    if version.is_read:
        row["pulsar_version"] = version.value.strip()
    return ObservedBroker(name, manager, state, row, owned_bundles, report if certain else None)


def _figures(view: SnapshotView, name: str, manager: str) -> tuple[Reading, Row, dict[str, Any] | None]:
    """Return the answer that decides the broker's state, its figures, and the modular manager's report."""
    if manager == EXTENSIBLE:
        reading = view.json(view.own.about(Kind.METRICS, name), list, TABLE)
        row = metrics_figures(reading.value, TABLE, name, view.rejections) if reading.is_read else {}
        return reading, row, None
    reading = view.json(view.own.about(Kind.LOAD_REPORT, name), dict, TABLE)
    if not reading.is_read:
        return reading, {}, None
    return reading, report_figures(reading.value, TABLE, name, view.rejections), reading.value


def _state(reading: Reading) -> tuple[str, str | None]:
    if reading.is_read:
        return REPORTED, None
    return (UNREADABLE if reading.outcome == "unreadable" else NO_ANSWER), reading.reason or "it sent no answer"


# A broker hangs if the thread that completes its operations on the metadata store waits for ever. That can happen in
# `ownedNamespaces` of a modular broker that acquires bundles (NamespaceService.getOwnedNameSpacesStatusAsync). Open
# topics are still served, and requests without metadata are answered: the version, and the health check for some
# minutes.
#
# If no broker answers a read of the metadata store, the store itself is at fault, and no broker is to be killed.
_METADATA_HANGS = (
    "it is hung: its reads of the metadata store do not end, those of other brokers do. Stop it by SIGKILL"
)
_MANAGER_HANGS = "its load manager alone gives no answer in time: if that lasts, it is hung, and SIGKILL ends it"
_STORE_IS_SILENT = "no broker's reads of the metadata store are answered in time: look at the store, and end no broker"


def _silence(view: SnapshotView, name: str) -> tuple[str, str] | None:
    """Return state and reason of a broker that gave its version, but whose metadata store or load manager is silent."""
    version = view.own.about(Kind.VERSION, name)
    if version is None or version.status != 200:
        return None
    if _timed_out(view.own.about(Kind.METADATA, name)):
        is_store_up = any(answer.status != 0 for _, answer in view.own.each(Kind.METADATA))
        return (HUNG, _METADATA_HANGS) if is_store_up else (NO_ANSWER, _STORE_IS_SILENT)
    managers = ((Kind.LOAD_REPORT, name), (Kind.OWNED, owned_by(view.cluster, name)))
    if any(_timed_out(view.own.about(kind, subject)) for kind, subject in managers):
        return HUNG, _MANAGER_HANGS
    return None


def _timed_out(answer: Answer | None) -> bool:
    return answer is not None and answer.status == 0 and (answer.body or "").startswith(TIMED_OUT)


def _readiness(owned: Reading, figures: Row) -> tuple[str, str | None]:
    if owned.is_read and not owned.value:
        return NOT_READY, "it says that it owns no bundle, not even its heartbeat's: its load manager is not ready"
    if figures.get("resource_origin") is None:
        return NOT_READY, "its metrics hold no load-balancing figures: its load manager is not ready"
    return REPORTED, None


def _manager(view: SnapshotView, name: str) -> str:
    """Return the broker's manager: by its load report, else by its refusal of one, else by its configuration.

    The configuration is the snapshot's or an earlier one.
    """
    report = view.own.about(Kind.LOAD_REPORT, name)
    if refuses_load_reports(report):
        return EXTENSIBLE
    for named in map(manager_of_class, manager_classes(view, name)):
        if named != UNKNOWN:
            return named
    # Only the modular manager answers with a report at all.
    return MODULAR if report is not None and report.status == 200 and _member(report.body, "lastStats") else UNKNOWN


def manager_classes(view: SnapshotView, name: str) -> Iterator[str]:
    """Yield the class of the broker's manager by its load report, its configuration and the lent one, if they tell."""
    answers = (
        view.own.about(Kind.LOAD_REPORT, name),
        view.own.about(Kind.CONFIGURATION, name),
        view.lent.about(Kind.CONFIGURATION, name),
    )
    told = (_member(each.body, "loadManagerClassName") for each in answers if each is not None and each.status == 200)
    yield from (named for named in told if isinstance(named, str))


def _owned(view: SnapshotView, name: str, manager: str, figures: Row) -> Reading:
    """Return the bundles that the broker owns, by `ownedNamespaces`.

    A running modular broker is not asked for that, since the request can hang it. It owns the bundles in its load
    report: those with a loaded topic, as of its last stats period.
    """
    answer = view.own.about(Kind.OWNED, owned_by(view.cluster, name))
    if answer is None and manager == MODULAR and figures.get("bundles") is not None:
        return Reading("read", dict.fromkeys(figures["bundles"]))
    return view.json(answer, dict, "bundle_ownership")


def _topic_figures_came(view: SnapshotView, name: str) -> bool:
    """Return True if topic figures came at all; Spark finds out whether they can be read."""
    answer = view.own.about(Kind.TOPIC_FIGURES, name)
    if answer is not None and answer.status == 200:
        return True
    view.json(answer, dict, "topic_stats")
    return False


def _asked_at(view: SnapshotView, name: str) -> Any:
    answers = [view.own.about(kind, name) for kind in _ASKED_OF_IT]
    return min((answer.at for answer in answers if answer is not None and answer.at is not None), default=None)


def _member(body: str | None, name: str) -> object:
    try:
        value = parse_json(body or "")
    except NotJson:
        return None
    return value.get(name) if isinstance(value, dict) else None


# `/broker-stats/load-report`: the modular manager's `LocalBrokerData` of the broker, computed on request.

_RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "direct_memory": "directMemory",
    "bandwidth_in": "bandwidthIn",
    "bandwidth_out": "bandwidthOut",
}


def report_figures(body: dict[str, Any], table: str, place: str, rejections: list[Rejection]) -> Row:
    """Return columns of broker_reports; other members are in `rest`, except the bundles' figures (bundle_ownership)."""
    report = Members(body, table, f"{place} load-report", rejections)
    report.used.add("lastStats")
    figures: Row = {
        "load_manager_class": report.text("loadManagerClassName"),
        "report_at": report.moment("lastUpdate"),
        "started_at": report.moment("startTimestamp"),
        "resource_origin": "load_report",
        **rates(report),
        "topics": report.count("numTopics"),
        "consumers": report.count("numConsumers"),
        "producers": report.count("numProducers"),
        "bundles": report.names("bundles"),
        "persistent_topics_enabled": report.flag("persistentTopicsEnabled"),
        "non_persistent_topics_enabled": report.flag("nonPersistentTopicsEnabled"),
        "pulsar_version": report.text("brokerVersionString"),
    }
    for column, name in _RESOURCES.items():
        pair = report.inside(name)
        figures |= {f"{column}_usage": pair.number("usage"), f"{column}_limit": pair.number("limit")}
    return figures | {"rest": report.rest()}


def bundle_figures(stats: Members) -> Row:
    """Return columns of bundle_ownership from one bundle's `NamespaceBundleStats`."""
    return {
        **rates(stats),
        "topics": stats.count("topics"),
        "consumers": stats.count("consumerCount"),
        "producers": stats.count("producerCount"),
        "cache_size": stats.count("cacheSize"),
    }


def rates(members: Members) -> Row:
    """Return msg/s and byte/s, in and out."""
    return {
        "msg_rate_in": members.number("msgRateIn"),
        "msg_rate_out": members.number("msgRateOut"),
        "msg_throughput_in": members.number("msgThroughputIn"),
        "msg_throughput_out": members.number("msgThroughputOut"),
    }


# `/broker-stats/metrics`: usage in percent, and the broker's own sums of rates.
#
# It is the extensible manager's only REST source of resource usage (it answers no load report). The entry with `metric:
# loadBalancing` has `brk_lb_*_usage` in percent (32-bit figures); with `feature: max_ema` the published
# `weightedMaxEMA` as a fraction; entries with a `namespace` have that namespace's rates on this broker.

PERCENT_LIMIT = 100.0

_USAGE = {
    "cpu": "brk_lb_cpu_usage",
    "memory": "brk_lb_memory_usage",
    "direct_memory": "brk_lb_directMemory_usage",
    "bandwidth_in": "brk_lb_bandwidth_in_usage",
    "bandwidth_out": "brk_lb_bandwidth_out_usage",
}
_RATES = {
    "msg_rate_in": "brk_in_rate",
    "msg_rate_out": "brk_out_rate",
    "msg_throughput_in": "brk_in_tp_rate",
    "msg_throughput_out": "brk_out_tp_rate",
}
_COUNTS = {"consumers": "brk_no_of_consumers", "producers": "brk_no_of_producers"}


def metrics_figures(entries: list[Any], table: str, place: str, rejections: list[Rejection]) -> Row:
    """Return usage (percent, limit 100), `weighted_max_ema`, rates and counts of one broker, as columns of
    broker_reports."""
    figures: Row = {"resource_origin": None, "weighted_max_ema": None}
    namespaces: list[Members] = []
    for entry in entries:
        metrics, dimensions = (
            (entry.get("metrics"), entry.get("dimensions")) if isinstance(entry, dict) else (None, None)
        )
        if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
            continue
        members = Members(metrics, table, f"{place} metrics", rejections)
        if "namespace" in dimensions and "brk_in_rate" in metrics:
            namespaces.append(members)
        elif dimensions.get("metric") == "loadBalancing":
            figures |= _load_balancing(members, metrics, dimensions.get("feature"))
    # Sums over the namespaces; NULL if one of the figures is unknown, or if no namespace is listed.
    figures |= {column: _sum(each.number(name) for each in namespaces) for column, name in _RATES.items()}
    return figures | {column: _sum(each.count(name) for each in namespaces) for column, name in _COUNTS.items()}


def _load_balancing(members: Members, metrics: dict[str, Any], feature: object) -> Row:
    if feature == "max_ema":
        return {"weighted_max_ema": members.number("brk_lb_resource_usage")}
    if feature is not None or "brk_lb_cpu_usage" not in metrics:
        return {}
    columns: Row = {"resource_origin": "metrics_percent"}
    for column, name in _USAGE.items():
        usage = members.number(name)
        columns |= {f"{column}_usage": usage, f"{column}_limit": None if usage is None else PERCENT_LIMIT}
    return columns


def _sum(values: Iterable[Any]) -> Any:
    figures = list(values)
    return sum(sorted(figures)) if figures and None not in figures else None
