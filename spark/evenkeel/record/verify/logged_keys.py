"""Whether the keys that sign a log are those that its leaves name, and how they follow from the key that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenkeel.lake_log.keys_leaf import KeysLeaf, ids_of
from evenkeel.lake_log.rotations import ROTATIONS, rotation_lines, signers_among
from evenkeel.transparency.checkpoint import SignedCheckpoint
from evenkeel.transparency.storage import LogStorage

Leaves = Sequence[tuple[int, KeysLeaf]]
"""The leaves of keys of a log, each with its index."""


def keys_faults(storage: LogStorage, newest: SignedCheckpoint, leaves: Leaves) -> Iterator[str]:
    """What is wrong with the keys of a log, a sentence each; `leaves` are those under its newest checkpoint.

    Raises DamagedLog where the file of rotations is not as it was.
    """
    kept = {line.index for line in rotation_lines(storage)}
    for index, leaf in leaves:
        if index not in kept and not leaf.is_lost and not signers_among(newest.note, leaf.before):
            yield (
                f"{ROTATIONS} lacks the checkpoint with which {ids_of(leaf.before)} handed over at leaf {index}: the "
                "file was removed or cut; restore it from a copy"
            )
    if leaves:
        index, leaf = leaves[-1]
        signed = signers_among(newest.note, leaf.keys)
        if missing := [key for key in leaf.keys if key not in signed]:
            yield (
                f"leaf {index} has {ids_of(leaf.keys)} in force, and the newest checkpoint is not signed by "
                f"{ids_of(missing)}: a signature was taken away, or somebody signs who has a former key"
            )


def rotation_words(leaves: Leaves) -> tuple[str, ...]:
    """A line on each leaf of keys."""
    return tuple(f"leaf {index}: {leaf.words}" for index, leaf in leaves)
