"""Ways to tamper with a lake, by an attacker who knows the code and may write to it, and `verify`'s report on each.

`python -m devtools.tampering --lake LAKE --log-key VKEY --witness FILE` applies them one at a time to copies of a lake,
verifies each copy and prints a line. The lake needs a log with that key, a witness's file outside of it, cycles of two
clusters, and rows in `approvals`, `controls`, `wishes`, `upkeeps` and `proofs`. Beside it, in a folder `before`, is a
copy from some cycles earlier.

`tests/verify/test_tampering.py` makes one and requires that each is named, with table and cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake

from evenkeel.lake.manifest import body_digest
from evenkeel.transparency.keys import SignerKey

Row = dict[str, Any]
BEFORE = "before"
"""Beside a lake that is tampered with: the lake as it was some cycles ago."""
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Tampering:
    """One way to tamper.

    `apply` changes a lake that it is given; `table`: the one that has to be named; `alone`: `verify` names it also
    without the log's key and the witness.
    """

    name: str
    words: str
    table: str
    apply: Callable[[Path], None]
    alone: bool = True


# Possible changes of a table.


def rows_of(lake: Path, table: str) -> list[Row]:
    """All rows of a table."""
    rows: list[Row] = DeltaTable(str(lake / table)).to_pyarrow_table().to_pylist()
    return rows


def rewrite(lake: Path, table: str, change: Callable[[list[Row]], list[Row]], *, said: str = "") -> None:
    """Replace all rows of a table by others, through Delta; `said`: the commit's description of itself."""
    import pyarrow as pa
    from deltalake import CommitProperties

    delta = DeltaTable(str(lake / table))
    before = delta.to_pyarrow_table()
    body = pa.Table.from_pylist(change(before.to_pylist()), before.schema)
    if sorted(map(str, body.to_pylist())) == sorted(map(str, before.to_pylist())):
        raise ValueError(f"nothing of {table} is changed: the lake has no row for it")
    write_deltalake(
        str(lake / table),
        body,
        mode="overwrite",
        partition_by=delta.metadata().partition_columns,
        commit_properties=CommitProperties(custom_metadata={"userMetadata": said}) if said else None,
    )
    _a_day_later(lake, table)


def append(lake: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows through Delta, as a writer does."""
    import pyarrow as pa

    delta = DeltaTable(str(lake / table))
    body = pa.Table.from_pylist([*map(dict, rows)], delta.to_pyarrow_table().schema)
    write_deltalake(str(lake / table), body, mode="append", partition_by=delta.metadata().partition_columns)
    _a_day_later(lake, table)


def _a_day_later(lake: Path, table: str) -> None:
    """Date the newest commit a day earlier: one of the last hours may be of a run under way."""
    commit = log_files(lake, table)[-1]
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] -= 86_400_000
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def first(**changed: Any) -> Callable[[list[Row]], list[Row]]:
    """Change the first row, in an order that does not depend on files."""
    return lambda rows: [{**row, **changed} if place == 0 else row for place, row in enumerate(sorted(rows, key=str))]


def without_first(rows: list[Row]) -> list[Row]:
    """All rows but the first."""
    return sorted(rows, key=str)[1:]


def files_of(lake: Path, table: str) -> list[Path]:
    """The data files of a table as it is, by name."""
    return sorted(lake / table / file for file in DeltaTable(str(lake / table)).to_pyarrow_dataset().files)


def edit_file(lake: Path, table: str, column: str, change: Callable[[Any], Any]) -> None:
    """Change a value in a data file itself, behind Delta's back."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files_of(lake, table):
        read = pq.ParquetFile(file).read()
        values = read.column(column).to_pylist()
        changed = [change(values[0]), *values[1:]]
        if changed != values or str(changed) != str(values):
            place = read.column_names.index(column)
            changed_table = read.set_column(place, column, pa.array(changed, read.schema.field(column).type))
            pq.write_table(changed_table, file)
            return
    raise ValueError(f"no file of {table} has a value to change in {column}")


def log_files(lake: Path, table: str) -> list[Path]:
    """The commits of a table, oldest first."""
    return sorted((lake / table / "_delta_log").glob("[0-9]*.json"))


def cut(lake: Path, table: str, commits: int = 1) -> None:
    """Remove the newest commits, so that the table is as it was before them."""
    for commit in log_files(lake, table)[-commits:]:
        for file in commit.parent.glob(f"{commit.stem}.*"):
            file.unlink()


def chained_anew(lake: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Write `cycles` again, with all digests to match."""
    heads: dict[str, str] = {}

    def link(rows: list[Row]) -> list[Row]:
        linked = []
        for row in change(sorted(rows, key=lambda link_row: (link_row["cluster"], link_row["sequence"]))):
            linked_row = {**row, "previous_digest": heads.get(row["cluster"], "")}
            linked_row["body_digest"] = body_digest(linked_row)
            head = hashlib.sha256((linked_row["previous_digest"] + linked_row["body_digest"]).encode()).hexdigest()
            heads[row["cluster"]] = linked_row["manifest_digest"] = head
            linked.append(linked_row)
        return linked

    rewrite(lake, "cycles", link)


KINDS: list[Tampering] = []
"""All of them, by their targets."""


def _way(words: str, table: str, *, alone: bool = True) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Put a function among the ways; its name is the way's."""

    def add(apply: Callable[[Path], None]) -> Callable[[Path], None]:
        KINDS.append(Tampering(apply.__name__.strip("_").replace("_", "-"), words, table, apply, alone))
        return apply

    return add


# The chain of manifests.


@_way("the newest commit of `cycles` is removed", "cycles")
def _cut_end(lake: Path) -> None:
    cut(lake, "cycles")


@_way("the newest two commits of `cycles` are removed", "cycles")
def _cut_commits(lake: Path) -> None:
    cut(lake, "cycles", 2)


@_way("`cycles` is restored to an older version through Delta", "cycles")
def _delta_restore(lake: Path) -> None:
    DeltaTable(str(lake / "cycles")).restore(1)


@_way("a manifest is deleted through Delta", "cycles")
def _manifest_deleted(lake: Path) -> None:
    rewrite(lake, "cycles", without_first)


@_way("a manifest is deleted, by a commit that says upkeep did it", "cycles")
def _manifest_deleted_as_upkeep(lake: Path) -> None:
    (row, *_) = rows_of(lake, "upkeeps")
    rewrite(lake, "cycles", without_first, said=json.dumps({"upkeep": row["upkeep_id"]}))


@_way("a reason is changed in a manifest", "cycles")
def _manifest_changed(lake: Path) -> None:
    rewrite(lake, "cycles", first(reason="so it was"))


@_way("a manifest is changed, and the chain is rebuilt", "cycles")
def _past_rewritten(lake: Path) -> None:
    chained_anew(lake, first(reason="so it was"))


@_way("a manifest names another plan, and the chain is rebuilt", "cycles")
def _plan_replaced(lake: Path) -> None:
    chained_anew(lake, first(plan_id="0" * 64))


@_way("a manifest is dated a microsecond later, and the chain is rebuilt", "cycles")
def _times_shifted(lake: Path) -> None:
    chained_anew(lake, lambda rows: [{**rows[0], "cycle_at": rows[0]["cycle_at"] + _MICROSECOND}, *rows[1:]])


@_way("a manifest is duplicated", "cycles")
def _manifest_doubled(lake: Path) -> None:
    rewrite(lake, "cycles", lambda rows: [*rows, min(rows, key=str)])


@_way("an attempt is added after the head, and the chain is rebuilt", "cycles")
def _manifest_added(lake: Path) -> None:
    name = "f" * 64

    def one_more(rows: list[Row]) -> list[Row]:
        return [*rows, {**rows[-1], "sequence": rows[-1]["sequence"] + 1, "attempt_id": name, "write_id": name}]

    chained_anew(lake, one_more)


def _renamed(lake: Path, to: Callable[[str], str]) -> None:
    """The cluster whose name is first gets another in `cycles`, with a chain to match."""
    name = min(row["cluster"] for row in rows_of(lake, "cycles"))
    names = {name: to(name)}
    chained_anew(lake, lambda rows: [{**row, "cluster": names.get(row["cluster"], row["cluster"])} for row in rows])


@_way("a cluster's name is written in capitals, and the chain is rebuilt", "cycles")
def _cluster_in_capitals(lake: Path) -> None:
    _renamed(lake, str.upper)


@_way("letters of a cluster's name are replaced by letters that look alike, and the chain is rebuilt", "cycles")
def _cluster_by_unicode(lake: Path) -> None:
    _renamed(lake, lambda name: name.replace("a", "\u0430").replace("o", "\u043e"))


@_way("all manifests of a cluster are removed", "cycles")
def _cluster_gone(lake: Path) -> None:
    name = min(row["cluster"] for row in rows_of(lake, "cycles"))
    rewrite(lake, "cycles", lambda rows: [row for row in rows if row["cluster"] != name])


@_way("all manifests are removed", "cycles")
def _record_empty(lake: Path) -> None:
    rewrite(lake, "cycles", lambda rows: [])


# Rows that manifests list.


@_way("an outcome of a decision is changed through Delta", "unload_decisions")
def _decision_changed(lake: Path) -> None:
    rewrite(lake, "unload_decisions", first(outcome="kept for good"))


@_way("a value of a setting is changed through Delta", "settings")
def _setting_changed(lake: Path) -> None:
    rewrite(lake, "settings", first(value="99"))


@_way("a broker's load is assigned to another broker", "broker_load")
def _load_changed(lake: Path) -> None:
    rewrite(lake, "broker_load", first(broker="elsewhere:8080"))


@_way("a broker's answer is changed", "raw_answers")
def _answer_changed(lake: Path) -> None:
    rewrite(lake, "raw_answers", first(body="{}"))


@_way("a command names another bundle", "commands")
def _command_changed(lake: Path) -> None:
    rewrite(lake, "commands", first(bundle="other/place/0x00000000_0xffffffff"))


@_way("the last bit of one figure is changed in a file", "bundle_load")
def _last_bit(lake: Path) -> None:
    edit_file(lake, "bundle_load", "measured_msg_rate_in", lambda value: math.nextafter(value or 0.0, math.inf))


@_way("the sign of a zero is changed in a file", "bundle_load")
def _minus_zero(lake: Path) -> None:
    rewrite(lake, "bundle_load", first(measured_msg_rate_in=0.0))
    edit_file(lake, "bundle_load", "measured_msg_rate_in", lambda value: -0.0 if value == 0 else value)


@_way("NULL becomes an empty text in a file", "unload_decisions")
def _empty_for_null(lake: Path) -> None:
    edit_file(lake, "unload_decisions", "wish_id", lambda value: value or "")


@_way("a decision is removed", "unload_decisions")
def _rows_removed(lake: Path) -> None:
    rewrite(lake, "unload_decisions", without_first)


@_way("decisions are duplicated", "unload_decisions")
def _rows_doubled(lake: Path) -> None:
    rewrite(lake, "unload_decisions", lambda rows: rows * 2)


@_way("rows are moved from one cluster to another", "bundle_load")
def _rows_between_clusters(lake: Path) -> None:
    names = sorted({row["cluster"] for row in rows_of(lake, "bundle_load")})
    other = dict(zip(names, [*names[1:], names[0]], strict=True))
    rewrite(lake, "bundle_load", lambda rows: [{**row, "cluster": other[row["cluster"]]} for row in rows])


@_way("a commit adds a copy of a data file", "unload_decisions")
def _file_added(lake: Path) -> None:
    (file, *_) = files_of(lake, "unload_decisions")
    copy = file.with_name(f"copy-{file.name}")
    shutil.copy(file, copy)
    actions = _actions(lake, "unload_decisions")
    (add,) = (action for action in actions if action.get("add", {}).get("path", "").endswith(file.name))
    add["add"]["path"] = add["add"]["path"].replace(file.name, copy.name)
    _write_on_top(lake, "unload_decisions", {"commitInfo": {"operation": "WRITE"}}, add)


@_way("a data file is removed", "bundle_load")
def _file_gone(lake: Path) -> None:
    files_of(lake, "bundle_load")[0].unlink()


@_way("two data files change places", "bundle_load")
def _files_swapped(lake: Path) -> None:
    one, other = files_of(lake, "bundle_load")[:2]
    left, right = one.read_bytes(), other.read_bytes()
    one.write_bytes(right)
    other.write_bytes(left)


@_way("a table of rows is set back to before its newest rows", "bundle_load")
def _table_set_back(lake: Path) -> None:
    commits = log_files(lake, "bundle_load")
    newest = max(place for place, commit in enumerate(commits) if '"operation":"WRITE"' in commit.read_text())
    cut(lake, "bundle_load", len(commits) - newest)


@_way("a table of rows is removed", "placement_decisions")
def _table_gone(lake: Path) -> None:
    shutil.rmtree(lake / "placement_decisions")


# Delta's own log.


@_way("a commit in the middle of a table's log is removed", "unload_decisions")
def _commit_gone(lake: Path) -> None:
    commits = log_files(lake, "unload_decisions")
    commits[len(commits) // 2].unlink()


@_way("the files are removed from a commit", "unload_decisions")
def _commit_replaced(lake: Path) -> None:
    (commit, *_) = (log_file for log_file in log_files(lake, "unload_decisions") if '"add"' in log_file.read_text())
    lines = commit.read_text().splitlines()
    commit.write_text("".join(f"{line}\n" for line in lines if '"add"' not in line))


@_way("a checkpoint of Delta lacks a file", "cycles")
def _delta_checkpoint(lake: Path) -> None:
    import pyarrow.parquet as pq

    DeltaTable(str(lake / "cycles")).create_checkpoint()
    file = max((lake / "cycles" / "_delta_log").glob("*.checkpoint.parquet"))
    read = pq.read_table(file)
    added = [place for place, add in enumerate(read.column("add").to_pylist()) if add is not None]
    pq.write_table(read.take([place for place in range(read.num_rows) if place != added[0]]), file)


def _write_on_top(lake: Path, table: str, *actions: Row) -> None:
    """Write a commit of the given actions behind the newest one."""
    newest = log_files(lake, table)[-1]
    file = newest.with_name(f"{int(newest.stem) + 1:020}.json")
    file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def _commit_on_top(lake: Path, table: str, *actions: Row, **information: Any) -> None:
    """Write a commit of the given actions behind the newest one, dated a day ago."""
    at = int((datetime.now(UTC) - timedelta(days=1)).timestamp() * 1000)
    head = {"commitInfo": {"timestamp": at, "operation": "WRITE", "operationParameters": {}, **information}}
    _write_on_top(lake, table, head, *actions)


def _actions(lake: Path, table: str) -> list[Row]:
    """Return all actions of a table's commits, oldest first."""
    return [json.loads(line) for commit in log_files(lake, table) for line in commit.read_text().splitlines()]


def _metadata(lake: Path, table: str) -> Row:
    """Return the metadata of a table as its newest commit has it."""
    metadata: Row = [action["metaData"] for action in _actions(lake, table) if "metaData" in action][-1]
    return metadata


def _adds(lake: Path, table: str) -> list[Row]:
    """Return the `add` actions of the files that a table has now."""
    removed = {action["remove"]["path"] for action in _actions(lake, table) if "remove" in action}
    adds = [action["add"] for action in _actions(lake, table) if "add" in action]
    return [add for add in adds if add["path"] not in removed]


def _with_fields(metadata: Row, change: Callable[[list[Row]], None]) -> Row:
    """Return the metadata with the fields of its schema changed."""
    schema = json.loads(metadata["schemaString"])
    change(schema["fields"])
    return {**metadata, "schemaString": json.dumps(schema)}


@_way("statistics of a file are false, so that a query for pauses skips it", "controls")
def _statistics_lie(lake: Path) -> None:
    for commit in log_files(lake, "controls"):
        text = commit.read_text()
        if '"add"' in text and "pause" in text:
            commit.write_text(text.replace("pause", "zzzzz"))
            return
    raise ValueError("no statistics of controls name a pause")


@_way("columns are swapped by a mapping of their names", "broker_load")
def _columns_mapped(lake: Path) -> None:
    def swap(fields: list[Row]) -> None:
        rates = [field["name"] for field in fields if field["type"] == "double"][:2]
        names = dict(zip(rates, reversed(rates), strict=True))
        for number, field in enumerate(fields, 1):
            name = names.get(field["name"], field["name"])
            field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}

    mapped = _with_fields(_metadata(lake, "broker_load"), swap)
    mapped["configuration"] = {**mapped["configuration"], "delta.columnMapping.mode": "name"}
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    _commit_on_top(lake, "broker_load", protocol, {"metaData": mapped}, operation="SET TBLPROPERTIES")


@_way("a constraint is added that runs code when rows are written", "approvals")
def _constraint_set(lake: Path) -> None:
    metadata = _metadata(lake, "approvals")
    configuration = {
        **metadata["configuration"],
        "delta.constraints.c": "java_method('java.lang.System', 'gc') is null",
    }
    _commit_on_top(
        lake, "approvals", {"metaData": {**metadata, "configuration": configuration}}, operation="ADD CONSTRAINT"
    )


@_way("a compacted file has another figure, and its commit names an upkeep", "bundle_load")
def _compaction_forged(lake: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (add, *_) = sorted(_adds(lake, "bundle_load"), key=lambda one: one["path"])
    old = lake / "bundle_load" / add["path"]
    read = pq.ParquetFile(old).read()
    place = read.column_names.index("measured_msg_rate_in")
    values = read.column(place).to_pylist()
    changed = pa.array([(values[0] or 0.0) + 1.0, *values[1:]], read.schema.field(place).type)
    new = old.with_name(f"part-00000-{old.name}")
    pq.write_table(read.set_column(place, "measured_msg_rate_in", changed), new)
    (row, *_) = sorted(rows_of(lake, "upkeeps"), key=str)
    gone = {"path": add["path"], "deletionTimestamp": 0, "dataChange": False}
    path = str(new.relative_to(lake / "bundle_load"))
    made = {**{name: value for name, value in add.items() if name != "stats"}, "path": path, "size": new.stat().st_size}
    said = json.dumps({"upkeep": row["upkeep_id"]})
    actions = ({"remove": gone}, {"add": {**made, "dataChange": False}})
    _commit_on_top(lake, "bundle_load", *actions, operation="OPTIMIZE", userMetadata=said)


@_way("a checksum of Delta counts one file less", "unload_decisions")
def _checksum_lies(lake: Path) -> None:
    adds = _adds(lake, "unload_decisions")
    newest = log_files(lake, "unload_decisions")[-1]
    protocol = [one["protocol"] for one in _actions(lake, "unload_decisions") if "protocol" in one][-1]
    counted = {"tableSizeBytes": sum(add["size"] for add in adds[1:]), "numFiles": len(adds) - 1, "allFiles": adds[1:]}
    rest = {"numMetadata": 1, "numProtocol": 1, "setTransactions": [], "domainMetadata": [], "protocol": protocol}
    checksum = {**counted, **rest, "metadata": _metadata(lake, "unload_decisions")}
    newest.with_suffix(".crc").write_text(json.dumps(checksum))


@_way("a compacted log file lacks rows that the commits add", "unload_decisions")
def _commits_put_together(lake: Path) -> None:
    commits = log_files(lake, "unload_decisions")
    actions = [one for one in _actions(lake, "unload_decisions") if "add" not in one and "commitInfo" not in one]
    name = f"{commits[0].stem}.{commits[-1].stem}.compacted.json"
    commits[0].with_name(name).write_text("".join(f"{json.dumps(action)}\n" for action in actions))


# Rows outside manifests.


def _shorter_upkeep(lake: Path) -> None:
    (row, *_) = sorted(rows_of(lake, "upkeeps"), key=lambda upkeep_row: upkeep_row["begun_at"])
    periods = {**dict(row["periods"]), "audit_days": 2, "observed_days": 2, "considered_days": 2, "topics_days": 2}
    forged = {"upkeep_id": "forged", "periods": [*{**periods, "unlisted_days": 1}.items()]}
    append(lake, "upkeeps", [{**row, **forged, "begun_at": row["begun_at"] - timedelta(days=30)}])


@_way("an upkeep with shorter periods is added under an earlier time", "upkeeps")
def _upkeep_forged(lake: Path) -> None:
    _shorter_upkeep(lake)


@_way("an upkeep with shorter periods is added, and the approvals that it would drop are removed", "approvals")
def _period_shortened(lake: Path) -> None:
    _shorter_upkeep(lake)
    rewrite(lake, "approvals", lambda rows: [])


@_way("an upkeep is removed", "upkeeps")
def _upkeep_removed(lake: Path) -> None:
    rewrite(lake, "upkeeps", without_first)


@_way("the beginning of a chain is removed, and an anchor replaces it", "anchors")
def _anchor_forged(lake: Path) -> None:
    chain = sorted(rows_of(lake, "cycles"), key=lambda row: (row["cluster"], row["sequence"]))
    last = chain[1]
    anchor = {name: last[name] for name in ("cluster", "sequence", "manifest_digest", "cycle_at", "recorded_at")}
    append(lake, "anchors", [{**anchor, "made_at": last["recorded_at"], "code_version": "1.0.0"}])
    gone = {row["manifest_digest"] for row in chain[:2]}
    rewrite(lake, "cycles", lambda rows: [row for row in rows if row["manifest_digest"] not in gone])


@_way("a file is changed, and a proof with an earlier time is added for it", "proofs")
def _proof_forged(lake: Path) -> None:
    clusters = sorted({load_row["cluster"] for load_row in rows_of(lake, "bundle_load")})
    edit_file(lake, "bundle_load", "measured_msg_rate_in", lambda value: (value or 0.0) + 1.0)
    (row, *_) = sorted(rows_of(lake, "proofs"), key=str)
    files = [
        {
            "path": str(file.relative_to(lake / "bundle_load")),
            "size": file.stat().st_size,
            "digest": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for file in files_of(lake, "bundle_load")
    ]
    forged = {"table_name": "bundle_load", "files_after": files, "proven_at": row["proven_at"] - timedelta(days=30)}
    append(lake, "proofs", [{**row, **forged, "cluster": cluster} for cluster in clusters])


@_way("an approval is added under an earlier time", "approvals")
def _approval_added(lake: Path) -> None:
    (row, *_) = sorted(rows_of(lake, "approvals"), key=str)
    append(lake, "approvals", [{**row, "by": "mallory", "at": row["at"] - timedelta(days=1)}])


@_way("an approval is removed", "approvals")
def _approval_removed(lake: Path) -> None:
    rewrite(lake, "approvals", without_first)


@_way("an approval becomes a rejection", "approvals")
def _approval_turned(lake: Path) -> None:
    rewrite(lake, "approvals", first(answer="rejected"))


@_way("an approval is duplicated", "approvals")
def _approval_doubled(lake: Path) -> None:
    rewrite(lake, "approvals", lambda rows: rows * 2)


@_way("a pause is removed", "controls")
def _pause_removed(lake: Path) -> None:
    rewrite(lake, "controls", lambda rows: [row for row in rows if row["kind"] != "pause"])


@_way("an outcome is changed", "outcomes")
def _outcome_changed(lake: Path) -> None:
    rewrite(lake, "outcomes", first(outcome="harmed"))


@_way("a manual request names another namespace", "wishes")
def _wish_changed(lake: Path) -> None:
    rewrite(lake, "wishes", first(namespace="other/place"))


@_way("a manual request is removed", "wishes")
def _wish_removed(lake: Path) -> None:
    rewrite(lake, "wishes", without_first)


# The log itself.


@_way("the log is removed", "_log", alone=False)
def _log_gone(lake: Path) -> None:
    shutil.rmtree(lake / "_log")


@_way("the log is replaced by a new one with another key of the same name", "_log", alone=False)
def _log_by_a_stranger(lake: Path) -> None:
    from evenkeel.transparency.lake_log import begin

    origin = (lake / "_log" / "checkpoint").read_text().split("\n", 1)[0]
    shutil.rmtree(lake / "_log")
    begin(str(lake), [SignerKey(origin, bytes(32))])


@_way("an attacker's key is rotated in: a leaf names it, and it signs a checkpoint", "_log", alone=False)
def _stranger_rotated_in(lake: Path) -> None:
    from evenkeel.transparency.lake_log import KEYS, keys_beside
    from evenkeel.transparency.leaves import KeysLeaf
    from evenkeel.transparency.log import TransparencyLog
    from evenkeel.transparency.rotations import keep_rotation
    from evenkeel.transparency.storage import FolderStorage

    storage = FolderStorage(lake / "_log")
    before = keys_beside(storage)
    stranger = SignerKey(before[0].name, bytes(32))
    log = TransparencyLog(storage, stranger.verifier.name, [stranger], before)
    joined = log.append([KeysLeaf((stranger.verifier,), before).text])
    keep_rotation(storage, joined.first, joined.checkpoint.note)
    storage.put(KEYS, f"{stranger.verifier.text}\n".encode())


@_way("all tables and the log are set back by some cycles", "_log", alone=False)
def _all_set_back(lake: Path) -> None:
    before = lake.parent / BEFORE
    for folder in [place for place in lake.iterdir() if place.is_dir()]:
        shutil.rmtree(folder)
    for place in [place for place in before.iterdir() if place.is_dir()]:
        shutil.copytree(place, lake / place.name)


@_way("only the log is set back by some cycles", "_log", alone=False)
def _log_set_back(lake: Path) -> None:
    shutil.rmtree(lake / "_log")
    shutil.copytree(lake.parent / BEFORE / "_log", lake / "_log")


@_way("the size in the checkpoint is changed", "_log")
def _checkpoint_changed(lake: Path) -> None:
    file = lake / "_log" / "checkpoint"
    origin, size, *others = file.read_text().split("\n")
    file.write_text("\n".join([origin, str(int(size) - 1), *others]))


@_way("a leaf is changed", "_log")
def _leaf_changed(lake: Path) -> None:
    for file in sorted((lake / "_log" / "tile" / "entries").rglob("*")):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b'"kind":"commit"', b'"kind":"comitt"', 1))


@_way("a bit of a tile is changed", "_log")
def _tile_changed(lake: Path) -> None:
    for file in sorted((lake / "_log" / "tile" / "0").rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            file.write_bytes(bytes([data[0] ^ 1]) + data[1:])


@dataclass(frozen=True, slots=True)
class Verdict:
    """`verify`'s report: its exit code, and (table, cluster, words) of each fault."""

    code: int
    faults: tuple[tuple[str, str, str], ...]

    def names(self, kind: Tampering) -> bool:
        """Return True if it was named, with its table."""
        return self.code != 0 and any(table == kind.table for table, _, _ in self.faults)


def verdict_on(lake: Path, *words: str) -> Verdict:
    """Run `evenkeel verify` in this process."""
    from evenkeel.cli import main as command

    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = command(["verify", "--lake", str(lake), "--json", *words])
    text = output.getvalue()
    if not text.startswith("{"):
        return Verdict(code, (("", "", errors.getvalue().strip().splitlines()[-1] if errors.getvalue() else ""),))
    faults = json.loads(text)["faults"]
    return Verdict(code, tuple((fault["table"], fault["cluster"], fault["words"]) for fault in faults))


def tampered(lake: Path, kind: Tampering, folder: Path) -> Path:
    """Yield a copy of the lake, tampered with; `BEFORE` has to exist beside the lake."""
    shutil.copytree(lake, folder / "lake")
    (folder / BEFORE).symlink_to(lake.parent / BEFORE)
    kind.apply(folder / "lake")
    return folder / "lake"


def main(arguments: Sequence[str] = ()) -> int:
    """Print a line of a Markdown table for each way; 1 if one was not named."""
    parser = argparse.ArgumentParser(prog="python -m devtools.tampering")
    for name in ("lake", "log-key", "witness"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args([*arguments])
    outside = ("--log-key", given.log_key, "--against", given.witness)
    missed = 0
    print(
        "| what was done | named | table | what `verify` says first | without key and witness |\n|---|---|---|---|---|"
    )
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            lake = tampered(Path(given.lake), kind, Path(folder))
            named, alone = verdict_on(lake, *outside), verdict_on(lake)
        is_named = named.names(kind)
        missed += not is_named
        (words,) = [words for table, _, words in named.faults if table == kind.table][:1] or [""]
        by_itself = "named" if alone.names(kind) else "named otherwise" if alone.code else "**passes**"
        print(
            f"| {kind.words} | {'yes' if is_named else '**no**'} | `{kind.table}` | {words[:160]} | {by_itself} |",
            flush=True,
        )
    print(f"\n{len(KINDS)} ways, {missed} not named ({datetime.now(UTC).date()})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
