"""Small lakes for tests of reports and pages: rows by the declared schemas, written without a JVM."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from evenkeel.lake.delta_log import newest_version, read_commit
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import TABLES

Row = dict[str, Any]

_SCALARS = {
    "string": pa.string(),
    "double": pa.float64(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_EMPTY = {"string": "", "double": 0.0, "bigint": 0, "int": 0, "boolean": False}


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a declared SQL type, nested ones included."""
    if text in _SCALARS:
        return _SCALARS[text]
    outer, inner = re.fullmatch(r"(array|map|struct)<(.*)>", text).groups()
    parts = _top_level(inner)
    if outer == "array":
        return pa.list_(arrow_type(inner))
    if outer == "map":
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    return pa.struct([(name, arrow_type(kind)) for name, kind in (part.split(":", 1) for part in parts)])


def _top_level(text: str) -> list[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += {"<": 1, ">": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def arrow_schema(table: Table) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c.type), c.nullable) for c in table.columns])


def completed(table: Table, row: Mapping[str, Any]) -> Row:
    """The row with NULL, or an empty value where NULL is not allowed, in every column that it leaves out."""
    unknown = set(row) - set(table.column_names())
    if unknown:
        raise KeyError(f"{table.name} has no column {sorted(unknown)}")
    return {c.name: row[c.name] if c.name in row else (None if c.nullable else _empty(c.type)) for c in table.columns}


def _empty(kind: str) -> Any:
    if kind.startswith("map"):
        return {}
    return [] if kind.startswith("array") else _EMPTY[kind]


class SmallLake:
    """Writes attempts as the pipeline does: rows under a write id first, the manifest last."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._sequence: dict[str, int] = {}
        self._writes = 0
        self._held: dict[str, list[Row]] | None = None
        self._holds_rows = False
        self._opened: dict[str, DeltaTable] = {}
        self._without_files: dict[str, list[tuple[Row, list[Row]]]] = {}
        """Of each table the stamps of writes that are not committed yet, and the lists that get their files."""

    def append(self, name: str, rows: Iterable[Row]) -> None:
        if self._held is not None and (self._holds_rows or name == "cycles"):
            self._held.setdefault(name, []).extend(rows)
        else:
            self._commit(name, rows)

    def _commit(self, name: str, rows: Iterable[Row]) -> None:
        table = TABLES[name]
        body = pa.Table.from_pylist([completed(table, row) for row in rows], schema=arrow_schema(table))
        where = str(self.root / name)
        opened = self._opened.get(name)  # by its path each write would read the log from its beginning
        if opened is not None:
            opened.update_incremental()  # others change tables, too
        write_deltalake(opened or where, body, mode="append", partition_by=list(table.partition))
        if opened is None:
            self._opened[name] = DeltaTable(where)
        if waiting := self._without_files.pop(name, []):
            _, added = read_commit(where, name, newest_version(where))
            for stamp, files in waiting:
                date = f"cycle_date={stamp['cycle_date']}/"
                own = [one.file for one in added if one.cluster == stamp["cluster"] and date in one.file.path]
                written = {"table": name, "write_id": stamp["write_id"]}
                files += [{**written, "path": f.path, "size": f.size, "digest": f.digest} for f in own]

    def add(
        self,
        cluster: str,
        at: datetime,
        tables: Mapping[str, list[Row]],
        outbox: Mapping[str, list[Row]] | None = None,
        **manifest: Any,
    ) -> str:
        """One attempt: its rows, then its manifest rows. `manifest` are columns of `cycles`; returns the attempt_id.

        `outbox`: rows of `commands` and `outcomes`, which only the closing row lists.
        """
        files: list[Row] = []
        writes = [self._write(cluster, at, name, rows, files) for name, rows in tables.items() if rows]
        number = manifest.pop("attempt", 1)
        attempt_id = manifest.pop("attempt_id", hashlib.sha256(f"{cluster}{at}{number}".encode()).hexdigest()[:32])
        status, reason = manifest.pop("status", "closed"), manifest.pop("reason", None)
        stamp = {"cluster": cluster, "cycle_at": at, "cycle_date": at.date(), "write_id": attempt_id}
        common = {
            **stamp, "attempt": number, "attempt_id": attempt_id, "kind": "live", "mode": "dry_run",
            "writes": writes, "files": files, "reads": [], "dag_id": "rebalance", "run_id": f"manual__{at.isoformat()}",
            "code_version": "1.0.0", "code_digest": "c0de" * 16, "recorded_at": at + timedelta(seconds=9),
            "source": "recording:/recordings/lab", "snapshot": "/recordings/lab/0000.json.gz", "schema_version": 1,
            "predecessor_status": "used", "predecessor_cycle_at": at - timedelta(minutes=1), **manifest,
        }  # fmt: skip
        if status in ("skipped", "failed", "planned"):
            self._manifest({**common, "row_kind": "planned", "status": status, "reason": reason})
        else:
            self._manifest({**common, "row_kind": "planned", "status": "planned", "reason": None})
            sent = [self._write(cluster, at, name, rows, files) for name, rows in (outbox or {}).items() if rows]
            closed = {**common, "writes": [*writes, *sent]}
            self._manifest({**closed, "row_kind": "closed", "status": status, "reason": reason})
        return attempt_id

    def _write(self, cluster: str, at: datetime, name: str, rows: list[Row], files: list[Row]) -> Row:
        self._writes += 1
        write_id = f"{self._writes:032x}"
        stamp = {"cluster": cluster, "cycle_at": at, "cycle_date": at.date(), "write_id": write_id}
        self._without_files.setdefault(name, []).append((stamp, files))
        self.append(name, [{**row, **stamp} for row in rows])
        return {"table": name, "write_id": write_id, "version": 1, "rows": len(rows), "commit": f"{write_id}-commit"}

    def _manifest(self, row: Row) -> None:
        sequence = self._sequence[row["cluster"]] = self._sequence.get(row["cluster"], 0) + 1
        self.append("cycles", [{**row, "sequence": sequence, "manifest_digest": f"{sequence:064x}"}])

    @contextmanager
    def one_commit(self, *, of_each_table: bool = False) -> Iterator[None]:
        """All manifests written inside go into one commit: a long history would take long otherwise. `of_each_table`:
        all other rows, too, so that a table has a file for each cluster and date, as a window leaves it."""
        self._held, self._holds_rows = {}, of_each_table
        yield
        held, self._held = self._held, None
        for name in sorted(held, key=lambda name: name == "cycles"):  # manifests list the files of all others
            self._commit(name, held[name])


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
