"""A picture of heat: its columns, rows and cells, and its JSON for a page."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel.heat.key_ranges import HIGHEST, NAMESPACE_BITS, Flags, Names, Owners
from evenkeel.heat.rows_shown import Shown
from evenkeel.heat.scale import FIRST_STEP, LAST_STEP, Codes, Metric

MOST_BYTES = 2_000_000
"""The most bytes of a picture's JSON."""
_QUICK = 1


@dataclass(frozen=True, slots=True)
class HeatPicture:
    """A picture's columns, rows and cells (see `to_json`). `codes`, `owner` and `shared` are [columns, rows]."""

    cluster: str
    metric: Metric
    layer_seconds: int
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    complete_until: int
    names: Names
    rows: Shown
    brokers: Names
    marks: tuple[tuple[int, str, int, str], ...]
    marks_left_out: Mapping[str, int]
    exact_since: int | None
    grain: str
    _made: list[bytes] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def codes(self) -> Codes:
        """The cells' codes on the metric's scale."""
        return self.rows.codes

    @property
    def owner(self) -> Owners:
        """The cells' owners: 0 unknown, 65535 several, else the position in `brokers` from 1."""
        return self.rows.owner

    @property
    def shared(self) -> Flags:
        """True for cells whose value was shared by width."""
        return self.rows.shared

    def to_json(self) -> bytes:
        """Return the picture as JSON, in columns; matrices are row by row, zlib, base64.

        * `cluster`, `metric`, `unit`; `layer_seconds`: length of the layer's columns.
        * `starts`, `ends`: from when to when (seconds since 1970) each column is to be drawn, in order. Between two
          there may be a gap without data. At the right edge columns are those of finer layers.
        * `complete_until`: columns behind this moment may still change.
        * `scale`: of a code v >= 2 the value is `lowest * (highest / lowest) ** ((v - 2) / 253)`, in `unit`; 1 is 0,
          known to be zero; 0 is unknown. `steps` is 254; a value is right within the factor `(highest / lowest) **
          (1 / 506)`, twice that if values were added up or shared.
        * `namespaces`; of each row `row_namespace` and `row_last_namespace` (positions in them: a row of an overview
          may cover several), `row_lower`, `row_upper` (first hash in the first, hash after the range in the last one,
          as bundles are named: 4294967295 closes the last) and `row_bundles`: bundles in it, 1 if the row is a
          bundle.
        * `values`: a byte per cell, the code. For several bundles it is the sum, for broker_share the largest.
        * `shared`: packed bits, "" if none is set: a bundle's value was shared by width, as before its split.
        * `brokers`; `owners`: 16 bits, little-endian: 0 unknown, 65535 several, else position in `brokers` from 1.
        * `texts`; `marks`: [seconds since 1970, kind, row, position in `texts`], in order of time; `marks_left_out`:
          kind to how many more there were. All bounces are there, up to 2,000. Marks of another kind in one cell are
          one, and each of these kinds has its share of 2,000.
        * `exact_since`: first moment of the exact rows kept at the last build, or null.
        * `grain`: `overview`, or `namespaces` if all bundles of the part were read.
        """
        if not self._made:
            self._made.append(self._json())
        return self._made[0]

    def _json(self) -> bytes:
        shown_ = self.rows
        texts = list(dict.fromkeys(mark[3] for mark in self.marks))
        place = {text: n for n, text in enumerate(texts)}
        body = {
            "cluster": self.cluster,
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "layer_seconds": self.layer_seconds,
            "starts": self.starts.tolist(),
            "ends": self.ends.tolist(),
            "complete_until": self.complete_until,
            "scale": {
                "lowest": self.metric.lowest,
                "highest": self.metric.highest,
                "steps": LAST_STEP - FIRST_STEP + 1,
            },
            **self._row_columns(),
            "values": _packed(np.ascontiguousarray(shown_.codes.T)),
            "shared": _packed(np.packbits(shown_.shared.T)) if shown_.shared.any() else "",
            "brokers": list(self.brokers),
            "owners": _packed(np.ascontiguousarray(shown_.owner.T).astype("<u2")),
            "texts": texts,
            "marks": [[at, kind, row, place[text]] for at, kind, row, text in self.marks],
            "marks_left_out": dict(self.marks_left_out),
            "exact_since": self.exact_since,
            "grain": self.grain,
        }
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _row_columns(self) -> dict[str, Any]:
        first = self.rows.lower >> NAMESPACE_BITS
        last = (self.rows.upper - 1) >> NAMESPACE_BITS
        seen = np.unique(np.concatenate((first, last)))
        upper = np.minimum(self.rows.upper - (last << NAMESPACE_BITS), HIGHEST)
        return {
            "namespaces": [self.names[rank] for rank in seen.tolist()],
            "row_namespace": np.searchsorted(seen, first).tolist(),
            "row_last_namespace": np.searchsorted(seen, last).tolist(),
            "row_lower": (self.rows.lower - (first << NAMESPACE_BITS)).tolist(),
            "row_upper": upper.tolist(),
            "row_bundles": self.rows.bundles.tolist(),
        }


def _packed(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), _QUICK)).decode("ascii")


def groups_of(count: int, most: int) -> npt.NDArray[np.intp]:
    """Return the first of the columns that are merged, so that at most so many are left."""
    each = -(-count // most) if count else 1
    return np.arange(0, count, each, dtype=np.intp)


def small_enough(large: HeatPicture) -> HeatPicture:
    """Return the picture, with columns merged until its JSON is small enough."""
    while len(large.to_json()) > MOST_BYTES and len(large.starts) > 1:
        groups = groups_of(len(large.starts), -(-len(large.starts) // 2))
        ends = large.ends[np.r_[groups[1:], len(large.ends)] - 1]
        rows = large.rows.merged(groups, large.metric)
        large = replace(large, rows=rows, starts=large.starts[groups], ends=ends)
    return large
