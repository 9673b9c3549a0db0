"""One cluster's small answers as rows: all of a snapshot that is broker- or bundle-sized."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import Any

from evenkeel.pulsar.answers import Kind, Members, Rejection, excerpt, read_text
from evenkeel.pulsar.broker_reports import (
    REPORTED,
    ObservedBroker,
    brokers_answer,
    brokers_of,
    bundle_figures,
    leader_of,
    listed_brokers,
    manager_classes,
)
from evenkeel.pulsar.generations import generation_of
from evenkeel.pulsar.quotas import QUOTAS, quotas_of
from evenkeel.pulsar.snapshot import Row, SnapshotView, manager_of_cluster

NO_BROKERS = "no_brokers"
NO_BROKER_ANSWERED = "no_broker_answered"
UNREADABLE_POLICY = "unreadable_policy"
OTHER_MANAGER = "other_load_manager"
_OTHER_MANAGERS = {
    "NoopLoadManager": "a manager for a single broker, which never reports its load and never moves a bundle",
    "SimpleLoadManagerImpl": "a manager whose reports and rules are not supported here",
}


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Rows per table (without cluster and cycle), the rejected records, and the reason if the cluster is left out.

    `topic_figures` and `topic_lists` are the positions of the answers that count, for Spark to read; with
    `lists_are_lent` the lists are in the lending snapshot. `topic_characters` is the length of the figures' text,
    `listed_characters` that of the lists.
    """

    rows: dict[str, list[Row]]
    rejections: tuple[Rejection, ...]
    left_out: Rejection | None
    topic_figures: tuple[int, ...]
    topic_lists: tuple[int, ...]
    lists_are_lent: bool
    topic_characters: int
    listed_characters: int = 0

    @property
    def policies(self) -> dict[str, Any]:
        """The only row of `cluster_policies`."""
        return self.rows["cluster_policies"][0]


def observe(view: SnapshotView) -> ObservedRows:
    """Return the rows of one cluster from all broker- and bundle-sized answers of its snapshot."""
    listed = listed_brokers(view)
    brokers = brokers_of(view)
    namespaces = namespaces_of(view)
    ownership: list[Row] = []
    for broker in brokers:
        _demand_rows(view, "bundle_ownership", len(ownership) + len(claims_of(broker)))
        ownership += ownership_of(broker, view.rejections)
    quotas = quotas_of(view)
    _demand_rows(view, QUOTAS, len(quotas))
    rows = {
        "broker_reports": [broker.row for broker in brokers],
        "namespace_bundles": namespaces,
        "bundle_ownership": ownership,
        QUOTAS: quotas,
        "cluster_policies": [policies_of(view, brokers, listed or [], namespaces)],
    }
    left_out = _left_out(view, listed, brokers)
    if left_out is not None:
        view.rejections.append(left_out)
    lists = view.topic_list_source()[0]
    figures = [answer for _, answer in view.own.each(Kind.TOPIC_FIGURES) if answer.status == 200]
    return ObservedRows(
        rows,
        view.rejections.summed(),
        left_out,
        tuple(sorted(answer.n for answer in figures)),
        tuple(sorted(answer.n for _, answer in lists.each(Kind.TOPIC_LIST) if answer.status == 200)),
        lists is view.lent,
        sum(answer.size for answer in figures),
        sum(answer.size for _, answer in lists.each(Kind.TOPIC_LIST) if answer.status == 200),
    )


def _demand_rows(view: SnapshotView, table: str, rows: int) -> None:
    subject = f"the answers of {view.file} come to {rows:,} rows of {table}"
    view.limits.demand("rows", rows, subject, "see what answers in the brokers' place")


def _left_out(view: SnapshotView, listed: list[str] | None, brokers: list[ObservedBroker]) -> Rejection | None:
    answer = brokers_answer(view)
    if not listed:
        fault = "its list of brokers is empty" if listed is not None else "no list of its brokers could be read"
        reason = f"{fault}: nothing is known of the cluster; check that a broker answers and take a new snapshot"
        return Rejection("cluster_policies", "list of brokers", NO_BROKERS, reason, answer.body if answer else None)
    classes = (
        named.rpartition(".")[2] for broker in brokers for named in islice(manager_classes(view, broker.name), 1)
    )
    # A large cluster is asked about one broker, mostly: its report is read once more.
    if (other := next(classes, "")) in _OTHER_MANAGERS and all(named == other for named in classes):
        reason = (
            f"its brokers run {other}: {_OTHER_MANAGERS[other]}. Set loadManagerClassName to ModularLoadManagerImpl or "
            "ExtensibleLoadManagerImpl in broker.conf and restart the brokers, or leave this cluster out"
        )
        return Rejection("cluster_policies", "load manager", OTHER_MANAGER, reason, other)
    if not any(broker.state == REPORTED for broker in brokers):
        states = ", ".join(f"{broker.name}: {broker.row['state_reason']}" for broker in brokers[:5])
        reason = (
            f"none of {len(brokers)} brokers reported its figures ({states}); check the brokers and take a new snapshot"
        )
        return Rejection("broker_reports", "all brokers", NO_BROKER_ANSWERED, reason, None)
    return None


OWNERSHIP = "bundle_ownership"


def ownership_of(broker: ObservedBroker, rejections: list[Rejection]) -> list[Row]:
    """Return one row per bundle that the broker owns, lists in its report or has figures for, by name."""
    report = broker.report
    listed = _listed(broker)
    stats = Members(report or {}, OWNERSHIP, f"{broker.name} load-report", rejections).inside("lastStats")
    owned = broker.owned
    figured = stats.names_inside()
    rows = []
    for bundle in sorted(claims_of(broker)):
        status = (owned or {}).get(bundle)
        active = status.get("is_active") if isinstance(status, dict) else None
        row = {
            "bundle": bundle,
            "namespace": bundle.rpartition("/")[0],
            "broker": broker.name,
            "is_owned": None if owned is None else bundle in owned,
            "is_active": active if isinstance(active, bool) else None,
            "is_reported": None if listed is None else bundle in listed,
        }
        rows.append(row | (bundle_figures(stats.inside(bundle)) if bundle in figured else {}))
    return rows


def claims_of(broker: ObservedBroker) -> set[str]:
    """Return the bundles that the broker owns, lists in its report or has figures for."""
    stats = (broker.report or {}).get("lastStats")
    return {*(broker.owned or ()), *(_listed(broker) or ()), *(stats if isinstance(stats, dict) else ())}


def _listed(broker: ObservedBroker) -> frozenset[str] | None:
    if broker.report is None:
        return None
    names = broker.report.get("bundles")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


NAMESPACES = "namespace_bundles"
NO_BOUNDARIES = "no_boundaries"
UNKNOWN_GROUP = "unknown_group"


def namespaces_of(view: SnapshotView) -> list[Row]:
    """Return one row per namespace whose boundaries are known, by name; holes and overlaps are kept.

    The boundaries are those of `/bundles`, else those in the namespace's policies. A namespace that is listed or was
    requested and has neither is rejected.
    """
    names = {name for kind in (Kind.BUNDLES, Kind.POLICIES) for name, _ in view.own.each(kind)}
    for _, answer in view.own.each(Kind.NAMESPACES):
        reading = view.json(answer, list, NAMESPACES, nothing_at=(404,))
        names |= {name for name in reading.value or () if isinstance(name, str)}
    _demand_rows(view, NAMESPACES, len(names))
    rows: list[Row] = []
    bundles = 0
    for name in sorted(names):
        row = _namespace_row(view, name)
        if row is not None:
            rows.append(row)
            bundles += len(row["boundaries"])
            _demand_rows(view, f"{NAMESPACES} and boundaries in them", bundles)
    return rows


def _namespace_row(view: SnapshotView, name: str) -> Row | None:
    bundles_answer, policies_answer = view.own.about(Kind.BUNDLES, name), view.own.about(Kind.POLICIES, name)
    bundles = view.json(bundles_answer, dict, NAMESPACES)
    policies = view.json(policies_answer, dict, NAMESPACES)
    known = _boundaries(bundles.value) or _boundaries((policies.value or {}).get("bundles"))
    if known is None:
        why = bundles.reason or "its answer holds no list of boundaries"
        old = ", as of any namespace tenant/cluster/namespace" if name.count("/") == 2 else ""
        reason = (
            f"the bundle boundaries of {name} are unknown{old} ({why}); its topics belong to no bundle in this cycle"
        )
        body = None if bundles_answer is None else bundles_answer.body
        record = json.dumps(name, ensure_ascii=False) if body is None else body[:2_000]
        view.rejections.append(Rejection(NAMESPACES, f"namespace {name}", NO_BOUNDARIES, reason, record))
        return None
    boundaries, count = known
    return {
        "namespace": name,
        "boundaries": boundaries,
        "bundles": count,
        "anti_affinity_group": _group(view, name),
        "policies": policies_answer.body if policies.is_read and policies_answer is not None else None,
    }


def _group(view: SnapshotView, name: str) -> str | None:
    """Return the group's name as stored (quotes around it belong to it); None for an empty body or 204."""
    answer = view.own.about(Kind.GROUP, name)
    if answer is None:
        return None
    reading = view.noted(read_text(answer), answer, NAMESPACES)
    if reading.outcome in ("no_answer", "unreadable") and reading.rule is None:
        reason = f"the anti-affinity group of {name} is unknown: {reading.reason}"
        view.rejections.append(Rejection(NAMESPACES, f"{name} antiAffinity", UNKNOWN_GROUP, reason, answer.body))
    return reading.value if reading.is_read else None


def _boundaries(value: Any) -> tuple[list[str], int] | None:
    """Return the boundaries as answered, and the number of bundles, counted if it is not answered."""
    boundaries = value.get("boundaries") if isinstance(value, dict) else None
    if not isinstance(boundaries, list) or not boundaries or not all(isinstance(each, str) for each in boundaries):
        return None
    count = value.get("numBundles")
    known = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**31
    return boundaries, count if known else len(boundaries) - 1


POLICIES = "cluster_policies"

# These name the broker itself; differences between brokers mean nothing.
_OF_EACH_BROKER = frozenset(
    {"brokerId", "advertisedAddress", "advertisedListeners", "bindAddress", "bindAddresses", "internalListenerName"}
)
_OF_EACH_BROKER_PREFIXES = ("brokerServicePort", "webServicePort")


def policies_of(view: SnapshotView, brokers: list[ObservedBroker], listed: list[str], namespaces: list[Row]) -> Row:
    """Return the cluster's row. Unknown values are NULL: an empty map or `{}` means that there are none."""
    leader = leader_of(view)
    configurations, age = configurations_of(view)
    chosen = leader if leader in configurations else min(configurations, default=None)
    groups = {row["namespace"]: row["anti_affinity_group"] for row in namespaces if row["anti_affinity_group"]}
    return {
        "manager": manager_of_cluster(broker.manager for broker in brokers),
        "generation": generation_of(broker.row.get("pulsar_version") for broker in brokers),
        "leader": leader,
        "brokers": listed,
        "failure_domains": _domains(view),
        "anti_affinity_groups": groups,
        "isolation_policies": _isolation(view),
        "configuration": configurations[chosen] if chosen is not None else None,
        "configuration_broker": chosen,
        "configuration_age_seconds": age if chosen is not None else None,
        "configuration_differs": _differences(configurations),
        "topic_lists_age_seconds": view.topic_list_source()[1],
        "snapshot": view.file,
        "snapshot_started_at": view.started_at,
        "snapshot_finished_at": view.finished_at,
    }


def configurations_of(view: SnapshotView) -> tuple[dict[str, dict[str, str]], float | None]:
    """Return each broker's effective configuration, and its age in seconds.

    Values are texts as Pulsar writes them (`Optional[1.0]`, `[a, b]`); the room `settings` reads them.
    """
    answers, age = view.configuration_source()
    configurations = {}
    for broker, answer in answers.each(Kind.CONFIGURATION):
        reading = view.json(answer, dict, POLICIES)
        if reading.is_read:
            configurations[broker] = {
                key: _text(value) for key, value in sorted(reading.value.items()) if value is not None
            }
    return configurations, age


def _domains(view: SnapshotView) -> dict[str, list[str]] | None:
    reading = view.json(view.own.about(Kind.DOMAINS, view.cluster), dict, POLICIES, nothing_at=(404,))
    if not reading.is_read:
        return {} if reading.outcome == "nothing" else None
    domains = {}
    for name, body in sorted(reading.value.items()):
        members = body.get("brokers") if isinstance(body, dict) else None
        domains[name] = sorted(map(str, members)) if isinstance(members, list) else []
    return domains


def _isolation(view: SnapshotView) -> str | None:
    """Return the JSON of the isolation policies that can be read; Pulsar answers 404 until the first one is made."""
    reading = view.json(view.own.about(Kind.ISOLATION, view.cluster), dict, POLICIES, nothing_at=(404,))
    if not reading.is_read:
        return "{}" if reading.outcome == "nothing" else None
    policies = {}
    for name, body in sorted(reading.value.items()):
        try:
            _demand_policy(body)
            policies[name] = body
        except (TypeError, ValueError, AttributeError) as error:
            place, record = f"isolation policy {name}", json.dumps(body, ensure_ascii=False)
            reason = f"{place}: {error}. The policy is left out, and the others count. Set it anew or delete it"
            view.rejections.append(Rejection(POLICIES, place, UNREADABLE_POLICY, reason, excerpt(record)))
    return json.dumps(policies, ensure_ascii=False, sort_keys=True)


def _demand_policy(body: Any) -> None:
    """Raise TypeError, ValueError or AttributeError for a policy that deciding could not read (`cycle.reading`)."""
    if not isinstance(body, dict):
        raise TypeError(f"it is {json.dumps(body)[:60]} where an object is due")
    for name in ("namespaces", "primary", "secondary"):
        texts = body.get(name) or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"its {name} are {json.dumps(texts)[:60]} where a list of texts is due")
    int(((body.get("auto_failover_policy") or {}).get("parameters") or {}).get("min_limit", 1))


def _differences(configurations: dict[str, dict[str, str]]) -> str | None:
    """Return JSON, key to broker to value (null if a broker lacks the key), of keys on which brokers differ."""
    keys = {key for values in configurations.values() for key in values}
    differing: dict[str, Any] = {}
    for key in sorted(keys - _OF_EACH_BROKER):
        if key.startswith(_OF_EACH_BROKER_PREFIXES):
            continue
        values = {broker: configuration.get(key) for broker, configuration in sorted(configurations.items())}
        if len(set(values.values())) > 1:
            differing[key] = values
    return json.dumps(differing, ensure_ascii=False, sort_keys=True) if differing else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
