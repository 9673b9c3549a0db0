"""Export a range of cycles as a lake that can be verified on another machine; a JVM is not needed.

An export has the manifests of the range and whole copies of the files of the writes that these list and read. The chain
of a cluster has no gap from the first to the last row of the range, and an anchor names the row before the first. A
file with more cycles than the range is copied whole; no manifest of the export lists the other rows. The table versions
of writes differ from the recorded ones: readers go by write id.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import BadInput, NoSuchCycle
from evenkeel.handover import Write
from evenkeel.lake.manifest import writes_of
from evenkeel.lake.record import Attempt, attempts_of, read_table, read_table_if_any
from evenkeel.lake.record.tables import dataset as open_dataset
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.lake.store import Lake, as_arrow
from evenkeel.lake.table_files import delta_table, files_of, is_delta_table
from evenkeel.spark.code import code_digest, code_version

MANIFEST = "export.json"
FORMAT = 1
_ACTS_BEFORE = timedelta(days=1)
"""A cycle depends on the commands of the day before it."""
_OUTBOX = ("commands", "outcomes")
_MOMENTS = {"controls": "at", "approvals": "at", "wishes": "made_at"}
"""Tables that no manifest lists -> their column with the time of a row."""
_ROWS_AT_ONCE = 50_000
_TAR_TIME = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """A write with fewer rows in the export (`found`) than its manifest lists (`listed`)."""

    cluster: str
    cycle_at: datetime
    table: str
    write_id: str
    listed: int
    found: int


@dataclass(slots=True)
class Exported:
    """The content of an export.

    `cycles`: their number. `size`: bytes. `clusters`: cluster -> its part of the chain. `rows`: table -> row count.
    `missing`: writes that the lake no longer holds in full.
    """

    path: Path
    cycles: int = 0
    size: int = 0
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a cluster.

    `attempts`: its attempts. `first`, `last`: sequences of its first and last row of the chain. `before`: the row
    before them, as an anchor names it. `writes`: (table, write id) -> each copied write, and the cycle that names it.
    `since`, `until`: its first and last cycle.
    """

    cluster: str
    attempts: tuple[Attempt, ...]
    first: int
    last: int
    before: Mapping[str, Any]
    writes: Mapping[tuple[str, str], tuple[Write, datetime]]
    since: datetime
    until: datetime

    def written(self, table: str) -> list[Write]:
        return [write for write, _ in self.writes.values() if write.table == table and write.rows]


def export(
    lake: str,
    out: str | Path,
    *,
    since: datetime,
    until: datetime,
    cluster: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Write the cycles from `since` to `until` (both included) to a new folder, or to a new file that ends in .tar.

    `progress` gets the number of tables written, and of all tables. Raises BadInput if `out` exists or `since` is after
    `until`, NoSuchCycle if the range has no cycle.
    """
    target = Path(out)
    if target.exists():
        raise BadInput(f"{target} is there already, and an export overwrites nothing: name another place, or remove it")
    if since > until:
        raise BadInput(f"--from {since.isoformat()} lies after --to {until.isoformat()}")
    parts = _parts(lake, cluster, since, until)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        exported = _write(lake, folder, parts, progress)
        if target.suffix == ".tar":
            packed = folder.with_suffix(".tar")
            _pack(folder, packed, target.stem)
            os.rename(packed, target)
        else:
            os.rename(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".tar").unlink(missing_ok=True)
    exported.path = target
    exported.size = sum(file.stat().st_size for file in ([target] if target.is_file() else _files(target)))
    return exported


def _parts(lake: str, cluster: str | None, since: datetime, until: datetime) -> list[_Part]:
    import pyarrow as pa
    import pyarrow.compute as pc

    chain = open_dataset(lake, "cycles")
    places = chain.to_table(
        columns=["cluster", "cycle_at", "attempt_id", "sequence"],
        filter=None if cluster is None else pc.field("cluster") == cluster,
    )
    begin, end = (pa.scalar(moment, places.schema.field("cycle_at").type) for moment in (since, until))
    inside = places.filter((pc.field("cycle_at") >= begin) & (pc.field("cycle_at") <= end))
    if not inside.num_rows:
        of_cluster = f"of cluster {cluster!r} " if cluster else ""
        times = pc.min_max(places["cycle_at"]).as_py()
        known = f"On record are {times['min']} to {times['max']}." if places.num_rows else "There is none at all."
        raise NoSuchCycle(
            f"no cycle {of_cluster}from {since.isoformat()} to {until.isoformat()} is on record in {lake}. {known}"
        )
    return [_part(chain, places, name, inside) for name in sorted(set(inside["cluster"].to_pylist()))]


def _part(chain: Any, places: Any, cluster: str, inside: Any) -> _Part:
    """Return a cluster's part, with attempts at other cycles that were recorded in between: a chain has no gaps."""
    import pyarrow.compute as pc

    of_cluster = pc.field("cluster") == cluster
    places, span = places.filter(of_cluster), pc.min_max(inside.filter(of_cluster)["sequence"]).as_py()
    first, last = int(span["min"]), int(span["max"])
    within = places.filter((pc.field("sequence") >= first) & (pc.field("sequence") <= last))["attempt_id"]
    # The `closed` row of an attempt is exported with its `planned` row.
    last = int(pc.max(places.filter(pc.is_in(places["attempt_id"], value_set=within))["sequence"]).as_py())
    wanted = of_cluster & (pc.field("sequence") >= first - 1) & (pc.field("sequence") <= last)
    rows = chain.to_table(filter=wanted).sort_by("sequence").to_pylist()
    before = rows.pop(0) if int(rows[0]["sequence"]) < first else None
    attempts = attempts_of(rows)
    writes: dict[tuple[str, str], tuple[Write, datetime]] = {}
    for attempt in attempts:
        for write in _all_writes(attempt):
            writes.setdefault((write.table, write.write_id), (write, attempt.cycle_at))
    times = [row["cycle_at"] for row in rows]
    head = {**(before or rows[0]), "manifest_digest": rows[0]["previous_digest"] or ""}
    return _Part(cluster, tuple(attempts), first, last, head, writes, min(times), max(times))


def _rows_of(attempt: Attempt) -> list[Mapping[str, Any]]:
    return [row for row in (attempt.planned, attempt.closed) if row is not None]


def _all_writes(attempt: Attempt) -> Iterator[Write]:
    """Yield the writes that the attempt made, and those of earlier cycles that it read."""
    for row in _rows_of(attempt):
        for name in ("writes", "reads"):
            yield from writes_of(attempt.cluster, row[name], row["files"])


def _write(lake: str, folder: Path, parts: Sequence[_Part], progress: Callable[[int, int], None]) -> Exported:
    folder.mkdir()
    exported = Exported(folder, cycles=len({(p.cluster, a.cycle_at) for p in parts for a in p.attempts}))
    for done, name in enumerate(OF_RECORD, start=1):
        exported.rows[name] = _export_table(lake, folder, name, parts)
        progress(done, len(OF_RECORD))
    _anchor(folder, parts, exported)
    for part in parts:
        exported.missing += _missing(folder, part)
        exported.clusters[part.cluster] = {
            "from": part.since.isoformat(),
            "to": part.until.isoformat(),
            "attempts": len(part.attempts),
            "first_sequence": part.first,
            "last_sequence": part.last,
            "anchor": part.before["manifest_digest"],
        }
    _describe(lake, folder, exported)
    return exported


def _export_table(lake: str, folder: Path, name: str, parts: Sequence[_Part]) -> int:
    """Create the table, also without rows, and copy the files or rows of all parts. Return the number of rows."""
    from deltalake import DeltaTable

    table, path = TABLES[name], Lake(lake).path(name)
    if not is_delta_table(path):
        return 0
    source = delta_table(path)
    DeltaTable.create(
        str(folder / name),
        schema=source.schema(),
        partition_by=list(table.partition),
        description=table.comment,
        configuration={key: value for key, value in source.metadata().configuration.items() if key in _COPIED},
    )
    conditions = [_condition(name, part) for part in parts]
    if any(condition is None for condition in conditions):
        return _copy_files(lake, folder, name, parts, source)
    return _copy_rows(lake, folder, name, reduce(or_, conditions))


def _copy_files(lake: str, folder: Path, name: str, parts: Sequence[_Part], source: Any) -> int:
    """Copy the files of the writes, or those into which upkeep merged them. Return the number of rows."""
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    files, wanted = files_of(Lake(lake).path(name)), _wanted(lake, name, parts)
    added: list[AddAction | RemoveAction] = []
    rows = 0
    for action in pa.table(source.get_add_actions()).to_pylist():
        path = unquote(action["path"])
        if path not in wanted:
            continue
        files.copy_to(path, folder / name / path)
        values = {column: None if value is None else str(value) for column, value in action["partition"].items()}
        stats = json.dumps({"numRecords": action["num_records"]})
        added.append(AddAction(action["path"], action["size_bytes"], values, action["modification_time"], True, stats))
        rows += action["num_records"]
    if added:
        table = DeltaTable(str(folder / name))
        table.create_write_transaction(
            added, mode="append", schema=source.schema(), partition_by=[*TABLES[name].partition]
        )
    return rows


def _wanted(lake: str, name: str, parts: Sequence[_Part]) -> set[str]:
    """Return the paths of files with rows of the parts' writes: their own, and those into which upkeep merged them."""
    wanted = {file.path for part in parts for write in part.written(name) for file in write.files}
    proofs = [row for row in read_table_if_any(lake, "proofs") if row["table_name"] == name]
    for row in sorted(proofs, key=lambda row: row["proven_at"]):  # upkeep may merge a merged file again
        if wanted & {file["path"] for file in row["files_before"]}:
            wanted |= {file["path"] for file in row["files_after"]}
    return wanted


def _copy_rows(lake: str, folder: Path, name: str, wanted: Any) -> int:
    """Copy the rows of a table outside manifests that meet a condition, batch by batch."""
    from deltalake import write_deltalake
    from pyarrow import RecordBatchReader

    dataset = open_dataset(lake, name)
    rows = 0

    def batches() -> Iterator[Any]:
        nonlocal rows
        for batch in dataset.scanner(filter=wanted, batch_size=_ROWS_AT_ONCE, use_threads=False).to_batches():
            rows += batch.num_rows
            if batch.num_rows:
                yield batch

    write_deltalake(str(folder / name), RecordBatchReader.from_batches(dataset.schema, batches()), mode="append")
    return rows


_COPIED = ("delta.isolationLevel", "delta.checkpointInterval", "delta.dataSkippingStatsColumns")
"""Table properties that readers and writers of the copy need; those on retention belong to the original lake."""


def _condition(name: str, part: _Part) -> Any:
    """Return the condition for a part's rows of a table outside manifests, None for a table whose files are copied."""
    import pyarrow.compute as pc

    if "cluster" not in TABLES[name].column_names():
        return pc.field("begun_at").is_valid()  # all rows: their periods say which rows expired
    of_cluster = pc.field("cluster") == part.cluster
    if name == "cycles":
        return of_cluster & (pc.field("sequence") >= part.first) & (pc.field("sequence") <= part.last)
    if name == "anchors":
        return of_cluster & (pc.field("sequence") >= part.first - 1) & (pc.field("sequence") <= part.last)
    if name in _OUTBOX:
        days = _days(part.since - _ACTS_BEFORE, part.until)
        return of_cluster & pc.field("cycle_date").isin(days) & (pc.field("cycle_at") >= part.since - _ACTS_BEFORE)
    if name in _MOMENTS:
        recorded = max(row["recorded_at"] for attempt in part.attempts for row in _rows_of(attempt))
        return of_cluster & (pc.field(_MOMENTS[name]) <= recorded + _ACTS_BEFORE)
    if name == "proofs":
        return of_cluster & pc.field("cycle_date").isin(_days(part.since - _ACTS_BEFORE, part.until))
    return None


def _days(first: datetime, last: datetime) -> list[date]:
    return [first.date() + timedelta(days=n) for n in range((last.date() - first.date()).days + 1)]


def _anchor(folder: Path, parts: Sequence[_Part], exported: Exported) -> None:
    """Write an anchor for each chain that does not begin with its first row, unless upkeep wrote one."""
    from deltalake import write_deltalake

    path = folder / "anchors"
    known = {(row["cluster"], row["sequence"]) for row in read_table(folder, "anchors")} if path.exists() else set()
    wanted = [part for part in parts if part.first > 1 and (part.cluster, part.first - 1) not in known]
    if wanted:
        now = datetime.now(UTC)
        rows = as_arrow("anchors", [_anchor_row(part, now) for part in wanted])
        write_deltalake(str(path), rows, mode="append", partition_by=list(TABLES["anchors"].partition))
        exported.rows["anchors"] += len(wanted)


def _anchor_row(part: _Part, now: datetime) -> dict[str, Any]:
    copied = {name: part.before[name] for name in ("cluster", "manifest_digest", "cycle_at", "recorded_at")}
    return {**copied, "sequence": part.first - 1, "made_at": now, "code_version": code_version()}


def _missing(folder: Path, part: _Part) -> Iterator[Missing]:
    """Yield the writes with fewer rows in the export than their manifest lists: expired or lost."""
    counts: dict[str, dict[str, int]] = {}
    for (name, write_id), (write, cycle_at) in sorted(part.writes.items()):
        if name not in counts:
            counts[name] = _counts(folder, name, part.cluster)
        exported = counts[name].get(write_id, 0)
        if exported < write.rows:
            yield Missing(part.cluster, cycle_at, name, write_id, write.rows, exported)


def _counts(folder: Path, name: str, cluster: str) -> dict[str, int]:
    import pyarrow.compute as pc

    if not (folder / name).exists():
        return {}
    ids = open_dataset(folder, name).to_table(columns=["write_id"], filter=pc.field("cluster") == cluster)
    counted = ids.group_by("write_id").aggregate([([], "count_all")])
    return dict(zip(counted["write_id"].to_pylist(), counted["count_all"].to_pylist(), strict=True))


def _describe(lake: str, folder: Path, exported: Exported) -> None:
    """Write the export's own manifest: its content, the missing rows, and a digest of every file."""
    names = (str(file.relative_to(folder)) for file in _files(folder))
    stored = {name: files_of(str(folder)).size_and_digest(name) for name in names}
    manifest = {
        "format": FORMAT,
        "made_at": datetime.now(UTC).isoformat(),
        "code_version": code_version(),
        "code_digest": code_digest(),
        "from_lake": Path(str(lake)).name,
        "cycles": exported.cycles,
        "clusters": exported.clusters,
        "rows": exported.rows,
        "missing": [{**asdict(missing), "cycle_at": missing.cycle_at.isoformat()} for missing in exported.missing],
        "files": {name: {"size": size, "sha256": digest} for name, (size, digest) in stored.items()},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False, sort_keys=True)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _pack(folder: Path, packed: Path, name: str) -> None:
    """Pack files in order, without owner or clock: the same folder gives the same archive."""
    with tarfile.open(packed, "w") as archive:
        for file in _files(folder):
            info = archive.gettarinfo(str(file), arcname=f"{name}/{file.relative_to(folder)}")
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime, info.mode = _TAR_TIME, 0o644
            with file.open("rb") as opened:
                archive.addfile(info, opened)
