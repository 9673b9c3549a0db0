"""Which row of each chain was logged last: a small file beside the tiles, held against the tree before it is believed.

The file names the tree that it was written for; leaves that have joined since are read. Where it is missing, is of
another tree, or names a leaf that says something else, all leaves are read once: some seconds for a year.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake_log.keys_leaf import KeysLeaf, parse_keys_leaf
from evenkeel.lake_log.leaves import parse_manifest_leaf
from evenkeel.transparency.keys import base64_text
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.tiles import Tree

HEADS = "chains"
"""The file's name; one of ours, outside tlog-tiles."""


@dataclass(frozen=True, slots=True)
class LoggedEnd:
    """The row of a chain that was logged last: its sequence, its manifest digest, and the index of its leaf."""

    sequence: int
    digest: str
    index: int


def logged_ends(storage: LogStorage, tree: Tree, *, anew: bool = False) -> tuple[dict[str, LoggedEnd], bool]:
    """Cluster -> the row that was logged last, and whether all leaves were read for it.

    By the file and the leaves that have joined since; by all leaves with `anew`, or where the file cannot be believed.
    """
    size, found = (0, {}) if anew else _kept(storage, tree)
    for index, entry in enumerate(tree.entries(size, tree.size), start=size):
        if (leaf := parse_manifest_leaf(entry)) is not None:
            found[leaf.cluster] = LoggedEnd(leaf.sequence, leaf.digest, index)
    return found, size == 0


def is_logged(entry: Callable[[int], bytes], size: int, cluster: str, end: LoggedEnd) -> bool:
    """Whether the leaf that is named is of that row. `entry`: reads the entry at an index below the tree's `size`."""
    leaf = parse_manifest_leaf(entry(end.index)) if 0 <= end.index < size else None
    return leaf is not None and (leaf.cluster, leaf.sequence, leaf.digest) == (cluster, end.sequence, end.digest)


def keep_ends(
    storage: LogStorage,
    tree: Tree,
    ends: Mapping[str, LoggedEnd],
    versions: Mapping[str, int] | None = None,
    keys_at: int | None = None,
) -> None:
    """Writes the file for a tree. `versions`: as in `logged_versions`; `keys_at`: index of the newest leaf of keys."""
    clusters = {name: [end.sequence, end.digest, end.index] for name, end in sorted(ends.items())}
    said = {
        "size": tree.size,
        "root": base64_text(tree.root),
        "clusters": clusters,
        "tables": dict(versions or {}),
        "keys": keys_at,
    }
    storage.put(HEADS, json.dumps(said, sort_keys=True).encode())


def logged_versions(storage: LogStorage, tree: Tree) -> tuple[int, dict[str, int]]:
    """The size of the tree that the file was written for, and table -> the version up to which its rows had leaves
    then; 0 and nothing where the file cannot be believed.

    A wrong version makes rows be left out, or logged twice; `verify` names both.
    """
    size, said = _said(storage, tree)
    versions = said.get("tables", {})
    if not isinstance(versions, dict) or not all(type(version) is int for version in versions.values()):
        return 0, {}
    return size, versions


def newest_keys(storage: LogStorage, tree: Tree) -> tuple[int, KeysLeaf] | None:
    """Index and content of the newest leaf of keys; None where no leaf names any.

    By the file and the leaves that have joined since; by all leaves where the file does not say.
    """
    size, said = _said(storage, tree)
    at = said.get("keys", -1)
    leaf = parse_keys_leaf(tree.entry(at)) if type(at) is int and 0 <= at < size else None
    found = None if leaf is None else (at, leaf)
    begin = size if at is None or found is not None else 0
    for index, entry in enumerate(tree.entries(begin, tree.size), start=begin):
        if (leaf := parse_keys_leaf(entry)) is not None:
            found = index, leaf
    return found


def _kept(storage: LogStorage, tree: Tree) -> tuple[int, dict[str, LoggedEnd]]:
    """The size of the tree that the file was written for, and its ends; 0 and none where it is not to be believed."""
    size, said = _said(storage, tree)
    try:
        return size, {
            str(name): LoggedEnd(int(sequence), str(digest), int(index))
            for name, (sequence, digest, index) in said.get("clusters", {}).items()
        }
    except (TypeError, ValueError, AttributeError):
        return 0, {}


def _said(storage: LogStorage, tree: Tree) -> tuple[int, dict[str, Any]]:
    """What the file says, and the size of the tree that it was written for; 0 and nothing where it is of none."""
    try:
        said = parse_json(storage.get(HEADS) or b"{}", depth=4)
        size = said["size"]
        if type(size) is int and 0 <= size <= tree.size and said["root"] == base64_text(tree.root_at(size)):
            return size, said
    except (NotJson, KeyError, TypeError, ValueError, AttributeError):
        pass
    return 0, {}
