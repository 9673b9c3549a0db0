"""Tiles: their names and contents are those of the spec, and what was changed is named and never used."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput, DamagedLog, LogError
from evenkeel.transparency.merkle import EMPTY, is_consistent, is_included, leaf_of
from evenkeel.transparency.tiles import (
    MOST_ENTRY_BYTES,
    Tree,
    bundle_name,
    bundle_of,
    edge_of,
    entries_of,
    partial_folders,
    root_of_edge,
    tile_name,
)
from tests.transparency import logs
from tests.transparency.reference_tree import root_of

SIZES = (1, 2, 3, 255, 256, 257, 511, 512, 513, 700)
ENTRIES = logs.entries_of(700)


def tree_of(size: int, storage: logs.MemoryStorage | None = None) -> Tree:
    return logs.log_of(ENTRIES[:size], storage).tree()


def test_names_are_those_of_the_spec() -> None:
    assert tile_name(0, 0) == "tile/0/000"
    assert tile_name(2, 1_234_067) == "tile/2/x001/x234/067"
    assert tile_name(63, 999, 1) == "tile/63/999.p/1"
    assert tile_name(1, 1000, 255) == "tile/1/x001/000.p/255"
    assert bundle_name(273, 112) == "tile/entries/273.p/112"
    assert partial_folders(0, 273) == ["tile/0/273.p", "tile/entries/273.p"]
    assert partial_folders(1, 1) == ["tile/1/001.p"]


def test_a_tree_has_the_tiles_that_the_spec_gives_for_its_size() -> None:
    assert edge_of(70_000) == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert edge_of(256) == [(1, 0, 1)]
    assert edge_of(0) == []
    storage = logs.MemoryStorage()
    logs.log_of(logs.entries_of(70_000), storage)
    tiles = [name for name in storage.files if name.startswith("tile/") and "entries" not in name]
    full, partial = [one for one in tiles if ".p" not in one], [one for one in tiles if ".p" in one]
    assert sorted(partial) == ["tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"]
    assert [sum(one.startswith(f"tile/{level}/") for one in full) for level in range(3)] == [273, 1, 0]
    assert {len(storage.files[name]) for name in full} == {8192}


@pytest.mark.parametrize("size", SIZES)
def test_files_hold_what_the_definition_says(size: int) -> None:
    """tlog-tiles: MTH(D[(n * 256 + i) * 256**l : (n * 256 + i + 1) * 256**l])."""
    storage = logs.MemoryStorage()
    tree_of(size, storage)
    for name, data in storage.files.items():
        kind, *_ = name.removeprefix("tile/").split("/")
        index = int(name.split("/")[2].removesuffix(".p")) if name.startswith("tile/") else 0
        if name.startswith("tile/entries/"):
            first, width = index * 256, int(name.partition(".p/")[2] or 256)
            assert entries_of(data) == ENTRIES[first : first + width]
        elif name.startswith("tile/"):
            span = 256 ** int(kind)
            hashes = [data[at : at + 32] for at in range(0, len(data), 32)]
            assert len(hashes) == int(name.partition(".p/")[2] or 256)
            for place, one in enumerate(hashes, start=index * 256):
                assert one == root_of(ENTRIES[place * span : (place + 1) * span])


@pytest.mark.parametrize("size", SIZES)
def test_every_root_inclusion_and_beginning_is_proven(size: int) -> None:
    tree = tree_of(size)
    assert tree.root == root_of(ENTRIES[:size])
    assert [*tree.entries(0, size + 9)] == ENTRIES[:size]
    for index in {*range(0, size, 13), size - 1, *(one for one in (255, 256, 257) if one < size)}:
        assert tree.entry(index) == ENTRIES[index]
        assert is_included(leaf_of(ENTRIES[index]), index, size, tree.inclusion(index), tree.root)
        old = index + 1
        assert tree.root_at(old) == root_of(ENTRIES[:old])
        assert is_included(leaf_of(ENTRIES[0]), 0, old, tree.inclusion(0, old), tree.root_at(old))
        assert is_consistent(old, size, tree.root_at(old), tree.root, tree.consistency(old))
        assert is_consistent(1, old, tree.root_at(1), tree.root_at(old), tree.consistency(1, old))
    assert tree.root_at(0) == EMPTY
    assert tree.consistency(0) == []


@given(st.integers(1, 700), st.data())
def test_an_older_tree_is_read_from_the_files_of_a_newer_one(size: int, data: st.DataObject) -> None:
    storage = logs.MemoryStorage()
    logs.log_of(ENTRIES, storage)
    older = Tree(storage, size, root_of(ENTRIES[:size])) if _has_files(storage, size) else tree_of(size)
    index = data.draw(st.integers(0, size - 1))
    assert is_included(leaf_of(ENTRIES[index]), index, size, older.inclusion(index), older.root)


def _has_files(storage: logs.MemoryStorage, size: int) -> bool:
    return all(tile_name(*one) in storage.files or tile_name(*one[:2]) in storage.files for one in edge_of(size))


def test_what_a_tree_does_not_have_is_not_given() -> None:
    tree = tree_of(3)
    for ask in (lambda: tree.inclusion(3), lambda: tree.inclusion(-1), lambda: tree.entry(3), lambda: tree.entry(-1)):
        with pytest.raises(LogError, match=r"no leaf -?\d"):
            ask()
    for ask in (lambda: tree.root_at(4), lambda: tree.inclusion(0, 4), lambda: tree.consistency(1, 4)):
        with pytest.raises(LogError, match="no tree of 4 yet"):
            ask()
    with pytest.raises(LogError, match="not the beginning"):
        tree.consistency(3, 2)


def test_entries_are_found_by_what_they_hold_the_newest_first() -> None:
    tree = tree_of(700)
    assert [index for index, _ in tree.find(b"entry 25")] == [*range(259, 249, -1), 25]
    assert [*tree.find(b"entry 699")] == [(699, b"entry 699")]
    assert [*tree.find(b"no such")] == []


def damage(data: bytes, kind: str) -> bytes:
    cuts = {"cut": data[:-1], "emptied": b"", "a hash less": data[:-32], "longer": data + bytes(32)}
    if kind in cuts:
        return cuts[kind]
    if kind == "swapped":
        return data[-32:] + data[32:-32] + data[:32]
    return bytes([data[0] ^ 1]) + data[1:]


DAMAGES = ("cut", "emptied", "a hash less", "longer", "swapped", "a bit")


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("name", ["tile/0/000", "tile/0/001", "tile/0/002.p/188", "tile/1/000.p/2"])
def test_a_damaged_tile_is_named_and_no_proof_is_made_of_it(name: str, kind: str) -> None:
    storage = logs.MemoryStorage()
    log = logs.log_of(ENTRIES, storage)
    storage.files[name] = damage(storage.files[name], kind)

    def prove_all() -> None:
        tree = log.tree()
        for index in (0, 300, 600):
            tree.inclusion(index)

    with pytest.raises(DamagedLog, match=name):
        prove_all()
    del storage.files[name]
    with pytest.raises(DamagedLog, match=f"{name}: the file is missing"):
        prove_all()


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("name", ["tile/entries/000", "tile/entries/002.p/188"])
def test_a_damaged_bundle_is_named(name: str, kind: str) -> None:
    storage = logs.MemoryStorage()
    log = logs.log_of(ENTRIES, storage)
    storage.files[name] = damage(storage.files[name], kind)
    with pytest.raises(DamagedLog, match=name):
        [*log.tree().entries(0, 700)]
    if kind != "emptied":
        with pytest.raises(DamagedLog, match=name):
            [*log.tree().find(b"entry")]


def test_a_bundle_with_an_entry_of_another_is_told_by_its_leaf() -> None:
    storage = logs.MemoryStorage()
    log = logs.log_of(ENTRIES, storage)
    storage.files["tile/entries/001"] = bundle_of([*ENTRIES[256:300], b"entry 999", *ENTRIES[301:512]])
    with pytest.raises(DamagedLog, match="the entry of leaf 300 was changed"):
        log.tree().entry(256)


def test_a_root_of_another_tree_is_not_taken() -> None:
    storage = logs.MemoryStorage()
    logs.log_of(ENTRIES, storage)
    with pytest.raises(DamagedLog, match=r"one of tile/0/002\.p/188, tile/1/000\.p/2 was changed"):
        Tree(storage, 700, hashlib.sha256(b"other").digest())
    with pytest.raises(DamagedLog, match="the checkpoint was changed"):
        Tree(storage, 0, hashlib.sha256(b"other").digest())


def test_bundles_hold_entries_of_any_bytes_and_length() -> None:
    entries = [b"", b"\0", bytes(MOST_ENTRY_BYTES), b"\xff\xff"]
    assert entries_of(bundle_of(entries)) == entries
    assert entries_of(b"\0") is None
    assert entries_of(b"\0\2a") is None
    with pytest.raises(BadInput, match="at most 65,535 bytes"):
        bundle_of([bytes(MOST_ENTRY_BYTES + 1)])


def test_an_edge_without_tiles_is_the_empty_tree() -> None:
    assert root_of_edge([]) == EMPTY == root_of_edge([[], []])


def test_a_proof_out_of_many_leaves_reads_few_files() -> None:
    storage = logs.MemoryStorage()
    tree = logs.log_of(logs.entries_of(66_000), storage).tree()
    storage.reads.clear()
    fresh = Tree(storage, tree.size, tree.root)
    fresh.inclusion(1234)
    fresh.consistency(777)
    assert len(storage.reads) <= 3 + 2 * 2 * 2  # the edge; two tiles each, of which partial names are asked for first
