"""The log itself: a tree in files that only grows, and a signed checkpoint of its size.

An append writes bundles and tiles first and the checkpoint last. Killed at any point, it leaves the log unchanged: the
written files are beyond the checkpoint and are overwritten by the next append. The checkpoint is signed only when
everything under it is durable, so a signature always has its tree.

A log whose files were all rolled back to an earlier state (a restored copy, a deleted end) cannot detect it. A later
checkpoint that a reader kept shows it (`TransparencyLog.demand_continues`), and every witness refuses. If only some
files were rolled back, the cosigned checkpoint beside the newest shows it before anything is appended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from evenkeel.errors import BadInput, BadNote, DamagedLog, InconsistentLog, LogError
from evenkeel.transparency.keys import ED25519, NoteSignature, SignerKey, VerifierKey, shown
from evenkeel.transparency.merkle import EMPTY, leaf_of, root_above
from evenkeel.transparency.notes import MOST_LEAVES, Checkpoint, SignedCheckpoint, open_checkpoint, signed_note
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.tiles import (
    MOST_ENTRY_BYTES,
    WIDTH,
    Tree,
    bundle_name,
    bundle_of,
    partial_folders,
    root_of_edge,
    tile_name,
)

CHECKPOINT = "checkpoint"
"""The newest checkpoint (tlog-tiles, *Checkpoints*)."""
COSIGNED = "cosigned"
"""The newest checkpoint that a witness has cosigned; a name of Evenkeel, outside tlog-tiles."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Result of an append.

    `first`: the index of the first of the entries. `checkpoint`: the one that covers them all. `is_new`: False if
    nothing was appended.
    """

    first: int
    checkpoint: SignedCheckpoint
    is_new: bool = True


class TransparencyLog:
    """A log in a place, under a name (`origin`), signed by keys of that name.

    `log_keys`: keys, one of which must have signed the newest checkpoint; the public halves of `signers` are always
    among them. `former_keys`: those before a rotation, which may have signed earlier kept checkpoints. Without
    `signers` the log can be read.
    """

    def __init__(
        self,
        storage: LogStorage,
        origin: str,
        signers: Sequence[SignerKey] = (),
        log_keys: Collection[VerifierKey] = (),
        former_keys: Collection[VerifierKey] = (),
    ) -> None:
        self.origin = origin
        self.log_keys = (*dict.fromkeys([*(signer.verifier for signer in signers), *log_keys]),)
        self.all_keys = (*dict.fromkeys([*self.log_keys, *former_keys]),)
        """The keys that verify a kept checkpoint; it counts only if the log has grown from it."""
        self._storage = storage
        self._signers = signers
        for key in self.all_keys:
            # tlog-checkpoint: the key's name should match the origin. tlog-tiles: one Ed25519 signature at least.
            if key.name != origin or key.kind != ED25519:
                raise BadInput(f"the key {shown(key.name)} is not for checkpoints of the log {shown(origin)}")

    def create(self) -> SignedCheckpoint:
        """Begin the log with the checkpoint of an empty tree; raises LogError if files of a log exist."""
        with self._storage.appending():
            for name in (CHECKPOINT, COSIGNED, *(tile_name(0, 0, width) for width in range(1, WIDTH + 1))):
                if self._storage.get(name) is not None:
                    raise LogError(f"a transparency log cannot begin in this place: {name} exists already")
            return self._publish(0, EMPTY)

    def checkpoint(self) -> SignedCheckpoint:
        """Return the newest checkpoint; raises DamagedLog if it is missing or not signed by a key of the log."""
        opened = self._opened(CHECKPOINT)
        if opened is None:
            raise DamagedLog(
                f"the log {shown(self.origin)} has no checkpoint: it was never begun, or the file was removed; if it "
                "had one, restore the file from a copy"
            )
        return opened

    def cosigned(self, witness_keys: Collection[VerifierKey]) -> SignedCheckpoint | None:
        """Return the newest checkpoint that was cosigned, with the cosignatures by these keys; None if there is
        none."""
        return self._opened(COSIGNED, witness_keys)

    def tree(self, checkpoint: Checkpoint | None = None) -> Tree:
        """Return the tree of a checkpoint of this log, by default the newest; raises DamagedLog if its edge was
        changed."""
        of = self.checkpoint().checkpoint if checkpoint is None else checkpoint
        return Tree(self._storage, of.size, of.root)

    def append(self, entries: Sequence[bytes]) -> Appended:
        """Append entries (0 … 65,535 bytes each) and sign the checkpoint over them. Raises as `append_made`."""
        return self.append_made(lambda tree: entries)

    def append_made(self, make: Callable[[Tree], Iterable[bytes]]) -> Appended:
        """Append the entries that `make` gives for the current tree while no other process appends: all or none of
        them.

        They are taken one by one; there may be none. Raises DamagedLog if the files do not lead to the checkpoint's
        root; InconsistentLog if they do not continue the cosigned checkpoint beside it; BadInput if an entry is too
        long; and all that `make` raises. The log is then unchanged.
        """
        if not self._signers:
            raise LogError(f"the log {shown(self.origin)} was opened without a private key: nothing can be appended")
        with self._storage.appending():
            before = self.checkpoint()
            size = before.checkpoint.size
            tree = self.tree(before.checkpoint)
            if (kept := self._opened(COSIGNED)) is not None:
                self._demand_grown(kept.checkpoint, before.checkpoint, tree)
            growth, count = _Growth(self._storage, tree), 0
            for count, entry in enumerate(make(tree), start=1):
                if len(entry) > MOST_ENTRY_BYTES:
                    raise BadInput(f"an entry of a transparency log has at most {MOST_ENTRY_BYTES:,} bytes")
                if size + count > MOST_LEAVES:
                    raise LogError(f"the log {shown(self.origin)} is full")
                growth.add(entry)
            if not count:
                # Its writer may have been killed before the checkpoint was on disk.
                self._storage.put(CHECKPOINT, before.note.data)
                return Appended(size, before, is_new=False)
            root = growth.finish()
            after = self._publish(size + count, root)
            for folder in growth.outgrown:
                self._storage.remove(folder)
            return Appended(size, after)

    def add_cosignatures(
        self, checkpoint: SignedCheckpoint, signatures: Iterable[NoteSignature], witness_keys: Collection[VerifierKey]
    ) -> SignedCheckpoint:
        """Keep a checkpoint of this log with cosignatures of it, and return it with them.

        Signatures by other keys are left out. Raises BadSignature if one by a known witness is wrong. A smaller
        checkpoint than the kept cosigned one changes nothing.
        """
        known = {(key.name, key.key_id) for key in witness_keys}
        note = checkpoint.note.with_signatures(
            signature for signature in signatures if (signature.name, signature.key_id) in known
        )
        cosigned = open_checkpoint(note.data, self.origin, self.all_keys, witness_keys)
        with self._storage.appending():
            kept = self._opened(COSIGNED)
            if kept is None or kept.checkpoint.size <= cosigned.checkpoint.size:
                self._storage.put(COSIGNED, _joined(cosigned, kept))
            newest = self.checkpoint()
            if newest.note.text == note.text:
                self._storage.put(CHECKPOINT, _joined(cosigned, newest))
        return cosigned

    def demand_continues(self, kept: Checkpoint) -> None:
        """Demand that this log has grown from a kept checkpoint.

        Raises InconsistentLog, with both sizes and roots, if the log was rolled back or shows another past.
        """
        newest = self.checkpoint().checkpoint
        if kept.origin != self.origin:
            raise BadNote(f"a checkpoint of the log {shown(kept.origin)}, and not of {shown(self.origin)}")
        self._demand_grown(kept, newest, self.tree(newest))

    def _demand_grown(self, kept: Checkpoint, newest: Checkpoint, tree: Tree) -> None:
        if newest.size < kept.size:
            raise InconsistentLog(
                f"the log {shown(self.origin)} was set back: it has {newest.words}, and a kept "
                f"checkpoint has {kept.words}"
            )
        root = tree.root_at(kept.size)
        if root != kept.root:
            raise InconsistentLog(
                f"the log {shown(self.origin)} shows another past: a kept checkpoint has {kept.words}, and the log had "
                f"{Checkpoint(self.origin, kept.size, root).words} then ({newest.words} now)"
            )

    def _opened(self, name: str, witness_keys: Collection[VerifierKey] = ()) -> SignedCheckpoint | None:
        data = self._storage.get(name)
        if data is None:
            return None
        try:
            keys = self.all_keys if name == COSIGNED else self.log_keys
            return open_checkpoint(data, self.origin, keys, witness_keys)
        except BadNote as error:
            raise DamagedLog(f"{name} of the log {shown(self.origin)}: {error}; restore it from a copy") from None

    def _publish(self, size: int, root: bytes) -> SignedCheckpoint:
        checkpoint = Checkpoint(self.origin, size, root)
        note = signed_note(checkpoint.text, self._signers)
        self._storage.put(CHECKPOINT, note.data)
        return SignedCheckpoint(checkpoint, note, {})


def _joined(signed: SignedCheckpoint, kept: SignedCheckpoint | None) -> bytes:
    """Return the note with the kept signatures of an equal text, too."""
    if kept is None or kept.note.text != signed.note.text:
        return signed.note.data
    return kept.note.with_signatures(signed.note.signatures).data


class _Growth:
    """Writer of the files of entries that follow a tree."""

    def __init__(self, storage: LogStorage, tree: Tree) -> None:
        self._storage = storage
        self._size = tree.size
        self._levels: list[list[bytes]] = [tree.edge(level) for level in range(-(-tree.size.bit_length() // 8))]
        self._bundle = tree.bundle(tree.size // WIDTH) if tree.size % WIDTH else []
        self._touched: set[int] = set()
        self.outgrown: list[str] = []
        """Folders of partial files whose full ones exist."""

    def add(self, entry: bytes) -> None:
        """Take an entry in, and write the files that it fills."""
        self._bundle.append(entry)
        if len(self._bundle) == WIDTH:
            self._storage.put(bundle_name(self._size // WIDTH), bundle_of(self._bundle))
            self._bundle = []
        self._size += 1
        self._push(0, leaf_of(entry))

    def finish(self) -> bytes:
        """Write the partial files, and return the root."""
        if self._bundle:
            self._storage.put(bundle_name(self._size // WIDTH, len(self._bundle)), bundle_of(self._bundle))
        for level in sorted(self._touched):
            if hashes := self._levels[level]:
                index = (self._size >> 8 * level) // WIDTH
                self._storage.put(tile_name(level, index, len(hashes)), b"".join(hashes))
        return root_of_edge(self._levels)

    def _push(self, level: int, value: bytes) -> None:
        if level == len(self._levels):
            self._levels.append([])
        hashes = self._levels[level]
        hashes.append(value)
        self._touched.add(level)
        if len(hashes) == WIDTH:
            index = (self._size >> 8 * level) // WIDTH - 1
            self._storage.put(tile_name(level, index), b"".join(hashes))
            # The tile before it, too: the append that filled it may have been killed before this step.
            for number in range(max(index - 1, 0), index + 1):
                self.outgrown += partial_folders(level, number)
            self._levels[level] = []
            self._push(level + 1, root_above(hashes))
