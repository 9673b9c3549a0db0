"""What may be wrong with a record, each with what was found, where, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

CHAIN = "chain"
CONTENT = "content"
DATA = "data"
CODE = "code"
DEFINITION = "definition"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Something on record that is not as it was written, or that is not decided again.

    `kind` is chain (rows of `cycles` themselves), content (rows that a manifest lists), data (decided otherwise by the
    very code that decided first), code (decided otherwise by other code), definition (decided otherwise, and its code
    digest follows another definition, so that it cannot be compared) or unknown (it cannot be decided again). `place`
    names the row, write, file or column.
    """

    cluster: str
    cycle_at: datetime | None
    kind: str
    table: str
    place: str
    words: str
    attempt_id: str | None = None

    def sentence(self) -> str:
        """The fault in one line."""
        at = f" at {self.cycle_at.isoformat()}" if self.cycle_at is not None else ""
        return f"{self.cluster}{at}: {self.table} ({self.place}): {self.words}"
