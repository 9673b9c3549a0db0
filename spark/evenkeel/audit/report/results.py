"""What came of a plan's commands: the last that was seen of each, in the order of the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.audit import wording
from evenkeel.audit.read import Row

OPEN = "open"
_MOODS = {"done": "good", OPEN: "warn", "unknown": "warn", "stale": "warn", "withheld": "warn", "overridden": "warn"}


@dataclass(frozen=True, slots=True)
class Result:
    """A command and its outcome; `open` where nothing is on record of it yet. `mood` is good, warn or bad."""

    kind: str
    bundle: str
    from_broker: str
    destination: str
    outcome: str
    seen_at: datetime | None
    detail: str

    @property
    def mood(self) -> str:
        """good, warn or bad, by the outcome."""
        return _MOODS.get(self.outcome, "bad")


def results(commands: Iterable[Row]) -> tuple[Result, ...]:
    """Of commands with their last `outcome`, `seen_at` and `detail`; what a dry run noted is no result."""
    return tuple(
        Result(
            row["kind"],
            row["bundle"],
            row["from_broker"] or "",
            row["destination"] or "",
            row["outcome"] or OPEN,
            row["seen_at"],
            row["detail"] or "Nothing is on record of it yet: the next cycle looks.",
        )
        for row in sorted(commands, key=lambda row: row["step"])
        if row["mode"] != "dry_run"
    )


def tally(found: Sequence[Result]) -> str:
    """`8 done, 2 overridden`: the most frequent first, then by name."""
    counts = Counter(result.outcome for result in found)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return wording.listed([f"{number:,} {outcome.replace('_', ' ')}" for outcome, number in ordered])
