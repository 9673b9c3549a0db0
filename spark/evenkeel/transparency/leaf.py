"""Leaves of the log: a header of what was published, from which a single row can be reached.

A leaf is canonical JSON (ASCII, names sorted, no blanks) of at most 1 kB: what it is of, in `tables` the number of the
tables that it covers, and in `tables_root` the root over them. An entry of that tree is `["<table>",<rows>,"<root>"]`,
in the order of names; the table's root is the one that manifests list (`lake.roots`): its entries are the SHA-256 of
each row's JSON, sorted. (The roots themselves, of some twenty tables, would be 2 kB.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from evenkeel.errors import BadInput
from evenkeel.lake.merkle import inclusion_proof, root_of
from evenkeel.times import utc_milliseconds
from evenkeel.transparency.keys import shown

MOST_LEAF_BYTES = 1_024
"""The largest leaf."""

_OWN = frozenset({"kind", "tables", "tables_root", "version"})
_VERSION = 1


@dataclass(frozen=True, slots=True)
class TableRoot:
    """A table's part of a leaf: the number of its rows and their Merkle root, 64 hex digits."""

    rows: int
    root: str


@dataclass(frozen=True, slots=True)
class LogLeaf:
    """A leaf: its kind (`cycle`, or what else has leaves), its fields, and the tables that it covers, by name."""

    kind: str
    fields: Mapping[str, str | int]
    tables: Mapping[str, TableRoot] = field(default_factory=dict)

    @property
    def text(self) -> bytes:
        """The entry of the log. Raises BadInput where it is too large, or a field has a name that is reserved."""
        if taken := _OWN & self.fields.keys():
            raise BadInput(f"a leaf's field {min(taken)}: the name is reserved")
        root = root_of(_table_entries(self.tables)).hex()
        own = {"kind": self.kind, "tables": len(self.tables), "tables_root": root, "version": _VERSION}
        found = canonical({**self.fields, **own})
        if len(found) > MOST_LEAF_BYTES:
            raise BadInput(f"a leaf of {len(found)} bytes ({self.kind}): {MOST_LEAF_BYTES} are the most")
        return found


@dataclass(frozen=True, slots=True)
class ProvenRow:
    """A row on the way to its leaf.

    `table`, `rows`, `root`: as in `TableRoot`. `place`, `table_path`: from the table to the leaf's `tables_root`.
    `row`: the row's JSON. `index`, `path`: from the row to the table's root. Paths are hashes, from the bottom up.
    """

    table: str
    rows: int
    root: str
    place: int
    table_path: tuple[bytes, ...]
    row: str
    index: int
    path: tuple[bytes, ...]


def cycle_leaf(
    cluster: str,
    sequence: int,
    cycle_at: datetime,
    attempt: int,
    status: str,
    plan_id: str,
    digest: str,
    tables: Mapping[str, TableRoot],
) -> LogLeaf:
    """The leaf of a manifest. `sequence`: its place in the cluster's chain, from 1, so that a reader finds gaps.
    `digest`: of all else that it holds, e.g. `manifest_digest`, which has the whole chain before it under it."""
    fields: dict[str, str | int] = {
        "cluster": cluster,
        "sequence": sequence,
        "cycle_at": utc_milliseconds(cycle_at),
        "attempt": attempt,
        "status": status,
        "plan_id": plan_id,
        "digest": digest,
    }
    return LogLeaf("cycle", fields, tables)


def prove_row(leaf: LogLeaf, table: str, row: str, digests: Iterable[bytes]) -> ProvenRow:
    """The way from a row to a leaf that covers its table.

    `row`: the row's JSON, as `lake.digest.row_digest` hashes it. `digests`: of all rows of the table under the leaf (32
    bytes each), in any order. Raises BadInput where they are not those of the leaf, or the row is none of them.
    """
    listed = leaf.tables.get(table)
    if listed is None:
        raise BadInput(f"the leaf covers no table {shown(table)}: it has {', '.join(sorted(leaf.tables)) or 'none'}")
    entries = sorted(digests)
    if (len(entries), root_of(entries).hex()) != (listed.rows, listed.root):
        raise BadInput(f"{len(entries)} rows of {table} are not the {listed.rows} under the leaf: another root")
    own = hashlib.sha256(row.encode()).digest()
    if own not in entries:
        raise BadInput(f"the row is none of the {listed.rows} rows of {table} under the leaf")
    index, place = entries.index(own), sorted(leaf.tables).index(table)
    return ProvenRow(
        table=table,
        rows=listed.rows,
        root=listed.root,
        place=place,
        table_path=tuple(inclusion_proof(_table_entries(leaf.tables), place)),
        row=row,
        index=index,
        path=tuple(inclusion_proof(entries, index)),
    )


def _table_entries(tables: Mapping[str, TableRoot]) -> list[bytes]:
    return [canonical([name, one.rows, one.root]) for name, one in sorted(tables.items())]


def canonical(value: object) -> bytes:
    """JSON in the one form that leaves have: ASCII, names sorted, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
