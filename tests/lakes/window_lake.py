"""A lake whose cycles were written by one window: what another lake holds of them, appended and listed anew."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenkeel.handover import ClusterCycle, CycleKey, Handover, Run, Snapshot, Write
from evenkeel.lake.manifest import CYCLES, append_manifests, file_rows, write_rows
from evenkeel.lake.record import Attempt, read_attempts
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.times import utc_text

# No manifest lists their rows: they are read by ids.
_BY_ID = ("commands", "outcomes", "wishes")
_CHAINED = {"sequence", "attempt", "previous_digest", "manifest_digest", "body_digest", "cycle_date", "write_id"}


def as_one_window(spark: Any, source: Path, target: Path) -> dict[CycleKey, list[Write]]:
    """Fills the new lake `target`; gives the writes of each cycle. Every cycle of `source` has one attempt."""
    attempts = read_attempts(source)
    opened = tuple(replace(_cycle(one), settings_digest=one.planned["settings_digest"]) for one in attempts)
    handover = Handover(str(target), Run("tests", "window"), opened)
    old, new = Lake(str(source)), Lake(str(target))
    tables = sorted({write.table for one in attempts for write in one.writes} - {*_BY_ID})
    frames = {
        # One file for all cycles of a cluster and date.
        table: old.read(spark, table, [write for one in attempts for write in one.writes])
        .select(*(column.name for column in TABLES[table].body_columns()))
        .coalesce(1)
        for table in tables
    }
    written: dict[CycleKey, list[Write]] = {cycle.key: [] for cycle in opened}
    for write in new.append(spark, frames, handover=handover, task="tests"):
        written[write.cluster, write.cycle_at].append(write)
    for table in _BY_ID:
        shutil.rmtree(target / table)
        shutil.copytree(source / table, target / table)
    append_manifests(spark, new, [row for one in attempts for row in _manifests(one, written)])
    return written


def _cycle(one: Attempt) -> ClusterCycle:
    at = utc_text(one.cycle_at)
    return ClusterCycle(one.cluster, at, Snapshot("s", at), {})


def _manifests(one: Attempt, written: dict[CycleKey, list[Write]]) -> Sequence[dict[str, Any]]:
    """The rows of an attempt, as they were but for what they list."""
    own = written[_cycle(one).key]
    at = one.planned["predecessor_cycle_at"]
    read = {write.table for write in one.reads}
    before = [w for w in written[one.cluster, utc_text(at)] if w.table in read] if at is not None else []
    listed: dict[str, Any] = {
        "writes": write_rows(own),
        "files": file_rows([*own, *before]),
        "reads": write_rows(before),
    }
    columns = [column.name for column in CYCLES.columns if column.name not in _CHAINED]
    rows = [one.planned, *([one.closed] if one.closed is not None else [])]
    return [{**{name: row[name] for name in columns}, **listed} for row in rows]
