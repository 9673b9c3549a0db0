"""Names of topics and namespaces, and the hash of a topic (Pulsar: TopicName, NamespaceName)."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from evenkeel.errors import BadName

DOMAINS = ("persistent", "non-persistent")
SCALABLE_DOMAINS = ("topic", "segment")
"""Domains of Pulsar 5 (PIP-460): a scalable topic, and one of its segments, which bundles hold as topics."""
HIGHEST_HASH = 0xFFFF_FFFF

_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION = "-partition-"
_NOT_BLANK_IN_JAVA = "\x85\xa0\u2007\u202f"
_INT_HIGHEST = 2_147_483_647


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic by its full name. `name` keeps the domain as typed (it is part of the hash), `domain` is its canonical
    spelling; `partition` is -1 if the name is not that of a partition."""

    name: str
    domain: str
    namespace: str
    local_name: str
    partition: int

    @property
    def canonical(self) -> str:
        """The full name with the domain in its canonical spelling."""
        return f"{self.domain}://{self.namespace}/{self.local_name}"

    @property
    def hash(self) -> int:
        """`topic_hash` of the full name."""
        return topic_hash(self.name)


def topic_hash(full_name: str) -> int:
    """Return the CRC32 of the UTF-8 bytes of the full name, 0 to 0xffffffff; it decides the topic's bundle."""
    return zlib.crc32(full_name.encode("utf-8", "replace"))


def parse_topic(text: str, *, scalable: bool = False) -> TopicName:
    """Return the topic that Pulsar 4.2 reads from `topic`, `tenant/namespace/topic` or
    `domain://tenant/namespace/topic`.

    `scalable`: also Pulsar 5's `topic://tenant/namespace/topic` and `segment://tenant/namespace/topic/0000-7fff-1`,
    whose local names may have slashes. Raises `BadName` if Pulsar refuses: wrong number of parts, unknown domain, blank
    topic, letters a tenant or namespace may not have.
    """
    full = text if "://" in text else _expand(text)
    typed_domain, local_part = full.split("://", 1)
    domain = typed_domain.lower()
    known = (*DOMAINS, *SCALABLE_DOMAINS) if scalable else DOMAINS
    if domain not in known:
        raise BadName(f"topic {text!r} has the unknown domain {typed_domain!r}: known are {', '.join(known)}")
    parts = local_part.split("/", 2 if domain in SCALABLE_DOMAINS else -1)
    if len(parts) != 3:
        raise BadName(f"topic {text!r} is not of the form domain://tenant/namespace/topic")
    tenant, namespace, local = parts
    for entity in (tenant, namespace):
        if not _ENTITY.fullmatch(entity):
            raise BadName(f"topic {text!r} has the invalid tenant or namespace {entity!r}")
    if all(c.isspace() and c not in _NOT_BLANK_IN_JAVA for c in local):
        raise BadName(f"topic {text!r} has a blank local name")
    return TopicName(full, domain, f"{tenant}/{namespace}", local, partition_of(full))


def partition_of(name: str) -> int:
    """Return the partition's number if the name ends in `-partition-<canonical decimal>`, else -1."""
    _, separator, index = name.rpartition(_PARTITION)
    if not separator or not index.isdecimal():
        return -1
    number = int(index)
    return number if number <= _INT_HIGHEST and len(str(number)) == len(index) else -1


def _expand(text: str) -> str:
    parts = text.split("/")
    if len(parts) == 1:
        return f"persistent://public/default/{text}"
    if len(parts) == 3:
        return f"persistent://{text}"
    raise BadName(f"topic {text!r} is neither <topic> nor <tenant>/<namespace>/<topic>")


# Namespaces of Pulsar itself (Pulsar: NamespaceService, NamespaceName).

SYSTEM_NAMESPACE = "pulsar/system"

_OWN = re.compile(r"(?:pulsar|sla-monitor)/[^/:]+:\d+")
_OWN_THREE_PART = re.compile(r"(?:pulsar|sla-monitor)/[^/]+/[^/:]+:\d+")
_HEARTBEAT = re.compile(r"pulsar/(?:[^/]+/)?[^/:]+:\d+")
_SLA = re.compile(r"sla-monitor/(?:[^/]+/)?[^/:]+:\d+")


def is_heartbeat_or_sla(namespace: str, *, three_part: bool = False) -> bool:
    """Return True for a broker's own namespace (`pulsar/<host:port>`, `sla-monitor/<host:port>`): never shed or placed.

    `three_part`: also the forms with a cluster in the middle, which brokers before 4.2 use and 4.2 no longer knows.
    """
    if _OWN.fullmatch(namespace):
        return True
    return three_part and _OWN_THREE_PART.fullmatch(namespace) is not None


def is_heartbeat(namespace: str) -> bool:
    """Return True for a broker's heartbeat namespace, in the two-part or the older three-part form."""
    return _HEARTBEAT.fullmatch(namespace) is not None


def is_sla(namespace: str) -> bool:
    """Return True for a broker's SLA monitor namespace, in the two-part or the older three-part form."""
    return _SLA.fullmatch(namespace) is not None


def broker_of(namespace: str) -> str | None:
    """Return the broker (`host:port`) that a heartbeat or SLA namespace belongs to; None for any other namespace."""
    if is_heartbeat(namespace) or is_sla(namespace):
        return namespace.rpartition("/")[2]
    return None


def is_system(namespace: str) -> bool:
    """Return True for Pulsar's namespace of load data and transactions, which is shed and spread evenly."""
    return namespace == SYSTEM_NAMESPACE


def uses_three_part_names(versions: list[str | None]) -> bool:
    """Return True if any broker of a cluster is older than 4.2 and still names its own namespaces in three parts."""
    return any(_before_4_2(version) for version in versions if version)


def _before_4_2(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match.group(1)), int(match.group(2))) < (4, 2)
