"""Which of several broker versions is the newest (Pulsar: BrokerVersionFilter; key preferLaterVersions)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

Rank = tuple[tuple[int, int, int], tuple[tuple[int, int, str], ...]]


def version_rank(version: str | None) -> Rank | None:
    """A value that orders semantic versions (a release after its pre-releases); None if it is not one."""
    match = _SEMANTIC.fullmatch(version or "")
    if match is None:
        return None
    major, minor, patch, before = match.groups()
    if before is None:
        return (int(major), int(minor), int(patch)), ((2, 0, ""),)
    parts = before.split(".")
    if not all(parts):
        return None
    ranked = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return (int(major), int(minor), int(patch)), ranked


def newest(versions: Mapping[str, str | None]) -> frozenset[str] | None:
    """The brokers on the newest version; None if any version is missing or unreadable, and so nothing can be said."""
    return highest({broker: version_rank(version) for broker, version in versions.items()})


def highest(ranks: Mapping[str, Rank | None]) -> frozenset[str] | None:
    """As `newest`, for versions that were ranked before."""
    known = [rank for rank in ranks.values() if rank is not None]
    if len(known) < len(ranks) or not known:
        return None
    latest = max(known)
    return frozenset(broker for broker, rank in ranks.items() if rank == latest)
