"""Merkle trees straight from the list of their entries (RFC 9162), to compare the room's with."""

from collections.abc import Iterable, Sequence

from evenkeel.transparency.merkle import consistency_ranges, inclusion_ranges, leaf_of, root_above


def root_of(entries: Iterable[bytes]) -> bytes:
    """The root of the entries in their order."""
    return root_above([leaf_of(entry) for entry in entries])


def inclusion_proof(entries: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes beside the way from the entry at `index` up to the root."""
    return [root_of(entries[begin:end]) for begin, end in inclusion_ranges(index, len(entries))]


def consistency_proof(entries: Sequence[bytes], old: int) -> list[bytes]:
    """The hashes that show that the first `old` entries are the beginning of all."""
    return [root_of(entries[begin:end]) for begin, end in consistency_ranges(old, len(entries))]
