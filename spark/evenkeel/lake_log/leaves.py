"""Rows of `cycles` as leaves of the log, and what a leaf says when it is read back.

Both rows of an attempt are leaves of their own. A leaf's `digest` is the manifest's digest, so the whole chain up to it
is under the tree. Beside `cycle` there is the kind `begun`, the first leaf of every log; further kinds may join.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.errors import DamagedLog
from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.merkle import root_of
from evenkeel.times import moment_in
from evenkeel.transparency.leaf import LogLeaf, TableRoot, canonical, cycle_leaf

CYCLE, BEGUN = "cycle", "begun"
"""Kinds of leaves: a manifest; the beginning of the log."""
LEAF_COLUMNS = ("sequence", "cycle_at", "attempt", "status", "plan_id", "manifest_digest")
"""The columns of `cycles` that a leaf is made of, beside `cluster`."""
NOT_WITNESSED = "nothing witnessed these manifests before this log began"
"""What the first leaf says of the manifests that were there before it."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """How far a cluster's chain reaches: the number of its rows, the sequence and the digest of the last one."""

    manifests: int
    sequence: int
    digest: str


@dataclass(frozen=True, slots=True)
class ManifestLeaf:
    """What the leaf of a manifest says of it. `cycle_at`: as in the leaf, to the millisecond."""

    cluster: str
    sequence: int
    cycle_at: str
    status: str
    digest: str


def manifest_leaf(row: Mapping[str, Any]) -> LogLeaf:
    """The leaf of a row of `cycles`, which has `cluster` and `LEAF_COLUMNS`.

    Its tables are those whose roots the row lists; a row of a schema version without roots has none.
    """
    return cycle_leaf(
        row["cluster"],
        int(row["sequence"]),
        row["cycle_at"],
        int(row["attempt"]),
        row["status"],
        row["plan_id"] or "",
        row["manifest_digest"],
        {one["table"]: TableRoot(int(one["rows"]), one["root"]) for one in row.get("roots") or ()},
    )


def begun_leaf(chains: Mapping[str, ChainEnd]) -> LogLeaf:
    """The first leaf of a log: how many manifests of how many clusters were there when it began.

    `chains_root` is the root over an entry `["<cluster>",<manifests>,<sequence>,"<digest>"]` for each cluster in the
    order of names: the last row of its chain then. Their leaves follow, so whoever reads these finds the names.
    """
    entries = [canonical([name, end.manifests, end.sequence, end.digest]) for name, end in sorted(chains.items())]
    return LogLeaf(
        BEGUN,
        {
            "clusters": len(chains),
            "manifests": sum(end.manifests for end in chains.values()),
            "chains_root": root_of(entries).hex(),
            "note": NOT_WITNESSED,
        },
    )


def parse_leaf(entry: bytes) -> dict[str, Any]:
    """The fields of a leaf, of whatever kind. Raises DamagedLog where the entry is not a leaf."""
    try:
        found = parse_json(entry, depth=3, values=100)
    except NotJson:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise DamagedLog(f"an entry of the log is not a leaf: {entry[:80]!a}")
    return found


def parse_manifest_leaf(entry: bytes) -> ManifestLeaf | None:
    """What the leaf of a manifest says; None for a leaf of another kind. Raises DamagedLog where it is not a leaf."""
    found = parse_leaf(entry)
    if found["kind"] != CYCLE:
        return None
    try:
        leaf = ManifestLeaf(*(found[name] for name in ManifestLeaf.__slots__))
    except KeyError as error:
        raise DamagedLog(f"a leaf of a manifest lacks {error}") from None
    texts = (leaf.cluster, leaf.cycle_at, leaf.status, leaf.digest)
    is_whole = type(leaf.sequence) is int and leaf.sequence > 0 and all(isinstance(text, str) for text in texts)
    if not is_whole or not _DIGEST.fullmatch(leaf.digest) or moment_in(leaf.cycle_at) is None:
        raise DamagedLog(f"a leaf of a manifest holds what none has: {entry[:200]!a}")
    return leaf
