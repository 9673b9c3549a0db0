"""A command that was on its way to a cluster, with what was last seen of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.decisions.bundles import bundle_name, namespace_of, range_of, ranges_of

UNTOUCHED = frozenset({"refused", "stale", "withheld", "dry_run"})
"""Outcomes after which the cluster is as it was."""


@dataclass(frozen=True, slots=True)
class Act:
    """`outcome` and `seen_at` are None while nothing was seen. `cuts` and `unload_children` belong to splits."""

    command_id: str
    kind: str
    bundle: str
    from_broker: str | None
    destination: str | None
    cycle_at: datetime
    outcome: str | None = None
    seen_at: datetime | None = None
    cuts: tuple[int, ...] = ()
    unload_children: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not known what became of it."""
        return self.outcome is None or self.outcome == "unknown"

    @property
    def touched(self) -> bool:
        """Whether it changed the cluster, or may have."""
        return self.outcome not in UNTOUCHED

    def children(self) -> tuple[str, ...]:
        """The bundles that a split makes."""
        edges = range_of(self.bundle)
        namespace = namespace_of(self.bundle)
        bounds = sorted({edges.lower, *self.cuts, edges.upper})
        return tuple(bundle_name(namespace, found) for found in ranges_of(bounds))


def act_of(row: Mapping[str, Any]) -> Act:
    """The act of a hand-over's row, whose times are ISO-8601 text."""
    seen = row["seen_at"]
    return Act(
        command_id=row["command_id"],
        kind=row["kind"],
        bundle=row["bundle"],
        from_broker=row["from_broker"],
        destination=row["destination"],
        cycle_at=datetime.fromisoformat(row["cycle_at"]),
        outcome=row["outcome"],
        seen_at=None if seen is None else datetime.fromisoformat(seen),
        cuts=tuple(row["cuts"] or ()),
        unload_children=bool(row["unload_children"]),
    )


def acts_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Act, ...]:
    """The acts of a hand-over, by cycle and command."""
    return tuple(sorted(map(act_of, rows), key=lambda act: (act.cycle_at, act.command_id)))
