"""Settings of the clusters' last decisions: value, origin and default of each key, and differences between clusters.

They are read from the rows of `settings` that the newest decided cycle of each cluster lists. So the page shows the
values that decided, whatever the configuration file now contains.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from evenkeel.errors import NoSuchCycle
from evenkeel.lake.record import Attempt, Record, Row, clusters_of, read_rows, read_rows_of
from evenkeel.lake.record.tables import is_in
from evenkeel.pulsar.generations import Generation
from evenkeel.settings import registry, resolve
from evenkeel.settings.key import SPELLINGS, VERSION_KEY


@dataclass(frozen=True, slots=True)
class ClusterValue:
    """The value of one key that one cluster was decided with.

    `value` and `default` are JSON; `origin` is the source of the value (`default…`, `observed…` for the configuration
    of its brokers, `override…`); `default` is that of its Pulsar version.
    """

    cluster: str
    value: str
    origin: str
    default: str

    @property
    def is_default(self) -> bool:
        """Return True if the value is that Pulsar version's default, in any order of a list, whatever its origin."""
        return _comparable(self.value) == _comparable(self.default)


def _comparable(value: str) -> object:
    decoded = json.loads(value)
    return sorted(decoded) if isinstance(decoded, list) else decoded


@dataclass(frozen=True, slots=True)
class KeyInForce:
    """A key with the value of each cluster that has recorded it, by cluster."""

    key: str
    meaning: str
    unit: str
    allowed: str
    values: tuple[ClusterValue, ...]

    @property
    def groups(self) -> tuple[tuple[ClusterValue, tuple[str, ...]], ...]:
        """Return each value, origin and default once, with the clusters that have them.

        Values that are not the default come first, then those of most clusters, then by value.
        """
        clusters_of: dict[ClusterValue, list[str]] = {}
        for value in self.values:
            clusters_of.setdefault(replace(value, cluster=""), []).append(value.cluster)
        order = sorted(
            clusters_of.items(), key=lambda item: (item[0].is_default, -len(item[1]), item[0].value, item[0].origin)
        )
        return tuple((value, tuple(clusters)) for value, clusters in order)

    @property
    def differs(self) -> bool:
        """Return True if two clusters were decided with different values."""
        return len({value.value for value in self.values}) > 1

    @property
    def is_changed(self) -> bool:
        """Return True if a cluster was decided with anything but its version's default."""
        return not all(value.is_default for value in self.values)


@dataclass(frozen=True, slots=True)
class AllInForce:
    """All keys, in alphabetical order. `cycles`: cluster -> the cycle whose settings they are; `without`: clusters of
    which no cycle was decided yet."""

    settings: tuple[KeyInForce, ...]
    cycles: Mapping[str, datetime]
    without: tuple[str, ...] = ()


def read_settings_in_force(lake: str | Path, cluster: str | None = None) -> AllInForce:
    """Return the settings of one cluster's newest decided cycle, or of each cluster's.

    Raises NoSuchCycle if no such cluster is on record, or nothing was decided yet.
    """
    record = Record(lake)
    rows_of_cluster: dict[str, tuple[Attempt, Sequence[Row]]] = {}
    without = []
    for name in clusters_of(record, cluster):
        newest = newest_decided(record, name, decided_moments(record, name).to_pylist())
        if newest is None:
            without.append(name)
        else:
            rows_of_cluster[name] = newest, read_rows(lake, newest, "settings", columns=["key", "value", "origin"])
    if not rows_of_cluster:
        raise NoSuchCycle(f"no cycle of {', '.join(without)} was decided yet, so no settings are in force")
    return AllInForce(
        settings_of({name: rows for name, (_, rows) in rows_of_cluster.items()}),
        {name: attempt.cycle_at for name, (attempt, _) in rows_of_cluster.items()},
        tuple(without),
    )


def settings_of(rows: Mapping[str, Sequence[Row]]) -> tuple[KeyInForce, ...]:
    """Return cluster -> its rows of `settings`, as keys with values.

    A key that this version does not know is shown without a meaning. A cluster whose cycle is older than a key has no
    value of it.
    """
    values: dict[str, list[ClusterValue]] = {}
    for cluster, cluster_rows in sorted(rows.items()):
        defaults = _defaults(_generation(cluster_rows))
        for row in cluster_rows:
            key, value = str(row["key"]), str(row["value"])
            known = ClusterValue(cluster, value, str(row["origin"]), defaults.get(key, value))
            values.setdefault(key, []).append(known)
    settings = []
    for name, cluster_values in sorted(values.items()):
        entry = registry().get(name)
        of = ("of another version of Evenkeel", "", "") if entry is None else (entry.meaning, entry.unit, entry.allowed)
        settings.append(KeyInForce(name, *of, tuple(cluster_values)))
    return tuple(settings)


MOST_CHANGES, _MOST_KEYS = 20, 4


def settings_changes(record: Record, cluster: str, first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    """Return the cycles that were decided with other settings than the cycle before: moment, and the changed keys.

    The newest `MOST_CHANGES` have their keys in words; others say only that settings changed.
    """
    pairs = record.changes(cluster, "settings_digest", first, last)
    told = [moment for pair in pairs[-MOST_CHANGES:] for moment in pair]
    attempts = {at: newest for at in told if (newest := newest_decided(record, cluster, [at])) is not None}
    rows = read_rows_of(record.lake, [*attempts.values()], "settings", columns=["key", "value"])
    values = {at: {row["key"]: row["value"] for row in rows[one.attempt_id]} for at, one in attempts.items()}
    return [(at, _change(values.get(before, {}), values.get(at, {}))) for before, at in pairs]


def _change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    keys = sorted(key for key in before.keys() & after.keys() if before[key] != after[key])
    more = f" and {len(keys) - _MOST_KEYS} more" if len(keys) > _MOST_KEYS else ""
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in keys[:_MOST_KEYS]) + more or "settings changed"


def decided_moments(record: Record, cluster: str) -> Any:
    """Return the times of cycles that may have been decided, as an Arrow array, oldest first."""
    return record.moments(cluster, ~is_in("status", ["skipped", "failed"]))


def newest_decided(record: Record, cluster: str, moments: Sequence[datetime]) -> Attempt | None:
    """Return the last decided cycle of these moments, or None."""
    for at in reversed(moments):
        decided = [cycle for cycle in record.cycles(cluster, at, at) if cycle.decided]
        if decided:
            return decided[-1]
    return None


def _generation(rows: Sequence[Row]) -> Generation:
    """Return the generation of Pulsar in the cluster's own rows; 4.x if they have none."""
    for row in rows:
        if row["key"] == VERSION_KEY:
            return SPELLINGS.get(str(json.loads(row["value"])), "4.x")
    return "4.x"


@cache
def _defaults(generation: Generation) -> Mapping[str, str]:
    return {row["key"]: row["value"] for row in resolve(observed=None, overrides=None, generation=generation).rows()}
