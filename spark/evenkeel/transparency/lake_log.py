"""The log of a lake: begun once with all existing commits, then grown by the commits that writers hand on.

A commit is not logged just because it is in a table. A commit that no writer handed on gets a leaf when an operator
requests it (`adopt`), with the operator's name. No leaf is removed. A commit number that is logged with another digest
is a problem, which is reported.

Commits are read from the Delta logs of the tables, with their data files hashed as stored. A small file beside the
tiles names the commits that have leaves, the newest leaf of keys, and the tree that it is of;
later leaves are read. If it is missing, or is of another tree, all leaves are read once.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import BadInput, BadNote, DamagedLog, LakeError, LogError
from evenkeel.handover import Commit
from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import FolderFiles, files_of
from evenkeel.lake.table_log import LoggedCommit, listing, logged_commit, table_and_files
from evenkeel.times import utc_milliseconds
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.keys import SignerKey, VerifierKey, base64_text
from evenkeel.transparency.leaves import BEFORE_THE_LOG, BegunLeaf, CommitLeaf, KeysLeaf, parse_leaf
from evenkeel.transparency.log import CHECKPOINT, TransparencyLog
from evenkeel.transparency.notes import SignedCheckpoint
from evenkeel.transparency.rotations import FollowedKeys, KeysOnRecord, demand_handover, follow
from evenkeel.transparency.storage import BucketStorage, FolderStorage, LogStorage
from evenkeel.transparency.tiles import Tree

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
    _, files = table_and_files(Lake(lake).path(table))
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


STATE = "commits"
"""The file's name; one of Evenkeel's, outside tlog-tiles."""


class Numbers:
    """A set of numbers, nearly all of them consecutive."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """Take `ranges`: first and last of each, in ascending order."""
        self.ranges = [(int(first), int(last)) for first, last in ranges]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.ranges, (number, float("inf"))) - 1
        return at >= 0 and number <= self.ranges[at][1]

    def add(self, number: int) -> None:
        """Add a number."""
        if number in self:
            return
        at = bisect_right(self.ranges, (number, float("inf")))
        first = last = number
        if at < len(self.ranges) and self.ranges[at][0] == number + 1:
            last = self.ranges.pop(at)[1]
        if at and self.ranges[at - 1][1] == number - 1:
            first = self.ranges.pop(at - 1)[0]
            at -= 1
        self.ranges.insert(at, (first, last))

    @property
    def last(self) -> int:
        """Return the largest number; -1 if there is none."""
        return self.ranges[-1][1] if self.ranges else -1


@dataclass
class LogState:
    """The commits that have leaves, by table, and index and content of the newest leaf of keys.

    `is_read`: all leaves were read for it, and nothing comes from the file.
    """

    commits: dict[str, Numbers] = field(default_factory=dict)
    keys: tuple[int, KeysLeaf] | None = None
    is_read: bool = True

    def has(self, table: str, commit: int) -> bool:
        """Return True if the commit has a leaf."""
        return table in self.commits and commit in self.commits[table]

    def add(self, table: str, commit: int) -> None:
        """Note that the commit has a leaf."""
        self.commits.setdefault(table, Numbers()).add(commit)


def read_state(storage: LogStorage, tree: Tree, *, from_leaves: bool = False) -> LogState:
    """Return the state of a tree, by the file and later leaves; `from_leaves`: by all leaves alone."""
    size, state = (0, LogState()) if from_leaves else _kept(storage, tree)
    for index, entry in enumerate(tree.entries(size, tree.size), start=size):
        leaf = parse_leaf(entry)
        if isinstance(leaf, CommitLeaf):
            state.add(leaf.table, leaf.commit)
        elif isinstance(leaf, KeysLeaf):
            state.keys = index, leaf
    return state


def keep_state(storage: LogStorage, tree: Tree, state: LogState) -> None:
    """Write the file for a tree."""
    body = {
        "size": tree.size,
        "root": base64_text(tree.root),
        "keys": None if state.keys is None else state.keys[0],
        "tables": {name: numbers.ranges for name, numbers in sorted(state.commits.items())},
    }
    storage.put(STATE, json.dumps(body).encode())


def _kept(storage: LogStorage, tree: Tree) -> tuple[int, LogState]:
    """Return the state in the file and the size of its tree; the empty state of size 0 if the file is not of this
    tree."""
    try:
        body: dict[str, Any] = parse_json(storage.get(STATE) or b"{}", depth=4)
        size, keys_at = body["size"], body["keys"]
        if type(size) is not int or not 0 <= size <= tree.size or body["root"] != base64_text(tree.root_at(size)):
            return 0, LogState()
        keys = None
        if keys_at is not None:
            leaf = parse_leaf(tree.entry(keys_at)) if type(keys_at) is int and 0 <= keys_at < size else None
            if not isinstance(leaf, KeysLeaf):
                return 0, LogState()
            keys = keys_at, leaf
        commits = {str(name): Numbers(ranges) for name, ranges in body["tables"].items()}
        return size, LogState(commits, keys, is_read=False)
    except (NotJson, DamagedLog, KeyError, TypeError, ValueError, AttributeError):
        return 0, LogState()


KEYS = "keys"
"""The file with the verifier keys that have signed the log, a line each; it is not signed."""
Progress = Callable[[int, int], None]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Growth:
    """Result of an append to the log of a lake.

    `leaves`: the number appended, `commits` of them of commits. `checkpoint`: the newest. `problems`: a sentence for
    each commit that the log contradicts, and for keys that cannot be followed. `rotation`: the change of the log's
    keys, None without one.
    """

    leaves: int
    commits: int
    checkpoint: SignedCheckpoint
    problems: tuple[str, ...] = ()
    rotation: KeysLeaf | None = None


def storage_of(lake: str) -> LogStorage:
    """Return the place of a lake's log; raises LakeError for an object store that does not speak S3."""
    files = files_of(Lake(lake).root)
    place = files.full(LOG_FOLDER)
    return FolderStorage(Path(place)) if isinstance(files, FolderFiles) else BucketStorage(place)


def has_log(storage: LogStorage) -> bool:
    """Return True if the place has any file of a log."""
    return any(storage.get(name) is not None for name in (CHECKPOINT, KEYS))


def keys_beside(storage: LogStorage) -> tuple[VerifierKey, ...]:
    """Return the verifier keys that the log itself names. Any writer of the lake can replace them."""
    lines = (storage.get(KEYS) or b"").decode("utf-8", "replace").split("\n")
    try:
        return tuple(VerifierKey.read(line) for line in lines if line.strip())
    except BadNote as error:
        raise LogError(f"{LOG_FOLDER}/{KEYS}: {error}; give the log's verifier key (--log-key)") from None


def open_log(
    storage: LogStorage, signers: Sequence[SignerKey] = (), log_keys: Collection[VerifierKey] = ()
) -> TransparencyLog:
    """Return the log in a place, read by the given keys, or without any by those that it names itself.

    Keys that took over from these on record count, and retired ones do not. Raises BadInput if they have different
    names, LogError if there is no key at all, DamagedLog.
    """
    return open_followed(storage, signers, log_keys)[0]


def open_followed(
    storage: LogStorage, signers: Sequence[SignerKey] = (), log_keys: Collection[VerifierKey] = ()
) -> tuple[TransparencyLog, FollowedKeys]:
    """Return the log as `open_log` does, and how its keys follow from the given ones."""
    keys = [*(signer.verifier for signer in signers), *log_keys] or [*keys_beside(storage)]
    if not keys:
        raise LogError("there is no transparency log: `evenkeel log begin` makes one, with the key in EVENKEEL_LOG_KEY")
    if len(names := sorted({key.name for key in keys})) > 1:
        raise BadInput(f"the log's keys bear several names, and a log has one: {', '.join(names)}")
    followed = follow(storage, keys)
    former = (*followed.former, *keys)
    return TransparencyLog(storage, keys[0].name, signers, followed.trusted, former), followed


def begin(
    lake: str, signers: Sequence[SignerKey], clock: Clock = time.time, progress: Progress = lambda done, of: None
) -> Growth:
    """Begin the log of a lake and take in all commits of its tables. If it was killed half-way, it can be run again.

    `progress` gets commits taken in, and commits in all. Raises LogError if the log was begun before, and as
    `append_commits`.
    """
    storage = storage_of(lake)
    log = open_log(storage, signers)
    if storage.get(CHECKPOINT) is None:
        log.create()
    else:
        demand_handover(storage, log)
        if log.checkpoint().checkpoint.size:
            raise LogError(f"the log of {lake} was begun before: `evenkeel log catch-up` goes on with it")
    return append_commits(lake, signers, clock=clock, progress=progress)


def append_commits(
    lake: str,
    signers: Sequence[SignerKey],
    commits: Iterable[Commit] = (),
    *,
    by: Mapping[tuple[str, int], str] | None = None,
    adopt_by: str = "",
    lost: VerifierKey | None = None,
    clock: Clock = time.time,
    progress: Progress = lambda done, of: None,
) -> Growth:
    """Append leaves of the commits that have none yet, and of the log's keys if they have changed.

    `by`: the maker of commits (table, version) that were handed on by a file. `adopt_by`: the login of an operator who
    also takes in all other commits in the tables. A new key takes over when an old one signs with it, once. `lost`: the
    verifier key of an old one that can no longer sign; the log goes on without it, and says so. Raises LogError if no
    log was begun, another process holds it, or the old key is missing; DamagedLog, InconsistentLog, and LakeError if a
    table cannot be read. The log is then unchanged.
    """
    storage = storage_of(lake)
    log = open_log(storage, signers, () if lost is None else [lost])
    if storage.get(CHECKPOINT) is None:
        raise LogError(
            f"the lake {lake} has no transparency log, or its checkpoint was removed: `evenkeel log begin` makes one; "
            "if there was one, restore the folder _log from a copy"
        )
    demand_handover(storage, log)
    _keep_keys(storage, signers)
    keys = KeysOnRecord(storage, log, signers, lost)
    new = _NewLeaves(lake, storage, clock, progress, by or {})

    def entries(tree: Tree) -> Iterator[bytes]:
        new.state = read_state(storage, tree)
        keys.look_at(new.state.keys)
        yield from new.of_all() if tree.size == 0 else new.of_commits(tree, commits)
        if adopt_by and tree.size:
            yield from new.of_others(adopt_by)
        if keys.rotation is not None:
            yield keys.rotation.text

    appended = log.append_made(entries)
    newest = appended.checkpoint.checkpoint
    if keys.rotation is not None:
        keys.keep(newest.size - 1, appended.checkpoint.note)
        new.state.keys = newest.size - 1, keys.rotation
    if appended.is_new:
        keep_state(storage, log.tree(newest), new.state)
    leaves, problems = newest.size - appended.first, (*new.problems, *keys.problems)
    return Growth(leaves, new.count if leaves else 0, appended.checkpoint, problems, keys.rotation)


def unlogged_commits(versions: Mapping[str, Sequence[int]], state: LogState) -> dict[str, list[int]]:
    """Return the versions of each table without a leaf, of `numbers_by_table`; tables without any are left out."""
    unlogged = {
        table: [number for number in numbers if not state.has(table, number)] for table, numbers in versions.items()
    }
    return {table: numbers for table, numbers in unlogged.items() if numbers}


class _NewLeaves:
    """Maker of the leaves that a log lacks. `count`: those made so far."""

    def __init__(
        self, lake: str, storage: LogStorage, clock: Clock, progress: Progress, by: Mapping[tuple[str, int], str]
    ) -> None:
        self._by = by
        self._lake = lake
        self._storage = storage
        self._at = datetime.fromtimestamp(clock(), UTC)
        self._progress = progress
        self.state = LogState()
        self.problems: list[str] = []
        self.count = 0

    def of_all(self) -> Iterator[bytes]:
        """Yield the first leaves of a log: its beginning, and one for each commit in a table."""
        versions = numbers_by_table(self._lake)
        begun = BegunLeaf({table: len(numbers) for table, numbers in versions.items()}, utc_milliseconds(self._at))
        yield begun.text
        for table, numbers in versions.items():
            yield from self._leaves(table, numbers, BEFORE_THE_LOG, begun.commits)

    def of_commits(self, tree: Tree, commits: Iterable[Commit]) -> Iterator[bytes]:
        """Yield leaves of commits that were handed on, by table and number."""
        by_key: dict[tuple[str, int, str], Commit] = {}
        for handed_on in commits:  # a task that handles one cluster of a run knows a part of a commit's files
            same = by_key.setdefault((handed_on.table, handed_on.version, handed_on.digest), handed_on)
            if len(handed_on.files) > len(same.files):
                by_key[handed_on.table, handed_on.version, handed_on.digest] = handed_on
        given = sorted(by_key.items())
        known = {key[:2]: commit_leaf_in(tree, *key[:2]) for key, _ in given if self.state.has(*key[:2])}
        logged = {key: None if leaf is None else leaf[1].digest for key, leaf in known.items()}
        if None in logged.values() and not self.state.is_read:  # the file claims leaves that are not in the log
            self.state = read_state(self._storage, tree, from_leaves=True)
        for (table, number, digest), commit in given:
            if not self.state.has(table, number):
                logged[table, number] = digest
                yield self._leaf(commit, self._by.get((table, number), ""))
            elif logged[table, number] != digest:
                self.problems.append(
                    f"{table}: version {number} is in the log with the digest {logged[table, number]}, and was handed "
                    f"on with {digest}: the table was set back or replaced. `evenkeel verify` says more"
                )

    def of_others(self, by: str) -> Iterator[bytes]:
        """Yield leaves of all other commits in the tables that have none."""
        missing = unlogged_commits(numbers_by_table(self._lake), self.state)
        of = self.count + sum(map(len, missing.values()))
        for table, numbers in missing.items():
            yield from self._leaves(table, numbers, by, of)

    def _leaves(self, table: str, numbers: Iterable[int], by: str, of: int) -> Iterator[bytes]:
        for commit in commits_there(self._lake, table, numbers):
            yield self._leaf(commit, by)
            self._progress(self.count, of)

    def _leaf(self, commit: Commit, by: str = "") -> bytes:
        self.state.add(commit.table, commit.version)
        self.count += 1
        return CommitLeaf.of(commit, self._at, by).text


def commit_leaf_in(tree: Tree, table: str, number: int) -> tuple[int, CommitLeaf] | None:
    """Return index and content of the newest leaf of a commit; None if there is none."""
    for index, entry in tree.find(b'"commit":%d,"digest":' % number):
        leaf = parse_leaf(entry)
        if isinstance(leaf, CommitLeaf) and (leaf.table, leaf.commit) == (table, number):
            return index, leaf
    return None


def _keep_keys(storage: LogStorage, signers: Sequence[SignerKey]) -> None:
    own_keys = [signer.verifier.text for signer in signers]
    known_keys = (storage.get(KEYS) or b"").decode("utf-8", "replace").split()
    if missing := [text for text in own_keys if text not in known_keys]:
        storage.put(KEYS, "".join(f"{text}\n" for text in (*known_keys, *missing)).encode())
