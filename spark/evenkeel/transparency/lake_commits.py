"""Commits in the Delta logs of a lake's tables, with their data files hashed as stored."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.handover import Commit
from evenkeel.lake.delta_log import commit_name, hashed
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import TableFiles, files_of
from evenkeel.lake.table_log import commit_actions, listing


def table_place(lake: str, table: str) -> TableFiles:
    """Return the files of a table; raises LakeError for a store that does not speak S3."""
    return files_of(Lake(lake).path(table))


def commit_numbers(lake: str, table: str) -> list[int]:
    """Return the versions of a table whose JSON is in its Delta log, in ascending order."""
    return [*listing(table_place(lake, table)).commits]


def commit_data(lake: str, table: str, number: int) -> bytes | None:
    """Return the bytes of a commit's JSON; None if it is gone. Raises LakeError if it cannot be read."""
    try:
        return table_place(lake, table).read(commit_name(number))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LakeError(f"commit {number} of {Lake(lake).path(table)} cannot be read: {error}") from error


def actions_of(data: bytes) -> list[dict[str, Any]]:
    """Return the actions in a commit's JSON; none if it is not such a text."""
    return commit_actions(data) or []


def paths_of(actions: list[dict[str, Any]], kind: str = "add") -> list[str]:
    """Return the paths of the data files that a commit adds, or with `remove` removes, in ascending order."""
    return sorted(unquote(action[kind]["path"]) for action in actions if kind in action)


def commits_there(lake: str, table: str, numbers: Iterable[int]) -> Iterator[Commit]:
    """Yield commits of a table as stored; data files that are gone are left out of their lists.

    Raises LakeError if a commit is gone.
    """
    place, path = table_place(lake, table), Lake(lake).path(table)
    for number in numbers:
        data = commit_data(lake, table, number)
        if data is None:
            raise LakeError(f"commit {number} of {path} was removed meanwhile: run this again")
        files = tuple(hashed(path, name) for name in paths_of(actions_of(data)) if place.exists(name))
        yield Commit(table, number, hashlib.sha256(data).hexdigest(), files)


def numbers_by_table(lake: str) -> dict[str, list[int]]:
    """Return the versions in the Delta log of each existing table of the record."""
    versions = {name: commit_numbers(lake, name) for name in OF_RECORD}
    return {name: numbers for name, numbers in versions.items() if numbers}


def adding_commit(lake: str, table: str, path: str, modified: int) -> int | None:
    """Return the version that added a data file; None if its commit is gone.

    `modified` is the file's last change (ms since 1970).
    """
    numbers = commit_numbers(lake, table)
    # Commits have their times in ascending order, except for differing clocks: so all are checked, the likely first.
    near = bisect_left(numbers, modified, key=lambda number: committed_at(actions_of(_data(lake, table, number))) or 0)
    for place in sorted(range(len(numbers)), key=lambda place: abs(place - near)):
        number = numbers[place]
        if path in paths_of(actions_of(_data(lake, table, number))):
            return number
    return None


def committed_at(actions: list[dict[str, Any]]) -> int | None:
    """Return the time in a commit (ms since 1970); None without one."""
    for action in actions:
        info = action.get("commitInfo")
        at = info.get("timestamp") if isinstance(info, dict) else None
        if type(at) is int and 0 <= at < 1 << 48:
            return at
    return None


def _data(lake: str, table: str, number: int) -> bytes:
    return commit_data(lake, table, number) or b""
