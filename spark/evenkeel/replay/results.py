"""What a replay leaves in the lake: its rows, and last the line in `replay_runs` without which nobody counts them.

An open loop appends its rows chunk by chunk, by Spark (`open_loop`). A closed loop is played in this process: its rows
are packed variant by variant and appended at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot, Write
from evenkeel.lake.manifest import write_rows
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, arrow_schema
from evenkeel.replay.comparison import Comparison
from evenkeel.replay.fold import CYCLES, DECISIONS, Made
from evenkeel.replay.history import text_of
from evenkeel.spark.code import code_digest, code_version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RUNS = "replay_runs"
TABLES_OF_REPLAYS = (CYCLES, DECISIONS, RUNS)
OPEN_LOOP, CLOSED_LOOP = "open_loop", "closed_loop"
"""Kinds of replays: decided on what was seen, or steering a model."""


@dataclass
class Played:
    """The rows of a closed loop, packed: table -> one part per variant."""

    replay_id: str
    parts: dict[str, list[pa.Table]] = field(default_factory=lambda: {CYCLES: [], DECISIONS: []})

    def add(self, rows: Iterable[Made]) -> None:
        """The rows of a variant that was played to its end."""
        import pyarrow as pa

        found: dict[str, list[dict[str, Any]]] = {table: [] for table in self.parts}
        for table, row in rows:
            found[table].append({**row, "replay_id": self.replay_id})
        for table, own in found.items():
            # Made without Spark, which is started only when all is played.
            self.parts[table].append(pa.Table.from_pylist(own, schema=arrow_schema(TABLES[table].body_columns())))

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Table -> all of its rows; left out is a table that has none."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        whole = {table: pa.concat_tables(parts) for table, parts in self.parts.items() if parts}
        return {
            table: spark.createDataFrame(rows, from_arrow_schema(rows.schema))
            for table, rows in whole.items()
            if rows.num_rows
        }


def keep_closed_loop(
    spark: SparkSession,
    root: str,
    played: Played,
    comparison: Comparison,
    moments: Sequence[datetime],
    scenario: Mapping[str, Any],
) -> None:
    """Appends the rows, and then puts the replay on record; `scenario` is the model, its traffic and the seed."""
    lake = Lake(root)
    lake.ensure_tables(spark, TABLES_OF_REPLAYS)
    writes = append(spark, lake, "simulate", comparison, moments[0], played.frames(spark))
    put_on_record(spark, lake, CLOSED_LOOP, comparison, moments, writes, scenario)


def append(
    spark: SparkSession,
    lake: Lake,
    task: str,
    comparison: Comparison,
    first: datetime,
    frames: Mapping[str, DataFrame],
) -> tuple[Write, ...]:
    """Appends rows of a replay, of cycles from `first` on; `task` is the command that they come from."""
    at = text_of(first)
    cycle = ClusterCycle(comparison.cluster, at, Snapshot("", at), {})
    handover = Handover(lake.root, Run(task, comparison.replay_id, kind="replay"), (cycle,))
    return lake.append(spark, frames, handover=handover, task=task)


def put_on_record(
    spark: SparkSession,
    lake: Lake,
    kind: str,
    comparison: Comparison,
    moments: Sequence[datetime],
    writes: Sequence[Write],
    scenario: Mapping[str, Any] | None = None,
) -> None:
    """Appends a row of `replay_runs`: from now on readers know of the replay."""
    row = {
        "cluster": comparison.cluster,
        "replay_id": comparison.replay_id,
        "kind": kind,
        "since": moments[0],
        "until": moments[-1],
        "cycles": len(moments),
        "variants": json.dumps(comparison.variants, ensure_ascii=False),
        "limit": comparison.limit,
        "scenario": None if scenario is None else json.dumps(scenario, ensure_ascii=False),
        "summary": json.dumps(comparison.rows(), ensure_ascii=False),
        "writes": write_rows(writes),
        "code_version": code_version(),
        "code_digest": code_digest(),
        "made_at": datetime.now(UTC),
    }
    table = TABLES[RUNS]
    values = tuple(row[column.name] for column in table.columns)
    frame = spark.createDataFrame([values], table.struct_type())
    frame.coalesce(1).write.format("delta").mode("append").save(lake.path(table.name))
