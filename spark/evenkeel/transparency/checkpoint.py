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
"""The largest size that is read."""

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
        """The text that is signed: a line each, every one with a line feed."""
        lines = (self.origin, str(self.size), base64_text(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @property
    def words(self) -> str:
        """Size and root as a message names them."""
        return f"size {self.size}, root {base64_text(self.root)}"


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint that a known key of its log has signed: the note, and who cosigned it when (seconds since 1970)."""

    checkpoint: Checkpoint
    note: Note
    cosigned: Mapping[VerifierKey, int]


def number_of(text: str) -> int | None:
    """The number that a text of ASCII digits without leading zeros is; None for any other, and beyond `MOST_LEAVES`."""
    return number if _NUMBER.fullmatch(text) and (number := int(text)) <= MOST_LEAVES else None


def parse_checkpoint(text: str) -> Checkpoint:
    """The checkpoint that a note's text is. Raises BadNote with the fault."""
    lines = text.split("\n")
    if lines.pop() or len(lines) < 3 or not all(lines):
        raise BadNote("a checkpoint has three lines at least (origin, size, root), and none of its lines is empty")
    size, root = number_of(lines[1]), base64_bytes(lines[2])
    if size is None:
        raise BadNote(f"a checkpoint of {shown(lines[0])} whose second line is no size: {shown(lines[1])}")
    if root is None or len(root) != len(EMPTY):
        raise BadNote(f"a checkpoint of {shown(lines[0])} whose third line is no root (32 bytes): {shown(lines[2])}")
    return Checkpoint(lines[0], size, root, tuple(lines[3:]))


def open_checkpoint(
    data: bytes, origin: str, log_keys: Collection[VerifierKey], witness_keys: Collection[VerifierKey] = ()
) -> SignedCheckpoint:
    """The checkpoint in these bytes, signed by one of the log's keys at least, and by which of the witnesses.

    `log_keys` are of the kind `ED25519`, `witness_keys` of the kind `COSIGNATURE`. Raises BadNote where it is no
    checkpoint or is of another log, BadSignature where a known signature is wrong or no key of the log has signed it.
    """
    note = parse_note(data)
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin != origin:
        raise BadNote(f"a checkpoint of the log {shown(checkpoint.origin)}, and not of {shown(origin)}")
    found = verified(note, [*log_keys, *witness_keys])
    if not any(one.key in log_keys for one in found):
        raise BadSignature(f"the checkpoint of {shown(origin)} bears no signature by a known key of that log")
    cosigned: dict[VerifierKey, int] = {}
    for one in found:
        if one.at is not None and one.key.kind == COSIGNATURE:
            cosigned[one.key] = max(one.at, cosigned.get(one.key, 0))
    return SignedCheckpoint(checkpoint, note, cosigned)
