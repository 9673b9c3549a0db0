"""A lake with many recorded cycles of one cluster: one real cycle, and copies of it at later moments, decided anew.

The tasks need seconds for a cycle, so a long record is made otherwise: what was observed is shifted in time, all is
decided again in this process, and manifests are made to match. Each copy stands for a first cycle: it has no
predecessor. Files and commits are those that the tasks would have left, one of each per table and cycle.
"""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.handover import Commit, Write
from evenkeel.lake.delta_log import read_commit
from evenkeel.lake.manifest import body_digest, file_rows, write_rows
from evenkeel.lake.record import Attempt, read_attempts, read_rows
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.verify.recorded_cycle import background_of
from tests.lakes.small_lake import arrow_schema

OBSERVED = (
    *("topic_stats", "namespace_bundles", "bundle_ownership", "broker_reports", "cluster_policies", "settings"),
    *("bundle_load", "broker_load"),
)
DECIDED = ("split_decisions", "unload_decisions", "placement_decisions", "guard_decisions", "strategy_state")
PERIOD = timedelta(minutes=1)


def lengthen(lake: Path, cycles: int) -> None:
    """Makes a lake of one cycle one of so many, the last one being the first's copy at a later moment."""
    (base,) = read_attempts(lake)
    observed = {name: _arrow_rows(lake, base, name) for name in OBSERVED}
    texts = {name: [_as_text(row) for row in read_rows(lake, base, name)] for name in whole.OBSERVED}
    settings = background_of(Lake(str(lake)), [base]).settings[base.planned["settings_digest"]]
    tables = _Tables(lake)
    made = []
    for number in range(1, cycles):
        at = base.cycle_at + number * PERIOD
        write_id = uuid.uuid4().hex
        shift = number * PERIOD
        for name, rows in observed.items():
            tables.append(name, _shifted(rows, write_id, at, shift))
        shifted = {name: [_later(row, shift) for row in rows] for name, rows in texts.items()}
        cycle = reading.cycle_row(
            base.cluster, at, settings, base.planned["settings_digest"], manager=base.planned["manager"], snapshot_at=at
        )
        decided = whole.decide(shifted, cycle, ())
        for name in DECIDED:
            tables.append(name, _table(name, decided.rows.get(name, ()), write_id, at))
        made.append((at, write_id, decided.plan.figures))
    _chain(tables, base, made)


class _Tables:
    """The lake's tables, opened once: to open one for every append means to read its whole log for every append.

    `commits`: table and write id -> its commit, and the number of its rows.
    """

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.commits: dict[tuple[str, str], tuple[Commit, int]] = {}
        self._opened: dict[str, DeltaTable] = {}

    def append(self, name: str, rows: pa.Table) -> None:
        if rows.num_rows:
            if name not in self._opened:
                self._opened[name] = DeltaTable(str(self.lake / name))
            opened = self._opened[name]
            write_deltalake(opened, rows, mode="append", partition_by=list(TABLES[name].partition))
            commit, _ = read_commit(str(self.lake / name), name, opened.version())
            self.commits[name, rows["write_id"][0].as_py()] = commit, rows.num_rows


def _chain(tables: _Tables, base: Attempt, made: list[tuple[datetime, str, Mapping[str, Any]]]) -> None:
    """The manifests of the copies, in one commit."""
    listed: dict[str, list[Write]] = {}
    for (name, write_id), (commit, rows) in tables.commits.items():
        write = Write(name, write_id, commit.version, rows, commit.digest, base.cluster, commit.files)
        listed.setdefault(write_id, []).append(write)
    assert base.closed is not None
    head, sequence = base.closed["manifest_digest"], int(base.closed["sequence"])
    made_rows: list[dict[str, Any]] = []
    for at, write_id, figures in made:
        attempt_id = hashlib.sha256(write_id.encode()).hexdigest()
        told = {name: figures[name] for name in figures if name in TABLES["cycles"].column_names()}
        own = {
            **base.planned, **told, "cycle_at": at, "cycle_date": at.date(), "snapshot_at": at,
            "attempt_id": attempt_id, "write_id": attempt_id, "writes": write_rows(listed[write_id]),
            "files": file_rows(listed[write_id]), "reads": [], "predecessor_cycle_at": None,
            "predecessor_attempt_id": None, "predecessor_expected_at": None, "predecessor_status": "none",
        }  # fmt: skip
        for row_kind, status in (("planned", "planned"), ("closed", "closed")):
            sequence += 1
            row = {**own, "row_kind": row_kind, "status": status, "sequence": sequence, "previous_digest": head}
            row["body_digest"] = body_digest(row)
            head = row["manifest_digest"] = hashlib.sha256((head + row["body_digest"]).encode()).hexdigest()
            made_rows.append(row)
    tables.append("cycles", pa.Table.from_pylist(made_rows, arrow_schema(TABLES["cycles"])))


def _arrow_rows(lake: Path, base: Attempt, name: str) -> pa.Table:
    ids = [write.write_id for write in base.writes_of(name)]
    found = DeltaTable(str(lake / name)).to_pyarrow_dataset().to_table(filter=pc.field("write_id").isin(ids))
    return found.cast(arrow_schema(TABLES[name]))


def _shifted(rows: pa.Table, write_id: str, at: datetime, shift: timedelta) -> pa.Table:
    """The rows under another write id, with all their moments later."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(place, field, pc.add(rows[field.name], pa.scalar(shift, pa.duration("us"))))
    rows = _constant(rows, "write_id", write_id)
    return _constant(rows, "cycle_date", at.date())


def _constant(rows: pa.Table, name: str, value: object) -> pa.Table:
    place = rows.schema.get_field_index(name)
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array([value] * rows.num_rows, field.type))


def _table(name: str, rows: Iterable[Mapping[str, Any]], write_id: str, at: datetime) -> pa.Table:
    table = TABLES[name]
    times = {column.name for column in table.columns if column.type == "timestamp"}
    stamp = {"write_id": write_id, "cycle_date": at.date()}
    typed = [
        {**{k: datetime.fromisoformat(v) if k in times and isinstance(v, str) else v for k, v in row.items()}, **stamp}
        for row in rows
    ]
    return pa.Table.from_pylist(typed, arrow_schema(table))


def _as_text(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as rounds see it: moments as text."""
    return {
        name: value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _later(row: Mapping[str, Any], shift: timedelta) -> dict[str, Any]:
    return {name: _moved(value, shift) if name.endswith("_at") else value for name, value in row.items()}


def _moved(value: Any, shift: timedelta) -> Any:
    if not isinstance(value, str):
        return value
    return (datetime.fromisoformat(value) + shift).isoformat(timespec="microseconds")
