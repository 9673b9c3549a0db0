"""Commits in the Delta logs of a lake's tables, with their data files hashed as stored."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.handover import Commit
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.lake.table_log import LoggedCommit, listing, logged_commit, open_log

_EPOCH = datetime.fromtimestamp(0, UTC)


def commit_at(lake: str, table: str, number: int) -> LoggedCommit | None:
    """Return a commit of a table; None if it is gone. Raises LakeError if it cannot be read."""
    path = Lake(lake).path(table)
    try:
        return logged_commit(files_of(path), number)
    except OSError as error:
        raise LakeError(f"commit {number} of {path} cannot be read: {error}") from error


def commits_there(lake: str, table: str, numbers: Iterable[int]) -> Iterator[Commit]:
    """Yield commits of a table as stored; data files that are gone are left out of their lists.

    Raises LakeError if a commit is gone.
    """
    path = Lake(lake).path(table)
    place = files_of(path)
    for number in numbers:
        commit = commit_at(lake, table, number)
        if commit is None:
            raise LakeError(f"commit {number} of {path} was removed meanwhile: run this again")
        files = tuple(hashed(path, name) for name in commit.paths if place.exists(name))
        yield Commit(table, number, commit.digest, files)


def numbers_by_table(lake: str) -> dict[str, list[int]]:
    """Return the versions in the Delta log of each existing table of the record."""
    versions = {name: [*listing(files_of(Lake(lake).path(name))).commits] for name in OF_RECORD}
    return {name: numbers for name, numbers in versions.items() if numbers}


def adding_commit(lake: str, table: str, path: str) -> int | None:
    """Return the version that added a data file of the newest version; None if its commit is gone."""
    _, files = open_log(Lake(lake).path(table))
    changed = dict(zip(map(unquote, files["path"].to_pylist()), files["modification_time"].to_pylist(), strict=True))
    modified = datetime.fromtimestamp(int(changed.get(path, 0)) / 1000, UTC)
    numbers = listing(files_of(Lake(lake).path(table))).commits

    def made_at(number: int) -> datetime:
        commit = commit_at(lake, table, number)
        return _EPOCH if commit is None else commit.at or _EPOCH

    # Commits have their times in ascending order, except for differing clocks: so all are checked, the likely first.
    near = bisect_left(numbers, modified, key=made_at)
    for place in sorted(range(len(numbers)), key=lambda place: abs(place - near)):
        commit = commit_at(lake, table, numbers[place])
        if commit is not None and path in commit.paths:
            return numbers[place]
    return None
