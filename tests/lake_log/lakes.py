"""Lakes of old versions with a log, and ways in which somebody may tamper with them."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from evenkeel.lake.data_files import found_rows
from evenkeel.lake.manifest import body_digest, writes_of
from evenkeel.lake.merkle import root_of
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.roots_here import row_digests
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.lake_log.row_leaves import LOGGED_TABLES
from tests.record.small_lake import arrow_schema, completed
from tests.transparency.logs import LOG_KEY as LOG_KEY
from tests.transparency.logs import ORIGIN as ORIGIN
from tests.transparency.logs import OTHER_KEY as OTHER_KEY
from tests.transparency.logs import WITNESS_KEY as WITNESS_KEY

KEPT = Path(__file__).resolve().parents[1] / "kept_lakes"
Row = dict[str, Any]


def kept_lake(folder: Path, version: int = 5, *, with_others: bool = False) -> Path:
    """A kept lake of that schema version, unpacked; `with_others`: with the tables of rows that no manifest lists,
    which have leaves of their own."""
    with tarfile.open(KEPT / f"schema_{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    for name in () if with_others else LOGGED_TABLES:
        shutil.rmtree(folder / "lake" / name, ignore_errors=True)
    return folder / "lake"


def rows_of(lake: Path, cluster: str) -> list[Row]:
    """The rows of a cluster's chain, whole and in order."""
    table = DeltaTable(str(lake / "cycles")).to_pyarrow_dataset().to_table()
    rows = [row for row in table.to_pylist() if row["cluster"] == cluster]
    return sorted(rows, key=lambda row: row["sequence"])


def linked(rows: list[Row], head: str, sequence: int) -> list[Row]:
    """The rows as a chain behind a head, with digests and places of their own."""
    found = []
    for number, row in enumerate(rows, start=1):
        made = {**row, "sequence": sequence + number, "previous_digest": head}
        made["body_digest"] = body_digest(made)
        head = made["manifest_digest"] = hashlib.sha256((head + made["body_digest"]).encode()).hexdigest()
        found.append(made)
    return found


def append_rows(lake: Path, rows: list[Row], mode: str = "append") -> None:
    """Writes rows of `cycles` in one commit."""
    known = {field.name for field in DeltaTable(str(lake / "cycles")).schema().fields}
    named = known | {name for row in rows for name in row}
    schema = pa.schema([field for field in arrow_schema(TABLES["cycles"]) if field.name in named])
    body = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    write_deltalake(str(lake / "cycles"), body, mode=mode, partition_by=["cluster"], schema_mode="merge")


def publish_more(lake: Path, cluster: str, cycles: int = 1, **changed: Any) -> list[Row]:
    """Further cycles of a cluster: copies of its last attempt, a minute later each, behind the chain's head."""
    chain = rows_of(lake, cluster)
    last = chain[-1]
    attempt = [row for row in chain if row["attempt_id"] == last["attempt_id"]]
    made: list[Row] = []
    for number in range(1, cycles + 1):
        at = last["cycle_at"] + timedelta(minutes=number)
        name = hashlib.sha256(f"{last['attempt_id']}{at}{changed}".encode()).hexdigest()
        own = {"cycle_at": at, "cycle_date": at.date(), "attempt_id": name, "write_id": name, **changed}
        made += [{**row, **own} for row in attempt]
    made = linked(made, last["manifest_digest"], last["sequence"])
    append_rows(lake, made)
    return made


def decide_once_more(lake: Path, cluster: str) -> Row:
    """A further attempt at a cluster's last cycle, over the rows of the one before, with the roots of schema version 6;
    its `planned` row."""
    chain = rows_of(lake, cluster)
    attempt = [row for row in chain if row["attempt_id"] == chain[-1]["attempt_id"]]
    roots = []
    writes = [write for write in attempt[0]["writes"] if write["rows"]]
    for table in sorted({write["table"] for write in writes}):
        digests: list[bytes] = []
        for write in writes_of(cluster, [one for one in writes if one["table"] == table]):
            rows = found_rows(Lake(str(lake)), write, [name for name in types_of(table) if name not in STAMP_NAMES])
            assert rows is not None
            digests += row_digests(table, rows) or []
        roots.append({"table": table, "rows": len(digests), "root": root_of(sorted(digests)).hex()})
    name = hashlib.sha256(chain[-1]["attempt_id"].encode()).hexdigest()
    own = {"attempt_id": name, "write_id": name, "kind": "rerun", "schema_version": 6, "roots": roots, "attempt": 2}
    made = linked([{**row, **own} for row in attempt], chain[-1]["manifest_digest"], chain[-1]["sequence"])
    append_rows(lake, made)
    return made[0]


def add_upkeep(lake: Path, begun_at: datetime, audit_days: int) -> None:
    """Puts the beginning of an upkeep on record, which keeps what is kept longest for so many days."""
    table = TABLES["upkeeps"]
    periods = {"audit_days": audit_days, "observed_days": 2, "considered_days": 2, "topics_days": 2, "unlisted_days": 1}
    own = {
        "upkeep_id": f"{begun_at} {audit_days}",
        "state": "begun",
        "begun_at": begun_at,
        "periods": [*periods.items()],
    }
    body = pa.Table.from_pylist([completed(table, own)], arrow_schema(table))
    write_deltalake(str(lake / table.name), body, mode="append")


def rewrite(lake: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Puts other rows in the place of all rows of `cycles`, as somebody with the right to write may."""
    table = DeltaTable(str(lake / "cycles")).to_pyarrow_dataset().to_table().to_pylist()
    rows = change(sorted(table, key=lambda row: (row["cluster"], row["sequence"])))
    append_rows(lake, rows, mode="overwrite")


def set_back(lake: Path, versions: int = 1) -> None:
    """Removes the newest commits of `cycles`, so that the table is as it was before them."""
    log = lake / "cycles" / "_delta_log"
    last = DeltaTable(str(lake / "cycles")).version()
    for version in range(last - versions + 1, last + 1):
        for file in log.glob(f"{version:020d}.*"):
            file.unlink()


def copied(lake: Path, folder: Path) -> Path:
    """A copy of a lake, or of its log."""
    shutil.copytree(lake, folder)
    return folder


def leaf_rows(rows: Mapping[str, list[Row]]) -> list[tuple[str, int]]:
    """Cluster and sequence in the order in which rows are logged."""
    return [(cluster, row["sequence"]) for cluster, own in sorted(rows.items()) for row in own]
