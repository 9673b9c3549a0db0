"""Signed notes: a text, an empty line, and signature lines (C2SP signed-note); and checkpoints, which are such texts.

Do not use the text of a note before `verified` has found a signature of a known key. A hostile note costs one pass over
`MOST_BYTES` at most, and one verification for each line with a known key's name and id. A checkpoint holds a log's
name, its size and its root (C2SP tlog-checkpoint).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.errors import BadNote, BadSignature
from evenkeel.transparency.keys import (
    COSIGNATURE,
    NoteSignature,
    SignerKey,
    VerifierKey,
    base64_bytes,
    base64_text,
    is_key_name,
    shown,
)
from evenkeel.transparency.merkle import EMPTY

MOST_BYTES = 128 * 1024
"""Largest note that is read: sixteen post-quantum signatures, which have to be accepted, take some 110 kB."""
MOST_SIGNATURES = 64
"""Most signatures of a note that is read (the spec demands 16)."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_DASH = "— "
_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it was read or made: its text, which ends in a line feed, and its signatures in their order."""

    text: str
    signatures: tuple[NoteSignature, ...]

    @property
    def data(self) -> bytes:
        """The whole note in UTF-8."""
        return f"{self.text}\n{''.join(signature.line for signature in self.signatures)}".encode()

    def with_signatures(self, more: Iterable[NoteSignature]) -> Note:
        """Return the note with further signatures, of each key the last one."""
        by_key = {(signature.name, signature.key_id): signature for signature in (*self.signatures, *more)}
        return Note(self.text, tuple(by_key.values()))


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """A verified signature: its key, and for a cosignature its time, in seconds since 1970."""

    key: VerifierKey
    at: int | None


def signed_note(text: str, signers: Sequence[SignerKey]) -> Note:
    """Return a text signed by each of the keys; raises BadNote if the text is not fit for a note."""
    _demand_text(text)
    return Note(text, tuple(signer.sign(text.encode()) for signer in signers))


def parse_note(data: bytes) -> Note:
    """Return the note in these bytes, without verification; raises BadNote with the fault."""
    if len(data) > MOST_BYTES:
        raise BadNote(f"a signed note of {len(data):,} bytes: {MOST_BYTES:,} are read at most")
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        raise BadNote("a signed note that is not UTF-8") from None
    before, separator, after = whole.rpartition("\n\n")
    if not separator:
        raise BadNote("a signed note without the empty line between text and signatures")
    _demand_text(f"{before}\n")
    return Note(f"{before}\n", parse_signatures(after))


def parse_signatures(text: str) -> tuple[NoteSignature, ...]:
    """Return the signatures of signature lines, one at least, each with its line feed; raises BadNote."""
    if len(text) > MOST_BYTES or not text.endswith("\n"):
        raise BadNote("signature lines that are too long, or whose last one has no line feed at its end")
    lines = text[:-1].split("\n")
    if len(lines) > MOST_SIGNATURES:
        raise BadNote(f"a signed note with {len(lines)} signatures: {MOST_SIGNATURES} are read at most")
    return tuple(_signature(line) for line in lines)


def verified(note: Note, keys: Iterable[VerifierKey]) -> list[VerifiedSignature]:
    """Return the signatures by these keys, all of them right, in the note's order; other signatures are passed over.

    Raises BadSignature if a signature by line of the keys is wrong, or if none is by any of them: signed-note,
    *Signatures*. Raises BadNote if two keys share name and id.
    """
    known: dict[tuple[str, bytes], VerifierKey] = {}
    for key in keys:
        if known.setdefault((key.name, key.key_id), key) != key:
            raise BadNote(f"two verifier keys named {shown(key.name)} share an id: no signature tells them apart")
    signatures = []
    for signature in note.signatures:
        signer = known.get((signature.name, signature.key_id))
        if signer is not None:
            signatures.append(VerifiedSignature(signer, signer.verify(note.text.encode(), signature)))
    if not signatures:
        signers = ", ".join(f"{shown(line.name)} ({line.key_id.hex()})" for line in note.signatures[:4])
        wanted = ", ".join(f"{shown(name)} ({key_id.hex()})" for name, key_id in known) or "no key at all"
        raise BadSignature(f"no known key has signed: signed by {signers}; known: {wanted}")
    return signatures


def _demand_text(text: str) -> None:
    if not text.endswith("\n") or _CONTROL.search(text) or len(text) > MOST_BYTES:
        raise BadNote("the text of a signed note ends in a line feed, is short, and has no other control character")


def _signature(line: str) -> NoteSignature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    data = base64_bytes(encoded)
    if not line.startswith(_DASH) or not is_key_name(name) or data is None or len(data) <= _ID_BYTES:
        raise BadNote(f"a line that is not a signature (dash, name, base64): {shown(line)}")
    return NoteSignature(name, data[:_ID_BYTES], data[_ID_BYTES:])


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
