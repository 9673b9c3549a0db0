"""How far back a table can be read as it was: Delta's own properties, since `VACUUM … RETAIN` is ignored."""

from __future__ import annotations

import re

VERSION_DAYS = 90
TOPIC_VERSION_DAYS = 7
# Larger than all others together, and kept for days: compacting it must not keep it twice for months.
TOPICS = "topic_stats"

FILES = "delta.deletedFileRetentionDuration"
LOG = "delta.logRetentionDuration"
_INTERVAL = re.compile(r"^(?:interval\s+)?(\d+)\s+(hour|day|week)s?$", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}


def version_days(table: str, versions: int = VERSION_DAYS, topic_versions: int = TOPIC_VERSION_DAYS) -> int:
    """The days that versions of this table are kept."""
    return topic_versions if table == TOPICS else versions


def version_properties(days: int) -> dict[str, str]:
    """A version is readable as long as both its log and the files that it names are there."""
    return {FILES: f"interval {days} days", LOG: f"interval {days} days"}


def kept_days(properties: dict[str, str]) -> float:
    """The days that a table's properties promise; 0 where one of them cannot be understood."""
    found = [_INTERVAL.match(properties.get(name, "").strip()) for name in (FILES, LOG)]
    return min(int(one.group(1)) * _HOURS[one.group(2).lower()] / 24 if one else 0.0 for one in found)
