"""Merkle trees, held against public test cases of another implementation and against the definition in RFC 9162."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from evenkeel.lake.merkle import EMPTY, inclusion_proof, is_included, leaf_of, node_of, root_above, root_of

CASES = Path(__file__).resolve().parent / "merkle_inclusion.jsonl.gz"
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33)


def cases() -> list[dict[str, Any]]:
    """The inclusion cases of github.com/transparency-dev/merkle (`testdata`, commit 417fb0c, Apache-2.0)."""
    return [json.loads(line) for line in gzip.decompress(CASES.read_bytes()).splitlines()]


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


def test_the_public_cases_come_out_as_they_say() -> None:
    found = cases()
    assert len(found) == 98
    assert {one["wantErr"] for one in found} == {True, False}
    for one in found:
        proof = [base64.b64decode(text) for text in one["proof"] or ()]
        leaf, root = (base64.b64decode(one[name]) for name in ("leafHash", "root"))
        assert is_included(leaf, one["leafIdx"], one["treeSize"], proof, root) is not one["wantErr"], one["case"]


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
