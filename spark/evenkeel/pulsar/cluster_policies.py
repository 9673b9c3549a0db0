"""What holds for the whole cluster: the row of `cluster_policies`."""

from __future__ import annotations

import json
from typing import Any

from evenkeel.pulsar.answers import Kind
from evenkeel.pulsar.broker_reports import Broker, leader_of
from evenkeel.pulsar.snapshot import Row, View, generation_of, manager_of_cluster

TABLE = "cluster_policies"

# These name the broker itself; that they differ says nothing.
_OF_EACH_BROKER = frozenset(
    {"brokerId", "advertisedAddress", "advertisedListeners", "bindAddress", "bindAddresses", "internalListenerName"}
)
_OF_EACH_BROKER_PREFIXES = ("brokerServicePort", "webServicePort")


def policies_of(view: View, brokers: list[Broker], listed: list[str], namespaces: list[Row]) -> Row:
    """The cluster's row. Unknown stays NULL: an empty map or `{}` says that there is none."""
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


def configurations_of(view: View) -> tuple[dict[str, dict[str, str]], float | None]:
    """Broker to its effective configuration, and its age in seconds.

    Values are texts as Pulsar writes them (`Optional[1.0]`, `[a, b]`); settings read them.
    """
    answers, age = view.configuration_source()
    found = {}
    for broker, answer in answers.each(Kind.CONFIGURATION):
        reading = view.json(answer, dict, TABLE)
        if reading.is_read:
            found[broker] = {key: _text(value) for key, value in sorted(reading.value.items()) if value is not None}
    return found, age


def _domains(view: View) -> dict[str, list[str]] | None:
    reading = view.json(view.own.about(Kind.DOMAINS, view.cluster), dict, TABLE, nothing_at=(404,))
    if not reading.is_read:
        return {} if reading.outcome == "nothing" else None
    domains = {}
    for name, body in sorted(reading.value.items()):
        members = body.get("brokers") if isinstance(body, dict) else None
        domains[name] = sorted({str(member) for member in members}) if isinstance(members, list) else []
    return domains


def _isolation(view: View) -> str | None:
    """JSON of the isolation policies; 404 is Pulsar's answer until the first one was ever made."""
    answer = view.own.about(Kind.ISOLATION, view.cluster)
    reading = view.json(answer, dict, TABLE, nothing_at=(404,))
    if reading.is_read and answer is not None:
        return answer.body
    return "{}" if reading.outcome == "nothing" else None


def _differences(configurations: dict[str, dict[str, str]]) -> str | None:
    """JSON: key to broker to value (null where a broker lacks the key), for keys on which brokers differ."""
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
