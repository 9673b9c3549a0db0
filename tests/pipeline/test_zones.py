"""Cycles on a server of others, whose sessions are in another time zone, come to the rows and dates of those in UTC."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthetic_snapshot import Shape, write_document
from evenkeel.cycle import frames
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import read_table
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.pipeline import run_cycle, run_window
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect
from tests.conftest import CHECKOUT, SMALL_LAKES
from tests.pipeline.window_cases import demand_sound, demand_the_same

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

MOMENTS = tuple(datetime(2026, 3, 2, hour, 5, tzinfo=UTC) for hour in (1, 20))
"""Still Sunday in St. John's, and Tuesday already in Kolkata."""
EAGER = {"loadBalancerNamespaceBundleMaxTopics": 3, "loadBalancerLoadSheddingStrategy": "OverloadShedder",
         "loadBalancerBrokerOverloadedThresholdPercentage": 1, "loadBalancerSheddingIntervalMinutes": 0}  # fmt: skip
ODD = (("spark.sql.timestampType", "TIMESTAMP_NTZ"), ("spark.sql.ansi.enabled", "false"))


def decide(spark: Any, request: CycleRequest, folder: Path) -> tuple[Path, Path]:
    """The lake of the cycles one by one, each in Spark, and that of a window over all of them."""
    alone, window = folder / "alone", folder / "window"
    for at in MOMENTS:
        run_cycle(spark, replace(request, lake=str(alone), at=at.isoformat()), lambda *_: None)
    for _ in run_window(spark, replace(request, lake=str(window), every=True), lambda _: None):
        pass
    return alone, window


def dates(lake: Path) -> dict[str, set[tuple[datetime, date]]]:
    """Table -> the moment and the date of its rows."""
    tables = [name for name in sorted(OF_RECORD) if (lake / name).is_dir()]
    return {name: {(row["cycle_at"], row["cycle_date"]) for row in read_table(lake, name)} for name in tables}


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A zone, which this process is in, too."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.delenv("TZ") if before is None else monkeypatch.setenv("TZ", before)
    time.tzset()


@pytest.mark.parametrize(
    "zone", ["Asia/Kolkata", pytest.param("America/St_Johns", marks=pytest.mark.exhaustive)], indirect=True
)
def test_rows_and_dates_are_those_of_utc(
    spark: Any, zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landed").mkdir()
    for n, at in enumerate(MOMENTS):
        shape = Shape(topics=24, bundles=6, brokers=3, moment=n + 1)
        write_document(tmp_path / "landed" / f"{n}.json.gz", shape, n=n, finished_at=at)
    request = CycleRequest("", f"recording:{tmp_path / 'landed'}", overrides=EAGER, run_id="zones")
    monkeypatch.setattr(frames, "MOST_HERE", 0)
    alone, window = decide(spark, request, tmp_path / "utc")
    assert {at.date() for at in MOMENTS} == {day for pairs in dates(alone).values() for _, day in pairs}
    settings = ServerSettings(
        memory="768m",
        python_path=(str(CHECKOUT),),
        spark=(*SMALL_LAKES, *ODD, ("spark.sql.session.timeZone", zone)),
        java=(f"-Duser.timezone={zone}",),
    )
    with engine_for(tmp_path / "server", settings=settings, brief=True) as elsewhere:
        shared = connect(elsewhere.url, "tests")
        other_alone, other_window = decide(shared, request, tmp_path / "elsewhere")
        demand_sound(shared, other_alone)
        close(shared)
    for here, there in ((alone, other_alone), (window, other_window)):
        attempts = demand_the_same(here, there)
        assert len(attempts) == len(MOMENTS)
        assert sum(attempt.planned["unloads"] + attempt.planned["splits"] for attempt in attempts) > 0
        assert dates(there) == dates(here)
