"""A lake with a log, tampered with in every way that is known: each is named with its table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devtools.tampering import BEFORE, KINDS, Tampering, tampered, verdict_on
from evenkeel.cli import main
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.ingest.wish_intake import Maker, wish_row
from evenkeel.lake.record import read_attempts
from evenkeel.lake.store import Lake, append_row
from evenkeel.lake.wishes import typed
from evenkeel.maintenance.upkeep import Request, keep
from evenkeel.pipeline import run_window
from evenkeel.sources.recordings import Recording
from evenkeel.spark.server import Engine
from evenkeel.transparency.lake_log import append_commits, begin
from tests.transparency.logs import LOG_KEY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDINGS = Path(__file__).resolve().parents[2] / "demo" / "recordings"
PAGE = Path(__file__).resolve().parents[2] / "devtools" / "tampering.md"
CLUSTERS = ("own-threshold", "anti-affinity")
QUICK = ("cut-end", "last-bit", "approval-added", "all-set-back")
"""One of a kind, for every run of the tests."""


@pytest.fixture(scope="module")
def places(
    request: pytest.FixtureRequest, spark: SparkSession, engine: Engine, empty_lake: Callable[[Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:  # fmt: skip
    """A lake in which all that can be tampered with is on record, and a witness's file.

    Where `QUICK` is asked for alone, the lake has one cluster, a cycle less of it, and no upkeep.
    """
    asked = {item.name for item in request.session.items}
    is_whole = any(f"test_it_is_named_with_its_table[{kind.name}]" in asked for kind in KINDS if kind.name not in QUICK)
    names = CLUSTERS if is_whole else CLUSTERS[:1]
    folder = tmp_path_factory.mktemp("whole")
    lake, witness = empty_lake(folder / "lake"), folder / "witness.jsonl"
    configuration = folder / "evenkeel.toml"
    configuration.write_text("".join(f'[clusters.{name}]\nrecording = "{RECORDINGS / name}"\n' for name in names))
    window = CycleRequest(str(lake), configuration=str(configuration), every=True, run_id="whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
        patched.setenv("EVENKEEL_WITNESSES", str(witness))
        patched.setenv("EVENKEEL_SPARK", engine.url)
        begin(str(lake), [LOG_KEY])
        decide(spark, window, "2026-11-21T08:26:20+00:00")
        if is_whole:
            keep(spark, Request(str(lake), "tests"), lambda _: None)
        shutil.copytree(lake, folder / BEFORE)
        put_words_on_record(lake, min(one.cycle_at for one in read_attempts(lake)))
        append_commits(str(lake), [LOG_KEY], adopt_by="tests")
        decide(spark, window, None if is_whole else Recording(RECORDINGS / names[0]).snapshots[-2].cycle_at)
        if is_whole:
            keep(spark, Request(str(lake), "tests"), lambda _: None)
    return lake, witness


def decide(spark: SparkSession, request: CycleRequest, until: str | None) -> None:
    for _ in run_window(spark, replace(request, until=until), lambda _: None):
        pass


def put_words_on_record(lake: Path, first: datetime) -> None:
    """What operators say, before the first cycle."""
    at = first - timedelta(hours=3)
    row = {"cluster": CLUSTERS[0], "plan_id": "p" * 64, "answer": "approved", "by": "alice", "at": at, "note": None}

    def never() -> Any:
        raise AssertionError("Spark is started")

    append_row(Lake(str(lake)), "approvals", row)
    assert main(["pause", CLUSTERS[0], "--lake", str(lake), "--reason", "a test"]) == 0
    asked = {"kind": "unload", "namespace": "acme/orders", "bundle": "0x00000000_0x40000000"}
    append_row(Lake(str(lake)), "wishes", typed(wish_row(asked, CLUSTERS[0], Maker("alice", at.isoformat()))))


@pytest.fixture
def outside(places: tuple[Path, Path], engine: Engine, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """What an auditor holds the lake against."""
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return ("--log-key", LOG_KEY.verifier.text, "--against", str(places[1]))


def test_the_lake_itself_is_sound(places: tuple[Path, Path], outside: tuple[str, ...]) -> None:
    found = verdict_on(places[0], *outside)
    assert (found.code, found.faults) == (0, ())


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=kind.name, marks=() if kind.name in QUICK else pytest.mark.exhaustive) for kind in KINDS],
)
def test_it_is_named_with_its_table(
    kind: Tampering, places: tuple[Path, Path], outside: tuple[str, ...], tmp_path: Path
) -> None:
    lake = tampered(places[0], kind, tmp_path)
    found = verdict_on(lake, *outside)
    assert found.names(kind), found
    if kind.alone:
        assert verdict_on(lake).code != 0, "without the log's key and the witness"


def test_there_are_at_least_forty_ways_and_the_page_tells_of_each() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 40
    page = PAGE.read_text(encoding="utf-8")
    assert [kind.words for kind in KINDS if f"| {kind.words} | `{kind.table}` |" not in page] == []
    assert f"all {len(KINDS)} ways are named" in page
