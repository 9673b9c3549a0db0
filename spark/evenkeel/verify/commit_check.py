"""Compare the commits of the record's tables with their leaves: none is gone, none was replaced, none was added.

The log is read first, so the commit of a leaf without one is gone. Delta removes commits past a table's log retention,
the oldest first; manifests list their data files. A commit without a leaf was logged meanwhile, waits for its leaf, or
is a fault. Writers hand a commit on by a file, then log it, then remove the file. So `verify` reads the tables first,
then these files, then the log.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from evenkeel.errors import BadNote, LakeError, LogError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import TOPIC_VERSION_DAYS, VERSION_DAYS, hashed, version_days
from evenkeel.lake.pending_commits import OUTSIDE_MANIFESTS, pending
from evenkeel.lake.record import read_table_if_any
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.lake.store import Lake
from evenkeel.model.amounts import plural
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.lake_commits import (
    actions_of,
    commit_data,
    commit_numbers,
    committed_at,
    paths_of,
    table_place,
)
from evenkeel.transparency.leaves import CommitLeaf, files_digest
from evenkeel.verify.chain import LOG, Fault

UNDER_WAY = timedelta(hours=6)
"""The longest time for which a task's commits may wait for the publish that logs them."""
_AHEAD = timedelta(minutes=10)
_RETENTION_SLACK = timedelta(days=1)
_NAMED = 20
"""The most faults of a table that are named one by one."""
_DIGEST = 32
_AT_ONCE, _IN_MEMORY = 16, 2_000


class LoggedCommits:
    """The leaves of a table's commits, by number: 89 bytes each, and a dictionary."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._indices, self._files, self._logged_at = array("q"), array("q"), array("d")
        self._digests, self._files_digests, self._was_found = bytearray(), bytearray(), bytearray()

    def add(self, index: int, leaf: CommitLeaf) -> int | None:
        """Add a leaf. Return the index of an earlier leaf of the same commit, which then counts, or None."""
        if leaf.commit in self._places:
            return self.index(leaf.commit)
        self._places[leaf.commit] = len(self._indices)
        self._indices.append(index)
        self._files.append(leaf.files)
        self._logged_at.append(leaf.moment.timestamp())
        self._digests += bytes.fromhex(leaf.digest)
        self._files_digests += bytes.fromhex(leaf.files_digest)
        self._was_found.append(bool(leaf.by))
        return None

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._places))

    def __len__(self) -> int:
        return len(self._places)

    def index(self, number: int) -> int:
        """Return the index of a commit's leaf."""
        return self._indices[self._places[number]]

    def files(self, number: int) -> int:
        """Return the number of data files that a commit added."""
        return self._files[self._places[number]]

    def at(self, number: int) -> datetime:
        """Return the time at which a commit was logged."""
        return datetime.fromtimestamp(self._logged_at[self._places[number]], UTC)

    def was_found(self, number: int) -> bool:
        """Return True if no writer handed the commit on: its leaf has the files that existed when it was logged."""
        return bool(self._was_found[self._places[number]])

    def digest(self, number: int) -> str:
        """Return the SHA-256 (hex) of a commit's JSON."""
        return _hex(self._digests, self._places[number])

    def files_digest(self, number: int) -> str:
        """Return the SHA-256 (hex) of a commit's list of files."""
        return _hex(self._files_digests, self._places[number])


class _Unlogged(NamedTuple):
    """A commit without a leaf.

    `digest`: SHA-256 (hex) of its JSON. `at`: the time that it gives for itself, if any.
    """

    table: str
    number: int
    digest: str
    at: datetime | None


def _hex(digests: bytearray, place: int) -> str:
    return digests[place * _DIGEST : (place + 1) * _DIGEST].hex()


@dataclass
class CommitCheck:
    """The comparison of a lake's commits with their leaves.

    `leaves`: table -> leaves of its commits. `later`: returns table, number -> digest of the commits that were logged
    after `leaves` were read, or raises LogError. `faults`: those known so far. `waiting`: a line for each table with
    commits that wait for their publish. `expired`: the number of commits past the log retention of their tables.
    """

    lake: str
    leaves: Mapping[str, LoggedCommits]
    later: Callable[[], Mapping[tuple[str, int], str]] = field(default=dict)
    faults: list[Fault] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    expired: int = 0
    _listed: set[tuple[str, int]] = field(default_factory=set)
    _unlogged: list[_Unlogged] = field(default_factory=list)

    def check_listed(self, writes: Iterable[Write]) -> None:
        """Compare the data files that manifests list with those in the leaves of their commits.

        Files of a commit that the manifests do not list are hashed. `check_all` checks a commit that lacks a file.
        """
        listed: dict[tuple[str, int], dict[str, DataFile]] = {}
        for write in writes:
            if write.files:
                listed.setdefault((write.table, write.version), {}).update((file.path, file) for file in write.files)
        for (table, number), files in listed.items():
            logged = self.leaves.get(table)
            if logged is None or number not in logged or logged.was_found(number) or (table, number) in self._listed:
                continue
            if len(files) < logged.files(number):
                with suppress(LakeError):
                    files = {**self._files_in_table(table, number), **files}
            if len(files) >= logged.files(number):
                self._listed.add((table, number))
                if files_digest(files.values()) != logged.files_digest(number):
                    words = f"the files that manifests list of it are not those that {_leaf(logged, number)} holds"
                    self._fault(table, number, words)

    def check_all(self, *, is_whole: bool, now: datetime | None = None) -> None:
        """Compare all commits of all tables with their leaves, and the data files of commits that no manifest lists.

        `is_whole`: True if `check_listed` was given all manifests. Otherwise the files of other tables than those
        outside manifests are not compared.
        """
        retention, begun = _retention(self.lake), len(self.faults)
        for table in dict.fromkeys((*OF_RECORD, *self.leaves)):
            with self._error_as_fault(table):
                with_files = is_whole or table in OUTSIDE_MANIFESTS
                self._check_table(table, retention(table), now or datetime.now(UTC), with_files=with_files)
        if self._unlogged:
            with self._error_as_fault(LOG_FOLDER):
                self._judge_unlogged(now)
        self.faults[begun:] = _first_of_each_table(self.faults[begun:])

    @contextmanager
    def _error_as_fault(self, table: str) -> Iterator[None]:
        """Add a fault if the block cannot read the table's commits."""
        try:
            yield
        except (LakeError, LogError, BadNote, OSError) as error:
            self.faults.append(Fault("", None, LOG, table, "its commits", str(error)))

    def _check_table(self, table: str, retention: timedelta, now: datetime, *, with_files: bool) -> None:
        logged = self.leaves.get(table) or LoggedCommits()
        numbers = commit_numbers(self.lake, table)
        self._name_missing(table, logged, numbers, retention, now)
        removed: set[str] = set()
        for number, data in self._newest_first(table, numbers):  # later commits name the files that they removed
            if data is None:
                continue
            actions = actions_of(data)
            if number not in logged:
                self._note_unlogged(table, number, data, actions)
                continue
            if hashlib.sha256(data).hexdigest() != logged.digest(number):
                self._fault(table, number, f"it is not the commit that {_leaf(logged, number)} holds: it was replaced")
                continue
            if with_files and (table, number) not in self._listed:
                self._check_files(table, number, logged, paths_of(actions), removed)
            removed.update(paths_of(actions, "remove"))

    def _newest_first(self, table: str, numbers: list[int]) -> Iterator[tuple[int, bytes | None]]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for end in range(len(numbers), 0, -_IN_MEMORY):
                some = numbers[max(end - _IN_MEMORY, 0) : end][::-1]
                yield from zip(some, pool.map(partial(commit_data, self.lake, table), some), strict=True)

    def _name_missing(
        self, table: str, logged: LoggedCommits, numbers: list[int], retention: timedelta, now: datetime
    ) -> None:
        present = set(numbers)
        for number in logged:
            if number in present:
                continue
            holds = f"it is gone, and {_leaf(logged, number)} holds it"
            if not numbers:
                self._fault(table, number, f"{holds}: the table was removed")
            elif number > numbers[-1]:
                self._fault(table, number, f"{holds}: the end was cut off, or the table was set back to an earlier one")
            elif number > numbers[0]:
                self._fault(table, number, f"{holds}: it was removed from the middle of the table's log")
            elif not logged.was_found(number) and logged.at(number) + retention - _RETENTION_SLACK > now:
                days = f"{retention.days} days"
                self._fault(table, number, f"{holds}: it was removed from the table's log, which is kept for {days}")
            else:
                self.expired += 1

    def _note_unlogged(self, table: str, number: int, data: bytes, actions: list[dict[str, Any]]) -> None:
        """Note a commit without a leaf; one that makes a table holds no rows and needs none."""
        if number or paths_of(actions):
            milliseconds = committed_at(actions)
            at = None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
            self._unlogged.append(_Unlogged(table, number, hashlib.sha256(data).hexdigest(), at))

    def _judge_unlogged(self, now: datetime | None) -> None:
        """Add a fault for each commit without a leaf that does not wait for its publish.

        Commits of a task under way wait, and commits that a file hands on (`lake.pending_commits`).
        """
        handed_on = {(commit.table, commit.version, commit.digest) for commit, _ in pending(self.lake)}
        logged = self.later()
        now = now or datetime.now(UTC)
        waiting = Counter[str]()
        for commit in self._unlogged:
            key = commit.table, commit.number
            if logged.get(key) == commit.digest:
                continue
            is_ours = commit.table not in OUTSIDE_MANIFESTS or (*key, commit.digest) in handed_on
            if is_ours and commit.at is not None and now - UNDER_WAY <= commit.at <= now + _AHEAD:
                waiting[commit.table] += 1
                continue
            when = "" if commit.at is None else f" of {commit.at.isoformat(timespec='seconds')}"
            self._fault(
                *key,
                f"the commit{when} has no leaf in the log: no task of ours handed it on, or the log was set back. If "
                "you know whose it is, `evenkeel log catch-up --adopt` takes it in with your name",
            )
        self.waiting += [
            f"{table}: {plural(count, 'commit')} of the last hours, not logged yet" for table, count in waiting.items()
        ]

    def _check_files(self, table: str, number: int, logged: LoggedCommits, paths: list[str], removed: set[str]) -> None:
        """Compare a commit's data files with its leaf; files that later commits removed may be gone."""
        place, path = table_place(self.lake, table), Lake(self.lake).path(table)
        left = [name for name in paths if place.exists(name)]
        if len(left) < logged.files(number):  # the leaf has the files that existed when it was logged
            if lost := [name for name in paths if name not in left and name not in removed]:
                more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
                self._fault(table, number, f"its file {lost[0]}{more} is gone, and no later commit removed it")
            return
        files = [hashed(path, name) for name in left]
        if files_digest(files) != logged.files_digest(number):
            self._fault(table, number, f"a data file was changed: {_leaf(logged, number)} holds other digests")

    def _files_in_table(self, table: str, number: int) -> dict[str, DataFile]:
        """Return the data files of a commit that exist, by path; none if its JSON is gone."""
        place, path = table_place(self.lake, table), Lake(self.lake).path(table)
        names = paths_of(actions_of(commit_data(self.lake, table, number) or b""))
        return {name: hashed(path, name) for name in names if place.exists(name)}

    def _fault(self, table: str, number: int, words: str) -> None:
        self.faults.append(Fault("", None, LOG, table, f"version {number}", words))


def _first_of_each_table(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield the faults by table; of many in a table the first ones, and the number of the others."""
    by_table: dict[str, list[Fault]] = {}
    for fault in faults:
        by_table.setdefault(fault.table, []).append(fault)
    for table, faults_of_table in by_table.items():
        yield from faults_of_table[:_NAMED]
        if (more := len(faults_of_table) - _NAMED) > 0:
            yield Fault("", None, LOG, table, "its commits", f"{plural(more, 'further fault')}")


def _leaf(logged: LoggedCommits, number: int) -> str:
    return f"leaf {logged.index(number)} of the log"


def _retention(lake: str) -> Callable[[str], timedelta]:
    """Return table -> the least retention of its log, by the shortest periods of all upkeeps on record."""
    days, topics = VERSION_DAYS, TOPIC_VERSION_DAYS
    with suppress(LakeError, TypeError, ValueError):
        for row in read_table_if_any(lake, "upkeeps"):
            periods = dict(row["periods"])
            days = min(days, int(periods.get("version_days", days)))
            topics = min(topics, int(periods.get("topic_version_days", topics)))
    return lambda table: timedelta(days=max(version_days(table, days, topics), 0))


def counted(leaves: Mapping[str, LoggedCommits], begun: int) -> Counter[str]:
    """Return the number of commits of each table among the first `begun` leaves."""
    return Counter(
        {
            table: count
            for table, logged in leaves.items()
            if (count := sum(logged.index(number) <= begun for number in logged))
        }
    )
