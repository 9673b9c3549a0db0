"""Checkpoints: a log's name, its size and its root, as the text of a signed note (C2SP tlog-checkpoint)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evenkeel.errors import BadNote, BadSignature
from evenkeel.transparency.keys import COSIGNATURE, VerifierKey, base64_bytes, base64_text, shown
from evenkeel.transparency.merkle import EMPTY
from evenkeel.transparency.notes import Note, parse_note, verified

MOST_LEAVES = (1 << 63) - 1
"""Largest size that is read."""

_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree at one size: `origin` (the log's name), `size` (leaves), `root` (32 bytes), and extension lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The signed text: each line ends in a line feed."""
        lines = (self.origin, str(self.size), base64_text(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @property
    def words(self) -> str:
        """Size and root in the form of messages."""
        return f"size {self.size}, root {base64_text(self.root)}"


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint that a known key of its log has signed: the note, and its cosigners with times (seconds since
    1970)."""

    checkpoint: Checkpoint
    note: Note
    cosigned: Mapping[VerifierKey, int]


def number_of(text: str) -> int | None:
    """Return the number in ASCII digits without leading zeros; None for other texts, and beyond `MOST_LEAVES`."""
    return number if _NUMBER.fullmatch(text) and (number := int(text)) <= MOST_LEAVES else None


def parse_checkpoint(text: str) -> Checkpoint:
    """Return the checkpoint in a note's text; raises BadNote with the fault."""
    lines = text.split("\n")
    if lines.pop() or len(lines) < 3 or not all(lines):
        raise BadNote("a checkpoint has three lines at least (origin, size, root), and none of its lines is empty")
    size, root = number_of(lines[1]), base64_bytes(lines[2])
    if size is None:
        raise BadNote(f"a checkpoint of {shown(lines[0])} whose second line is not a size: {shown(lines[1])}")
    if root is None or len(root) != len(EMPTY):
        raise BadNote(f"a checkpoint of {shown(lines[0])} whose third line is not a root (32 bytes): {shown(lines[2])}")
    return Checkpoint(lines[0], size, root, tuple(lines[3:]))


def open_checkpoint(
    data: bytes, origin: str, log_keys: Collection[VerifierKey], witness_keys: Collection[VerifierKey] = ()
) -> SignedCheckpoint:
    """Return the checkpoint in these bytes, signed by at least one of the log's keys, and the witnesses that cosigned
    it.

    `log_keys` are of the kind `ED25519`, `witness_keys` of the kind `COSIGNATURE`. Raises BadNote if it is not a
    checkpoint or is of another log, BadSignature if a known signature is wrong or no key of the log has signed it.
    """
    note = parse_note(data)
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin != origin:
        raise BadNote(f"a checkpoint of the log {shown(checkpoint.origin)}, and not of {shown(origin)}")
    signatures = verified(note, [*log_keys, *witness_keys])
    if not any(signature.key in log_keys for signature in signatures):
        raise BadSignature(f"the checkpoint of {shown(origin)} has no signature by a known key of that log")
    cosigned: dict[VerifierKey, int] = {}
    for signature in signatures:
        if signature.at is not None and signature.key.kind == COSIGNATURE:
            cosigned[signature.key] = max(signature.at, cosigned.get(signature.key, 0))
    return SignedCheckpoint(checkpoint, note, cosigned)
