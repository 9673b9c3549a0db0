"""A picture of the heat of a cluster over time, read from the heat tables: small enough for any range of a year.

It starts no JVM and does not read `bundle_load`. A picture of a whole cluster is made of its overview, one of a part of
it of that part's namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel.errors import BadInput, HeatNotBuilt, NoLake
from evenkeel.heat.blocks import COLUMNS, NAMESPACES, OVERVIEW
from evenkeel.heat.heat_picture import HeatPicture, groups_of, small_enough
from evenkeel.heat.key_ranges import HIGHEST, NAMESPACE_BITS, Flags, Names, in_order
from evenkeel.heat.recorded_rows import BOUNCE, KINDS
from evenkeel.heat.rows_shown import StoredPiece, places_of, rows_for, shown, side_by_side
from evenkeel.heat.scale import COARSEST, LAYERS, OWNER, SEVERAL, Layer, Metric, metric_named
from evenkeel.heat.tables import HeatState, HeatTables, among, mark_blocks
from evenkeel.lake.record.ranges import nearest
from evenkeel.lake.record.tables import is_table

MOST_ROWS = MOST_COLUMNS = 1_536
MOST_MARKS = 2_000
MOST_DAYS = COARSEST.days + 1
_MOST_CELLS = 8_000_000
"""Number of cells above which a part of a cluster is shown by the cluster's overview."""
_DAY = 86_400
_PIECE = (
    *("namespace", "metric", "piece", "first_column", "columns", "ranges", "boundaries", "names", "bundles"),
    *("cells", "shared", "block_start"),
)
Within = str | tuple[str, int, int]


def picture(
    lake: str | Path,
    cluster: str,
    start: datetime,
    end: datetime,
    metric: str,
    *,
    within: Within | None = None,
    most_rows: int = MOST_ROWS,
    most_columns: int = MOST_COLUMNS,
) -> HeatPicture:
    """Return the heat of a cluster from `start` to `end` (aware; a naive one is UTC), of one metric (see METRICS).

    The layer is the finest that still has the range and fits into `most_columns`; neighbouring columns of the coarsest
    are merged as needed. `within` restricts the picture to a part: a namespace with the range of hashes as bundles are
    named, or a tenant, a namespace, or the beginning of names (`acme/ord`, `ac`). A part is shown with all its bundles
    as far as they fit into `most_rows`; one of more than 8 million cells is that part of the overview. The JSON has at
    most 2,000,000 bytes: columns are merged until it does.

    Raises BadInput for an unknown cluster or metric, an end that is not after the start, more than 401 days, limits out
    of 1 to 1,536, a part that has no bundle, heat tables that were never built or that a newer version has written;
    NoLake if there is no lake; LakeError for tables that cannot be read.
    """
    wanted, limits = metric_named(metric), _range(start, end, most_rows, most_columns)
    tables = _opened(str(lake))
    places = tables.places()
    state = tables.state(cluster) if cluster in places else None
    if state is None:
        raise _unknown(tables, cluster, places)
    view = _PictureView(tables, cluster, state, wanted, limits, within)
    return small_enough(view.picture(most_rows, most_columns))


def _range(start: datetime, end: datetime, most_rows: int, most_columns: int) -> tuple[float, float]:
    for name, most in (("most_rows", most_rows), ("most_columns", most_columns)):
        if not 1 <= most <= MOST_ROWS:
            raise BadInput(f"{name} is {most}: allowed is 1 to {MOST_ROWS:,}")
    first, last = (at.replace(tzinfo=at.tzinfo or UTC) for at in (start, end))
    if last <= first:
        raise BadInput(f"the range ends at {last.isoformat()}, and that is not after its start {first.isoformat()}")
    if (last - first).total_seconds() > MOST_DAYS * _DAY:
        raise BadInput(
            f"{(last - first).days:,} days are asked for, and heat is kept for {COARSEST.days}: ask for "
            f"{MOST_DAYS} days at most"
        )
    return first.timestamp(), last.timestamp()


def _opened(lake: str) -> HeatTables:
    tables = HeatTables(lake)
    if tables.are_there:
        return tables
    if not is_table(lake, "cycles"):
        raise NoLake(f"there is no lake at {lake}: its `cycles` table is missing. Name the folder of the tables")
    advice = f"run `evenkeel heat --lake {lake}`, or unpause the lake's DAG `heat`"
    raise HeatNotBuilt(f"no heat was built in {lake} yet: {advice}")


def _unknown(tables: HeatTables, cluster: str, places: Mapping[str, Any]) -> BadInput:
    built = sorted(places)
    if not built:
        return HeatNotBuilt(f"no heat was built in {tables.root} yet: run `evenkeel heat --lake {tables.root}`")
    return HeatNotBuilt(f"no heat of cluster {cluster[:60]!r} was built.{nearest(cluster, built)}")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the picture: its place in the tables, and its begin."""

    layer: Layer
    block: int
    index: int
    start: int


class _PictureView:
    """One picture while it is made: its columns, their stored pieces, and the conversion to rows."""

    def __init__(
        self,
        tables: HeatTables,
        cluster: str,
        state: HeatState,
        metric: Metric,
        limits: tuple[float, float],
        within: Within | None,
    ) -> None:
        self._tables, self._cluster, self._state, self._metric = tables, cluster, state, metric
        self._within = within
        self._newest = state.at.timestamp()
        self._first, self._last = limits
        self._brokers: dict[str, int] = {}

    def picture(self, most_rows: int, most_columns: int) -> HeatPicture:
        layer = self._layer(most_columns)
        columns, brokers = self._columns(layer)
        grain, pieces = self._pieces(columns, brokers)
        names = in_order(name for piece in pieces for name in piece.names)
        pieces = [piece.on(names) for piece in pieces]
        pieces = self._clipped(pieces, names)
        if pieces:
            lower, upper = rows_for(pieces, most_rows, self._metric)
        else:
            lower = upper = np.zeros(0, np.int64)
        rows = shown(pieces, len(columns), lower, upper, self._metric)
        starts = np.array([column.start for column in columns], np.int64)
        ends = _ends(columns)
        groups = groups_of(len(columns), most_columns)
        if len(groups) < len(columns):
            rows, starts, ends = (
                rows.merged(groups, self._metric),
                starts[groups],
                ends[np.r_[groups[1:], len(ends)] - 1],
            )
        marks, left_out = self._marks(names, lower, upper, starts, ends)
        since = self._state.exact_since
        return HeatPicture(
            self._cluster, self._metric, layer.seconds, starts, ends, layer.complete_until(self._newest), names, rows,
            tuple(self._brokers), marks, left_out, None if since is None else int(since.timestamp()), grain,
        )  # fmt: skip

    def _layer(self, most_columns: int) -> Layer:
        """Return the finest layer that fits; only the part of the range that may have cycles counts."""
        first = max(self._first, COARSEST.oldest(self._newest))
        last = min(self._last, self._newest + 60)
        for layer in LAYERS:
            if first >= layer.oldest(self._newest) and self._most(layer, first, last) <= most_columns:
                return layer
        return COARSEST

    def _most(self, layer: Layer, first: float, last: float) -> int:
        """Return the most columns there may be: those of the layer, and those of finer ones at the right edge."""
        count, begin = 0, layer.column_of(first)
        for finer in reversed(LAYERS[: LAYERS.index(layer) + 1]):
            end = min(last, finer.complete_until(self._newest))
            count += max(0, ceil((end - begin) / finer.seconds))
            begin = max(begin, finer.complete_until(self._newest))
        return count

    def _columns(self, layer: Layer) -> tuple[list[_Column], dict[tuple[int, int], list[str]]]:
        """Return the columns from left to right, and the brokers of each block.

        The columns are those of the layer as far as they are complete, then those of finer ones.
        """
        columns: list[_Column] = []
        brokers: dict[tuple[int, int], list[str]] = {}
        first = float(layer.column_of(self._first))
        for finer in reversed(LAYERS[: LAYERS.index(layer) + 1]):
            until = min(self._last, finer.complete_until(self._newest))
            if first >= until:
                continue
            blocks = range(finer.block_of(first), int(until), finer.block_seconds)
            names = ["block_start", "starts", "brokers", "format"]
            where = among("metric", [COLUMNS])
            rows = self._tables.blocks(self._cluster, finer.seconds, OVERVIEW, [*blocks], names, where).to_pylist()
            for row in sorted(rows, key=lambda row: int(row["block_start"])):
                brokers[finer.seconds, row["block_start"]] = row["brokers"]
                columns += [
                    _Column(finer, row["block_start"], n, at)
                    for n, at in enumerate(row["starts"])
                    if first <= at < until
                ]
            first = max(first, until)
        return columns, brokers

    def _pieces(
        self, columns: Sequence[_Column], brokers: Mapping[tuple[int, int], list[str]]
    ) -> tuple[str, list[StoredPiece]]:
        """Return the grain that is read, and its pieces."""
        grain, where = OVERVIEW, among("metric", [self._metric.name, OWNER])
        names = self._namespaces(columns)
        if names is not None:
            if not names:
                raise BadInput(f"{self._part()} has no bundle in {self._cluster} in this range of time")
            ranges = self._ranges(columns, names)
            if ranges * len(columns) <= _MOST_CELLS:
                grain, where = NAMESPACES, where & among("namespace", names)
        pieces: list[StoredPiece] = []
        by_layer: dict[int, list[_Column]] = {}
        for column in columns:
            by_layer.setdefault(column.layer.seconds, []).append(column)
        for seconds, layer_columns in by_layer.items():
            starts = sorted({column.block for column in layer_columns})
            rows = self._tables.blocks(self._cluster, seconds, grain, starts, _PIECE, where)
            stored = self._stored(rows.to_pylist(), layer_columns, brokers, columns.index(layer_columns[0]))
            pieces += side_by_side(stored) if grain == NAMESPACES else stored
        return grain, sorted(pieces, key=lambda piece: piece.first)

    def _stored(
        self,
        rows: Iterable[Mapping[str, Any]],
        columns: Sequence[_Column],
        brokers: Mapping[tuple[int, int], list[str]],
        offset: int,
    ) -> list[StoredPiece]:
        """Return the pieces in rows of one layer, cut to the picture; `offset`: the first column's place in it."""
        by_block: dict[int, list[int]] = {}
        for n, column in enumerate(columns):
            by_block.setdefault(column.block, []).append(n)
        both: dict[tuple[int, str, int], dict[str, Mapping[str, Any]]] = {}
        for row in rows:
            both.setdefault((row["block_start"], row["namespace"], row["piece"]), {})[row["metric"]] = row
        pieces = []
        seconds = columns[0].layer.seconds
        tables = {block: self._codes(brokers[seconds, block]) for block in by_block}
        for (block, namespace, _), metrics in both.items():
            if block not in by_block:
                continue
            block_rows = by_block[block]
            cells, owner = metrics[self._metric.name], metrics[OWNER]
            ranges, first, count = cells["ranges"], cells["first_column"], cells["columns"]
            begin, end = columns[block_rows[0]].index, columns[block_rows[-1]].index + 1
            cut = slice(max(0, begin - first), min(count, end - first))
            if cut.start >= cut.stop:
                continue
            bounds = np.frombuffer(cells["boundaries"], np.int64)
            names = tuple(cells["names"]) if cells["names"] else (namespace,)
            counted = np.frombuffer(cells["bundles"], np.int32) if cells["bundles"] else np.ones(ranges, np.int32)
            codes = np.frombuffer(cells["cells"], np.uint8).reshape(count, ranges)[cut]
            owners = np.frombuffer(owner["cells"], np.uint16).reshape(count, ranges)[cut]
            pieces.append(
                StoredPiece(
                    offset + block_rows[0] + first + cut.start - begin,
                    names,
                    bounds[:ranges],
                    bounds[ranges:],
                    counted.astype(np.int64),
                    codes,
                    tables[block][owners],
                    _flags(cells["shared"], count, ranges)[cut],
                )
            )
        return pieces

    def _codes(self, brokers: Iterable[str]) -> npt.NDArray[np.uint16]:
        """Return a block's owner codes as those of the picture."""
        table = np.zeros(1 << 16, np.uint16)
        table[SEVERAL] = SEVERAL
        for code, name in enumerate(brokers, 1):
            table[code] = self._brokers.setdefault(name, len(self._brokers) + 1)
        return table

    def _part(self) -> str:
        return repr(self._within if isinstance(self._within, str) else (self._within or ("",))[0])[:80]

    def _namespaces(self, columns: Sequence[_Column]) -> list[str] | None:
        """Return the namespaces of the part, as the first and the last block know them; None for the whole cluster."""
        if self._within is None:
            return None
        if not isinstance(self._within, str):
            return [self._within[0]] if self._ranges(columns, [self._within[0]]) else []
        known: set[str] = set()
        for seconds, block in _newest_blocks(columns):
            rows = self._tables.blocks(
                self._cluster, seconds, NAMESPACES, [block], ["namespace"], among("metric", [OWNER])
            )
            known.update(rows.column("namespace").to_pylist())
        return _named(self._within, in_order(known))

    def _ranges(self, columns: Sequence[_Column], names: Sequence[str]) -> int:
        """Return the approximate number of ranges of these namespaces."""
        most = 0
        for seconds, block in _newest_blocks(columns):
            where = among("metric", [OWNER]) & among("namespace", names)
            rows = self._tables.blocks(
                self._cluster, seconds, NAMESPACES, [block], ["namespace", "ranges"], where
            ).to_pylist()
            ranges: dict[str, int] = {}
            for row in rows:
                ranges[row["namespace"]] = max(ranges.get(row["namespace"], 0), row["ranges"])
            most = max(most, sum(ranges.values()))
        return most

    def _clipped(self, pieces: list[StoredPiece], names: Names) -> list[StoredPiece]:
        """Return the pieces inside the part."""
        if self._within is None or not names:
            return pieces
        if isinstance(self._within, str):
            own_names = _named(self._within, names)
            if not own_names:
                return []
            first = places_of(names.index(own_names[0]), 0, HIGHEST)[0]
            last = places_of(names.index(own_names[-1]), 0, HIGHEST)[1]
        else:
            namespace, low, high = self._within
            if not 0 <= low < high <= HIGHEST:
                raise BadInput(f"the range {low} to {high} is not one of a bundle: 0 <= lower < upper <= {HIGHEST}")
            if namespace not in names:
                return []
            first, last = places_of(names.index(namespace), low, high)
        return [part for piece in pieces if len((part := piece.inside(first, last)).lower)]

    def _marks(
        self,
        names: Names,
        lower: npt.NDArray[np.int64],
        upper: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> tuple[tuple[tuple[int, str, int, str], ...], dict[str, int]]:
        import pyarrow as pa

        if not len(starts) or not len(lower):
            return (), {}
        first, last = int(starts[0]), int(min(self._last, float(ends[-1])))
        blocks = mark_blocks(*(datetime.fromtimestamp(at, UTC) for at in (first, last)))
        marks = self._tables.marks(self._cluster, [*blocks])
        at = marks.column("at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1_000_000
        known = {name: rank for rank, name in enumerate(names)}
        dictionary = marks.column("namespace").combine_chunks().dictionary_encode()
        ranks = np.array([known.get(name, -1) for name in dictionary.dictionary.to_pylist()] or [-1], np.int64)
        rank = ranks[dictionary.indices.to_numpy()] if len(dictionary) else np.zeros(0, np.int64)
        place = (rank << NAMESPACE_BITS) + marks.column("lower").to_numpy()
        row = np.searchsorted(lower, place, "right") - 1
        inside = (rank >= 0) & (row >= 0) & (place < upper[np.maximum(row, 0)]) & (at >= first) & (at < last)
        column = np.searchsorted(starts, at, "right") - 1
        kinds = marks.column("kind").combine_chunks().dictionary_encode()
        order_of = {name: n for n, name in enumerate(KINDS)}
        codes = np.array([order_of.get(name, -1) for name in kinds.dictionary.to_pylist()] or [-1], np.int64)
        kind = codes[kinds.indices.to_numpy()] if len(kinds) else np.zeros(0, np.int64)
        order = np.lexsort((place, at))
        order = order[inside[order] & (kind[order] >= 0)]
        chosen, left_out = _few(kind[order], (column * len(lower) + row)[order])
        taken = order[chosen]
        texts = marks.column("text").take(pa.array(taken)).to_pylist()
        parts = zip(at[taken].tolist(), kind[taken].tolist(), row[taken].tolist(), texts, strict=True)
        return tuple(
            (moment, KINDS[code], picture_row, text[:300]) for moment, code, picture_row, text in parts
        ), left_out


def _few(kind: npt.NDArray[np.int64], cell: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.intp], dict[str, int]]:
    """Return the marks (in order of time) that are shown, and the number of each kind that are not.

    All bounces are shown, up to `MOST_MARKS`. Of the other kinds one in a cell is, and of each at even distances as
    many as its share of `MOST_MARKS` allows.
    """
    bounce = KINDS.index(BOUNCE)
    taken: list[npt.NDArray[np.intp]] = []
    left_out, left = dict[str, int](), MOST_MARKS
    once = {code: np.flatnonzero(kind == code) for code in range(len(KINDS))}
    for code, places in once.items():
        if code != bounce or len(places) > MOST_MARKS:
            _, firsts = np.unique(cell[places], return_index=True)
            once[code] = places[np.sort(firsts)]
    for position, code in enumerate(sorted(once, key=lambda code: (code == bounce, len(once[code])))):
        of_kind = once[code]
        share = MOST_MARKS if code == bounce else left // (len(KINDS) - 1 - position)
        if len(of_kind) > share:
            of_kind = of_kind[np.linspace(0, len(of_kind) - 1, share).astype(np.intp)] if share else of_kind[:0]
        left -= len(of_kind)
        taken.append(of_kind)
        missing = int((kind == code).sum()) - len(of_kind)
        if missing:
            left_out[KINDS[code]] = missing
    return np.sort(np.concatenate(taken)), left_out


def _named(part: str, names: Names) -> list[str]:
    """Return the namespace of that name, else those of that tenant, else those whose names begin so: neighbours."""
    exact = [name for name in names if name == part] or [name for name in names if name.startswith(f"{part}/")]
    return exact or [name for name in names if part and name.startswith(part)]


def _newest_blocks(columns: Sequence[_Column]) -> list[tuple[int, int]]:
    """Return layer and start of the first and the last block that hold columns."""
    ends = [columns[0], columns[-1]] if columns else []
    return list(dict.fromkeys((column.layer.seconds, column.block) for column in ends))


def _flags(bits: bytes | None, count: int, ranges: int) -> Flags:
    if bits is None:
        return np.zeros((count, ranges), np.bool_)
    packed = np.frombuffer(bits, np.uint8).reshape(count, -1)
    return np.unpackbits(packed, axis=1, count=ranges).astype(np.bool_)


def _ends(columns: Sequence[_Column]) -> npt.NDArray[np.int64]:
    """Return the end of each column as drawn.

    It is the next one's begin, but no more than one and a half of the usual distance of its layer's columns in the
    picture, nor less than its own length.
    """
    starts = np.array([column.start for column in columns], np.int64)
    lengths = np.array([column.layer.seconds for column in columns], np.int64)
    if not len(starts):
        return starts
    usual = lengths.copy()
    for seconds in np.unique(lengths):
        is_of_layer = lengths == seconds
        if int(is_of_layer.sum()) > 1:
            usual[is_of_layer] = max(int(seconds), int(np.median(np.diff(starts[is_of_layer])) * 3 // 2))
    following = np.r_[starts[1:], starts[-1] + max(lengths[-1], usual[-1] * 2 // 3)]
    ends: npt.NDArray[np.int64] = np.minimum(following, starts + usual)
    return ends
