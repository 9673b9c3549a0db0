"""Proofs as files (C2SP tlog-proof): all that a stranger needs to check a commit's data file, with the keys alone.

`extra` is unsigned JSON: `leaf` (the text of the commit's leaf), `files` (its list of data files) and `file` (the path
of the proven one). A verifier computes the way from the file to the signed root; `tools/check_proof.py` does so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from evenkeel.errors import BadInput, BadNote, LogError
from evenkeel.handover import DataFile
from evenkeel.transparency.keys import VerifierKey, base64_bytes, base64_text
from evenkeel.transparency.leaves import CommitLeaf, file_list, files_digest
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.merkle import EMPTY, is_included, leaf_of
from evenkeel.transparency.notes import number_of

HEAD = "c2sp.org/tlog-proof@v1"
"""The first line of a proof."""
MOST_PROOF_BYTES = 8 * 1024 * 1024
"""The largest proof: some 4 kB, and 250 bytes for each file of the commit."""
_MOST_PATH = 63


@dataclass(frozen=True, slots=True)
class ProofFile:
    """A proof in its file.

    `index`: of the leaf. `path`: hashes from the leaf to the root. `checkpoint`: the signed note unchanged. `extra`: of
    the application, None if there is none.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    @property
    def data(self) -> bytes:
        """The file's content; raises BadInput if it is larger than `MOST_PROOF_BYTES`."""
        extra = [] if self.extra is None else [f"extra {base64_text(self.extra)}"]
        lines = [HEAD, *extra, f"index {self.index}", *map(base64_text, self.path), ""]
        content = "".join(f"{line}\n" for line in lines).encode() + self.checkpoint
        if len(content) > MOST_PROOF_BYTES:
            raise BadInput(
                f"a proof of {len(content):,} bytes, for its commit has many files; {MOST_PROOF_BYTES:,} at most"
            )
        return content

    @classmethod
    def read(cls, data: bytes) -> ProofFile:
        """Return the proof in a file's content, without verification; raises BadNote with the fault."""
        if len(data) > MOST_PROOF_BYTES:
            raise BadNote(f"a proof of {len(data):,} bytes: {MOST_PROOF_BYTES:,} are read at most")
        head, _, checkpoint = data.partition(b"\n\n")
        first, *lines = head.decode("ascii", "replace").split("\n", _MOST_PATH + 4)
        if first != HEAD:
            raise BadNote(f"a proof begins with the line {HEAD}")
        extra = base64_bytes(lines.pop(0)[6:]) if lines and lines[0].startswith("extra ") else None
        index = number_of(lines.pop(0)[6:]) if lines and lines[0].startswith("index ") else None
        path = [base64_bytes(line) for line in lines]
        hashes = tuple(part for part in path if part is not None and len(part) == len(EMPTY))
        if index is None or len(hashes) != len(lines) or len(hashes) > _MOST_PATH or not checkpoint:
            raise BadNote("a proof has a line `index <number>`, at most 63 hashes, an empty line and a checkpoint")
        return cls(index, hashes, checkpoint, extra)


def prove(
    log: TransparencyLog,
    index: int,
    leaf: CommitLeaf,
    files: Iterable[DataFile],
    path: str,
    witness_keys: Collection[VerifierKey] = (),
) -> ProofFile:
    """Return the proof that a log has a commit with these files, one of which is `path` below the table's folder.

    It leads to the newest checkpoint that a witness has cosigned, or if that does not cover the leaf, to the newest.
    Raises LogError if the log has another leaf at that index or the leaf has other files, DamagedLog.
    """
    under = log.cosigned(witness_keys)
    if under is None or under.checkpoint.size <= index:
        under = log.checkpoint()
    tree = log.tree(under.checkpoint)
    hashes = tree.inclusion(index)
    known = [*files]
    if not is_included(leaf_of(leaf.text), index, tree.size, hashes, tree.root):
        raise LogError(f"the log has another leaf at {index} than that of version {leaf.commit} of {leaf.table}")
    if files_digest(known) != leaf.files_digest or path not in [file.path for file in known]:
        raise LogError(f"the files are not those that leaf {index} holds of version {leaf.commit} of {leaf.table}")
    extra = {"leaf": leaf.text.decode("ascii"), "files": file_list(known), "file": path}
    return ProofFile(index, tuple(hashes), under.note.data, json.dumps(extra, sort_keys=True).encode())
