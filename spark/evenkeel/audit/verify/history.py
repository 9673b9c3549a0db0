"""Commits that changed or removed rows of a table that only ever grows, by the table's own log.

The chain shows every row that was changed, and every gap. That its newest rows were cut off shows in the log alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Those that add rows, or leave them as they are.
_HARMLESS = frozenset(
    {
        *("CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "OPTIMIZE", "VACUUM START"),
        *("VACUUM END", "CHANGE COLUMN", "UPGRADE PROTOCOL", "COMPUTE STATS", "REORG", "WRITE"),
    }
)
UPKEEP = "upkeep"


def rewriting_commits(lake: str | Path, table: str) -> list[str]:
    """In words, oldest first: commits, as far back as the log goes, after which rows were not what they had been."""
    from deltalake import DeltaTable

    commits = DeltaTable(f"{str(lake).rstrip('/')}/{table}").history()
    return list(told(sorted(commits, key=lambda commit: int(commit["version"]))))


def told(commits: list[Mapping[str, Any]]) -> Iterator[str]:
    """The commits that are not harmless; those of `evenkeel upkeep` name themselves and are."""
    for commit in commits:
        operation = str(commit.get("operation", ""))
        overwrote = (commit.get("operationParameters") or {}).get("mode") == "Overwrite"
        if (operation in _HARMLESS and not overwrote) or _is_upkeep(commit):
            continue
        at = datetime.fromtimestamp(int(commit.get("timestamp", 0)) / 1000, UTC).isoformat(timespec="seconds")
        by = commit.get("engineInfo") or commit.get("clientVersion") or "an unknown writer"
        yield f"version {commit['version']} is a {operation} of {at} by {by}"


def _is_upkeep(commit: Mapping[str, Any]) -> bool:
    try:
        said = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("task_id") == UPKEEP
