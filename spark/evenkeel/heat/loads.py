"""Rows of `bundle_load` as arrays: a cycle's figures of each bundle, as decisions used them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenkeel.errors import LakeError
from evenkeel.heat.columns import CycleLoad
from evenkeel.heat.key_ranges import HIGHEST, NAMESPACE_BITS, WIDTH, in_order
from evenkeel.heat.scale import NOBODY, SEVERAL, Figures
from evenkeel.model.load import RATES

if TYPE_CHECKING:
    import pyarrow as pa

LOADS = "bundle_load"
_RATES = tuple(f"used_{rate}" for rate in RATES)
COLUMNS = ("namespace", "lower", "upper", "owner", "topics", "producers", "consumers", *_RATES)
"""The columns of `bundle_load` that the heat map is made of."""


class BrokerCodes:
    """Codes of broker ids, from 1, in the order of their first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known: dict[str, int] = {}

    def code(self, name: str | None) -> int:
        """Return the broker's code; 0 for None. Raises LakeError for more brokers than codes."""
        if name is None:
            return NOBODY
        if name not in self._known:
            self.names.append(name)
            self._known[name] = len(self.names)
            if len(self.names) >= SEVERAL:
                raise LakeError(f"more than {SEVERAL - 1:,} brokers own bundles of one cluster: heat counts no further")
        return self._known[name]


def loads_of(
    rows: pa.Table | None, count: int, brokers: BrokerCodes, owner_column: str = "owner"
) -> Iterator[CycleLoad | None]:
    """Yield the bundles of `count` attempts, in their order; None for one without rows.

    `rows` are rows of `Record.arrow_rows` with COLUMNS. Message and byte rates are those that decisions used, in and
    out together. The share of the broker is that of its bytes, by its bundles' sum, 0 if these are none.
    `owner_column`: `last_owner` for the last known owner.
    """
    if rows is None:
        yield from [None] * count
        return
    attempt = rows.column("attempt").to_numpy()
    namespaces = rows.column("namespace").combine_chunks().dictionary_encode()
    names = in_order(namespaces.dictionary.to_pylist())
    rank_of = {name: rank for rank, name in enumerate(names)}
    ranks = np.array([rank_of[name] for name in namespaces.dictionary.to_pylist()], np.int64)
    base = ranks[namespaces.indices.to_numpy()] << NAMESPACE_BITS if len(ranks) else np.zeros(0, np.int64)
    upper = rows.column("upper").to_numpy()
    lower, upper = base + rows.column("lower").to_numpy(), base + np.where(upper >= HIGHEST, WIDTH, upper)
    owners = rows.column(owner_column).combine_chunks().dictionary_encode()
    codes = np.array([brokers.code(name) for name in owners.dictionary.to_pylist()] + [NOBODY], np.uint16)
    owner = codes[owners.indices.fill_null(len(codes) - 1).to_numpy()]
    figures = _figures(rows)
    order = np.lexsort((lower, attempt))
    ends = np.searchsorted(attempt[order], np.arange(count + 1))
    for n in range(count):
        positions = order[ends[n] : ends[n + 1]]
        if len(positions) > 1:  # the first row of a duplicate bundle counts
            apart = np.r_[True, lower[positions][1:] >= np.maximum.accumulate(upper[positions])[:-1]]
            positions = positions[apart]
        if not len(positions):
            yield None
            continue
        shares = _broker_shares(figures[1, positions], owner[positions])
        yield CycleLoad(
            names, lower[positions], upper[positions], np.vstack((figures[:, positions], shares)), owner[positions]
        )


def _figures(rows: pa.Table) -> Figures:
    """Return message rate, byte rate, topics and sessions of each row; NaN if a part is unknown."""
    rate_in, rate_out, bytes_in, bytes_out = (_numbers(rows.column(name)) for name in _RATES)
    topics, producers, consumers = (_numbers(rows.column(name)) for name in ("topics", "producers", "consumers"))
    return np.vstack((rate_in + rate_out, bytes_in + bytes_out, topics, producers + consumers))


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _broker_shares(bytes_: npt.NDArray[np.float64], owner: npt.NDArray[np.uint16]) -> npt.NDArray[np.float64]:
    whole = np.bincount(owner, np.nan_to_num(bytes_))[owner]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(whole > 0, bytes_ / whole, np.where(np.isnan(bytes_), np.nan, 0.0))
    return np.where(owner == NOBODY, np.nan, share)
