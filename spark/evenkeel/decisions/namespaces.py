"""Which namespaces belong to Pulsar itself (Pulsar: NamespaceService, NamespaceName)."""

from __future__ import annotations

import re

SYSTEM_NAMESPACE = "pulsar/system"

_OWN = re.compile(r"(?:pulsar|sla-monitor)/[^/:]+:\d+")
_OWN_THREE_PART = re.compile(r"(?:pulsar|sla-monitor)/[^/]+/[^/:]+:\d+")
_HEARTBEAT = re.compile(r"pulsar/(?:[^/]+/)?[^/:]+:\d+")
_SLA = re.compile(r"sla-monitor/(?:[^/]+/)?[^/:]+:\d+")


def is_heartbeat_or_sla(namespace: str, *, three_part: bool = False) -> bool:
    """Whether the namespace is a broker's own (`pulsar/<host:port>`, `sla-monitor/<host:port>`): never shed or placed.

    `three_part`: also the forms with a cluster in the middle, which brokers before 4.2 use and 4.2 no longer knows.
    """
    if _OWN.fullmatch(namespace):
        return True
    return three_part and _OWN_THREE_PART.fullmatch(namespace) is not None


def is_heartbeat(namespace: str) -> bool:
    """A broker's heartbeat namespace, in the two-part or the older three-part form."""
    return _HEARTBEAT.fullmatch(namespace) is not None


def is_sla(namespace: str) -> bool:
    """A broker's SLA monitor namespace, in the two-part or the older three-part form."""
    return _SLA.fullmatch(namespace) is not None


def broker_of(namespace: str) -> str | None:
    """The broker (`host:port`) that a heartbeat or SLA namespace belongs to; None for any other namespace."""
    if is_heartbeat(namespace) or is_sla(namespace):
        return namespace.rpartition("/")[2]
    return None


def is_system(namespace: str) -> bool:
    """Pulsar's own namespace of load data and transactions. Unlike heartbeats it can be shed, and is spread evenly."""
    return namespace == SYSTEM_NAMESPACE


def uses_three_part_names(versions: list[str | None]) -> bool:
    """Whether any broker of a cluster is older than 4.2 and so still names its own namespaces in three parts."""
    return any(_before_4_2(version) for version in versions if version)


def _before_4_2(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match.group(1)), int(match.group(2))) < (4, 2)
