"""A commit that was reported as written is never lost, whoever else writes, and whatever answer is."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from evenkeel.errors import EngineError
from evenkeel.lake.one_writer import refusal_in
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import delta_table, storage_options
from evenkeel.object_store import hand_over
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.file_systems import LOG_STORE_SETTING
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import close, connect
from tests.object_store.conftest import Place
from tests.sources.landing_zone.faults import Exchange, lose_answer, pass_on, refuse

pytestmark = pytest.mark.spark

Places = Callable[[Engine], Place]
SECOND_COMMIT = r"_delta_log/0+1\.json"
ANY_COMMIT = r"_delta_log/\d{20}\.json"
SLOW_SECONDS = 0.4


def slowly(exchange: Exchange) -> None:
    """As over a long way: a writer that looks first has the time to look wrongly."""
    time.sleep(SLOW_SECONDS)
    pass_on(exchange)


def append_by_spark(spark: Any, table: str, number: int) -> None:
    frame = spark.createDataFrame([(number,)], "id bigint")
    frame.write.format("delta").mode("append").option("userMetadata", str(number)).save(table)


def append_here(table: str, number: int) -> None:
    rows = pa.table({"id": pa.array([number], pa.int64())})
    write_deltalake(table, rows, mode="append", storage_options=storage_options(table))


def ids(table: str) -> list[int]:
    return sorted(delta_table(table).to_pyarrow_table()["id"].to_pylist())


def acknowledged(jobs: list[tuple[Callable[..., None], tuple[Any, ...], int]]) -> list[int]:
    """The numbers of the appends that were reported as written; they are made at once."""

    def one(job: tuple[Callable[..., None], tuple[Any, ...], int]) -> int | None:
        write, given, number = job
        try:
            write(*given, number)
        except Exception as error:
            if "Concurrent" in str(error) or "conflict" in str(error).lower() or refusal_in(error) is not None:
                return None
            raise
        return number

    with ThreadPoolExecutor(len(jobs)) as pool:
        return sorted(number for number in pool.map(one, jobs) if number is not None)


def test_spark_and_deltalake_write_one_table_at_once(engine: Engine, spark: Any, place: Places) -> None:
    there = place(engine)
    append_by_spark(spark, there.table(), 0)
    there.faults.on("PUT", ANY_COMMIT, slowly, times=1_000)
    told = acknowledged(
        [(append_by_spark, (spark, there.table()), number) for number in (1, 2, 3)]
        + [(append_here, (there.table(),), number) for number in (11, 12, 13)]
    )
    assert ids(there.table()) == [0, *told]
    assert len(told) >= 4, "Delta tries again"


def test_an_answer_that_got_lost_makes_no_second_commit(engine: Engine, spark: Any, place: Places) -> None:
    there = place(engine)
    append_by_spark(spark, there.table(), 0)
    there.faults.on("PUT", SECOND_COMMIT, lose_answer)
    append_by_spark(spark, there.table(), 1)
    assert there.faults.count("PUT", SECOND_COMMIT) == 2, "it was sent again, and met itself"
    assert ids(there.table()) == [0, 1]
    assert delta_table(there.table()).version() == 1


def test_a_commit_of_another_writer_is_not_taken_for_ones_own(engine: Engine, spark: Any, place: Places) -> None:
    there = place(engine)
    append_by_spark(spark, there.table(), 0)

    def beaten(exchange: Exchange) -> None:
        append_here(there.table(), 11)
        pass_on(exchange)

    there.faults.on("PUT", SECOND_COMMIT, beaten)
    append_by_spark(spark, there.table(), 1)
    assert ids(there.table()) == [0, 1, 11]
    assert delta_table(there.table()).version() == 2


def test_a_store_that_sees_two_writers_at_once_is_asked_again(engine: Engine, spark: Any, place: Places) -> None:
    there = place(engine)
    append_by_spark(spark, there.table(), 0)
    there.faults.on("PUT", SECOND_COMMIT, refuse(409, "ConditionalRequestConflict"), times=2)
    append_by_spark(spark, there.table(), 1)
    assert ids(there.table()) == [0, 1]


def test_a_store_that_refuses_for_ever_ends_in_an_error(engine: Engine, spark: Any, place: Places) -> None:
    there = place(engine)
    append_by_spark(spark, there.table(), 0)
    there.faults.on("PUT", SECOND_COMMIT, refuse(409, "ConditionalRequestConflict"), times=1_000)
    with pytest.raises(Exception, match="refuses a new file"):
        append_by_spark(spark, there.table(), 1)
    there.faults.forget()
    append_by_spark(spark, there.table(), 2)
    assert ids(there.table()) == [0, 2]


def test_a_spark_that_would_lose_commits_is_refused(engine: Engine, spark: Any, place: Places) -> None:
    there = place(engine)
    spark.conf.set(LOG_STORE_SETTING, "io.delta.storage.S3SingleDriverLogStore")
    try:
        with pytest.raises(EngineError, match="loses commits of two writers"):
            Lake(there.lake).ensure_tables(spark)
    finally:
        spark.conf.unset(LOG_STORE_SETTING)
    assert there.faults.count() == 0


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "Delta's own"])
def test_two_servers_on_one_table_lose_nothing_and_with_deltas_own_log_store_they_do(
    ours: bool, place: Places, tmp_path: Path
) -> None:
    other = () if ours else ((LOG_STORE_SETTING, "io.delta.storage.S3SingleDriverLogStore"),)
    settings = ServerSettings(memory="1g", spark=other)
    with (
        engine_for(tmp_path / "first", settings=settings) as first,
        engine_for(tmp_path / "second", settings=settings) as second,
    ):
        there = place(first)
        hand_over(Home.of(second.home).folder, there.lake)
        sessions = [connect(one.url, "race") for one in (first, second)]
        append_by_spark(sessions[0], there.table(), 0)
        there.faults.on("PUT", ANY_COMMIT, slowly, times=10_000)
        told = []
        for begin in range(1, 17, 4):
            jobs = [(append_by_spark, (sessions[n % 2], there.table()), n) for n in range(begin, begin + 4)]
            told += acknowledged(jobs)
        found = ids(there.table())
        for session in sessions:
            close(session)
    lost = sorted({0, *told} - {*found})
    assert bool(lost) is not ours, f"reported as written {told}, found {found}"
    if ours:
        assert found == [0, *told]
