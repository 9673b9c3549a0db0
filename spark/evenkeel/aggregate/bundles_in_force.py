"""The bundles of a cluster by the boundaries of its namespaces, and which of them are Pulsar's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from evenkeel.model.bundles import HIGHEST_HASH, SYSTEM_NAMESPACE

Row = Mapping[str, Any]

# `$` of Java, in whose terms both patterns were first written, lets a line end follow.
_END = r"(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z"
_BOUNDARY = re.compile(rf"0x([0-9a-fA-F]{{8}}){_END}")

# Heartbeat and SLA-monitor namespaces are in no list of namespaces and are always one bundle; 4.0 has a cluster in
# between. `pulsar/system` is an ordinary namespace with its own boundaries.
_BROKER_NAMESPACE = re.compile(rf"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^/]+:[0-9]+{_END}")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle in force: the hashes from `lower` up to, not including, `upper`; the last one of all includes it."""

    namespace: str
    name: str
    lower: int
    upper: int


def is_broker_namespace(namespace: str) -> bool:
    """Return True if it is a broker's own heartbeat or SLA-monitor namespace."""
    return _BROKER_NAMESPACE.match(namespace) is not None


# A namespace has many bundles, and is asked about for each of them in every cycle.
@lru_cache(maxsize=4096)
def is_system_namespace(namespace: str) -> bool:
    """Return True if it is Pulsar's own: heartbeat, SLA monitor or `pulsar/system`."""
    return namespace == SYSTEM_NAMESPACE or is_broker_namespace(namespace)


def edges_of(boundaries: Iterable[str | None] | None) -> tuple[int, ...]:
    """Return a namespace's boundaries as hashes, in their order; text that is not like 0x40000000 is ignored."""
    matches = (_BOUNDARY.match(text) for text in boundaries or () if text is not None)
    return tuple(int(match.group(1), 16) for match in matches if match is not None)


def namespaces_in_force(namespaces: Iterable[Row], claims: Iterable[Row]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the namespaces with their boundaries as hashes, without namespaces that have no bundle.

    `namespaces` are rows of namespace_bundles. A broker's own namespace has no boundaries in them. It counts as one
    bundle if `claims` (rows of bundle_ownership) show that a broker owns it, as it does in Pulsar's own sums.
    """
    known = [(row["namespace"], edges_of(row["boundaries"])) for row in namespaces]
    broker_namespaces = sorted({row["namespace"] for row in claims})
    known += [(name, (0, HIGHEST_HASH)) for name in broker_namespaces if is_broker_namespace(name)]
    return [(name, edges) for name, edges in known if len(edges) > 1]


# Boundaries change when a bundle is split, and are asked for in every cycle.
@lru_cache(maxsize=1024)
def bundles_of(namespace: str, edges: tuple[int, ...]) -> tuple[Bundle, ...]:
    """The bundles between these boundaries."""
    return tuple(
        Bundle(namespace, f"{namespace}/0x{lower:08x}_0x{upper:08x}", lower, upper) for lower, upper in pairwise(edges)
    )
