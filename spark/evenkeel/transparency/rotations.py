"""Rotations from an old key of a log to a new one: checkpoints that the old keys signed over the leaves with the new
keys.

A log signs only with the new key once the old one is dropped. So the checkpoint with which an old key vouched for the
new one is kept for good, in the file `rotations`: one line of JSON each, its `leaf` (the index) and its `checkpoint`.
The file is not signed. A line counts as far as its checkpoint is signed by a trusted key and its tree exists.

Trust only goes forward. A new key is trusted by the signature of a key that was in force before it. A retired key is no
longer trusted, and the newer one's signature never makes it trusted again: it may have been retired because it was
stolen.

Changed keys get a leaf, and an old key signs over it once (`KeysOnRecord`). If a catch-up was killed between the leaf
and the file, the next one repairs it before anything is appended.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from evenkeel.errors import BadNote, DamagedLog, LogError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.transparency.keys import SignerKey, VerifierKey, shown
from evenkeel.transparency.leaves import KeysLeaf, ids_of, parse_leaf
from evenkeel.transparency.log import CHECKPOINT, TransparencyLog
from evenkeel.transparency.notes import Checkpoint, Note, SignedCheckpoint, parse_checkpoint, parse_note, verified
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.tiles import Tree

ROTATIONS = "rotations"
"""The file's name; one of Evenkeel's, outside tlog-tiles."""
MOST_ROTATIONS = 1_000
"""Most lines that are kept and read. Each takes 0.6 ms of processor time to follow."""


@dataclass(frozen=True, slots=True)
class RotationLine:
    """A line of the file, without verification. `last`: of a lost key the last checkpoint that it had signed."""

    index: int
    note: Note
    checkpoint: Checkpoint
    last: Note | None = None


@dataclass(frozen=True, slots=True)
class Rotation:
    """A leaf of keys, and the checkpoint over it that trusted keys have signed (`signers`)."""

    index: int
    leaf: KeysLeaf
    checkpoint: Checkpoint
    signers: tuple[VerifierKey, ...]

    @property
    def is_handed_over(self) -> bool:
        """True if one of the signers was in force before the leaf."""
        return any(key in self.leaf.before for key in self.signers)


@dataclass(frozen=True, slots=True)
class FollowedKeys:
    """Keys that follow from a reader's keys.

    `trusted`: keys whose signature under the newest checkpoint counts. `former`: other keys of this log, which may have
    signed kept checkpoints. `rotations`: those that a trusted key has signed. `others`: the lines that none has signed.
    """

    trusted: tuple[VerifierKey, ...]
    former: tuple[VerifierKey, ...]
    rotations: tuple[Rotation, ...]
    others: tuple[RotationLine, ...]


def rotation_lines(storage: LogStorage) -> Iterator[RotationLine]:
    """Yield the lines of the file, by the sizes of their checkpoints; raises DamagedLog if it holds anything else."""
    lines = [line for line in (storage.get(ROTATIONS) or b"").split(b"\n") if line]
    if len(lines) > MOST_ROTATIONS:
        raise DamagedLog(f"{ROTATIONS}: {len(lines)} lines, and {MOST_ROTATIONS} are read at most: it was replaced")
    yield from sorted(map(_line, lines), key=lambda line: line.checkpoint.size)


def follow(storage: LogStorage, given: Collection[VerifierKey]) -> FollowedKeys:
    """Return the keys that are trusted from the given ones, after all rotations on record.

    It does not check that the log has grown from the rotations' checkpoints: `newest_checkpoint` does. Raises
    DamagedLog if the file, or the tree of a checkpoint that a trusted key has signed, has changed.
    """
    trusted = list(dict.fromkeys(given))
    known, rotations, others = dict.fromkeys(trusted), list[Rotation](), list[RotationLine]()
    tree: Tree | None = None
    for line in rotation_lines(storage):
        try:
            if any(key.name != line.checkpoint.origin for key in trusted):
                raise BadNote(f"a checkpoint of the log {shown(line.checkpoint.origin)}")
            signers = tuple(signature.key for signature in verified(line.note, trusted))
        except BadNote:
            others.append(line)
            continue
        tree = Tree(storage, line.checkpoint.size, line.checkpoint.root)
        rotation = Rotation(line.index, _leaf_in(tree, line.index), line.checkpoint, signers)
        if any(key.name != line.checkpoint.origin for key in (*rotation.leaf.keys, *rotation.leaf.before)):
            raise DamagedLog(f"{ROTATIONS}: leaf {line.index} names keys of another log than its own")
        rotations.append(rotation)
        known |= dict.fromkeys([*rotation.leaf.keys, *rotation.leaf.before])
        if rotation.is_handed_over:
            trusted += [key for key in rotation.leaf.added if key not in trusted]
        trusted = [key for key in trusted if key not in rotation.leaf.retired]
    for line in others if tree is not None else ():
        assert tree is not None
        # The newest tree that a trusted key has signed vouches for its leaves of earlier rotations.
        leaf = parse_leaf(tree.entry(line.index)) if line.index < tree.size else None
        if isinstance(leaf, KeysLeaf):
            known |= dict.fromkeys([*leaf.keys, *leaf.before])
    return FollowedKeys(
        tuple(trusted), tuple(key for key in known if key not in trusted), tuple(rotations), tuple(others)
    )


def rotations_in(storage: LogStorage, tree: Tree) -> Iterator[str]:
    """Yield a line on each rotation of a log, by the leaves of its newest tree; raises DamagedLog."""
    for line in rotation_lines(storage):
        leaf = _leaf_in(tree, line.index)
        signers = signers_among(line.note, (*leaf.keys, *leaf.retired))
        yield f"leaf {line.index}: {leaf.words}; signed by {ids_of(signers)}"


def newest_checkpoint(storage: LogStorage, opened: TransparencyLog, followed: FollowedKeys) -> SignedCheckpoint:
    """Return the newest checkpoint of a log.

    Raises DamagedLog if no trusted key has signed it, with the record of the key that has, and InconsistentLog if the
    log has not grown from a checkpoint with which a key was handed over.
    """
    try:
        newest = opened.checkpoint()
    except DamagedLog as error:
        if (reason := _not_followed(storage, followed)) is not None:
            raise DamagedLog(f"{reason} ({error})") from None
        raise
    for rotation in followed.rotations:
        opened.demand_continues(rotation.checkpoint)
    return newest


def keep_rotation(storage: LogStorage, index: int, note: Note, last: Note | None = None) -> None:
    """Keep a checkpoint that covers the leaf of keys at an index, unless one of that leaf is kept.

    For the holder of the log's lock. Raises LogError if the file is full.
    """
    lines = [*rotation_lines(storage)]
    if any(line.index == index for line in lines):
        return
    demand_room(len(lines))
    body = {"leaf": index, "checkpoint": note.data.decode()} | ({"last": last.data.decode()} if last else {})
    storage.put(ROTATIONS, (storage.get(ROTATIONS) or b"") + json.dumps(body).encode() + b"\n")


def demand_room(lines: int) -> None:
    """Raise LogError if a file of so many lines takes no further one."""
    if lines >= MOST_ROTATIONS:
        raise LogError(
            f"the keys of this log have changed {lines} times, and {MOST_ROTATIONS} are the most: do several machines "
            "publish with other keys? Give all of them the same EVENKEEL_LOG_KEY"
        )


def _not_followed(storage: LogStorage, followed: FollowedKeys) -> str | None:
    """Return why a reader's keys lead no further, in words; None if the file says nothing about it.

    None of these keys has signed the file: any writer of the lake may have invented it.
    """
    behind = max((rotation.index for rotation in followed.rotations), default=-1)
    for line in followed.others:
        if line.index <= behind:
            continue
        with suppress(LogError, BadNote):
            leaf = _leaf_in(Tree(storage, line.checkpoint.size, line.checkpoint.root), line.index)
            if leaf.is_lost:
                return _said_lost(storage, followed, line, leaf)
            why = (
                "a stranger's key was rotated in"
                if all(key in followed.trusted for key in leaf.before)
                else f"an earlier line of {ROTATIONS} is gone, or a stranger's key was rotated in"
            )
            return f"leaf {line.index} says that {leaf.words}, and no key that is trusted has signed for it: {why}"
    return None


def _said_lost(storage: LogStorage, followed: FollowedKeys, line: RotationLine, leaf: KeysLeaf) -> str:
    """Return words on a rotation without the old key, and the size of the old key's last checkpoint."""
    proven = ""
    with suppress(LogError, BadNote):
        assert line.last is not None
        last = parse_checkpoint(line.last.text)
        verified(line.last, followed.trusted)
        if Tree(storage, line.checkpoint.size, line.checkpoint.root).root_at(last.size) == last.root:
            proven = f" The log has grown from {last.words}, which the old key has signed"
    return (
        f"not proven: leaf {line.index} says that the old key ({ids_of(leaf.before)}) was lost and that "
        f"{ids_of(leaf.keys)} goes on, which any writer of the lake can claim. Ask the operator for the new "
        f"verifier key.{proven}"
    )


def _leaf_in(tree: Tree, index: int) -> KeysLeaf:
    leaf = parse_leaf(tree.entry(index)) if index < tree.size else None
    if not isinstance(leaf, KeysLeaf):
        raise DamagedLog(f"{ROTATIONS}: leaf {index} of the log names no keys; restore the file from a copy")
    return leaf


def _line(data: bytes) -> RotationLine:
    try:
        body = parse_json(data, depth=2, values=10)
        index, text, last = body["leaf"], body["checkpoint"], body.get("last")
        note = parse_note(text.encode())
        checkpoint = parse_checkpoint(note.text)
        if type(index) is not int or not 0 <= index < checkpoint.size:
            raise BadNote("a leaf that its checkpoint does not cover")
        return RotationLine(index, note, checkpoint, None if last is None else parse_note(last.encode()))
    except (NotJson, KeyError, TypeError, AttributeError, UnicodeEncodeError, BadNote) as error:
        raise DamagedLog(
            f"{ROTATIONS}: a line that is not a rotation ({error}); restore the file from a copy"
        ) from None


def signers_among(note: Note, keys: Sequence[VerifierKey]) -> tuple[VerifierKey, ...]:
    """Return the given keys that have signed a note; none if one of the signatures is wrong."""
    try:
        return tuple(dict.fromkeys(signature.key for signature in verified(note, keys)))
    except BadNote:
        return ()


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
