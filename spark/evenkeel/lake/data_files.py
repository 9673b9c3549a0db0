"""Rows that this process reads from the data files of the lake, for small reads: Spark is not asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.arrow_files import read_file, with_cluster
from evenkeel.lake.delta_log import written_files
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
    """Return the rows of these writes without the stamp of a write, in the order of their content, as workers get them.

    Returns None if a file of a write is gone, as after an upkeep, or does not hold the written rows: then Spark finds
    the rows in the table.
    """
    import pyarrow as pa

    written = [write for write in writes if write.rows]
    if not written:
        return []
    columns = {name: kind for name, kind in types_of(table).items() if name not in STAMP_NAMES}
    parts = []
    for write in written:
        write_rows = found_rows(lake, write, tuple(columns))
        if write_rows is None:
            return None
        parts.append(write_rows)
    return in_content_order(columns, pa.concat_tables(parts, promote_options="default"))


def found_rows(lake: Lake, write: Write, columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of a write that has rows, with those of the columns that its files have; None as for
    `rows_at_hand`."""
    import pyarrow as pa

    files = written_files(lake.path(write.table), [write])
    inside = [name for name in columns if name not in TABLES[write.table].partition]
    parts = [_of_write(file, write, inside) for file in files or ()]
    if not parts or sum(part.num_rows for part in parts) != write.rows:
        return None
    return pa.concat_tables(parts, promote_options="default")


def _of_write(file: str, write: Write, columns: Sequence[str]) -> pa.Table:
    import pyarrow.compute as pc

    file_rows = read_file(file, write.table, (*columns, _ID))
    write_rows = file_rows.filter(pc.equal(file_rows.column(_ID).cast("string"), write.write_id))
    return with_cluster(write_rows.drop_columns(_ID), write.cluster)
