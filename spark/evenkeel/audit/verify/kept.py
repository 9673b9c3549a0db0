"""What of the record is still promised: upkeep drops rows past their periods, and says where a cut chain begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.audit.read import Attempt, read_table_if_any
from evenkeel.audit.verify.chain import Anchor
from evenkeel.handover import Write
from evenkeel.keeping.periods import Periods, settled, whole_kind
from evenkeel.lake.tables import TABLES


@dataclass(frozen=True, slots=True)
class Kept:
    """The periods of the last upkeep and when it began; where none ever ran, everything is kept."""

    periods: Periods | None = None
    at: datetime | None = None

    def promises(self, attempt: Attempt, table: str) -> bool:
        """Whether all rows that the attempt wrote to the table have to be there."""
        if self.periods is None or self.at is None:
            return True
        kind = whole_kind(TABLES[table])
        return kind is None or attempt.cycle_at.date() >= self.periods.cutoff(kind, self.at)

    def writes(self, attempt: Attempt) -> tuple[Write, ...]:
        """The writes of an attempt whose rows are all promised."""
        return tuple(write for write in attempt.writes if self.promises(attempt, write.table))


def read_kept(lake: str | Path) -> Kept:
    """As the newest row of `upkeeps` says."""
    rows = read_table_if_any(lake, "upkeeps")
    if not rows:
        return Kept()
    newest = max(rows, key=lambda row: (row["begun_at"], row["upkeep_id"]))
    return Kept(settled(newest["periods"], {}, shorten=True), newest["begun_at"])


def read_anchors(lake: str | Path) -> list[Mapping[str, Any]]:
    """All anchors of the lake."""
    return [*read_table_if_any(lake, "anchors")]


def anchor_of(first: int, anchors: Iterable[Mapping[str, Any]]) -> Anchor | None:
    """Where a cluster's chain, whose `first` row has that sequence, has to begin: after the newest anchor before it,
    None for the very first.

    An upkeep that was killed may have left an anchor whose rows are still there.
    """
    before = [one for one in anchors if one["sequence"] < first]
    if not before:
        return None
    newest = max(before, key=lambda one: int(one["sequence"]))
    return Anchor(int(newest["sequence"]), str(newest["manifest_digest"]))
