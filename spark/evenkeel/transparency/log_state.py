"""Commits that have leaves, and the place of the newest leaf of keys: a small file beside the tiles.

The file names its tree; later leaves are read. If it is missing, or is of another tree, all leaves are read once.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evenkeel.errors import DamagedLog
from evenkeel.json_text import NotJson, parse_json
from evenkeel.transparency.keys import base64_text
from evenkeel.transparency.leaves import CommitLeaf, KeysLeaf, parse_leaf
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.tiles import Tree

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
