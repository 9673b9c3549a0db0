"""Number of connections of producers and consumers, counted from the log of their own client.

Pulsar's client reconnects by itself and reports it only in its log: a line each time that a broker has accepted a
producer or a consumer. Every topic of the lab has one of each.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_CONNECTED = re.compile(rb"\[(?P<topic>[a-z-]+://[^,\]]+),[^\]]*\] Created (?P<kind>producer|consumer) on broker ")


@dataclass
class Connections:
    """The content of the log at `path` so far; the file need not exist yet."""

    path: Path
    _connects: Counter[tuple[bytes, bytes]] = field(default_factory=Counter)
    _read: int = 0

    def read_on(self) -> None:
        """Read the whole lines that have come since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        self._connects.update((match["kind"], match["topic"]) for match in _CONNECTED.finditer(whole))

    def reconnects(self, kind: str) -> int:
        """Return how often clients of this kind (`producer` or `consumer`) connected again after their first time."""
        return sum(times - 1 for (connected, _), times in self._connects.items() if connected == kind.encode())
