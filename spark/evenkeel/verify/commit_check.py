"""Compare the commits of the record's tables with their leaves: none is gone, none was replaced, none was added.

The log is read first, so the commit of a leaf without one is gone. Delta removes commits past a table's log retention,
the oldest first; manifests list their data files. A commit without a leaf was logged meanwhile, waits for its leaf, or
is a fault. Writers hand a commit on by a file, then log it, then remove the file. So `verify` reads the tables first,
then these files, then the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from struct import Struct
from typing import NamedTuple

from evenkeel.errors import BadNote, LakeError, LogError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import TOPIC_VERSION_DAYS, VERSION_DAYS, hashed, version_days
from evenkeel.lake.pending_commits import OUTSIDE_MANIFESTS, pending
from evenkeel.lake.record import read_table_if_any
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.lake.table_log import in_order, listing
from evenkeel.model.amounts import plural
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.lake_log import commit_at, commits_there
from evenkeel.transparency.leaves import CommitLeaf, files_digest
from evenkeel.verify.chain import LOG, Fault

UNDER_WAY = timedelta(hours=6)
"""The longest time for which a task's commits may wait for the publish that logs them."""
_AHEAD = timedelta(minutes=10)
_RETENTION_SLACK = timedelta(days=1)
_NAMED = 20
"""The most faults of a table that are named one by one."""


@dataclass(frozen=True, slots=True)
class CommitOfLeaf:
    """Content of the leaf of a commit.

    `index`: of the leaf. `files`: the number of data files that the commit added. `logged_at`: seconds since 1970.
    `was_found`: no writer handed the commit on, so the leaf has the files that existed when it was logged. `digest`:
    SHA-256 (hex) of the commit's JSON. `files_digest`: SHA-256 (hex) of its list of files.
    """

    index: int
    files: int
    logged_at: float
    was_found: bool
    digest: str
    files_digest: str

    @property
    def words(self) -> str:
        """The leaf in words."""
        return f"leaf {self.index} of the log"


class LoggedCommits:
    """The leaves of a table's commits, by number: 89 bytes each, in a dictionary."""

    _FORM = Struct("<qqd?32s32s")

    def __init__(self) -> None:
        self._leaves: dict[int, bytes] = {}

    def add(self, index: int, leaf: CommitLeaf) -> int | None:
        """Add a leaf. Return the index of an earlier leaf of the same commit, which then counts, or None."""
        if (earlier := self.get(leaf.commit)) is not None:
            return earlier.index
        digests = (bytes.fromhex(digest) for digest in (leaf.digest, leaf.files_digest))
        logged_at = leaf.moment.timestamp()
        self._leaves[leaf.commit] = self._FORM.pack(index, leaf.files, logged_at, bool(leaf.by), *digests)
        return None

    def get(self, number: int) -> CommitOfLeaf | None:
        """Return what is logged of a commit; None if it has no leaf."""
        if (packed := self._leaves.get(number)) is None:
            return None
        index, files, logged_at, was_found, digest, files_digest = self._FORM.unpack(packed)
        return CommitOfLeaf(index, files, logged_at, was_found, digest.hex(), files_digest.hex())

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._leaves))


class _Unlogged(NamedTuple):
    """A commit without a leaf.

    `digest`: SHA-256 (hex) of its JSON. `at`: the time that it gives for itself, if any.
    """

    table: str
    number: int
    digest: str
    at: datetime | None


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
            logged = None if table not in self.leaves else self.leaves[table].get(number)
            if logged is None or logged.was_found or (table, number) in self._listed:
                continue
            if len(files) < logged.files:
                with suppress(LakeError):
                    files = {**self._files_in_table(table, number), **files}
            if len(files) >= logged.files:
                self._listed.add((table, number))
                if files_digest(files.values()) != logged.files_digest:
                    words = f"the files that manifests list of it are not those that {logged.words} holds"
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
        leaves, place = self.leaves.get(table) or LoggedCommits(), files_of(Lake(self.lake).path(table))
        numbers = listing(place).commits
        self._name_missing(table, leaves, numbers, retention, now)
        removed: set[str] = set()
        # The newest first: later commits name the files that they removed.
        for commit in in_order(place, partial(commit_at, self.lake, table), numbers[::-1]):
            if commit is None:
                continue
            number, logged = commit.version, leaves.get(commit.version)
            if logged is None:
                if number or commit.adds:  # one that makes a table holds no rows and needs no leaf
                    self._unlogged.append(_Unlogged(table, number, commit.digest, commit.at))
                continue
            if commit.digest != logged.digest:
                self._fault(table, number, f"it is not the commit that {logged.words} holds: it was replaced")
                continue
            if with_files and (table, number) not in self._listed:
                self._check_files(table, number, logged, commit.paths, removed)
            removed.update(commit.removed_paths)

    def _name_missing(
        self, table: str, leaves: LoggedCommits, numbers: Sequence[int], retention: timedelta, now: datetime
    ) -> None:
        present, kept_since = set(numbers), (now - retention + _RETENTION_SLACK).timestamp()
        for number in leaves:
            if number in present or (logged := leaves.get(number)) is None:
                continue
            holds = f"it is gone, and {logged.words} holds it"
            if not numbers:
                self._fault(table, number, f"{holds}: the table was removed")
            elif number > numbers[-1]:
                self._fault(table, number, f"{holds}: the end was cut off, or the table was set back to an earlier one")
            elif number > numbers[0]:
                self._fault(table, number, f"{holds}: it was removed from the middle of the table's log")
            elif not logged.was_found and logged.logged_at > kept_since:
                days = f"{retention.days} days"
                self._fault(table, number, f"{holds}: it was removed from the table's log, which is kept for {days}")
            else:
                self.expired += 1

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

    def _check_files(
        self, table: str, number: int, logged: CommitOfLeaf, paths: Sequence[str], removed: set[str]
    ) -> None:
        """Compare a commit's data files with its leaf; files that later commits removed may be gone."""
        path = Lake(self.lake).path(table)
        left = [name for name in paths if files_of(path).exists(name)]
        if len(left) < logged.files:  # the leaf has the files that existed when it was logged
            if lost := [name for name in paths if name not in left and name not in removed]:
                more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
                self._fault(table, number, f"its file {lost[0]}{more} is gone, and no later commit removed it")
            return
        if files_digest(hashed(path, name) for name in left) != logged.files_digest:
            self._fault(table, number, f"a data file was changed: {logged.words} holds other digests")

    def _files_in_table(self, table: str, number: int) -> dict[str, DataFile]:
        """Return the data files of a commit that exist, by path; none if its JSON is gone."""
        there = commits_there(self.lake, table, [number]) if commit_at(self.lake, table, number) else ()
        return {file.path: file for commit in there for file in commit.files}

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


def _retention(lake: str) -> Callable[[str], timedelta]:
    """Return table -> the least retention of its log, by the shortest periods of all upkeeps on record."""
    days, topics = VERSION_DAYS, TOPIC_VERSION_DAYS
    with suppress(LakeError, TypeError, ValueError):
        for row in read_table_if_any(lake, "upkeeps"):
            periods = dict(row["periods"])
            days = min(days, int(periods.get("version_days", days)))
            topics = min(topics, int(periods.get("topic_version_days", topics)))
    return lambda table: timedelta(days=max(version_days(table, days, topics), 0))
