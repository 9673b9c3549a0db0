"""Leaves of a lake's log, as canonical JSON (ASCII, names sorted, no blanks).

Three kinds: `begun`, the first leaf of every log; `commit`, of a commit of a table's Delta log; `keys`, of the keys
that sign the log from this leaf on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.errors import BadNote, DamagedLog
from evenkeel.handover import Commit, DataFile
from evenkeel.json_text import NotJson, parse_json
from evenkeel.times import moment_in, utc_milliseconds
from evenkeel.transparency.keys import VerifierKey

BEGUN, COMMIT, KEYS = "begun", "commit", "keys"
"""The kinds of leaves."""
VERSION = 1
BEFORE_THE_LOG = "log begin"
"""Value of `by` for commits that existed when the log began: nothing had witnessed them before."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class CommitLeaf:
    """A commit of a table.

    `table`, `commit`: the table, and the version in its Delta log. `digest`: SHA-256 (hex) of the commit's JSON.
    `files`, `files_digest`: the number of data files that it added, and the SHA-256 (hex) of their list. `at`: when it
    was logged (UTC, to the millisecond). `by`: its maker if it was handed on by a file, or the operator who took it in
    although no writer handed it on; "" if it came with a hand-over.
    """

    table: str
    commit: int
    digest: str
    files: int
    files_digest: str
    at: str
    by: str = ""

    @classmethod
    def of(cls, commit: Commit, at: datetime, by: str = "") -> CommitLeaf:
        """Return the leaf of a commit."""
        count, digest = len(commit.files), files_digest(commit.files)
        return cls(commit.table, commit.version, commit.digest, count, digest, utc_milliseconds(at), by)

    @property
    def text(self) -> bytes:
        """The entry of the log."""
        body = {name: getattr(self, name) for name in CommitLeaf.__slots__ if name != "by" or self.by}
        return canonical({"kind": COMMIT, "version": VERSION, **body})

    @property
    def moment(self) -> datetime:
        """Time at which the commit was logged."""
        return datetime.fromisoformat(self.at)


@dataclass(frozen=True, slots=True)
class BegunLeaf:
    """The first leaf: `tables` has the number of each table's commits when the log began (`at`).

    Their leaves follow it.
    """

    tables: Mapping[str, int]
    at: str

    @property
    def text(self) -> bytes:
        """The entry of the log."""
        return canonical({"kind": BEGUN, "version": VERSION, "tables": dict(self.tables), "at": self.at})

    @property
    def commits(self) -> int:
        """The number of commits in all tables."""
        return sum(self.tables.values())


@dataclass(frozen=True, slots=True)
class KeysLeaf:
    """Verifier keys of one log: those in force from this leaf on (`keys`), and those in force until then (`before`).

    `is_lost`: no key of `before` could sign, and the operator has confirmed it.
    """

    keys: tuple[VerifierKey, ...]
    before: tuple[VerifierKey, ...]
    is_lost: bool = False

    @property
    def text(self) -> bytes:
        """The entry of the log. A key has no name in it, since its name is that of the log (`origin`)."""
        body = {name: " ".join(key.bare for key in getattr(self, name)) for name in ("keys", "before")}
        origin, lost = self.keys[0].name, int(self.is_lost)
        return canonical({"kind": KEYS, "version": VERSION, "origin": origin, "old_key_is_lost": lost, **body})

    @property
    def added(self) -> tuple[VerifierKey, ...]:
        """The keys added by this leaf."""
        return tuple(key for key in self.keys if key not in self.before)

    @property
    def retired(self) -> tuple[VerifierKey, ...]:
        """The keys that are no longer in force."""
        return tuple(key for key in self.before if key not in self.keys)

    @property
    def words(self) -> str:
        """The change of keys, by their ids."""
        changes = [f"{ids_of(self.added)} joins"] if self.added else []
        changes += [f"{ids_of(self.retired)} is no longer in force"] if self.retired else []
        lost = ", which is said to be lost" if self.is_lost else ""
        return ", ".join(changes or ["no key changes"]) + lost


Leaf = CommitLeaf | BegunLeaf | KeysLeaf


def ids_of(keys: Iterable[VerifierKey]) -> str:
    """Return the ids of keys (8 hex digits each), for a message."""
    return " and ".join(key.key_id.hex() for key in keys)


def file_list(files: Iterable[DataFile]) -> list[list[str | int]]:
    """Return `[path, size, SHA-256]` of each file, by path."""
    return [[file.path, file.size, file.digest] for file in sorted(files, key=lambda file: file.path)]


def files_digest(files: Iterable[DataFile]) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of the list of files."""
    return hashlib.sha256(canonical(file_list(files))).hexdigest()


def canonical(value: object) -> bytes:
    """Return JSON in the one form that leaves have: ASCII, names sorted, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def parse_leaf(entry: bytes) -> Leaf:
    """Return the leaf in an entry of the log; raises DamagedLog if there is none of a known kind and version."""
    try:
        body = parse_json(entry, depth=3, values=1_000)
        if not isinstance(body, dict) or body.pop("version") != VERSION:
            raise ValueError
        kind = body.pop("kind")
        if kind == COMMIT:
            return _commit(body)
        if kind == BEGUN:
            return _begun(body)
        if kind == KEYS:
            return _keys(body)
        raise ValueError
    except (NotJson, BadNote, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f" ({error})" if isinstance(error, BadNote) else ""
        raise DamagedLog(
            f"an entry of the log is not a leaf that this version knows{reason}: {entry[:200]!a}"
        ) from None


def _commit(body: dict[str, Any]) -> CommitLeaf:
    leaf = CommitLeaf(**body)
    is_whole = type(leaf.commit) is int and leaf.commit >= 0 and type(leaf.files) is int and leaf.files >= 0
    digests = (leaf.digest, leaf.files_digest)
    texts = isinstance(leaf.table, str) and isinstance(leaf.by, str) and moment_in(leaf.at) is not None
    if not is_whole or not texts or not all(_DIGEST.fullmatch(digest) for digest in digests):
        raise ValueError
    return leaf


def _begun(body: dict[str, Any]) -> BegunLeaf:
    leaf = BegunLeaf(**body)
    if any(type(count) is not int or count < 0 for count in leaf.tables.values()) or moment_in(leaf.at) is None:
        raise ValueError
    return leaf


def _keys(body: dict[str, Any]) -> KeysLeaf:
    origin, lost = body["origin"], body["old_key_is_lost"]
    keys, before = (
        tuple(VerifierKey.read_bare(origin, text) for text in body[name].split()) for name in ("keys", "before")
    )
    if lost not in (0, 1) or not keys or not isinstance(origin, str):
        raise ValueError
    return KeysLeaf(keys, before, bool(lost))
