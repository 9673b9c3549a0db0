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
    """Return the rows of a data file, with those of the columns that it has; texts are dictionary codes."""
    from pyarrow.parquet import ParquetFile, read_metadata

    source = arrow_source(file)
    about = read_metadata(source)
    present = {about.schema.column(number).path.partition(".")[0] for number in range(about.num_columns)}
    # Arrow refuses a file that lacks a column for which codes are requested.
    coded = [name for name in _texts(table) if name in present]
    with ParquetFile(source, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us") as opened:
        return opened.read(columns=[name for name in columns if name in present], use_threads=False)


@cache
def _texts(table: str) -> list[str]:
    """Return the columns to read as codes; those that name a folder are in no file."""
    return [c.name for c in TABLES[table].columns if c.type == "string" and c.name not in TABLES[table].partition]


def with_cluster(rows: pa.Table, cluster: str) -> pa.Table:
    """Return the rows with their cluster: most often it is the folder's name, and not in the file."""
    import pyarrow as pa

    other_columns = [name for name in rows.column_names if name != "cluster"]
    return rows.select(other_columns).append_column("cluster", pa.repeat(cluster, rows.num_rows))
