"""What a path of the admin API asks for (Pulsar 4.0 and 4.2, `/admin/v2`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

PREFIX = "/admin/v2/"


class Kind(StrEnum):
    """What an answer is about; the name that goes with it stands behind the colon."""

    BROKERS = "available brokers: cluster, or nothing for the own one"
    LEADER = "leader of the load manager"
    CLUSTERS = "clusters"
    LOAD_REPORT = "load report: broker asked"
    TOPIC_FIGURES = "figures of loaded topics: broker asked"
    METRICS = "metrics: broker asked"
    VERSION = "version: broker asked"
    CONFIGURATION = "effective configuration: broker asked"
    OWNED = "owned bundles: cluster and broker id"
    DOMAINS = "failure domains: cluster"
    ISOLATION = "isolation policies: cluster"
    NAMESPACES = "namespaces: tenant"
    POLICIES = "policies: namespace"
    BUNDLES = "bundle boundaries: namespace"
    GROUP = "anti-affinity group: namespace"
    TOPIC_LIST = "topics known: domain and namespace"
    OTHER = "anything else: path"


BROKER_SCOPED = frozenset({Kind.LOAD_REPORT, Kind.TOPIC_FIGURES, Kind.METRICS, Kind.VERSION, Kind.CONFIGURATION})
"""Kinds that only tell of the broker that was asked."""

TOPIC_SIZED = frozenset({Kind.TOPIC_FIGURES, Kind.TOPIC_LIST})
"""Kinds whose answers grow with the number of topics: read by Spark, never collected."""

_FIXED = {
    "brokers": Kind.BROKERS,
    "brokers/leaderBroker": Kind.LEADER,
    "brokers/version": Kind.VERSION,
    "brokers/configuration/runtime": Kind.CONFIGURATION,
    "broker-stats/load-report": Kind.LOAD_REPORT,
    "broker-stats/topics": Kind.TOPIC_FIGURES,
    "broker-stats/metrics": Kind.METRICS,
    "clusters": Kind.CLUSTERS,
}
_NO_CLUSTER = frozenset({"health", "ready", "configuration", "internal-configuration", "backlog-quota-check"})
_OF_CLUSTER = {"failureDomains": Kind.DOMAINS, "namespaceIsolationPolicies": Kind.ISOLATION}
_OF_NAMESPACE = {"bundles": Kind.BUNDLES, "antiAffinity": Kind.GROUP}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about: its kind and, where several can be asked, the name of the one."""

    kind: Kind
    name: str = ""


def subject_of(path: str) -> Subject:
    """What `path` asks for. Segments are percent-decoded; a path that is not known is of the kind OTHER."""
    plain, _, query = path.partition("?")
    rest = plain.removeprefix(PREFIX).rstrip("/")
    if rest in _FIXED:
        return Subject(_FIXED[rest])
    parts = [unquote(part) for part in rest.split("/")]
    return _of_parts(parts, query) or Subject(Kind.OTHER, path)


def owned_by(cluster: str, broker: str) -> str:
    """The name of the OWNED subject of a broker."""
    return f"{cluster} {broker}"


def _of_parts(parts: list[str], query: str) -> Subject | None:
    match parts:
        case ["brokers", cluster] if cluster not in _NO_CLUSTER:
            return Subject(Kind.BROKERS, cluster)
        case ["brokers", cluster, broker, "ownedNamespaces"]:
            return Subject(Kind.OWNED, owned_by(cluster, broker))
        case ["clusters", cluster, what] if what in _OF_CLUSTER:
            return Subject(_OF_CLUSTER[what], cluster)
        case ["namespaces", tenant]:
            return Subject(Kind.NAMESPACES, tenant)
        case ["namespaces", tenant, namespace]:
            return Subject(Kind.POLICIES, f"{tenant}/{namespace}")
        # With a query it is the list of a group's namespaces, and the first segment is a cluster.
        case ["namespaces", tenant, namespace, leaf] if leaf in _OF_NAMESPACE and not query:
            return Subject(_OF_NAMESPACE[leaf], f"{tenant}/{namespace}")
        case ["persistent" | "non-persistent" as domain, tenant, namespace]:
            return Subject(Kind.TOPIC_LIST, f"{domain}://{tenant}/{namespace}")
    return None
