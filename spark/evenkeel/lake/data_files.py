"""Rows read from the data files of the lake in this process, where few are asked for: no question goes to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.delta_log import files_of_cluster
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.row_order import in_content_order
from evenkeel.spark.rows import Row

if TYPE_CHECKING:
    import pyarrow as pa

    from evenkeel.lake.store import Lake

_ID = "write_id"


def rows_at_hand(lake: Lake, table: str, writes: Sequence[Write]) -> list[Row] | None:
    """The rows of these writes without the stamp of a write, in the order of their content, as workers get them.

    None where the log or a file of a commit cannot be read from here, as on an object store and after an upkeep, or
    does not hold what was written: then Spark finds the rows in the table.
    """
    import pyarrow as pa

    written = [write for write in writes if write.rows]
    if not written:
        return []
    columns = {name: kind for name, kind in types_of(table).items() if name not in STAMP_NAMES}
    inside = [name for name in columns if name not in TABLES[table].partition]
    parts = []
    for write in written:
        files = files_of_cluster(lake.path(table), write.version, write.write_id, write.cluster)
        if files is None:
            return None
        found = [_of_write(file, write, inside) for file in files]
        if sum(part.num_rows for part in found) != write.rows:
            return None
        parts += found
    return in_content_order(columns, pa.concat_tables(parts, promote_options="default"))


def _of_write(file: str, write: Write, columns: Sequence[str]) -> pa.Table:
    """The rows of a write in a file, with the cluster, which names the file's folder."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
        there = {*opened.schema_arrow.names}
        found = opened.read(columns=[name for name in (*columns, _ID) if name in there], use_threads=False)
    own = found.filter(pc.equal(found.column(_ID), write.write_id)).drop_columns(_ID)
    return own.append_column("cluster", pa.repeat(write.cluster, own.num_rows))
