"""Roots made in arrays, and what workers make of a partition, held against the plain tree over the sorted digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.lake import root_worker
from evenkeel.lake.root_worker import DIGEST, PLACE, SLICE_BITS, roots_of
from evenkeel.lake.roots_here import digest_of
from evenkeel.transparency.merkle import EMPTY, leaf_of, root_of
from evenkeel.transparency.merkle_arrays import GrowingRoot, leaves_of

SIZES = sorted({0, 1, 2, 3, *(2**power + by for power in range(2, 8) for by in (-1, 0, 1))})
Rows = Sequence[tuple[int, bytes]]
"""Number of the group, and the digest."""


def entries_of(size: int) -> list[bytes]:
    return sorted(hashlib.sha256(str(number).encode()).digest() for number in range(size))


def in_array(entries: Sequence[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(entries), np.uint8).reshape(-1, len(EMPTY))


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 8, 1000])
def test_a_root_grows_to_that_of_the_whole_list(at_once: int) -> None:
    for size in SIZES:
        entries, root = entries_of(size), GrowingRoot()
        for first in range(0, size, at_once):
            root.add(leaves_of(in_array(entries[first : first + at_once])))
        assert root.root() == root_of(entries), size


def test_leaves_are_hashed_as_one_by_one() -> None:
    assert [*map(bytes, leaves_of(in_array(entries_of(9))))] == [*map(leaf_of, entries_of(9))]


# Digests that begin alike in few or in many bytes, and such as come twice.
BEGINNINGS = st.sampled_from([b"", b"\x00" * 8, b"\xff" * 8, b"\x12\x34"])
DIGESTS = st.builds(lambda first, rest: (first + rest)[: len(EMPTY)], BEGINNINGS, st.binary(min_size=32, max_size=32))


@given(
    st.lists(st.tuples(st.sampled_from([-(2**45), -1, 0, 1, 2**45 - 1]), st.one_of(DIGESTS, st.just(b"7" * 32)))),
    st.integers(1, 9),
    st.integers(1, 20),
)
def test_workers_come_to_the_root_of_the_sorted_digests(rows: Rows, a_batch: int, a_chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(root_worker, "CHUNK", a_chunk)
        answers = [one for batch in roots_of(partition(rows, a_batch)) for one in batch.to_pylist()]
    expected = []
    for group in sorted({number for number, _ in rows}):
        own = sorted(digest for number, digest in rows if number == group)
        expected.append({"number": group, "rows": len(own), "digest": digest_of(own), "root": root_of(own).hex()})
    assert answers == expected


def partition(rows: Rows, a_batch: int) -> Iterator[pa.RecordBatch]:
    """The rows as Spark gives them to a worker: in the order of their place, and of one place in any order."""
    placed = [(number << SLICE_BITS | int.from_bytes(digest[:2]), digest) for number, digest in rows]
    placed.sort(key=lambda row: row[0])
    for first in range(0, len(placed), a_batch):
        places, digests = zip(*placed[first : first + a_batch], strict=True)
        yield pa.RecordBatch.from_pydict({PLACE: pa.array(places, pa.int64()), DIGEST: pa.array(digests, pa.binary())})
