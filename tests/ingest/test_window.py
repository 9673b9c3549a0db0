"""Ingest and validate of a window: the rows, digests and outcomes of its cycles decided one by one.

Test plan: two real recordings, one of them with a file that breaks off, a moment that was landed twice, a snapshot
that validate quarantines, one that Python can unpack and Java cannot, and unreadable topic figures. They are decided
cycle by cycle, as one window of both clusters, cut at random, and in pieces as small as can be.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.handover import Handover, Run
from evenkeel.ingest import task as ingest
from evenkeel.ingest.chunks import landed_in
from evenkeel.ingest.open_run import CycleRequest, cycles_of
from evenkeel.validate import task as validate
from tests.written_rows import rows_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

CHECKOUT = Path(__file__).resolve().parents[2]
QUARANTINED, PADDED = "0009.json.gz", "0011.json.gz"


def changed(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    body = json.loads(gzip.decompress(file.read_bytes()))
    change(body)
    file.write_bytes(gzip.compress(json.dumps(body).encode()))


def takes_too_long(body: dict[str, Any]) -> None:
    body["started_at"] = (datetime.fromisoformat(body["started_at"]) - timedelta(seconds=500)).isoformat()


def comes_later(body: dict[str, Any]) -> None:
    for member in ("started_at", "finished_at"):
        body[member] = (datetime.fromisoformat(body[member]) + timedelta(seconds=1)).isoformat()


def loses_figures(body: dict[str, Any]) -> None:
    """Figures of one broker break off, one topic is no object, and a topic list is a page."""
    figures = [one for one in body["requests"] if one["path"].endswith("/broker-stats/topics")]
    figures[0]["body"] = figures[0]["body"][:-40]
    topics = json.loads(figures[1]["body"])
    next(iter(next(iter(next(iter(topics.values())).values())).values()))["persistent://a/b/odd"] = 5
    figures[1]["body"] = json.dumps(topics)


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters; the folder of one has a name that wants quoting in a URI."""
    folder = tmp_path_factory.mktemp("window")
    own = folder / "own +1%20 [é]"
    shutil.copytree(CHECKOUT / "demo" / "recordings" / "own-threshold", own)
    (own / "0005.json.gz").write_bytes((own / "0002.json.gz").read_bytes()[:9_000])
    shutil.copy(own / "0002.json.gz", own / "0012.json.gz")
    shutil.copy(own / QUARANTINED, own / PADDED)
    changed(own / PADDED, comes_later)
    (own / PADDED).write_bytes((own / PADDED).read_bytes() + bytes(16))
    changed(own / QUARANTINED, takes_too_long)
    changed(own / "0002.json.gz", loses_figures)
    shutil.copytree(CHECKOUT / "tests" / "recordings" / "lost-modular", folder / "lost")
    file = folder / "clusters.toml"
    file.write_text(
        f'[clusters.own]\nrecording = "{own}"\n[clusters.lost]\nrecording = "{folder / "lost"}"\n'
        "[clusters.lost.settings]\nminUnloadMessage = 5\n",
        encoding="utf-8",
    )
    return file


def taken_in(spark: SparkSession, lake: Path, request: CycleRequest) -> Handover:
    cycles = landed_in(request) if request.asks_for_a_window else cycles_of(request)
    handover = Handover(str(lake), Run("cli", "test", "backfill"), tuple(cycles))
    return validate.run(spark, ingest.run(spark, handover))


def content(runs: Iterable[Handover]) -> tuple[dict[Any, Any], list[Any]]:
    """What is known of each cycle, and the rows and digest of each table and cycle."""
    known: dict[Any, Any] = {}
    written: list[Any] = []
    for run in runs:
        for cycle in run.cycles:
            known[cycle.key] = cycle
        written += [(w.cluster, w.cycle_at, w.table, w.rows, rows_digest(run.lake, w)) for w in run.writes if w.rows]
    return known, sorted(written)


@pytest.fixture(scope="module")
def one_by_one(
    spark: SparkSession,
    configuration: Path,
    empty_lake: Callable[[Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[Any, Any], list[Any]]:
    lake = empty_lake(tmp_path_factory.mktemp("lake") / "single")
    request = CycleRequest(str(lake), configuration=str(configuration), kind="backfill")
    cycles = landed_in(replace(request, every=True))
    assert len(cycles) == 8
    return content(
        taken_in(spark, lake, replace(request, clusters=(cycle.cluster,), at=cycle.cycle_at)) for cycle in cycles
    )


def demand_equal(found: tuple[dict[Any, Any], list[Any]], expected: tuple[dict[Any, Any], list[Any]]) -> None:
    assert found[0] == expected[0]
    assert found[1] == expected[1]


def test_one_window_of_two_clusters_is_their_cycles_one_by_one(
    spark: SparkSession, configuration: Path, new_lake: Path, one_by_one: tuple[dict[Any, Any], list[Any]]
) -> None:
    request = CycleRequest(str(new_lake), configuration=str(configuration), kind="backfill", every=True)
    run = taken_in(spark, new_lake, request)
    assert run.is_window()
    demand_equal(content([run]), one_by_one)
    assert len({write.version for write in run.writes_of("topic_stats")}) == 1
    left_out = {Path(cycle.snapshot.path).name: cycle.reason for cycle in run.cycles if cycle.status != "open"}
    assert {QUARANTINED, PADDED} <= left_out.keys()
    assert "it holds no request that can be read" in str(left_out[PADDED])
    assert "The snapshot took 50" in str(left_out[QUARANTINED])
    rejected = [table for _, _, table, _, _ in one_by_one[1]].count("rejected")
    assert rejected >= 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2])
def test_cut_anywhere_it_is_the_same(
    spark: SparkSession, configuration: Path, new_lake: Path, one_by_one: tuple[dict[Any, Any], list[Any]], seed: int
) -> None:
    chance = random.Random(seed)
    runs = []
    for cluster in ("own", "lost"):
        request = CycleRequest(str(new_lake), configuration=str(configuration), clusters=(cluster,), kind="backfill")
        moments = [cycle.cycle_at for cycle in landed_in(replace(request, every=True))]
        cut = chance.randrange(1, len(moments))
        for part in (moments[:cut], moments[cut:]):
            runs.append(taken_in(spark, new_lake, replace(request, since=part[0], until=part[-1])))
    demand_equal(content(runs), one_by_one)


@pytest.mark.exhaustive
def test_in_the_smallest_pieces_it_is_the_same(
    spark: SparkSession,
    configuration: Path,
    new_lake: Path,
    one_by_one: tuple[dict[Any, Any], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingest, "_PIECE", 1_000_000)
    monkeypatch.setattr(validate, "parts", partial(validate.parts, most_rows=200))
    request = CycleRequest(str(new_lake), configuration=str(configuration), kind="backfill", every=True)
    demand_equal(content([taken_in(spark, new_lake, request)]), one_by_one)
