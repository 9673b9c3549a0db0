"""Commits that changed or removed rows of a table that only ever grows, by the table's own log.

The chain shows every row that was changed, and every gap. That its newest rows were cut off shows in the log alone.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenkeel.audit.read import read_table_if_any

# Those that add rows, or leave them as they are.
_HARMLESS = frozenset(
    {
        *("CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "OPTIMIZE", "VACUUM START"),
        *("VACUUM END", "CHANGE COLUMN", "UPGRADE PROTOCOL", "COMPUTE STATS", "REORG", "WRITE"),
    }
)


def rewriting_commits(lake: str | Path, table: str) -> list[str]:
    """In words, oldest first: commits, as far back as the log goes, after which rows were not what they had been."""
    from deltalake import DeltaTable

    commits = DeltaTable(f"{str(lake).rstrip('/')}/{table}").history()
    upkeeps = {row["upkeep_id"] for row in read_table_if_any(lake, "upkeeps")}
    return list(told(sorted(commits, key=lambda commit: int(commit["version"])), upkeeps))


def told(commits: Iterable[Mapping[str, Any]], upkeeps: Container[str]) -> Iterator[str]:
    """The commits that are not harmless; those of an upkeep on record are."""
    for commit in commits:
        operation = str(commit.get("operation", ""))
        overwrote = (commit.get("operationParameters") or {}).get("mode") == "Overwrite"
        if (operation in _HARMLESS and not overwrote) or _upkeep_of(commit) in upkeeps:
            continue
        at = datetime.fromtimestamp(int(commit.get("timestamp", 0)) / 1000, UTC).isoformat(timespec="seconds")
        by = commit.get("engineInfo") or commit.get("clientVersion") or "an unknown writer"
        yield f"version {commit['version']} is a {operation} of {at} by {by}"


def _upkeep_of(commit: Mapping[str, Any]) -> str | None:
    try:
        said = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return None
    return said.get("upkeep") if isinstance(said, dict) else None
