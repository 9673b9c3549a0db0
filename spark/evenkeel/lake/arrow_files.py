"""Data files of the lake as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from evenkeel.lake.schemas import TABLES
from evenkeel.lake.table_files import arrow_source

if TYPE_CHECKING:
    import pyarrow as pa


def read_file(file: str, table: str, columns: Sequence[str]) -> pa.Table:
    """The rows of a data file, with as many of the columns as it has; texts are codes of the few that there are."""
    from pyarrow.parquet import ParquetFile, read_metadata

    source = arrow_source(file)
    about = read_metadata(source)
    there = {about.schema.column(number).path.partition(".")[0] for number in range(about.num_columns)}
    # Asked to code a column that it lacks, Arrow refuses the file.
    coded = [name for name in _texts(table) if name in there]
    with ParquetFile(source, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us") as opened:
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
