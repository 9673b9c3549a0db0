"""Proofs as files (C2SP tlog-proof): what a stranger needs to check a leaf, or a row under it, with the keys alone.

`extra` is JSON and is not authenticated: `header` (the leaf's text), and for a row `table` and `row` with their paths.
A verifier computes the leaf's hash from it, and the row's way to the leaf. `tools/check_proof.py` does so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.errors import BadInput, BadNote, LogError
from evenkeel.lake.merkle import EMPTY, leaf_of
from evenkeel.transparency.checkpoint import number_of
from evenkeel.transparency.keys import VerifierKey, base64_bytes, base64_text
from evenkeel.transparency.leaf import LogLeaf, ProvenRow
from evenkeel.transparency.log import TransparencyLog

HEAD = "c2sp.org/tlog-proof@v1"
"""The first line of a proof."""
MOST_PROOF_BYTES = 1024 * 1024
"""The largest proof: some 4 kB and the row."""
_MOST_PATH = 63


@dataclass(frozen=True, slots=True)
class ProofFile:
    """A proof as it stands in a file.

    `index`: of the leaf. `path`: hashes from the leaf to the root. `checkpoint`: the signed note as it is. `extra`: of
    the application, None where there is none.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    @property
    def data(self) -> bytes:
        """The file's content. Raises BadInput where it is larger than `MOST_PROOF_BYTES`."""
        extra = [] if self.extra is None else [f"extra {base64_text(self.extra)}"]
        lines = [HEAD, *extra, f"index {self.index}", *map(base64_text, self.path), ""]
        found = "".join(f"{line}\n" for line in lines).encode() + self.checkpoint
        if len(found) > MOST_PROOF_BYTES:
            raise BadInput(f"a proof of {len(found):,} bytes, for its row is large: {MOST_PROOF_BYTES:,} are the most")
        return found

    @classmethod
    def read(cls, data: bytes) -> ProofFile:
        """The proof that a file's content is; nothing of it is verified. Raises BadNote with the fault."""
        if len(data) > MOST_PROOF_BYTES:
            raise BadNote(f"a proof of {len(data):,} bytes: {MOST_PROOF_BYTES:,} are read at most")
        head, _, checkpoint = data.partition(b"\n\n")
        first, *lines = head.decode("ascii", "replace").split("\n", _MOST_PATH + 4)
        if first != HEAD:
            raise BadNote(f"a proof begins with the line {HEAD}")
        extra = base64_bytes(lines.pop(0)[6:]) if lines and lines[0].startswith("extra ") else None
        index = number_of(lines.pop(0)[6:]) if lines and lines[0].startswith("index ") else None
        path = [base64_bytes(line) for line in lines]
        hashes = tuple(one for one in path if one is not None and len(one) == len(EMPTY))
        if index is None or len(hashes) != len(lines) or len(hashes) > _MOST_PATH or not checkpoint:
            raise BadNote("a proof has a line `index <number>`, at most 63 hashes, an empty line and a checkpoint")
        return cls(index, hashes, checkpoint, extra)


def prove(
    log: TransparencyLog,
    index: int,
    leaf: LogLeaf,
    row: ProvenRow | None = None,
    witness_keys: Collection[VerifierKey] = (),
) -> ProofFile:
    """The proof that a leaf is in a log, and the row under it.

    It leads to the newest checkpoint that a witness has cosigned, or where that does not cover the leaf, to the newest.
    Raises LogError where the log has another leaf at that index, DamagedLog where its files do not hold.
    """
    under = log.cosigned(witness_keys)
    if under is None or under.checkpoint.size <= index:
        under = log.checkpoint()
    tree = log.tree(under.checkpoint)
    path = tree.inclusion(index)
    if tree.leaf_hash(index) != leaf_of(leaf.text):
        raise LogError(f"the log has another leaf at {index} than this one of the kind {leaf.kind}")
    return ProofFile(index, tuple(path), under.note.data, _extra(leaf, row))


def _extra(leaf: LogLeaf, row: ProvenRow | None) -> bytes:
    found: dict[str, Any] = {"header": leaf.text.decode("ascii")}
    if row is not None:
        found["table"] = {
            "name": row.table,
            "rows": row.rows,
            "root": row.root,
            "index": row.place,
            "path": _texts(row.table_path),
        }
        found["row"] = {"text": row.row, "index": row.index, "path": _texts(row.path)}
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _texts(path: Sequence[bytes]) -> list[str]:
    return [base64_text(one) for one in path]
