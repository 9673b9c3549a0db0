"""The sums over topics of `topic_sums.sums_in_thousandths`, made in this process and equal to the bit.

If they cannot be made in this process, Spark makes them. When the record is verified, one file contains the topics of
hundreds of cycles. It is read and converted to whole numbers once (`whole_numbers`), and each cycle's part is added up
quickly (`sums_of`). Rare cases are left to Spark: a topic that several brokers report, a figure beyond whole
thousandths, boundaries that are not in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenkeel.aggregate.bundles_in_force import bundles_of
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.model.load import RATES
from evenkeel.spark.sql import MOST_THOUSANDTHS

COLUMNS = (
    *("cycle_at", "namespace", "hash", "seen_on", "observation", "domain"),
    *("producers", "consumers", "msg_backlog", *RATES),
)
"""The columns of topic_stats that are needed."""
MOST_TOPICS = 2**15
"""So many topics of a cycle at most: with figures below `MOST_THOUSANDTHS` no sum is beyond 2^53."""

Edges = tuple[int, ...]
_Whole = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
_CLIENTS = ("producers", "consumers", "msg_backlog")
_ADDED = (*_CLIENTS, *RATES)
_HASH_BITS = 32
# Counts of a bundle's topics, each a bit of a topic's flags; the following bits mark the present values of `_ADDED`.
_COUNTED = ("loaded", "non_persistent", "without_figure", "without_backlog")
_SHIFTS = np.arange(len(_COUNTED) + len(_ADDED), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """Topics as whole numbers, a row each.

    `place` is the number of its namespace in `namespaces`, shifted by 32 bits, and its hash; `added` are clients and
    thousandths of figures (0 for NULL); `flags` are the counts that it adds to. `at`: microseconds since 1970;
    `is_odd`: sums with it are left to Spark.
    """

    namespaces: tuple[str, ...]
    at: _Whole
    place: _Whole
    added: _Whole
    flags: _Whole
    is_odd: _Flags

    def __len__(self) -> int:
        return len(self.place)

    def part(self, begin: int, count: int) -> WholeNumbers:
        """Return some of the rows, without a copy."""
        rows = slice(begin, begin + count)
        return WholeNumbers(
            self.namespaces, self.at[rows], self.place[rows], self.added[rows], self.flags[rows], self.is_odd[rows]
        )


def whole_numbers(topics: pa.Table) -> WholeNumbers | None:
    """Return the rows of topic_stats, with `COLUMNS`, as whole numbers; None if a column is missing."""
    if not {*COLUMNS} <= {*topics.column_names}:
        return None
    together = topics.unify_dictionaries()
    columns = {name: together.column(name).combine_chunks() for name in COLUMNS}
    namespaces, observation, domain = map(_coded, (columns["namespace"], columns["observation"], columns["domain"]))
    needed = (columns["cycle_at"], columns["hash"], columns["namespace"], columns["observation"], columns["domain"])
    hashes = _integers(columns["hash"])
    is_odd = ~np.logical_and.reduce([_is_there(column) for column in needed])
    is_odd |= (hashes < 0) | (hashes > HIGHEST_HASH) | (_integers(columns["seen_on"]) > 1)
    is_loaded = _is_text(observation, "loaded")
    added, has = [], []
    for name in _CLIENTS:
        whole = _integers(columns[name])
        is_odd |= (whole <= -MOST_THOUSANDTHS) | (whole >= MOST_THOUSANDTHS)
        added.append(whole)
        has.append(_is_there(columns[name]))
    for name in RATES:
        whole, is_beyond = _thousandths(columns[name])
        is_odd |= is_beyond
        added.append(whole)
        has.append(_is_there(columns[name]))
    counted = (
        is_loaded,
        is_loaded & _is_text(domain, "non-persistent"),
        is_loaded & ~np.logical_and.reduce(has[len(_CLIENTS) :]),
        is_loaded & ~has[_CLIENTS.index("msg_backlog")],
        *has,
    )
    flags = np.zeros(len(hashes), np.int64)
    for bit, flag in enumerate(counted):
        flags |= flag.astype(np.int64) << bit
    at = _integers(columns["cycle_at"].cast(pa.timestamp("us", tz="UTC")))
    place = (_integers(namespaces.indices) << _HASH_BITS) | hashes
    return WholeNumbers(tuple(namespaces.dictionary.to_pylist()), at, place, np.column_stack(added), flags, is_odd)


def _thousandths(column: pa.Array) -> tuple[_Whole, _Flags]:
    """Return `spark.sql.thousandths`, 0 where it gives NULL, and a mask of the present figures for which it does."""
    figures = column.fill_null(0.0).to_numpy()
    with np.errstate(over="ignore"):
        whole = np.rint(figures * 1000.0)
    is_next_to = (np.abs(whole) < MOST_THOUSANDTHS) & (whole / 1000.0 == figures)
    return np.where(is_next_to, whole, 0.0).astype(np.int64), ~is_next_to


def _integers(column: pa.Array) -> _Whole:
    """The numbers; 0 for NULL."""
    integers: _Whole = column.cast(pa.int64()).fill_null(0).to_numpy()
    return integers


def _is_there(column: pa.Array) -> _Flags:
    flags: _Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def _coded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _is_text(coded: pa.DictionaryArray, text: str) -> _Flags:
    """Return a mask of the column's values that equal the text."""
    known = np.array([value == text for value in (*coded.dictionary.to_pylist(), None)], np.bool_)
    flags: _Flags = known[coded.indices.fill_null(len(coded.dictionary)).to_numpy()]
    return flags


def sums_of(
    topics: Sequence[WholeNumbers], at: int, spaces: Sequence[tuple[str, Edges]]
) -> list[dict[str, Any]] | None:
    """The rows of `topic_sums.bundle_sums` for the topics of one cycle, without its stamp; None where Spark is asked.

    `at` is the moment of the cycle in microseconds since 1970; `spaces` are its namespaces with the boundaries of their
    bundles as hashes.
    """
    if sum(map(len, topics)) > MOST_TOPICS:
        return None
    sums: dict[str, list[int]] = {}
    for part in topics:
        spans = _spans(part.namespaces, tuple(spaces))
        if spans is None or part.is_odd.any() or (part.at != at).any():
            return None
        for bundle, numbers in _added_up(part, spans):
            before = sums.get(bundle)
            sums[bundle] = numbers if before is None else [*map(add, before, numbers)]
    return [_row(bundle, numbers) for bundle, numbers in sums.items()]


def _added_up(topics: WholeNumbers, spans: _Spans) -> Iterator[tuple[str, list[int]]]:
    """Return for each bundle with topics their number, the sums and the counts."""
    if not len(spans.bundles):
        return
    bundle = np.searchsorted(spans.lower, topics.place, side="right") - 1
    order = np.argsort(bundle, kind="stable")
    order = order[(bundle[order] >= 0) & (topics.place[order] <= spans.last[bundle[order]])]
    if not len(order):
        return
    bundle = bundle[order]
    begins = np.flatnonzero(np.diff(bundle, prepend=-1))
    ones = np.ones((len(order), 1), np.int64)
    counted = (topics.flags[order, np.newaxis] >> _SHIFTS) & 1
    sums = np.add.reduceat(np.hstack((ones, topics.added[order], counted)), begins)
    yield from zip((spans.bundles[number] for number in bundle[begins].tolist()), sums.tolist(), strict=True)


def _row(bundle: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Return the row of a bundle. A sum over no value is NULL, and so is the backlog if a loaded topic has none."""
    listed, totals, counts = numbers[0], numbers[1 : 1 + len(_ADDED)], numbers[1 + len(_ADDED) :]
    loaded, non_persistent, without_figure, without_backlog, *present = counts
    producers, consumers, backlog, *figures = (
        total if count else None for total, count in zip(totals, present, strict=True)
    )
    return {
        "bundle": bundle,
        "topics": loaded,
        "listed_topics": listed,
        "consumers": consumers,
        "producers": producers,
        "msg_backlog": None if without_backlog else backlog,
        # The double next to a whole number of thousandths, as `spark.sql.of_thousandths` has it.
        **{name: None if total is None else total / 1000 for name, total in zip(RATES, figures, strict=True)},
        "has_non_persistent": non_persistent > 0,
        "all_known": not without_figure,
    }


@dataclass(frozen=True, slots=True)
class _Spans:
    """Bundles in the order of their namespaces' numbers and their hashes: the first and the last place of each."""

    bundles: tuple[str, ...]
    lower: _Whole
    last: _Whole


# Boundaries change when a bundle is split, and hundreds of cycles have the same.
@lru_cache(maxsize=64)
def _spans(numbered: tuple[str, ...], spaces: tuple[tuple[str, Edges], ...]) -> _Spans | None:
    """Return None if a namespace is named twice, or its boundaries are not in order: a topic may be in two bundles."""
    if len({*numbered}) < len(numbered) or len({name for name, _ in spaces}) < len(spaces):
        return None
    spans = []
    edges_of = dict(spaces)
    for number, name in enumerate(numbered):
        edges = edges_of.get(name, ())
        if any(lower >= upper for lower, upper in pairwise(edges)):
            return None
        for bundle in bundles_of(name, edges):
            last = bundle.upper if bundle.upper == HIGHEST_HASH else bundle.upper - 1
            spans.append((bundle.name, number << _HASH_BITS | bundle.lower, number << _HASH_BITS | last))
    columns = [*zip(*spans, strict=True)] or [(), (), ()]
    return _Spans(columns[0], np.array(columns[1], np.int64), np.array(columns[2], np.int64))
