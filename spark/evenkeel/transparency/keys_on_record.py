"""Record of the log's keys: changed keys get a leaf, and an old key signs over it once.

If a catch-up was killed between the leaf and the file `rotations`, the next one repairs it before anything is appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenkeel.errors import BadNote, LogError
from evenkeel.transparency.checkpoint import parse_checkpoint
from evenkeel.transparency.keys import SignerKey, VerifierKey
from evenkeel.transparency.leaves import KeysLeaf, ids_of
from evenkeel.transparency.log import CHECKPOINT, TransparencyLog
from evenkeel.transparency.notes import Note, parse_note
from evenkeel.transparency.rotations import ROTATIONS, demand_room, keep_rotation, rotation_lines, signers_among
from evenkeel.transparency.storage import LogStorage


def demand_handover(storage: LogStorage, log: TransparencyLog) -> None:
    """Raise LogError if none of the keys has signed the newest checkpoint of this log, but others of its name have."""
    try:
        note = parse_note(storage.get(CHECKPOINT) or b"")
        if parse_checkpoint(note.text).origin != log.origin:
            return
    except BadNote:
        return  # `checkpoint` reports it
    known = {(key.name, key.key_id) for key in log.log_keys}
    ids = sorted({signature.key_id.hex() for signature in note.signatures if signature.name == log.origin})
    if ids and not any((signature.name, signature.key_id) in known for signature in note.signatures):
        raise LogError(_not_handed_over(ids_of(log.log_keys), " and ".join(ids)))


def _not_handed_over(new: str, old: str) -> str:
    return (
        f"the log is signed by the key {old}, and the key {new} has not taken over from it: let both sign once, each "
        "on a line of EVENKEEL_LOG_KEY and the new one first. Where the old key is lost, `evenkeel log catch-up "
        "--old-key-is-lost` with its verifier key goes on without it, and says so in the log"
    )


class KeysOnRecord:
    """Writer of the log's keys into the log.

    `index`: of the newest leaf of keys. `rotation`: the new leaf, None if the keys are unchanged.
    """

    def __init__(
        self, storage: LogStorage, log: TransparencyLog, signers: Sequence[SignerKey], lost: VerifierKey | None
    ) -> None:
        self._storage = storage
        self._log = log
        self._own = tuple(signer.verifier for signer in signers)
        self._lost = lost
        self._last: Note | None = None
        self.index: int | None = None
        self.rotation: KeysLeaf | None = None
        self.problems: list[str] = []

    def look_at(self, newest: tuple[int, KeysLeaf] | None) -> None:
        """Compare the keys with those in force, by index and content of the newest leaf of keys.

        For the holder of the log's lock. Raises LogError if no key is among them and none is reported as lost.
        """
        note = self._log.checkpoint().note
        self.index, leaf = newest or (None, None)
        if leaf is not None:
            self._mend(leaf, note)
        before = signers_among(note, self._log.log_keys) if leaf is None else leaf.keys
        is_lost = not set(before) & set(self._own)
        if is_lost and self._lost is None:
            raise LogError(_not_handed_over(ids_of(self._own), ids_of(before)))
        if not is_lost and self._lost is not None:
            raise LogError(f"the log is signed by {ids_of(before)}, of which one is given: no key has to be given up")
        if set(before) != set(self._own):
            demand_room(sum(1 for _ in rotation_lines(self._storage)))
            self.rotation = KeysLeaf(self._own, before, is_lost)
            self._last = note if is_lost else None

    def entries(self) -> Iterator[bytes]:
        """Yield the leaf of the keys if they have changed."""
        if self.rotation is not None:
            yield self.rotation.text

    def keep(self, index: int, note: Note) -> None:
        """Keep the checkpoint that the old keys have signed over the leaf."""
        self.index = index
        with self._storage.appending():
            keep_rotation(self._storage, index, note, self._last)

    def _mend(self, leaf: KeysLeaf, note: Note) -> None:
        """Keep the checkpoint over the newest leaf if a catch-up was killed before it did."""
        assert self.index is not None
        if any(line.index == self.index for line in rotation_lines(self._storage)):
            return
        if leaf.is_lost or signers_among(note, leaf.before):
            keep_rotation(self._storage, self.index, note)
        else:
            self.problems.append(
                f"_log/{ROTATIONS} lacks the checkpoint with which {ids_of(leaf.before)} handed over at leaf "
                f"{self.index}: restore the file from a copy, else readers who have only the old key cannot follow"
            )
