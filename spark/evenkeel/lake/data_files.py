"""Rows read from the data files of the lake in this process, where few are asked for: no question goes to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.delta_log import files_by_cluster
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.write_ids import try_of
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
    commits: dict[tuple[int, str], dict[str, list[str]] | None] = {}  # one has the rows of many clusters
    for write in written:
        commit = write.version, try_of(write.write_id)
        if commit not in commits:
            commits[commit] = files_by_cluster(lake.path(table), *commit)
        files = commits[commit]
        if files is None:
            return None
        found = [_of_write(file, write, inside) for file in files.get(write.cluster, ())]
        if sum(part.num_rows for part in found) != write.rows:
            return None
        parts += found
    return in_content_order(columns, pa.concat_tables(parts, promote_options="default"))


def _of_write(file: str, write: Write, columns: Sequence[str]) -> pa.Table:
    import pyarrow.compute as pc

    found = read_file(file, write.table, (*columns, _ID))
    own = found.filter(pc.equal(found.column(_ID).cast("string"), write.write_id))
    return with_cluster(own.drop_columns(_ID), write.cluster)


def read_file(file: str, table: str, columns: Sequence[str]) -> pa.Table:
    """The rows of a data file, with as many of the columns as it has; texts are codes of the few that there are."""
    from pyarrow.parquet import ParquetFile, read_metadata

    about = read_metadata(file)
    there = {about.schema.column(number).path.partition(".")[0] for number in range(about.num_columns)}
    # Asked to code a column that it lacks, Arrow refuses the file.
    coded = [name for name in _texts(table) if name in there]
    with ParquetFile(file, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us") as opened:
        return opened.read(columns=[name for name in columns if name in there], use_threads=False)


@cache
def _texts(table: str) -> list[str]:
    """Columns that are read as codes; those that name a folder are in no file."""
    return [c.name for c in TABLES[table].columns if c.type == "string" and c.name not in TABLES[table].partition]


def with_cluster(rows: pa.Table, cluster: str) -> pa.Table:
    """The rows with their cluster: most often it names the folder, and is in no file."""
    import pyarrow as pa

    there = [name for name in rows.column_names if name != "cluster"]
    return rows.select(there).append_column("cluster", pa.repeat(cluster, rows.num_rows))
