"""Loads that verify makes again from proven files: found without Spark where they are the same, else told by it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.aggregate.local_sums import MOST_TOPICS
from evenkeel.cycle.frames import MOST_HERE
from evenkeel.handover import Handover
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.manifest import body_digest
from evenkeel.lake.record import Attempt, read_attempts
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.pipeline import publish
from evenkeel.verify import DATA, TOPICS, VerifyReport, in_processes, verify
from evenkeel.verify.by_files import Files, Proven
from evenkeel.verify.chain import Kept
from evenkeel.verify.contents import promised
from evenkeel.verify.loads_in_processes import load_files
from evenkeel.verify.recorded_cycle import RecordedCycle, again, background_of
from tests.lakes.long_record import lengthen
from tests.lakes.small_lake import arrow_schema
from tests.lakes.window_lake import as_one_window

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

CYCLES = 3


@pytest.fixture(scope="module")
def recorded(spark: Any, planned_cycle: Callable[[Path], Handover], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of some cycles of one cluster; nobody writes to it."""
    lake = tmp_path_factory.mktemp("loads") / "lake"
    publish(spark, planned_cycle(lake))
    lengthen(lake, CYCLES)
    return lake


@pytest.fixture
def lake(recorded: Path, tmp_path: Path) -> Path:
    """A copy to be tampered with."""
    return Path(shutil.copytree(recorded, tmp_path / "lake"))


@pytest.fixture
def asked() -> list[int]:
    """Filled with how often verify asked for a session."""
    return []


@pytest.fixture
def verified(spark: Any, asked: list[int]) -> Callable[..., VerifyReport]:
    @contextmanager
    def session() -> Iterator[Any]:
        asked.append(1)
        yield spark

    return lambda lake, **more: verify(str(lake), session, **more)


def test_sound_cycles_are_reproduced_from_their_topics_on_without_spark(
    recorded: Path, verified: Callable[..., VerifyReport], asked: list[int]
) -> None:
    found = verified(recorded)
    assert [fault.sentence() for fault in found.faults] == []
    assert [*found.verified.reproduced.values()] == [TOPICS] * CYCLES
    assert asked == []


def test_cycles_of_a_window_are_summed_up_from_the_files_that_they_share(
    spark: Any,
    recorded: Path,
    tmp_path: Path,
    empty_lake: Callable[[Path], Path],
    verified: Callable[..., VerifyReport],
    asked: list[int],
) -> None:
    windowed = empty_lake(tmp_path / "windowed")
    as_one_window(spark, recorded, windowed)
    files = {file.path for one in read_attempts(windowed) for w in one.writes_of("topic_stats") for file in w.files}
    found = verified(windowed)
    assert [fault.sentence() for fault in found.faults] == []
    assert [*found.verified.reproduced.values()] == [TOPICS] * CYCLES
    assert (len(files), asked) == (1, [])


@pytest.mark.parametrize(
    ("table", "column", "told"),
    [
        ("topic_stats", "msg_rate_in", {"bundle_load", "broker_load"}),
        ("topic_stats", "producers", {"bundle_load"}),
        ("bundle_load", "measured_msg_rate_out", {"bundle_load"}),
        ("broker_load", "topics", {"broker_load"}),
    ],
)
def test_a_figure_forged_with_file_and_chain_to_match_is_told_as_spark_tells_it(
    lake: Path, verified: Callable[..., VerifyReport], asked: list[int], table: str, column: str, told: set[str]
) -> None:
    at = read_attempts(lake)[1]
    forge(lake, table, column, at)
    found = verified(lake)
    assert {fault.kind for fault in found.faults} == {DATA}
    assert {(fault.table, fault.cycle_at) for fault in found.faults} == {(name, at.cycle_at) for name in told}
    assert all("decided otherwise by the very code that decided first: " in fault.words for fault in found.faults)
    assert all(" became " in fault.words for fault in found.faults)
    assert found.verified.differing == {at.attempt_id}
    assert len(found.verified.reproduced) == CYCLES - 1
    assert asked != []


def forge(lake: Path, table: str, column: str, attempt: Attempt) -> None:
    """One more in the first row that has the figure, in a file that its manifest lists as it is now."""
    (write,) = attempt.writes_of(table)
    (file,) = write.files
    path = lake / table / file.path
    rows = pq.ParquetFile(path).read()
    values = rows.column(column).to_pylist()
    place = next(place for place, value in enumerate(values) if value is not None)
    values[place] += 1
    field = rows.schema.field(column)
    index = rows.schema.get_field_index(column)
    pq.write_table(rows.set_column(index, field, pa.array(values, field.type)), path)
    now = hashed(str(lake / table), file.path)

    def relisted(row: Mapping[str, Any]) -> dict[str, Any]:
        files = [
            {**one, "size": now.size, "digest": now.digest} if one["path"] == file.path else one for one in row["files"]
        ]
        return {**row, "files": files}

    chain_anew(lake, relisted)


def chain_anew(lake: Path, changed: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """The one cluster's manifests with digests to match, in a table without a past."""
    made, head = [], ""
    rows = DeltaTable(str(lake / "cycles")).to_pyarrow_table().to_pylist()
    for old in sorted(rows, key=lambda row: row["sequence"]):
        row = changed(old)
        row |= {"body_digest": body_digest(row), "previous_digest": head}
        head = row["manifest_digest"] = hashlib.sha256((head + row["body_digest"]).encode()).hexdigest()
        made.append(row)
    shutil.rmtree(lake / "cycles")
    whole = pa.Table.from_pylist(made, arrow_schema(TABLES["cycles"]))
    write_deltalake(str(lake / "cycles"), whole, partition_by=["cluster"])


def test_what_a_killed_process_had_is_summed_up_by_spark(
    recorded: Path, verified: Callable[..., VerifyReport], asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_processes, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(in_processes, "_started", os.abort)
    found = verified(recorded)
    assert [fault.sentence() for fault in found.faults] == []
    assert [*found.verified.reproduced.values()] == [TOPICS] * CYCLES
    assert asked != []


@pytest.fixture
def one(recorded: Path) -> tuple[RecordedCycle, Proven]:
    attempts = read_attempts(recorded)
    proven = Files(Lake(str(recorded)), attempts).proven(promised(attempts, Kept()))
    return again(attempts[0], background_of(Lake(str(recorded)), attempts)), proven


def with_rows(one: RecordedCycle, table: str, rows: int) -> RecordedCycle:
    """The attempt as if it had written so many rows to a table."""
    writes = [{**w, "rows": rows} if w["table"] == table else w for w in one.attempt.planned["writes"]]
    return replace(one, attempt=replace(one.attempt, planned={**one.attempt.planned, "writes": writes}))


def test_an_attempt_of_a_bounded_size_is_summed_up_here(one: tuple[RecordedCycle, Proven]) -> None:
    cycle, proven = one
    assert load_files(cycle, proven) is not None
    assert load_files(with_rows(cycle, "topic_stats", MOST_TOPICS), proven) is not None
    assert load_files(with_rows(cycle, "topic_stats", MOST_TOPICS + 1), proven) is None
    assert load_files(with_rows(cycle, "bundle_load", MOST_HERE + 1), proven) is None


def test_an_attempt_with_rejected_records_is_left_to_spark(one: tuple[RecordedCycle, Proven]) -> None:
    cycle, proven = one
    rejected = {"table": "rejected", "write_id": "w", "version": 1, "rows": 1, "commit": ""}
    planned = {**cycle.attempt.planned, "writes": [*cycle.attempt.planned["writes"], rejected]}
    assert load_files(replace(cycle, attempt=replace(cycle.attempt, planned=planned)), proven) is None


def test_an_attempt_after_a_split_is_left_to_spark(one: tuple[RecordedCycle, Proven]) -> None:
    cycle, proven = one
    split = {
        **{"kind": "split", "command_id": "c", "bundle": "a/b/0x00000000_0x80000000", "cuts": [1 << 30]},
        **{"cycle_at": cycle.cycle.cycle_at, "outcome": "done", "seen_at": cycle.cycle.cycle_at},
        **{"from_broker": None, "destination": None, "unload_children": False},
    }
    after = replace(cycle, cycle=replace(cycle.cycle, acts=(split,)))
    assert load_files(after, proven) is None


@pytest.mark.parametrize("table", ["topic_stats", "bundle_ownership", "broker_load"])
def test_an_attempt_whose_files_are_not_all_proven_is_left_to_spark(
    one: tuple[RecordedCycle, Proven], table: str
) -> None:
    cycle, proven = one
    assert load_files(cycle, {key: files for key, files in proven.items() if key[1] != table}) is None
