"""A round run in this process: where the rows are few, the way to a Python worker and back takes longer than the round.

The round is the one that workers run, and it is given its rows in the same form (see `spark.bodies`); their order is
not sorted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from evenkeel.rounds import here
from evenkeel.rounds.reading import Decided, Round, Row, Rows
from evenkeel.spark import rows
from evenkeel.spark.column_types import columns_of
from evenkeel.spark.sql import arrow_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def fetched(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of all frames, asked for at the same time."""
    if not frames:
        return {}
    with ThreadPoolExecutor(len(frames)) as pool:
        return dict(zip(frames, pool.map(arrow_of, frames.values()), strict=True))


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table in plain form (see `spark.rows`)."""
    return [*rows.rows_of(table, columns_of(from_arrow_schema(table.schema), "fetched rows"))]


def decide_here(given: Rows, decide: Round, outputs: Iterable[str]) -> Decided:
    """Runs the round for every cluster of `given`, one after the other, and returns its rows per table."""
    made: Decided = {table: [] for table in outputs}
    for cluster, own in here.by_cluster(given):
        for table, found in decide({"cluster": cluster}, own).items():
            made[table] += found
    return made
