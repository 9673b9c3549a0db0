"""Limits on what is read of a cluster: an answer beyond them is rejected, or the cluster left out of the cycle.

A broker, a proxy in its place, or a writer of a recording or a landing zone may send anything of any size. These limits
apply as answers are read, before anything is built from them. So one cluster's faulty data costs only that cluster its
cycle. Defaults leave room for twenty million topics and a hundred thousand bundles.

An operator sets them in the configuration file, as `[limits]` for all clusters or `[clusters.NAME.limits]` for one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.pulsar.answers import Kind, subject_of

MIB = 1 << 20
MOST_BROKERS = 10_000
"""Longest list of brokers that is accepted as coming from a Pulsar cluster."""

_TOPIC_SIZED = frozenset({Kind.TOPIC_FIGURES, Kind.TOPIC_LIST})


class BeyondLimit(BadInput):
    """A cluster, a recording or a landing zone sent more than a limit allows."""


def _limit(default: int, unit: str, meaning: str, highest: int | None = None) -> Any:
    return field(default=default, metadata={"unit": unit, "meaning": meaning, "highest": highest})


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one cluster; sizes in MiB of unpacked bytes, except `packed_mib`."""

    answer_mib: int = _limit(64, "MiB", "One answer with topic figures, or one list of topics.")
    small_answer_mib: int = _limit(32, "MiB", "Any other answer.")
    small_answers_mib: int = _limit(128, "MiB", "All those other answers of a snapshot, as held in memory.")
    snapshot_mib: int = _limit(65_536, "MiB", "All answers of a snapshot.")
    packed_mib: int = _limit(16_384, "MiB", "The file of a snapshot as stored.")
    document_mib: int = _limit(64, "MiB", "A snapshot that is one JSON document.")
    json_depth: int = _limit(100, "levels", "How deep JSON is nested; deeper than the highest cannot be read.", 500)
    json_values: int = _limit(8_000_000, "values", "Values in the small answers of a snapshot.")
    requests: int = _limit(300_000, "requests", "Requests of a snapshot.")
    rows: int = _limit(150_000, "rows", "Rows of a table of the size of brokers or bundles.")
    topics: int = _limit(
        20_000_000,
        "topics",
        "Topics in figures, and in lists, of a snapshot; sums over more than the highest would not be exact.",
        2**25,  # see `spark.sql.MOST_THOUSANDTHS`
    )
    run_mib: int = _limit(
        512, "MiB", "Rows and texts of all clusters of a run in its process; of several values the largest counts."
    )
    snapshots: int = _limit(500_000, "snapshots", "Snapshots in a recording's folder.")
    quotas: int = _limit(5_000, "bundles", "Bundles whose resource quota is asked for in one snapshot.")

    def bytes_of(self, name: str) -> int:
        """Return the limit of that name in bytes."""
        return int(getattr(self, name)) * MIB

    def name_for(self, path: str) -> str:
        """Return the name of the limit for the answer to a path of the admin API."""
        return "answer_mib" if subject_of(path).kind in _TOPIC_SIZED else "small_answer_mib"

    def words(self, name: str) -> str:
        """Return the limit in words: its value, its name and where it is set."""
        value = int(getattr(self, name))
        shown = f"{value:,} MiB" if name.endswith("_mib") else f"{value:,}"
        return f"the limit of {shown} (`{name}`, set in [limits] or [clusters.NAME.limits] of the configuration file)"

    def demand(self, name: str, found: int, what: str, advice: str) -> None:
        """Raise `BeyondLimit` if `found` (bytes, or a count) is more than the limit; `what` names its subject."""
        most = self.bytes_of(name) if name.endswith("_mib") else int(getattr(self, name))
        if found > most:
            raise BeyondLimit(self.beyond(name, what, advice))

    def beyond(self, name: str, what: str, advice: str) -> str:
        """Return the sentence about a subject beyond a limit."""
        return f"{what}, beyond {self.words(name)}: {advice}, or raise the limit"

    def to_dict(self) -> dict[str, int] | None:
        """Return the limits for a hand-over; None for the defaults."""
        return None if self == DEFAULT else asdict(self)


DEFAULT = Limits()
