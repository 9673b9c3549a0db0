"""The demo's course: one run per snapshot, in the order in which the snapshots were taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evenkeel.sources.configuration import read_configuration
from evenkeel.sources.recordings import Recording


@dataclass(frozen=True, slots=True)
class Leg:
    """One run: the cluster and the moment of its snapshot (ISO-8601 UTC)."""

    cluster: str
    at: str

    @property
    def clock(self) -> str:
        """Hours, minutes and seconds, for people."""
        return datetime.fromisoformat(self.at).strftime("%H:%M:%S")


def course(configuration: Path, clusters: tuple[str, ...] = (), cycles: int | None = None) -> tuple[Leg, ...]:
    """A leg for each snapshot of each configured cluster, oldest first; only some clusters or the first `cycles`."""
    legs = [
        Leg(str(source.cluster), snapshot.cycle_at)
        for source in read_configuration(configuration)
        if not clusters or source.cluster in clusters
        for snapshot in Recording(source.recording).snapshots
    ]
    return tuple(sorted(legs, key=lambda leg: (leg.at, leg.cluster))[:cycles])
