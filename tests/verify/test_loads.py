"""Loads that verify makes again from the topics on record."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.cycle import frames
from evenkeel.handover import Handover
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.manifest import body_digest
from evenkeel.lake.record import Attempt, read_attempts
from evenkeel.lake.schemas import TABLES
from evenkeel.pipeline import publish
from evenkeel.verify import TOPICS, VerifyReport, verify
from evenkeel.verify.chain import DATA
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
def verified(spark: Any) -> Callable[..., VerifyReport]:
    @contextmanager
    def session() -> Iterator[Any]:
        yield spark

    return lambda lake, **more: verify(str(lake), session, **more)


@pytest.mark.parametrize("most", [frames.MOST_HERE, 0], ids=["in this process", "in workers"])
def test_sound_cycles_are_reproduced_from_their_topics_on(
    recorded: Path, verified: Callable[..., VerifyReport], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(frames, "MOST_HERE", most)
    found = verified(recorded)
    assert [fault.sentence() for fault in found.faults] == []
    assert [*found.verified.reproduced.values()] == [TOPICS] * CYCLES


def test_cycles_of_a_window_are_summed_up_from_the_files_that_they_share(
    spark: Any,
    recorded: Path,
    tmp_path: Path,
    empty_lake: Callable[[Path], Path],
    verified: Callable[..., VerifyReport],
) -> None:
    windowed = empty_lake(tmp_path / "windowed")
    as_one_window(spark, recorded, windowed)
    files = {file.path for one in read_attempts(windowed) for w in one.writes_of("topic_stats") for file in w.files}
    found = verified(windowed)
    assert [fault.sentence() for fault in found.faults] == []
    assert [*found.verified.reproduced.values()] == [TOPICS] * CYCLES
    assert len(files) == 1


@pytest.mark.parametrize(
    ("table", "column", "told"),
    [
        ("topic_stats", "msg_rate_in", {"bundle_load", "broker_load"}),
        ("topic_stats", "producers", {"bundle_load"}),
        ("bundle_load", "measured_msg_rate_out", {"bundle_load"}),
        ("broker_load", "topics", {"broker_load"}),
    ],
)
@pytest.mark.parametrize("most", [frames.MOST_HERE, 0], ids=["in this process", "in workers"])
def test_a_figure_forged_with_file_and_chain_to_match_is_named(
    lake: Path,
    verified: Callable[..., VerifyReport],
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    column: str,
    told: set[str],
    most: int,
) -> None:
    monkeypatch.setattr(frames, "MOST_HERE", most)
    at = read_attempts(lake)[1]
    forge(lake, table, column, at)
    found = verified(lake)
    assert {fault.kind for fault in found.faults} == {DATA}
    assert {(fault.table, fault.cycle_at) for fault in found.faults} == {(name, at.cycle_at) for name in told}
    assert all("decided otherwise by the very code that decided first: " in fault.words for fault in found.faults)
    assert all(" became " in fault.words for fault in found.faults)
    assert found.verified.differing == {at.attempt_id}
    assert len(found.verified.reproduced) == CYCLES - 1


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
