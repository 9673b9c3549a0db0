"""What runs inside a Python worker of Spark: digests of many groups' rows in, the root of each group out.

Spark gives rows in the order of their place: a group's number, and below it how a row's digest begins. Rows that have
one place are in any order; they are sorted here, a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenkeel.lake.digest import lanes_of, order_of, text_of_lanes
from evenkeel.lake.merkle_arrays import GrowingRoot, leaves_of
from evenkeel.spark.worker import MarkedError, demand_code
from evenkeel.transparency.merkle import EMPTY

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLACE, DIGEST = "place", "digest"
"""What comes in: a place (bigint), and a row's digest (32 bytes)."""
SLICE_BITS = 18
"""The low bits of a place, which say how the digest begins; those above are the group's number."""
ROOTED_DDL = "number bigint, rows bigint, digest string, root string"
"""What goes out: a group's number, and what `roots.Rooted` holds."""
CHUNK = 1 << 18
"""So many rows at least are sorted and hashed at a time: some 60 MB."""
_SCHEMA = pa.schema([("number", pa.int64()), ("rows", pa.int64()), ("digest", pa.string()), ("root", pa.string())])


def root_function(code: str, files: Sequence[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function that Spark sends to the workers; `code` and `files` are as in `spark.worker.Job`."""
    wanted = tuple(files)

    def root_partition(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        try:
            demand_code(code, wanted)
        except Exception as error:
            raise MarkedError(error, "roots of rows") from error
        yield from roots_of(batches)

    return root_partition


def roots_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by Spark with a partition's rows, in the order of their place; a group is in one partition as a whole."""
    group: _Group | None = None
    for places, unsorted in _chunks(batches):
        numbers = places >> SLICE_BITS
        digests = unsorted[order_of(numbers, unsorted)]
        begins = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()]
        leaves, ends = leaves_of(digests), [*begins[1:], len(digests)]
        done = []
        for begin, end, lanes in zip(begins, ends, lanes_of(digests, begins), strict=True):
            number = int(numbers[begin])
            if group is None or group.number != number:
                done += [] if group is None else [group.rooted()]
                group = _Group(number)
            group.add(leaves[begin:end], lanes)
        yield pa.RecordBatch.from_pylist(done, _SCHEMA)
    if group is not None:
        yield pa.RecordBatch.from_pylist([group.rooted()], _SCHEMA)


class _Group:
    """What is known of a group whose rows come some at a time."""

    def __init__(self, number: int) -> None:
        self.number, self._rows, self._lanes, self._root = number, 0, [0], GrowingRoot()

    def add(self, leaves: NDArray[np.uint8], lanes: Sequence[int]) -> None:
        self._lanes = [*map(sum, zip(self._lanes, lanes, strict=True))] if self._rows else [*lanes]
        self._rows += len(leaves)
        self._root.add(leaves)

    def rooted(self) -> dict[str, Any]:
        digest = text_of_lanes(self._rows, self._lanes)
        return {"number": self.number, "rows": self._rows, "digest": digest, "root": self._root.root().hex()}


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Places and digests of `CHUNK` rows and some; rows that have one place are never in two chunks."""
    held: list[tuple[NDArray[np.int64], NDArray[np.uint8]]] = []
    count, most = 0, CHUNK
    for batch in batches:
        held.append((batch.column(PLACE).to_numpy(), _bytes_of(batch.column(DIGEST))))
        count += batch.num_rows
        if count < most:
            continue
        places, digests = _joined(held)
        end = int(np.searchsorted(places, places[-1]))
        if end:
            yield places[:end], digests[:end]
        held = [(places[end:].copy(), digests[end:].copy())]
        count -= end
        most = max(CHUNK, 2 * count)
    if count:
        yield _joined(held)


def _joined(
    held: Sequence[tuple[NDArray[np.int64], NDArray[np.uint8]]],
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    places, digests = zip(*held, strict=True)
    return np.concatenate(places), np.concatenate(digests)


def _bytes_of(digests: pa.Array) -> NDArray[np.uint8]:
    """Rows × 32 bytes."""
    fixed = digests.cast(pa.binary(len(EMPTY)))
    return np.frombuffer(fixed.buffers()[1], np.uint8).reshape(-1, len(EMPTY))[fixed.offset :][: len(fixed)]
