"""Which writes their files prove: a small table, without Spark, and everything that may be done to its files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.handover import Write
from evenkeel.lake.delta_log import hashed, read_commit
from evenkeel.lake.manifest import file_rows, write_rows
from evenkeel.lake.record import Attempt
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, arrow_schema
from evenkeel.verify.file_proofs import Files, key_of

TABLE = "broker_load"
AT = datetime(2026, 11, 21, 9, tzinfo=UTC)
DAY = AT.date()
# A name that paths escape.
CLUSTER = "lab 1%/x"


class SmallTable:
    """Writes of a cluster, each with as many rows as it is told, and what manifests say of them."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(str(folder))
        self.path = Path(self.lake.path(TABLE))
        self.attempts: list[Attempt] = []

    def write(self, write_id: str, rows: int = 2, *, listed: bool = True) -> Write:
        if rows or not self.attempts:
            self.add(write_id, rows)
        newest = DeltaTable(str(self.path)).version()
        files = read_commit(str(self.path), TABLE, newest)[0].files if rows else ()
        made = Write(TABLE, write_id, newest, rows, "digest", CLUSTER, files)
        if listed:
            self.attempts.append(_attempt(made))
        return made

    def window(self, rows: dict[str, int]) -> list[Write]:
        """Writes of one append, whose rows lie in one file; each has a manifest of its own."""
        self.add_all(rows)
        newest = DeltaTable(str(self.path)).version()
        (file,) = read_commit(str(self.path), TABLE, newest)[0].files
        found = []
        for write_id, number in rows.items():
            made = Write(TABLE, write_id, newest, number, "digest", CLUSTER, (file,) if number else ())
            self.attempts.append(_attempt(made))
            found.append(made)
        return found

    def add(self, write_id: str, rows: int, cluster: str = CLUSTER) -> None:
        self.add_all({write_id: rows}, cluster)

    def add_all(self, rows: dict[str, int], cluster: str = CLUSTER) -> None:
        given = [
            {"cluster": cluster, "cycle_date": DAY, "write_id": write_id, "broker": f"b{number}"}
            for write_id, own in rows.items()
            for number in range(own)
        ]
        schema = pa.schema([("cluster", pa.string()), ("cycle_date", pa.date32())])
        schema = schema.append(pa.field("write_id", pa.string())).append(pa.field("broker", pa.string()))
        table = pa.Table.from_pylist(given, schema=schema)
        write_deltalake(str(self.path), table, mode="append", partition_by=["cluster", "cycle_date"])

    def vouch(self) -> None:
        """As upkeep does for the files that lie there now and that no manifest lists."""
        paths = [Path(uri).relative_to(self.path).as_posix() for uri in DeltaTable(str(self.path)).file_uris()]
        files = [hashed(str(self.path), path) for path in paths]
        lists = ("files_before", "files_after")
        row: dict[str, Any] = {column.name: "x" for column in TABLES["proofs"].columns}
        row |= {"cluster": CLUSTER, "cycle_date": DAY, "table_name": TABLE, "version": 0, "writes": 1, "rows": 1}
        row |= {"proven_at": AT, "files_before": []}
        row |= {"files_after": [{"path": f.path, "size": f.size, "digest": f.digest} for f in files]}
        plain = [column for column in TABLES["proofs"].columns if column.name not in (*lists, "cycle_date")]
        struct = pa.struct([("path", pa.string()), ("size", pa.int64()), ("digest", pa.string())])
        schema = pa.schema([*arrow_schema(plain), *(pa.field(name, pa.list_(struct)) for name in lists)])
        schema = schema.append(pa.field("cycle_date", pa.date32()))
        write_deltalake(self.lake.path("proofs"), pa.Table.from_pylist([row], schema=schema), mode="append")

    def proven(self, *writes: Write) -> dict[str, int]:
        """Write id -> number of its own files that can be read."""
        found = Files(self.lake, self.attempts).proven(writes)
        return {write.write_id: len(found[key_of(write)]) for write in writes if key_of(write) in found}

    def file(self, write: Write) -> Path:
        (own,) = write.files
        return self.path / own.path


def _attempt(write: Write) -> Attempt:
    planned = {"cluster": CLUSTER, "cycle_at": AT, "attempt_id": write.write_id, "predecessor_cycle_at": None}
    return Attempt({**planned, "writes": write_rows([write]), "reads": [], "files": file_rows([write])})


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path)


def test_a_write_is_proven_by_the_files_that_its_manifest_lists(table: SmallTable) -> None:
    one, two = table.write("one"), table.write("two", 3)
    found = Files(table.lake, table.attempts).proven([one, two])
    assert {key: len(files) for key, files in found.items()} == {key_of(one): 1, key_of(two): 1}
    assert all(Path(file).is_file() for files in found.values() for file in files)


def test_a_file_that_changed_or_is_gone_proves_nothing(table: SmallTable) -> None:
    one, two, three = table.write("one"), table.write("two"), table.write("three")
    raw = bytearray(table.file(one).read_bytes())
    raw[20] ^= 1
    table.file(one).write_bytes(raw)
    table.file(two).unlink()
    assert table.proven(three) == {"three": 1}
    assert table.proven(one, two) == {}


def test_a_manifest_that_says_otherwise_of_a_write_proves_nothing(table: SmallTable) -> None:
    one = table.write("one")
    assert table.proven(Write(TABLE, "one", one.version, 3, "digest", CLUSTER)) == {}
    assert table.proven(Write(TABLE, "stranger", one.version, 2, "digest", CLUSTER)) == {}


def test_files_that_nobody_lists_spoil_only_the_writes_that_they_hold_rows_of(table: SmallTable) -> None:
    one, two = table.write("one"), table.write("two")
    table.write("killed", listed=False)
    assert table.proven(one, two) == {"one": 1, "two": 1}
    table.add("two", 1)
    assert table.proven(one, two) == {"one": 1}


def test_a_write_without_rows_is_proven_where_nobody_added_any(table: SmallTable) -> None:
    one, nothing = table.write("one"), table.write("nothing", 0)
    assert table.proven(one, nothing) == {"one": 1, "nothing": 0}
    table.add("nothing", 1)
    assert table.proven(one, nothing) == {"one": 1}


def test_a_file_that_the_log_gives_to_another_cluster_proves_nothing(table: SmallTable) -> None:
    one = table.write("one")
    commit = table.path / "_delta_log" / f"{one.version:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["partitionValues"]["cluster"] = "other"
    commit.write_text("\n".join(map(json.dumps, lines)))
    assert table.proven(one) == {}


def test_upkeeps_word_stands_for_files_that_it_put_together(table: SmallTable) -> None:
    one, two = table.write("one"), table.write("two", 3)
    old = table.write("old", 1)
    DeltaTable(str(table.path)).optimize.compact()
    assert table.proven(one, two, old) == {}
    table.vouch()
    assert table.proven(one, two, old) == {"one": 1, "two": 1, "old": 1}
    table.file(two).unlink()
    assert table.proven(one, two) == {"one": 1, "two": 0}

    (together,) = DeltaTable(str(table.path)).file_uris()
    raw = bytearray(Path(together).read_bytes())
    raw[-20] ^= 1
    Path(together).write_bytes(raw)
    assert table.proven(one, two, old) == {}


def test_a_file_put_together_must_hold_all_rows_of_a_write_and_no_other_may(table: SmallTable) -> None:
    one = table.write("one")
    short = Write(TABLE, "short", one.version, 5, "digest", CLUSTER)
    table.attempts.append(_attempt(short))
    table.add("short", 4)
    DeltaTable(str(table.path)).optimize.compact()
    table.vouch()
    assert table.proven(one, short) == {"one": 1}
    table.add("one", 1)
    assert table.proven(one, short) == {}


def test_a_file_that_many_writes_share_is_looked_at_once_and_proves_each_of_them(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = table.window({"one": 2, "two": 3, "nothing": 0})
    alone = table.write("alone")
    asked: list[str] = []
    monkeypatch.setattr(
        "evenkeel.verify.file_proofs.hashed", lambda folder, path: asked.append(path) or hashed(folder, path)
    )
    files = Files(table.lake, table.attempts)
    found = [files.proven([write]) for write in (*writes, alone)]
    assert [len(files) for part in found for files in part.values()] == [1, 1, 0, 1]
    assert sorted(asked) == sorted({file.path for write in (*writes, alone) for file in write.files})


def test_a_shared_file_that_changed_proves_none_of_its_writes(table: SmallTable) -> None:
    one, two = table.window({"one": 2, "two": 3})
    alone = table.write("alone")
    raw = bytearray(table.file(one).read_bytes())
    raw[20] ^= 1
    table.file(one).write_bytes(raw)
    assert table.proven(alone) == {"alone": 1}
    assert table.proven(one, two) == {}


def test_rows_added_to_one_of_the_writes_of_a_shared_file_leave_the_others_proven(table: SmallTable) -> None:
    one, two = table.window({"one": 2, "two": 3})
    table.add("two", 1)
    assert table.proven(one, two) == {"one": 1}
    DeltaTable(str(table.path)).optimize.compact()
    table.vouch()
    assert table.proven(one, two) == {"one": 1}, "upkeep vouches for rows, and the manifest lists three"


def test_what_became_of_files_is_told(table: SmallTable) -> None:
    one, two, three = table.write("one"), table.write("two"), table.write("three")
    table.file(one).write_bytes(b"other")
    table.file(two).unlink()
    files = Files(table.lake, table.attempts)
    told = [files.not_as_written(write) for write in (one, two, three)]
    assert told == [[f"{one.files[0].path} was changed"], [f"{two.files[0].path} is gone"], []]
