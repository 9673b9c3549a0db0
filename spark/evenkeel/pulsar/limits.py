"""How much is taken from a cluster at most: what is beyond is set aside, or the cluster left out of the cycle.

A broker, a proxy in its place, or whoever can write to a recording or a landing zone may send anything of any size.
These limits hold where answers are read, before anything is built from them, so that one cluster's rubbish costs that
cluster its cycle and nothing else. Defaults leave room for twenty million topics and a hundred thousand bundles.

An operator sets them in the configuration file, as `[limits]` for all clusters or `[clusters.NAME.limits]` for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from evenkeel.errors import BadInput, SettingsError
from evenkeel.pulsar.answers import Kind, subject_of

MIB = 1 << 20
MOST_BROKERS = 10_000
"""A longer list of brokers is not believed to come from a cluster of Pulsar."""

_TOPIC_SIZED = frozenset({Kind.TOPIC_FIGURES, Kind.TOPIC_LIST})
_MOST = {
    "json_depth": (500, "deeper JSON cannot be read at all"),
    # See `spark.sql.MOST_THOUSANDTHS`.
    "topics": (2**25, "sums over more would not be exact"),
}


class BeyondLimit(BadInput):
    """More than a limit allows came from a cluster, a recording or a landing zone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one cluster; sizes in MiB of unpacked bytes, but for `packed_mib`.

    `answer_mib`: an answer with topic figures or a list of topics; `small_answer_mib`: any other answer, and
    `small_answers_mib` all of those of a snapshot, which are read in the task's own process; `json_values` bounds the
    values in them and `json_depth` how deep they are nested. `snapshot_mib`: all answers of a snapshot together;
    `packed_mib`: its file as it lies there; `document_mib`: a snapshot that is one JSON document. `requests`: in one
    snapshot. `rows`: of a broker- or bundle-sized table; `topics`: of `topic_stats`. `snapshots`: in one folder.
    `quotas`: bundles whose resource quota is asked about for one snapshot.
    `run_mib`: what the rows and texts of all clusters of a run take in its process; of several values the largest.
    """

    answer_mib: int = 64
    small_answer_mib: int = 32
    small_answers_mib: int = 128
    snapshot_mib: int = 65_536
    packed_mib: int = 16_384
    document_mib: int = 64
    json_depth: int = 100
    json_values: int = 8_000_000
    requests: int = 300_000
    rows: int = 150_000
    topics: int = 20_000_000
    run_mib: int = 512
    snapshots: int = 500_000
    quotas: int = 5_000

    def bytes_of(self, name: str) -> int:
        """The limit of that name in bytes."""
        return int(getattr(self, name)) * MIB

    def name_for(self, path: str) -> str:
        """The name of the limit that bounds the answer to a path of the admin API."""
        return "answer_mib" if subject_of(path).kind in _TOPIC_SIZED else "small_answer_mib"

    def words(self, name: str) -> str:
        """The limit in words: how much, what it is called and where it is set."""
        value = int(getattr(self, name))
        shown = f"{value:,} MiB" if name.endswith("_mib") else f"{value:,}"
        return f"the limit of {shown} (`{name}`, set in [limits] or [clusters.NAME.limits] of the configuration file)"

    def demand(self, name: str, found: int, what: str, advice: str) -> None:
        """Raises `BeyondLimit` where `found` (bytes, or a count) is more than the limit; `what` names the thing."""
        most = self.bytes_of(name) if name.endswith("_mib") else int(getattr(self, name))
        if found > most:
            raise BeyondLimit(self.beyond(name, what, advice))

    def beyond(self, name: str, what: str, advice: str) -> str:
        """The sentence on what is beyond a limit."""
        return f"{what}, beyond {self.words(name)}: {advice}, or raise the limit"

    def to_dict(self) -> dict[str, int] | None:
        """The limits for a hand-over; None for the defaults."""
        return None if self == DEFAULT else asdict(self)


DEFAULT = Limits()
LIMIT_MEANINGS: Mapping[str, tuple[str, str]] = {
    "answer_mib": ("MiB", "One answer with topic figures, or one list of topics."),
    "small_answer_mib": ("MiB", "Any other answer."),
    "small_answers_mib": ("MiB", "All those other answers of a snapshot, as held in memory."),
    "snapshot_mib": ("MiB", "All answers of a snapshot."),
    "packed_mib": ("MiB", "The file of a snapshot as it lies there."),
    "document_mib": ("MiB", "A snapshot that is one JSON document."),
    "json_depth": ("levels", "How deep JSON is nested."),
    "json_values": ("values", "Values in the small answers of a snapshot."),
    "requests": ("requests", "Requests of a snapshot."),
    "rows": ("rows", "Rows of a table of the size of brokers or bundles."),
    "topics": ("topics", "Topics in figures, and in lists, of a snapshot."),
    "run_mib": ("MiB", "Rows and texts of all clusters of a run in its process; of several values the largest counts."),
    "snapshots": ("snapshots", "Snapshots in a recording's folder."),
    "quotas": ("bundles", "Bundles whose resource quota is asked for in one snapshot."),
}
"""Limit -> its unit and what it bounds, for pages and the schema of the configuration."""


def highest_limit(name: str) -> int | None:
    """The most that an operator may set this limit to; None where nothing bounds it."""
    return _MOST[name][0] if name in _MOST else None


def limits_of(*given: Mapping[str, Any] | None, place: str = "limits") -> Limits:
    """The limits in tables of a configuration, of which later ones win; `SettingsError` names `place` and the entry."""
    values: dict[str, int] = {}
    known = {field.name for field in fields(Limits)}
    for table in given:
        for name, value in (table or {}).items():
            if name not in known:
                raise SettingsError(f"{place}: unknown entry {name!r}; known are {', '.join(sorted(known))}")
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SettingsError(f"{place}: `{name}` is a whole number of 1 and more, not {value!r}")
            most, reason = _MOST.get(name, (value, ""))
            if value > most:
                raise SettingsError(f"{place}: `{name}` is at most {most}: {reason}")
            values[name] = value
    return Limits(**values)
