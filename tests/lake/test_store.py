"""Appending rows and reading exactly what was written."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import committed_version, read_commit, written_files
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, commit_metadata, create_statement
from tests.lake.states import AT, handover, states

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory) -> Lake:
    made = Lake(str(tmp_path_factory.mktemp("lake") / "with space"))
    made.ensure_tables(spark, ["strategy_state", "rejected"])
    return made


def test_a_write_is_read_back_alone_and_says_how_many_rows_each_cluster_has(spark, lake) -> None:
    both = handover(lake.root, "east", "west")
    rows = [("east", "b1", 0.5), ("east", "b2", 0.25), ("west", "b1", 1.0)]
    first = lake.append(spark, {"strategy_state": states(spark, *rows)}, handover=both, task="shed")
    lake.append(spark, {"strategy_state": states(spark, ("east", "b1", 9.0))}, handover=both, task="shed")
    read = lake.read(spark, "strategy_state", first).select("cluster", "subject", "value").collect()
    assert sorted(tuple(row) for row in read) == rows
    assert {write.cluster: write.rows for write in first} == {"east": 2, "west": 1}


@pytest.mark.parametrize("name", ["east", 'o\'Brien "x" 100%/a=b #1?[0]{*}:\\', "Zürich 🐦 <script>"])
def test_files_of_a_commit_hold_what_delta_shows_of_it(spark, lake, name: str) -> None:
    one = handover(lake.root, name)
    frame = states(spark, *[(name, f"b{n}", n / 7) for n in range(5)]).repartition(3)
    writes = lake.append(spark, {"strategy_state": frame}, handover=one, task="shed")
    files = written_files(lake.path("strategy_state"), writes)
    assert files
    assert [f"{lake.path('strategy_state')}/{file.path}" for file in writes[0].files] == files
    by_files = lake.read(spark, "strategy_state", writes)
    delta = spark.read.format("delta").load(lake.path("strategy_state"))
    by_delta = delta.where(F.col("write_id") == writes[0].write_id)
    assert by_files.dtypes == by_delta.dtypes
    assert sorted(by_files.collect()) == sorted(by_delta.collect())
    assert {row["cluster"] for row in by_files.select("cluster").collect()} == {name}


def test_where_the_files_cannot_be_named_delta_is_asked(spark, tmp_path) -> None:
    lake = Lake(str(tmp_path / "lake [1]"))
    lake.ensure_tables(spark, ["strategy_state"])
    one = handover(lake.root, "east")
    writes = lake.append(spark, {"strategy_state": states(spark, ("east", "b", 1.0))}, handover=one, task="shed")
    assert written_files(lake.path("strategy_state"), writes) is None
    assert [row["value"] for row in lake.read(spark, "strategy_state", writes).collect()] == [1.0]


def test_a_file_that_is_gone_is_not_named(tmp_path) -> None:
    write = Write("t", "w", 3, 1, "d", "a b", (DataFile("cluster=a%20b/part.parquet", 1, "e"),))
    assert written_files(str(tmp_path), [write]) is None
    (tmp_path / "cluster=a%20b").mkdir()
    (tmp_path / "cluster=a%20b" / "part.parquet").touch()
    assert written_files(str(tmp_path), [write]) == [str(tmp_path / "cluster=a%20b" / "part.parquet")]
    assert written_files(str(tmp_path), [write, replace(write, files=())]) is None


def test_a_write_lists_the_files_of_its_own_cluster_as_they_lie_on_disk(spark, lake) -> None:
    three = handover(lake.root, "east", "west", "idle")
    rows = [(cluster, f"b{n}", n / 7) for cluster in ("east", "west") for n in range(6)]
    writes = lake.append(spark, {"strategy_state": states(spark, *rows).repartition(3)}, handover=three, task="shed")
    own = {write.cluster: [file.path for file in write.files] for write in writes}
    assert own["idle"] == []
    table = Path(lake.path("strategy_state"))
    for cluster in ("east", "west"):
        assert len(own[cluster]) > 1
        assert all(path.startswith(f"cluster={cluster}/") for path in own[cluster])
    assert sorted(str(table / path) for paths in own.values() for path in paths) == sorted(
        str(table / file.path) for file in read_commit(str(table), "strategy_state", writes[0].version)[0].files
    )
    for file in (file for write in writes for file in write.files):
        held = (table / file.path).read_bytes()
        assert (file.size, file.digest) == (len(held), hashlib.sha256(held).hexdigest())


def test_a_file_of_a_commit_that_cannot_be_read_is_an_error(tmp_path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    add = {"path": "cluster=a/part.parquet", "partitionValues": {"cluster": "a"}}
    (log / f"{3:020d}.json").write_text(json.dumps({"add": add}))
    with pytest.raises(LakeError, match=r"file cluster=a/part\.parquet of .* cannot be read"):
        read_commit(str(tmp_path), "t", 3)
    with pytest.raises(LakeError, match=r"commit 4 of .* cannot be read"):
        read_commit(str(tmp_path), "t", 4)


def test_a_commit_names_its_run_its_write_and_what_it_read(spark, lake) -> None:
    one = handover(lake.root, "east")
    (write,) = lake.append(spark, {"strategy_state": states(spark, ("east", "b", 1.0))}, handover=one, task="shed")
    (commit,) = (
        spark.sql(f"DESCRIBE HISTORY delta.`{lake.path('strategy_state')}`").where(F.col("version") == write.version)
    ).collect()
    said = json.loads(commit["userMetadata"])
    assert (said["task_id"], said["write_id"], said["cycles"]) == ("shed", write.write_id, {"east": AT})


def test_a_commit_names_once_what_the_clusters_of_a_run_have_read_together(tmp_path) -> None:
    both = handover(str(tmp_path), "east", "west")
    reads = [Write("bundle_load", one, 3, 1, "d", cluster) for one in ("w1", "w2") for cluster in ("east", "west")]
    said = json.loads(commit_metadata(both, "shed", "w3", reads))
    assert said["reads"] == [["bundle_load", 3, "w1"], ["bundle_load", 3, "w2"]]
    assert said["cycles"] == {"east": AT, "west": AT}


def test_a_write_id_that_was_committed_twice_is_refused(spark, lake, tmp_path) -> None:
    one = handover(lake.root, "east")
    (write,) = lake.append(spark, {"strategy_state": states(spark, ("east", "b", 1.0))}, handover=one, task="shed")
    log = Path(lake.path("strategy_state"), "_delta_log")
    copied = tmp_path / "table" / "_delta_log"
    copied.mkdir(parents=True)
    for version in (0, 1):
        text = (log / f"{write.version:020}.json").read_text()
        (copied / f"{version:020}.json").write_text(text)
    with pytest.raises(LakeError, match="committed 2 times"):
        committed_version(str(copied.parent), write.write_id, after=-1)


def test_reading_no_writes_gives_no_rows_with_the_tables_columns(spark, lake) -> None:
    frame = lake.read(spark, "strategy_state", ())
    assert frame.columns == list(TABLES["strategy_state"].column_names())
    assert frame.isEmpty()


def test_a_row_that_misses_what_must_be_known_is_refused_and_leaves_nothing(spark, lake) -> None:
    one = handover(lake.root, "east")
    broken = states(spark, ("east", "b", 1.0)).withColumn("subject", F.lit(None).cast("string"))
    before = spark.read.format("delta").load(lake.path("strategy_state")).count()
    with pytest.raises(Exception, match="subject"):
        lake.append(spark, {"strategy_state": broken}, handover=one, task="shed")
    assert spark.read.format("delta").load(lake.path("strategy_state")).count() == before


def test_every_table_can_be_created_and_twice_is_once(spark, tmp_path) -> None:
    lake = Lake(str(tmp_path / "all"))
    lake.ensure_tables(spark, TABLES)
    lake.ensure_tables(spark, TABLES)
    for name, table in TABLES.items():
        assert spark.read.format("delta").load(lake.path(name)).columns == list(table.column_names())
    comment = "it's a 'name' with \\ signs"
    assert r"it\'s a \'name\' with \\ signs" in create_statement(replace(TABLES["rejected"], comment=comment), "/x")
