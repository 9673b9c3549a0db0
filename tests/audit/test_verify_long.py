"""A long record of one cluster: all of it is proved, and two changed values are found among hundreds of cycles."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenkeel.audit.read import read_attempts
from evenkeel.audit.verify import CHAIN, CONTENT, TOPICS, UNKNOWN, Report, verify
from evenkeel.tasks.begin import CycleRequest
from evenkeel.tasks.pipeline import run_cycle
from tests.audit.long_record import lengthen

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDING = Path(__file__).resolve().parent.parent / "recordings" / "lost-modular"
CYCLES = 300
SETTINGS = {
    "loadBalancerNamespaceBundleMaxTopics": 8,
    "loadBalancerNamespaceMaximumBundles": 16,
    "loadBalancerLoadSheddingStrategy": "OverloadShedder",
    "loadBalancerBrokerOverloadedThresholdPercentage": 1,
}


@pytest.fixture(scope="module")
def long_lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    one = folder / "recording"
    one.mkdir()
    shutil.copy(min(RECORDING.glob("*.json.gz")), one)
    lake = folder / "lake"
    run_cycle(spark, CycleRequest(str(lake), f"recording:{one}", overrides=SETTINGS), lambda task, seconds: None)
    lengthen(spark, lake, CYCLES)
    return lake


def proved(spark: Any, lake: Path) -> Report:
    @contextmanager
    def session() -> Iterator[Any]:
        yield spark

    return verify(str(lake), session)


def test_every_one_of_three_hundred_cycles_is_reproduced(spark: Any, long_lake: Path) -> None:
    attempts = read_attempts(long_lake)
    assert all(one.planned["splits"] and one.writes_of("placement_decisions") for one in attempts)
    found = proved(spark, long_lake)
    assert [fault.sentence() for fault in found.faults] == []
    assert list(found.verified.reproduced.values()) == [TOPICS] * CYCLES
    assert [*found.manifests.values()] == [2 * CYCLES]


def test_one_value_in_a_file_and_one_row_changed_through_delta_are_both_named(spark: Any, long_lake: Path) -> None:
    in_file, in_delta = (read_attempts(long_lake)[place] for place in (41, 207))
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
    assert [kind for kind, *_ in told if kind != CHAIN] == []
    assert len(found.verified.reproduced) == CYCLES - 1
