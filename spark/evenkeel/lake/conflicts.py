"""Commits that another writer came before."""

from __future__ import annotations

# Another append (under Serializable isolation), upkeep compacting or dropping what was read, or a changed property.
_SIGNS = (
    *("DELTA_CONCURRENT_APPEND", "ConcurrentAppendException", "DELTA_CONCURRENT_TRANSACTION"),
    *("DELTA_CONCURRENT_DELETE_READ", "ConcurrentDeleteReadException"),
    *("DELTA_CONCURRENT_DELETE_DELETE", "ConcurrentDeleteDeleteException"),
    *("DELTA_METADATA_CHANGED", "MetadataChangedException"),
)


def is_conflict(error: Exception) -> bool:
    """Whether another writer's commit came first: nothing was written, look at the table anew."""
    return any(sign in str(error) for sign in _SIGNS)
