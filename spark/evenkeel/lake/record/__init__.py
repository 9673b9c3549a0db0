"""Reads of the lake without a JVM: the attempts that count, and exactly the rows that a manifest lists.

Reports, pages and the command line read through this room. It writes nothing, and trusts no row whose write is not
listed by a manifest in `cycles`.
"""

from __future__ import annotations

from evenkeel.lake.record.attempts import Attempt, attempts_of, chunked, trusted
from evenkeel.lake.record.ranges import (
    LATEST,
    Record,
    clusters_of,
    find_cycles,
    read_attempts,
    read_commands,
    read_cycles,
    read_rows,
    read_rows_of,
)
from evenkeel.lake.record.recent_rows import newest_cycles
from evenkeel.lake.record.tables import Row, read_table, read_table_if_any

__all__ = [
    "LATEST",
    "Attempt",
    "Record",
    "Row",
    "attempts_of",
    "chunked",
    "clusters_of",
    "find_cycles",
    "newest_cycles",
    "read_attempts",
    "read_commands",
    "read_cycles",
    "read_rows",
    "read_rows_of",
    "read_table",
    "read_table_if_any",
    "trusted",
]
