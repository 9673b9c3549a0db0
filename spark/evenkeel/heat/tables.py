"""The heat tables in a lake: read and written without a JVM, in a folder or in a store that speaks S3.

A commit replaces whole blocks: readers see either the old rows or the new ones. Two writers of one block collide, and
the second one gets `HeatConflict` before any of its rows is visible; writers of different blocks do not meet. Only
`evenkeel.heat` writes these tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from evenkeel.errors import BadInput
from evenkeel.heat.blocks import COLUMNS, FORMAT, OVERVIEW, Block
from evenkeel.heat.key_ranges import Names, Places
from evenkeel.heat.scale import OWNER, Layer
from evenkeel.lake.record.tables import FileFilter, all_of, damaged, dataset_of
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import HEAT_TABLES
from evenkeel.lake.store import Lake, arrow_schema
from evenkeel.lake.table_files import delta_table, demand_no_links, is_delta_table, storage_options

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

BLOCKS, MARKS = "heat_blocks", "heat_marks"
STATE = "state"
MARK_BLOCK_SECONDS = 864_000
"""Seconds of marks that are written at once: ten days."""
_ROW_GROUP_BYTES = 1 << 20
_KEPT_HOURS = 2
"""Hours for which files of earlier versions stay, for readers that began before a block was replaced."""
_VACUUM_EVERY = 48
_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "cluster",
    "delta.checkpointInterval": "24",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": f"interval {_KEPT_HOURS} hours",
}


def among(column: str, values: Sequence[Any]) -> Any:
    """Return a condition for rows of the heat tables with one of these values.

    It lacks the cast that `lake/record/tables.py` needs for texts of other writers: so files without a match are not
    read.
    """
    import pyarrow.compute as pc

    return pc.field(column).isin([*values])


class HeatConflict(Exception):
    """Another writer replaced the same blocks first; nothing was written."""


@dataclass(frozen=True, slots=True)
class HeatState:
    """Progress in a cluster's record: `sequence` in its chain, its newest cycle, and the first moment of kept rows.

    These are rows of `bundle_load` at that time (None: there were none).
    """

    sequence: int
    at: datetime
    exact_since: datetime | None


def mark_block(at: datetime) -> int:
    """Return the begin (seconds since 1970) of the block of marks that holds a moment."""
    return int(at.timestamp() // MARK_BLOCK_SECONDS) * MARK_BLOCK_SECONDS


def mark_blocks(first: datetime, last: datetime) -> range:
    """Return the begins of the blocks of marks from one moment to another."""
    return range(mark_block(first), mark_block(last) + 1, MARK_BLOCK_SECONDS)


class HeatTables:
    """Both heat tables of a lake, as they were when they were opened, or at this object's last write."""

    def __init__(self, root: str, *, make: bool = False) -> None:
        """Open them; with `make` missing ones are created. Raises LakeError if they cannot be read."""
        self.root, self._lake = root, Lake(root)
        self._opened: dict[str, DeltaTable | None] = {name: self._open(name, make) for name in (BLOCKS, MARKS)}
        self._began = {name: -1 if opened is None else opened.version() for name, opened in self._opened.items()}

    def _open(self, name: str, make: bool) -> DeltaTable | None:
        from deltalake.exceptions import DeltaError

        path = self._lake.path(name)
        try:
            if is_delta_table(path):
                return delta_table(path)
            if not make:
                return None
            try:
                return _created(HEAT_TABLES[name], path)
            except DeltaError:  # another builder came first
                return delta_table(path)
        except (DeltaError, OSError, ValueError) as error:
            raise damaged(self.root, name, error) from error

    @property
    def are_there(self) -> bool:
        """Return True if anything was ever built."""
        return self._opened[BLOCKS] is not None

    def places(self) -> dict[str, list[tuple[int, str, int]]]:
        """Return cluster -> layer, grain and start of each of its blocks, from the log alone."""
        clusters: dict[str, list[tuple[int, str, int]]] = {}
        for cluster, layer, grain, start in self._partitions(BLOCKS):
            clusters.setdefault(str(cluster), []).append((int(layer), str(grain), int(start)))
        return clusters

    def _partitions(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of the partition columns of each file of a table."""
        import pyarrow as pa

        opened = self._opened[name]
        actions = None if opened is None else pa.table(opened.get_add_actions(flatten=True))
        if actions is not None and actions.num_rows:
            names = (f"partition.{column}" for column in HEAT_TABLES[name].partition)
            yield from zip(*(actions.column(column).to_pylist() for column in names), strict=True)

    def state(self, cluster: str) -> HeatState | None:
        """Return the progress in the cluster's record; None before the first build."""
        columns = ["through_sequence", "through_at", "exact_since", "format"]
        rows = self.blocks(cluster, 0, STATE, [0], columns).to_pylist()
        if not rows:
            return None
        row = rows[0]
        return HeatState(int(row["through_sequence"]), row["through_at"], row["exact_since"])

    def heads(self, cluster: str, layer: Layer, starts: Sequence[int]) -> dict[int, dict[int, str]]:
        """Return start of a block -> start of a column -> the digest of its source."""
        columns = ["block_start", "starts", "digests", "format"]
        rows = self.blocks(cluster, layer.seconds, OVERVIEW, starts, columns, among("metric", [COLUMNS])).to_pylist()
        return {row["block_start"]: dict(zip(row["starts"], row["digests"], strict=True)) for row in rows}

    def block(self, cluster: str, layer: Layer, start: int) -> Block:
        """Return a block with all it holds; an empty one if it was never built."""
        return Block.from_rows(layer, start, self.blocks(cluster, layer.seconds, None, [start]).to_pylist())

    def newest_overview(self, cluster: str, layer: Layer, start: int) -> tuple[Names, Places] | None:
        """Return names and begins of the ranges of the last overview in a block; None if it has none."""
        columns = ["piece", "ranges", "boundaries", "names", "format"]
        where = among("metric", [OWNER])
        rows = self.blocks(cluster, layer.seconds, OVERVIEW, [start], columns, where).to_pylist()
        if not rows:
            return None
        last = max(rows, key=lambda row: int(row["piece"]))
        return tuple(last["names"]), np.frombuffer(last["boundaries"], np.int64)[: last["ranges"]]

    def blocks(
        self,
        cluster: str,
        layer_seconds: int,
        grain: str | None,
        starts: Sequence[int],
        columns: Sequence[str] | None = None,
        where: Any = None,
    ) -> pa.Table:
        """Return rows of `heat_blocks`: of blocks of a layer, of one grain or both; `columns` hold `format`, if named.

        Raises BadInput for rows that a newer version of Evenkeel has written.
        """
        chosen: list[FileFilter] = [("cluster", "in", [cluster]), ("layer_seconds", "=", layer_seconds)]
        chosen += [] if grain is None else [("grain", "=", grain)]
        chosen.append(("block_start", "in", [*starts]))
        conditions = [among("layer_seconds", [layer_seconds]), among("block_start", [*starts])]
        conditions += [] if where is None else [where]
        rows = self._read(BLOCKS, chosen, columns, all_of(*conditions)) if starts else self._none(BLOCKS)
        formats = rows.column("format").to_pylist() if "format" in rows.column_names else []
        newest = max(formats, default=FORMAT)
        if newest > FORMAT:
            raise BadInput(
                f"the heat tables of {self.root} were written by a newer version of Evenkeel (format {newest}, "
                f"this one reads {FORMAT}): use that version"
            )
        return rows

    def mark_places(self, cluster: str) -> list[int]:
        """Return the blocks of ten days that have marks."""
        return sorted({int(start) for owner_cluster, start in self._partitions(MARKS) if owner_cluster == cluster})

    def marks(self, cluster: str, starts: Sequence[int], where: Any = None) -> pa.Table:
        """Return rows of `heat_marks` of these blocks of ten days, in any order."""
        if not starts:
            return self._none(MARKS)
        chosen: list[FileFilter] = [("cluster", "in", [cluster]), ("block_start", "in", [*starts])]
        chosen_blocks = among("block_start", [*starts])
        return self._read(MARKS, chosen, None, chosen_blocks if where is None else chosen_blocks & where)

    def _read(self, name: str, files: Sequence[FileFilter], columns: Sequence[str] | None, where: Any) -> pa.Table:
        opened = self._opened[name]
        if opened is None:
            return self._none(name)
        try:
            # Files are few, and chosen by their partitions already: cluster is not a column in them.
            dataset = dataset_of(opened, self.root, name, files)
            return dataset.to_table(columns=None if columns is None else [*columns], filter=where)
        except (OSError, ValueError, KeyError) as error:
            raise damaged(self.root, name, error) from error

    def _none(self, name: str) -> pa.Table:
        return arrow_schema(HEAT_TABLES[name].columns).empty_table()

    def replace(self, cluster: str, blocks: Iterable[Block], state: HeatState | None) -> None:
        """Replace blocks, and the state with them, in one commit; raises HeatConflict if another writer came first."""
        rows: list[dict[str, Any]] = []
        places = []
        for block in blocks:
            places.append(f"(layer_seconds = {block.layer.seconds} AND block_start = {block.start})")
            rows += block.rows()
        if state is not None:
            places.append(f"(layer_seconds = 0 AND grain = {_literal(STATE)})")
            place = {"layer_seconds": 0, "grain": STATE, "block_start": 0, "namespace": "", "metric": STATE, "piece": 0}
            known = {"through_sequence": state.sequence, "through_at": state.at, "exact_since": state.exact_since}
            rows.append({**place, **known, "format": FORMAT})
        if places:
            self._put(BLOCKS, cluster, rows, " OR ".join(places))

    def replace_marks(self, cluster: str, marks: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        """Replace the marks of whole blocks of ten days."""
        rows = [{**row, "block_start": start} for start, block_marks in marks.items() for row in block_marks]
        if marks:
            self._put(MARKS, cluster, rows, f"block_start IN ({', '.join(map(str, marks))})")

    def forget(self, cluster: str, name: str, where: str) -> None:
        """Drop the blocks of a cluster that meet a condition on their partitions."""
        opened = self._opened[name]
        if opened is not None:
            self._committed(name, lambda: opened.delete(f"cluster = {_literal(cluster)} AND ({where})"))

    def _put(self, name: str, cluster: str, rows: Sequence[Mapping[str, Any]], where: str) -> None:
        from deltalake import ColumnProperties, WriterProperties, write_deltalake

        opened = self._opened[name]
        assert opened is not None
        predicate = f"cluster = {_literal(cluster)} AND ({where})"
        if not rows:
            self._committed(name, lambda: opened.delete(predicate))
            return
        body = _as_arrow(HEAT_TABLES[name], cluster, rows)
        plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
        names = ("cells", "shared", "bundles")
        columns = {**dict.fromkeys(names, plain), "boundaries": ColumnProperties(statistics_enabled="NONE")}
        written = WriterProperties(
            compression="ZSTD",
            max_row_group_size=max(16, _ROW_GROUP_BYTES * len(rows) // max(1, body.nbytes)),
            column_properties=columns,
        )
        self._committed(
            name,
            lambda: write_deltalake(opened, body, mode="overwrite", predicate=predicate, writer_properties=written),
        )

    def _committed(self, name: str, write: Any) -> None:
        from deltalake.exceptions import CommitFailedError

        opened = self._opened[name]
        assert opened is not None
        try:
            write()
        except CommitFailedError as error:
            raise HeatConflict(str(error)) from error
        opened.update_incremental()

    def tidy(self) -> None:
        """Remove, once in a while, files that no version of the last hours names."""

        for name, opened in self._opened.items():
            if opened is not None and self._began[name] // _VACUUM_EVERY != opened.version() // _VACUUM_EVERY:
                demand_no_links(opened.table_uri)
                opened.vacuum(retention_hours=_KEPT_HOURS, dry_run=False, enforce_retention_duration=False)


def _created(table: Table, path: str) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable.create(
        path,
        schema=arrow_schema(table.columns),
        partition_by=list(table.partition),
        mode="ignore",
        description=table.comment,
        configuration=_PROPERTIES,
        storage_options=storage_options(path),
    )


def _as_arrow(table: Table, cluster: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    schema = arrow_schema(table.columns)
    columns = [
        pa.array(
            [cluster] * len(rows) if name == "cluster" else [row.get(name) for row in rows], schema.field(name).type
        )
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _literal(text: str) -> str:
    """Return a text in the form of deltalake's conditions."""
    return "'" + text.replace("'", "''") + "'"
