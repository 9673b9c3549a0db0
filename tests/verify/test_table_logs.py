"""Whatever readers go by in a table's folder is compared with the commits, and each kind of tampering is named."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from evenkeel.errors import LakeError
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.lake.table_metadata import demand_as_declared
from evenkeel.verify.table_logs import check_tables, counted_upkeeps, replay
from tests.lakes.small_lake import SmallLake, moment

AT = moment("2026-11-21T08:00:00")
CHECKPOINT, NEWEST = 5, 7
"""Versions of `controls`: rows in each of the commits 0 to 7."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of a few cycles; `controls` has a checkpoint, and a version checksum as Spark writes it."""
    lake = SmallLake(tmp_path_factory.mktemp("sound"))
    for number in range(4):
        lake.add("lab", AT + timedelta(minutes=number), {"settings": [{"key": "k", "value": str(number)}]})
    for number in range(NEWEST + 1):
        kind = "pause" if number % 2 else "resume"
        lake.append("controls", [{"cluster": "lab", "kind": kind, "at": AT + timedelta(minutes=number), "by": "ann"}])
        if number == CHECKPOINT:
            DeltaTable(str(lake.root / "controls")).create_checkpoint()
    write_checksum(lake.root / "controls", NEWEST)
    return lake.root


@pytest.fixture
def lake(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "lake"))


@pytest.fixture
def log(lake: Path) -> Path:
    return lake / "controls" / "_delta_log"


def write_checksum(table: Path, version: int) -> None:
    """A checksum with the fields that Spark's has, of those that readers go by."""
    actions = [one for number in range(version + 1) for one in actions_of(commit(table / "_delta_log", number))]
    adds = [one["add"] for one in actions if "add" in one]
    said: dict[str, Any] = {"tableSizeBytes": sum(add["size"] for add in adds), "numFiles": len(adds), "allFiles": adds}
    said |= {"numMetadata": 1, "numProtocol": 1, "setTransactions": [], "domainMetadata": []}
    said |= {"metadata": next(one["metaData"] for one in actions if "metaData" in one)}
    said |= {"protocol": next(one["protocol"] for one in actions if "protocol" in one)}
    (table / "_delta_log" / f"{version:020}.crc").write_text(json.dumps(said))


def commit(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def actions_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(path: Path, actions: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in actions))


def digests(log: Path) -> dict[int, str]:
    return {int(path.stem): hashlib.sha256(path.read_bytes()).hexdigest() for path in log.glob("[0-9]*.json")}


def faults(lake: Path, known: dict[int, str] | None = None) -> list[tuple[str, str]]:
    return [(fault.place, fault.words) for fault in replay(str(lake), "controls", known or {}).faults]


def only_fault(lake: Path, known: dict[int, str] | None = None) -> tuple[str, str]:
    (fault,) = faults(lake, known)
    return fault


def metadata_of(log: Path) -> dict[str, Any]:
    return next(one["metaData"] for one in actions_of(commit(log, 0)) if "metaData" in one)


def add_commit(log: Path, *actions: dict[str, Any], operation: str = "SET TBLPROPERTIES") -> None:
    put(commit(log, NEWEST + 1), [{"commitInfo": {"operation": operation, "timestamp": 0}}, *actions])


def test_a_sound_lake_has_no_fault(lake: Path, log: Path) -> None:
    assert check_tables(str(lake), {}, []) == []
    assert check_tables(str(lake), {"controls": digests(log)}, []) == []
    DeltaTable(str(lake / "controls")).optimize.compact()
    DeltaTable(str(lake / "controls")).create_checkpoint()
    assert faults(lake) == [], "rows are as they were in fewer files"


def test_a_log_that_begins_with_a_checkpoint_has_no_fault(lake: Path, log: Path) -> None:
    known = digests(log)
    for version in range(CHECKPOINT):
        commit(log, version).unlink()
    assert faults(lake, known) == []
    commit(log, CHECKPOINT).unlink()
    assert faults(lake, known) == []


def test_links_in_the_lake_are_named_and_the_tables_with_them_refused(lake: Path, tmp_path: Path) -> None:
    (lake / "controls" / "cluster=lab").rename(tmp_path / "theirs")
    (lake / "controls" / "cluster=lab").symlink_to(tmp_path / "theirs")
    (lake / "_writer").symlink_to(tmp_path / "theirs")
    links = [(one.place, one.words) for one in check_tables(str(lake), {}, []) if "symbolic link" in one.words]
    assert [place for place, _ in sorted(links)] == ["_writer", "cluster=lab"]
    with pytest.raises(LakeError, match=r"controls/cluster=lab is a symbolic link"):
        demand_as_declared(TABLES["controls"], str(lake / "controls"))


# Commits.


def test_a_commit_other_than_on_record_is_named(lake: Path, log: Path) -> None:
    known = digests(log)
    commit(log, 3).write_text(commit(log, 3).read_text() + "\n")
    place, words = only_fault(lake, known)
    assert (place, words[:41]) == ("commit 3", "its bytes are not those on record: it was")


def test_a_line_feed_that_is_cut_off_is_named_as_that_alone(lake: Path, log: Path) -> None:
    commit(log, NEWEST).write_text(commit(log, NEWEST).read_text() + "\n")
    known = digests(log)
    commit(log, NEWEST).write_text(commit(log, NEWEST).read_text()[:-1])
    place, words = only_fault(lake, known)
    assert (place, words[:58]) == ("commit 7", "its last byte, a line feed, is cut off, and nothing else. ")
    subprocess.run(words.partition("Put it back: ")[2], shell=True, check=True)
    assert faults(lake, known) == []


def test_statistics_that_lie_are_named_by_the_rows(lake: Path, log: Path) -> None:
    changes: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
        ("numRecords", lambda stats: stats.update(numRecords=0)),
        ("kind", lambda stats: (stats["minValues"].update(kind="zzzz"), stats["maxValues"].update(kind="zzzz"))),
        ("at", lambda stats: stats["maxValues"].update(at="2020-01-01T00:00:00Z")),
        ("token", lambda stats: stats["minValues"].update(token="a text")),
        ("by", lambda stats: stats["nullCount"].update(by=1)),
    ]
    (log / f"{NEWEST:020}.crc").unlink()
    whole = commit(log, 7).read_text()
    for column, change in changes:
        actions = [json.loads(line) for line in whole.splitlines()]
        (add,) = (one["add"] for one in actions if "add" in one)
        stats = json.loads(add["stats"])
        change(stats)
        add["stats"] = json.dumps(stats)
        put(commit(log, 7), actions)
        place, words = only_fault(lake)
        assert place.startswith("commit 7, file cluster=lab/"), place
        assert ("rows, and the file has 1" if column == "numRecords" else f"statistics of {column} are not") in words
        known = digests(log)
        assert faults(lake, known) == [], "a commit on record is as its writer left it"


def test_limits_wider_than_the_values_are_no_lie(lake: Path, log: Path) -> None:
    (log / f"{NEWEST:020}.crc").unlink()
    actions = actions_of(commit(log, 7))
    (add,) = (one["add"] for one in actions if "add" in one)
    stats = json.loads(add["stats"])
    stats["minValues"]["kind"], stats["maxValues"]["kind"] = "p", "pausf"
    add["stats"] = json.dumps(stats)
    put(commit(log, 7), actions)
    assert faults(lake) == []


@pytest.mark.parametrize(
    ("cut", "words"), [(0, "it is empty: readers take it"), (40, "it is cut short, or is not JSON"), (-30, "cut short")]
)
def test_a_damaged_commit_is_named_and_not_read_on(lake: Path, log: Path, cut: int, words: str) -> None:
    data = commit(log, NEWEST).read_bytes()
    commit(log, NEWEST).write_bytes(data[:cut])
    place, told = only_fault(lake)
    assert place == f"commit {NEWEST}"
    assert words in told
    with pytest.raises(LakeError, match=rf"commit {NEWEST} .* Restore that file from a copy\."):
        demand_as_declared(TABLES["controls"], str(lake / "controls"))


def test_a_gap_and_a_cut_end_are_named(lake: Path, log: Path) -> None:
    known = digests(log)
    commit(log, 3).unlink()
    assert only_fault(lake) == (
        "commit 3",
        "missing in the middle of the log: readers begin after them. Restore them from a copy",
    )
    for version in (6, 7):
        commit(log, version).unlink()
    (log / f"{NEWEST:020}.crc").unlink()
    (_, (place, words)) = faults(lake, known)
    assert place == "commits 6 to 7"
    assert "the log ends at 5: the table is shorter than a manifest or the log says" in words


def test_a_checksum_beyond_the_last_commit_shows_that_the_end_was_cut(lake: Path, log: Path) -> None:
    commit(log, NEWEST).unlink()
    place, words = only_fault(lake)
    assert place == f"commit {NEWEST}"
    assert "the log ends at 6: commits at the end were removed" in words


def test_a_log_without_commits_is_named_where_some_are_on_record(lake: Path, log: Path) -> None:
    known = digests(log)
    shutil.rmtree(lake / "controls")
    assert faults(lake) == []
    assert only_fault(lake, known)[0] == "its log"


def test_commits_that_remove_rows_are_named_but_those_of_an_upkeep_on_record(lake: Path) -> None:
    for upkeep in ("u1", "forged"):
        said = CommitProperties(custom_metadata={"userMetadata": json.dumps({"upkeep": upkeep})})
        at = (AT + timedelta(minutes=1 if upkeep == "u1" else 2)).isoformat()
        DeltaTable(str(lake / "controls")).delete(f"at = '{at}'", commit_properties=said)
    (fault,) = replay(str(lake), "controls", {}, {"u1"}).faults
    assert fault.place == "commit 9"
    assert fault.words.startswith("it is a DELETE of ")
    assert "by delta-rs" in fault.words


def test_a_commit_that_overwrites_or_hides_removals_as_putting_together_is_named(lake: Path, log: Path) -> None:
    before = DeltaTable(str(lake / "controls")).to_pyarrow_table()
    write_deltalake(str(lake / "controls"), before, mode="overwrite", partition_by=["cluster"])
    assert [place for place, _ in faults(lake)] == ["commit 8"]
    actions = actions_of(commit(log, 8))
    for one in actions:
        if "remove" in one:
            one["remove"]["dataChange"] = False
    put(commit(log, 8), actions)
    assert [place for place, _ in faults(lake)] == ["commit 8"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("s3://elsewhere/a.parquet", "a file outside the table's folder"),
        ("cluster=lab/../../a.parquet", "a file outside the table's folder"),
        ("cluster=other/a.parquet", "its rows are taken for those of another one"),
    ],
)
def test_a_file_elsewhere_or_of_another_partition_is_named(lake: Path, log: Path, path: str, words: str) -> None:
    add_commit(log, {"add": {"path": path, "partitionValues": {"cluster": "lab"}, "size": 1}}, operation="WRITE")
    place, told = only_fault(lake)
    assert (place, words in told) == ("commit 8", True), told


def test_actions_of_no_writer_of_ours_are_named(lake: Path, log: Path) -> None:
    add_commit(log, {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}})
    assert only_fault(lake)[1].startswith("it has an action `domainMetadata`")


# Checkpoints, checksums, commits put together.


def checkpoint(log: Path) -> Path:
    return log / f"{CHECKPOINT:020}.checkpoint.parquet"


def rewrite_checkpoint(log: Path, change: Callable[[dict[str, Any]], bool]) -> None:
    """Keeps the rows of a checkpoint for which `change`, which may change them, gives True."""
    whole = pq.read_table(checkpoint(log))
    rows = [row for row in whole.to_pylist() if change(row)]
    pq.write_table(pa.Table.from_pylist(rows, whole.schema), checkpoint(log))


def test_a_checkpoint_that_says_otherwise_is_named(lake: Path, log: Path) -> None:
    whole = checkpoint(log).read_bytes()
    seen: list[int] = []

    def without_one(row: dict[str, Any]) -> bool:
        seen.append(1) if row["add"] else None
        return not (row["add"] and len(seen) == 1)

    def with_other_statistics(row: dict[str, Any]) -> bool:
        if row["add"]:
            row["add"]["stats"] = row["add"]["stats"].replace("pause", "zzzz")
        return True

    def with_a_property(row: dict[str, Any]) -> bool:
        if row["metaData"]:
            row["metaData"]["configuration"] = [("delta.columnMapping.mode", "name")]
        return True

    ways = [
        (without_one, "it lacks file"),
        (with_other_statistics, "other sizes, partitions or statistics for 3 files"),
    ]
    for change, words in [*ways, (with_a_property, "its metadata differs (configuration)")]:
        checkpoint(log).write_bytes(whole)
        rewrite_checkpoint(log, change)
        place, told = only_fault(lake)
        assert (place, words in told) == (f"checkpoint {CHECKPOINT}", True), told
        assert f"Remove {checkpoint(log)} and {log / '_last_checkpoint'}" in told
    checkpoint(log).unlink()
    (log / "_last_checkpoint").unlink()
    assert faults(lake) == [], "the advice works"


@pytest.mark.parametrize("left", [0, 40, -40])
def test_a_damaged_checkpoint_is_named_and_the_advice_works(lake: Path, log: Path, left: int) -> None:
    checkpoint(log).write_bytes(checkpoint(log).read_bytes()[:left])
    place, told = only_fault(lake)
    assert place == f"checkpoint {CHECKPOINT}"
    advice = f"remove {checkpoint(log)} and {log / '_last_checkpoint'}, and the table can be read"
    assert advice in told
    checkpoint(log).unlink()
    (log / "_last_checkpoint").unlink()
    assert DeltaTable(str(lake / "controls")).to_pyarrow_table().num_rows == NEWEST + 1
    assert faults(lake) == []


def test_a_checkpoint_in_several_files_is_read_whole(lake: Path, log: Path) -> None:
    whole = pq.read_table(checkpoint(log))
    for part in (1, 2):
        half = whole.slice((part - 1) * 4, 4 if part == 1 else None)
        pq.write_table(half, log / f"{CHECKPOINT:020}.checkpoint.{part:010}.{2:010}.parquet")
    checkpoint(log).unlink()
    hint = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps({**hint, "parts": 2}))
    assert faults(lake) == []
    second = log / f"{CHECKPOINT:020}.checkpoint.{2:010}.{2:010}.parquet"
    pq.write_table(whole.slice(5), second)
    assert "it lacks file" in only_fault(lake)[1]


def test_a_hint_that_leads_astray_is_named(lake: Path, log: Path) -> None:
    hint = log / "_last_checkpoint"
    for text, words in (('{"version": 6}', "names checkpoint 6, which is not there"), ("{", "is empty or cut short")):
        hint.write_text(text)
        place, told = only_fault(lake)
        assert (place, words in told, f"Remove {hint}" in told) == ("_last_checkpoint", True, True), told


def test_a_checksum_that_says_otherwise_is_named(lake: Path, log: Path) -> None:
    file = log / f"{NEWEST:020}.crc"
    whole = json.loads(file.read_text())
    renamed = json.loads(json.dumps(whole["metadata"]).replace('\\"reason\\"', '\\"other\\"'))
    for change, words in [
        ({"numFiles": 7}, "its numFiles is 7, and the commits make 8"),
        ({"allFiles": whole["allFiles"][1:]}, "it lacks file"),
        ({"metadata": renamed}, "its metadata differs (schemaString)"),
        ({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}, "its protocol differs"),
    ]:
        file.write_text(json.dumps({**whole, **change}))
        place, told = only_fault(lake)
        assert (place, words in told, f"Remove {file}" in told) == (f"checksum {NEWEST}", True, True), told
    file.write_text("{")
    assert "empty or cut short" in only_fault(lake)[1]


def test_commits_put_together_are_named(lake: Path, log: Path) -> None:
    name = f"{6:020}.{7:020}.compacted.json"
    shutil.copy(commit(log, 7), log / name)
    place, words = only_fault(lake)
    assert place == f"_delta_log/{name}"
    assert words.endswith("Remove it")


# Metadata.


def _schema(metadata: dict[str, Any], change: Callable[[list[dict[str, Any]]], Any]) -> dict[str, Any]:
    schema = json.loads(metadata["schemaString"])
    change(schema["fields"])
    return {**metadata, "schemaString": json.dumps(schema)}


def _set(name: str, value: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda metadata: {**metadata, "configuration": {**metadata["configuration"], name: value}}


def _mapped(fields: list[dict[str, Any]]) -> None:
    for field in fields:
        other = {"by": "reason", "reason": "by"}.get(field["name"], field["name"])
        field["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": other}


METADATA: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    ("mapping", lambda metadata: _schema(metadata, _mapped), "column by has delta.columnMapping.physicalName"),
    ("mode", _set("delta.columnMapping.mode", "name"), "property delta.columnMapping.mode = 'name' is none"),
    ("check", _set("delta.constraints.c", "java_method('a', 'b')"), "property delta.constraints.c"),
    ("isolation", _set("delta.isolationLevel", "WriteSerializable"), "is 'WriteSerializable', not 'Serializable'"),
    ("period", _set("delta.logRetentionDuration", "a while"), "is 'a while', which is not a period"),
    ("renamed", lambda m: _schema(m, lambda fields: fields[4].update(name="why")), "column why was added"),
    ("removed", lambda m: _schema(m, lambda fields: fields.pop(4)), "column reason is missing"),
    (
        "type",
        lambda m: _schema(m, lambda fields: fields[5].update(type="string")),
        "column token is string, not bigint",
    ),
    ("null", lambda m: _schema(m, lambda fields: fields[3].update(nullable=True)), "column by may be NULL"),
    (
        "generated",
        lambda m: _schema(m, lambda fields: fields[4].update(metadata={"delta.generationExpression": "by"})),
        "column reason has delta.generationExpression = 'by'",
    ),
    ("partition", lambda m: {**m, "partitionColumns": []}, "it is partitioned by nothing, not by cluster"),
]


@pytest.mark.parametrize(("change", "words"), [pytest.param(*one[1:], id=one[0]) for one in METADATA])
def test_metadata_of_no_writer_of_ours_is_named_and_refused(
    lake: Path, log: Path, change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    table = TABLES["controls"]
    demand_as_declared(table, str(lake / "controls"))
    add_commit(log, {"metaData": change(metadata_of(log))})
    told = faults(lake)
    assert {place for place, _ in told} == {"commit 8"}
    assert any(words in text and "no writer of Evenkeel leaves that" in text for _, text in told), told
    with pytest.raises(LakeError, match=r"table controls of .* is not read: .*No writer of Evenkeel leaves that"):
        demand_as_declared(table, str(lake / "controls"))


def test_a_property_that_was_removed_is_named(lake: Path, log: Path) -> None:
    metadata = metadata_of(log)
    add_commit(log, {"metaData": _set("delta.isolationLevel", "Serializable")(metadata)})
    assert faults(lake) == []
    put(commit(log, NEWEST + 2), [{"commitInfo": {"operation": "UNSET TBLPROPERTIES"}}, {"metaData": metadata}])
    place, words = only_fault(lake)
    assert (place, words.partition(",")[0]) == ("commit 9", "property delta.isolationLevel was removed")


def test_a_protocol_above_ours_is_named_and_refused(lake: Path, log: Path) -> None:
    features = {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping", "appendOnly"]}
    add_commit(log, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    assert [words.partition(":")[0] for _, words in faults(lake)] == [
        "its protocol asks for versions 3 and 7 of readers and writers",
        "its protocol names columnMapping",
    ]
    with pytest.raises(LakeError, match="protocol"):
        demand_as_declared(TABLES["controls"], str(lake / "controls"))


def test_readers_refuse_what_only_a_checksum_says(lake: Path, log: Path) -> None:
    file = log / f"{NEWEST:020}.crc"
    said = json.loads(file.read_text())
    said["metadata"] = _schema(said["metadata"], _mapped)
    file.write_text(json.dumps(said))
    with pytest.raises(LakeError, match=r"column cluster has delta\.columnMapping\.id"):
        demand_as_declared(TABLES["controls"], str(lake / "controls"))


def test_readers_look_back_to_the_checkpoint_for_metadata(lake: Path, log: Path) -> None:
    (log / f"{NEWEST:020}.crc").unlink()
    for version in range(CHECKPOINT + 1):
        commit(log, version).unlink()
    demand_as_declared(TABLES["controls"], str(lake / "controls"))

    def with_a_property(row: dict[str, Any]) -> bool:
        if row["metaData"]:
            row["metaData"]["configuration"] = [("delta.columnMapping.mode", "name")]
        return True

    rewrite_checkpoint(log, with_a_property)
    with pytest.raises(LakeError, match=r"delta\.columnMapping\.mode"):
        demand_as_declared(TABLES["controls"], str(lake / "controls"))


def test_every_table_of_the_record_is_looked_at(lake: Path) -> None:
    seen = {table: hashlib.sha256(table.encode()).hexdigest() for table in OF_RECORD}
    found = check_tables(str(lake), {table: {10_000: digest} for table, digest in seen.items()}, [])
    assert {fault.table for fault in found} == {*OF_RECORD}


# Upkeeps that count.


def upkeep(number: int, begun_at: datetime) -> dict[str, Any]:
    periods = [("audit_days", 400 - number)]
    return {"upkeep_id": f"u{number}", "state": "begun", "begun_at": begun_at, "by": "ann", "periods": periods}


def counted(lake: Path, known: dict[int, str] | None = None) -> tuple[list[str], list[str]]:
    rows, faults = counted_upkeeps(str(lake), known or {}, datetime.now(UTC))
    return sorted(row["upkeep_id"] for row in rows), [fault.place for fault in faults]


def test_an_upkeep_of_the_future_counts_for_nothing(lake: Path) -> None:
    small = SmallLake(lake)
    small.append("upkeeps", [upkeep(1, datetime.now(UTC) - timedelta(days=90))])
    small.append("upkeeps", [upkeep(2, datetime.now(UTC))])
    assert counted(lake) == (["u1", "u2"], [])
    small.append("upkeeps", [upkeep(3, moment("2040-01-01T00:00:00"))])
    assert counted(lake) == (["u1", "u2"], ["begun row of upkeep u3"])
    DeltaTable(str(lake / "upkeeps")).optimize.compact()
    assert counted(lake) == (["u1", "u2"], ["begun row of upkeep u3"])


def test_where_commits_are_on_record_an_upkeep_of_another_counts_for_nothing(lake: Path) -> None:
    small = SmallLake(lake)
    small.append("upkeeps", [upkeep(1, datetime.now(UTC))])
    known = digests(lake / "upkeeps" / "_delta_log")
    small.append("upkeeps", [upkeep(2, datetime.now(UTC))])
    assert counted(lake, known) == (["u1"], ["begun row of upkeep u2"])
    assert counted(lake) == (["u1", "u2"], [])


def test_a_lake_without_upkeeps_has_none_that_count(lake: Path) -> None:
    assert counted(lake) == ([], [])
