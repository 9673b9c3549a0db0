"""A long record of one cluster: all of it is proved, and two changed values are found among many cycles."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.handover import Handover
from evenkeel.lake.record import read_attempts
from evenkeel.maintenance.upkeep import Request, keep
from evenkeel.pipeline import publish
from evenkeel.verify import BUNDLES, TOPICS, VerifyReport, verify
from evenkeel.verify.chain import CHAIN, CONTENT, UNKNOWN
from tests.lakes.long_record import lengthen

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

CYCLES = 20
DAYS = timedelta(days=2)


@pytest.fixture(scope="module")
def long_lake(spark: Any, planned_cycle: Callable[[Path], Handover], tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("long") / "lake"
    publish(spark, planned_cycle(lake))
    lengthen(lake, CYCLES)
    return lake


def proved(spark: Any, lake: Path, **more: Any) -> VerifyReport:
    @contextmanager
    def session() -> Iterator[Any]:
        yield spark

    return verify(str(lake), session, **more)


def test_every_cycle_is_reproduced(spark: Any, long_lake: Path) -> None:
    attempts = read_attempts(long_lake)
    assert all(one.planned["splits"] and one.writes_of("placement_decisions") for one in attempts)
    for write in attempts[-1].writes:
        (file,) = write.files
        assert hashlib.sha256((long_lake / write.table / file.path).read_bytes()).hexdigest() == file.digest
    found = proved(spark, long_lake)
    assert [fault.sentence() for fault in found.faults] == []
    assert list(found.verified.reproduced.values()) == [TOPICS] * CYCLES
    assert [*found.manifests.values()] == [2 * CYCLES]


@contextmanager
def nobody() -> Iterator[Any]:
    pytest.fail("a Spark session was asked for")
    yield


def from_bundles(lake: Path, **more: Any) -> VerifyReport:
    """From the loads of bundles on, by files alone."""
    found = verify(str(lake), nobody, depth=BUNDLES, **more)
    assert [fault.sentence() for fault in found.faults] == []
    assert (found.verified.by_files > 0, found.verified.by_rows) == (True, 0)
    return found


def test_files_prove_all_of_it_without_spark(long_lake: Path) -> None:
    assert [*from_bundles(long_lake).verified.reproduced.values()] == [BUNDLES] * CYCLES
    some = from_bundles(long_lake, since=read_attempts(long_lake)[-4].cycle_at)
    assert [*some.verified.reproduced.values()] == [BUNDLES] * 4


def test_rows_in_files_of_nobodys_are_looked_at(spark: Any, long_lake: Path, tmp_path: Path) -> None:
    """Those of a try that was killed say nothing; those under the id of a write that is listed are too many of it."""
    lake = Path(shutil.copytree(long_lake, tmp_path / "lake"))
    own = read_attempts(lake)[9]
    (write,) = own.writes_of("bundle_load")
    table = DeltaTable(str(lake / "bundle_load"))
    rows = table.to_pyarrow_table(filters=[("write_id", "=", write.write_id)])
    place = rows.schema.get_field_index("write_id")
    killed = rows.set_column(place, "write_id", pa.array(["killed"] * rows.num_rows))
    write_deltalake(table, killed, mode="append", partition_by=["cluster", "cycle_date"])
    assert len(from_bundles(lake).verified.reproduced) == CYCLES

    write_deltalake(table, rows.slice(0, 1), mode="append", partition_by=["cluster", "cycle_date"])
    found = proved(spark, lake, since=own.cycle_at, until=own.cycle_at, depth=BUNDLES)
    assert [(fault.kind, fault.table) for fault in found.faults] == [(CONTENT, "bundle_load")]
    assert f"{write.rows + 1} rows are there of {write.rows} listed" in found.faults[0].words


def test_what_upkeep_has_put_together_is_proved_by_its_own_files(spark: Any, long_lake: Path, tmp_path: Path) -> None:
    lake = Path(shutil.copytree(long_lake, tmp_path / "lake"))
    told: list[str] = []
    done = keep(spark, Request(str(lake), by="tests"), told.append, read_attempts(lake)[-1].cycle_at + DAYS)
    assert (done.left, done.wrong) == ((), ())
    assert any(line.startswith("bundle_load: ") and "as their manifests list them" in line for line in told)
    assert [*from_bundles(lake).verified.reproduced.values()] == [BUNDLES] * CYCLES

    (together,) = DeltaTable(str(lake / "bundle_load")).file_uris()
    own = read_attempts(lake)[7]
    where = f"write_id = '{own.writes_of('bundle_load')[0].write_id}' AND topics IS NOT NULL"
    spark.sql(f"UPDATE delta.`{lake}/bundle_load` SET topics = topics + 1 WHERE {where}").collect()
    assert DeltaTable(str(lake / "bundle_load")).file_uris() != [together]
    found = proved(spark, lake, depth=BUNDLES)
    assert [(fault.kind, fault.table, fault.cycle_at) for fault in found.faults] == [
        (CONTENT, "bundle_load", None),  # the commit
        (CONTENT, "bundle_load", own.cycle_at),
    ]
    assert (found.verified.by_rows, len(found.verified.reproduced)) == (CYCLES, CYCLES)


def test_one_value_in_a_file_and_one_row_changed_through_delta_are_both_named(spark: Any, long_lake: Path) -> None:
    in_file, in_delta = (read_attempts(long_lake)[place] for place in (6, 14))
    (write,) = in_file.writes_of("broker_load")
    path = next(
        path
        for path in (long_lake / "broker_load").rglob("*.parquet")
        if "_delta_log" not in path.parts
        and pq.read_table(path, partitioning=None)["write_id"][0].as_py() == write.write_id
    )
    rows = pq.read_table(path, partitioning=None)
    place = rows.schema.get_field_index("weighted_usage")
    first, *others = rows["weighted_usage"].to_pylist()
    values = pa.array([(first or 0.0) + 1.0, *others], pa.float64())
    pq.write_table(rows.set_column(place, "weighted_usage", values), path)

    (write,) = in_delta.writes_of("split_decisions")
    where = f"write_id = '{write.write_id}'"
    subject = spark.read.format("delta").load(f"{long_lake}/split_decisions").where(where).orderBy("subject").first()
    spark.sql(
        f"UPDATE delta.`{long_lake}/split_decisions` SET measured = 4711.0 "
        f"WHERE {where} AND subject = '{subject.subject}' AND rule = '{subject.rule}'"
    ).collect()

    found = proved(spark, long_lake)
    told = {(fault.kind, fault.table, fault.cycle_at): fault.words for fault in found.faults}
    assert path.name in told.pop((CONTENT, "broker_load", in_file.cycle_at))
    assert subject.subject in told.pop((CONTENT, "split_decisions", in_delta.cycle_at))
    assert "broker_load" in told.pop((UNKNOWN, "cycles", in_file.cycle_at))
    assert "is a UPDATE of" in told.pop((CONTENT, "split_decisions", None))
    assert [kind for kind, *_ in told if kind != CHAIN] == []
    assert len(found.verified.reproduced) == CYCLES - 1
