"""Columns of the observed tables that rounds read; a hand-over of many cycles leaves the other columns out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.model.load import RATES

BUNDLES = "bundle_load"
BUNDLE_COLUMNS = (
    *("bundle", "namespace", "owner", "ownership", "last_owner", "has_non_persistent"),
    *("topics", "consumers", "producers", "msg_backlog", "short_samples", "long_samples", "samples_since_quota"),
    *(f"{prefix}_{rate}" for prefix in ("used", "short", "long") for rate in RATES),
)
_LEFT_OUT: Mapping[str, frozenset[str]] = {
    "broker_reports": frozenset({"rest"}),
    "namespace_bundles": frozenset({"cluster", "cycle_at", "policies"}),
    "cluster_policies": frozenset(
        {
            *("cluster", "cycle_at", "configuration", "configuration_broker", "configuration_age_seconds"),
            *("configuration_differs", "topic_lists_age_seconds", "snapshot", "snapshot_started_at"),
            *("snapshot_finished_at",),
        }
    ),
}
"""Columns that no round reads, and columns that would change each cycle's row of a table that seldom changes."""


def columns_looked_at(table: str, names: Sequence[str]) -> list[str]:
    """The columns of a table that the rounds need, in the table's order."""
    if table == BUNDLES:
        return [name for name in names if name in BUNDLE_COLUMNS]
    left = _LEFT_OUT.get(table, frozenset()) | STAMP_NAMES
    return [name for name in names if name not in left]
