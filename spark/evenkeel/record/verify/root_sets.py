"""Which writes a manifest names one root for, and what it is worth to know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.handover import Write
from evenkeel.record.read import Attempt

Makers = Mapping[tuple[str, str], Attempt]
"""Cluster and write id -> the attempt that wrote it."""


@dataclass(frozen=True, slots=True)
class RootSet:
    """The writes with rows of an attempt to one table, and the root (hex) that its manifest names for these rows."""

    attempt_id: str
    table: str
    writes: tuple[Write, ...]
    root: str

    @property
    def is_one(self) -> bool:
        """Whether the root is that of a single write."""
        return len(self.writes) == 1


def has_roots(attempt: Attempt) -> bool:
    """Whether its manifest names roots; those of schema versions before 6 have sums only."""
    return attempt.planned.get("roots") is not None


def makers_of(attempts: Iterable[Attempt]) -> Makers:
    """Who wrote what, by the manifests of these attempts."""
    return {(one.cluster, write.write_id): one for one in attempts for write in one.writes}


def root_sets(writes: Iterable[Write], makers: Makers) -> dict[Write, RootSet]:
    """The set that each of these writes is in; without those that no manifest at hand names a root for."""
    found: dict[Write, RootSet] = {}
    for write in writes:
        maker = makers.get((write.cluster, write.write_id))
        if maker is None or write in found or not write.rows:
            continue
        roots = (one["root"] for one in maker.planned.get("roots") or () if one["table"] == write.table)
        root = next(roots, None)
        if root is not None:
            own = tuple(one for one in maker.writes_of(write.table) if one.rows)
            found |= dict.fromkeys(own, RootSet(maker.attempt_id, write.table, own, root))
    return found


def of_several(sets: Mapping[Write, RootSet], wrong: Iterable[Write]) -> Sequence[RootSet]:
    """The sets of more than one write, without those of which a write was found wrong by itself."""
    known = {*wrong}
    return [*dict.fromkeys(one for one in sets.values() if not one.is_one and known.isdisjoint(one.writes))]
