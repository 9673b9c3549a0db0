"""Signed notes: a text, an empty line, and signature lines (C2SP signed-note).

Do not use the text of a note before `verified` has found a signature of a known key. A hostile note costs one pass over
`MOST_BYTES` at most, and one verification for each line with a known key's name and id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenkeel.errors import BadNote, BadSignature
from evenkeel.transparency.keys import NoteSignature, SignerKey, VerifierKey, base64_bytes, is_key_name, shown

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
