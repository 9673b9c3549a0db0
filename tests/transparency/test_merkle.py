"""Merkle trees, held against public test cases of another implementation and against the definition in RFC 9162."""

import base64
import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.transparency.merkle import (
    EMPTY,
    consistency_ranges,
    is_consistent,
    is_included,
    leaf_of,
    node_of,
    root_above,
)
from tests.transparency.reference_tree import consistency_proof, inclusion_proof, root_of

FOLDER = Path(__file__).resolve().parent
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33)


def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of a kind of github.com/transparency-dev/merkle (`testdata`, commit 417fb0c, Apache-2.0)."""
    text = gzip.decompress((FOLDER / f"merkle_{kind}.jsonl.gz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def entries_of(size: int) -> list[bytes]:
    return [hashlib.sha256(str(number).encode()).digest() for number in range(size)]


def by_definition(entries: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1, word by word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    split = 1
    while split * 2 < len(entries):
        split *= 2
    return hashlib.sha256(b"\x01" + by_definition(entries[:split]) + by_definition(entries[split:])).digest()


def test_the_public_cases_of_inclusion_come_out_as_they_say() -> None:
    found = cases("inclusion")
    assert len(found) == 98
    assert {one["wantErr"] for one in found} == {True, False}
    for one in found:
        proof = [base64.b64decode(text) for text in one["proof"] or ()]
        leaf, root = (base64.b64decode(one[name]) for name in ("leafHash", "root"))
        assert is_included(leaf, one["leafIdx"], one["treeSize"], proof, root) is not one["wantErr"], one["case"]


def test_the_public_cases_of_consistency_come_out_as_they_say() -> None:
    found = cases("consistency")
    assert len(found) == 98
    assert {one["wantErr"] for one in found} == {True, False}
    for one in found:
        proof = [base64.b64decode(text) for text in one["proof"] or ()]
        old, new = (base64.b64decode(one[name] or "") for name in ("root1", "root2"))
        assert is_consistent(one["size1"], one["size2"], old, new, proof) is not one["wantErr"], one["case"]


@pytest.mark.parametrize("size", [0, *SIZES, 1000])
def test_a_root_is_the_one_of_the_definition(size: int) -> None:
    assert root_of(entries_of(size)) == by_definition(entries_of(size))


def test_nothing_has_a_root_too_and_an_entry_is_no_node() -> None:
    assert root_of([]) == EMPTY == hashlib.sha256(b"").digest()
    left, right = entries_of(2)
    assert leaf_of(left + right) != node_of(left, right)


@pytest.mark.parametrize("part", [1, 4, 64])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 63, 64, 65, 300])
def test_roots_of_parts_lead_to_the_root_of_the_whole(size: int, part: int) -> None:
    entries = entries_of(size)
    parts = [root_of(entries[first : first + part]) for first in range(0, size, part)]
    assert root_above(parts) == root_of(entries)


@pytest.mark.parametrize("size", SIZES)
def test_every_entry_is_shown_to_be_there_and_no_other_is(size: int) -> None:
    entries, chance = entries_of(size), random.Random(size)
    root = root_of(entries)
    for index, entry in enumerate(entries):
        proof = inclusion_proof(entries, index)
        assert is_included(leaf_of(entry), index, size, proof, root)
        assert not is_included(leaf_of(chance.randbytes(32)), index, size, proof, root)
        assert not is_included(leaf_of(entry), index, size, [*proof, root], root)
        assert not is_included(leaf_of(entry), size, size, proof, root)
        assert not proof or not is_included(leaf_of(entry), index, size, proof[1:], root)


def test_an_entry_that_is_not_there_has_no_proof() -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError, match=f"no entry {index} among 3"):
            inclusion_proof(entries_of(3), index)


def subproof(old: int, entries: list[bytes], is_whole: bool) -> list[bytes]:
    """RFC 9162, 2.1.4.1, word by word."""
    if old == len(entries):
        return [] if is_whole else [by_definition(entries)]
    split = 1
    while split * 2 < len(entries):
        split *= 2
    if old <= split:
        return [*subproof(old, entries[:split], is_whole), by_definition(entries[split:])]
    return [*subproof(old - split, entries[split:], False), by_definition(entries[:split])]


@pytest.mark.parametrize("new", [*SIZES, 64, 65])
def test_every_beginning_is_shown_to_be_one_and_nothing_else_is(new: int) -> None:
    entries = entries_of(new)
    root, other = root_of(entries), root_of([*entries[:-1], b"another"])
    for old in range(new + 1):
        proof, old_root = consistency_proof(entries, old), root_of(entries[:old])
        assert old == 0 or proof == subproof(old, entries, True)
        assert is_consistent(old, new, old_root, root, proof)
        assert not is_consistent(old, new, old_root, root, [*proof, root])
        assert not is_consistent(old, new, leaf_of(b""), root, proof)
        assert not proof or not is_consistent(old, new, old_root, root, proof[1:])
        assert not proof or not is_consistent(old, new, old_root, root, proof[:-1])
        assert old in (0, new) or not is_consistent(old, new, old_root, other, proof)
        assert not is_consistent(new + 1, new, old_root, root, proof)
    with pytest.raises(IndexError, match="not the beginning"):
        consistency_ranges(new + 1, new)


@given(st.data())
def test_no_flipped_bit_size_or_index_passes(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, 300))
    old, index = data.draw(st.integers(1, new - 1)), data.draw(st.integers(0, new - 1))
    entries = entries_of(new)
    root, old_root, leaf = root_of(entries), root_of(entries[:old]), leaf_of(entries[index])
    inclusion, consistency = inclusion_proof(entries, index), consistency_proof(entries, old)

    def flipped(one: bytes) -> bytes:
        bit = data.draw(st.integers(0, 255))
        return (int.from_bytes(one) ^ 1 << bit).to_bytes(32)

    def with_one_flipped(proof: list[bytes]) -> list[bytes]:
        place = data.draw(st.integers(0, len(proof) - 1))
        return [*proof[:place], flipped(proof[place]), *proof[place + 1 :]]

    assert is_included(leaf, index, new, inclusion, root)
    assert not is_included(flipped(leaf), index, new, inclusion, root)
    assert not is_included(leaf, index, new, inclusion, flipped(root))
    assert not is_included(leaf, index, new, with_one_flipped(inclusion), root)
    other = data.draw(st.integers(0, new - 1).filter(lambda number: number != index))
    assert not is_included(leaf, other, new, inclusion, root)
    assert is_consistent(old, new, old_root, root, consistency)
    assert not is_consistent(old, new, flipped(old_root), root, consistency)
    assert not is_consistent(old, new, old_root, flipped(root), consistency)
    assert not is_consistent(old, new, old_root, root, with_one_flipped(consistency))
