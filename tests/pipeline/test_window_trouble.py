"""What a window meets on a bad day: each cycle has an outcome that an operator can read, nothing is lost or doubled.

Three clusters, six moments on three dates with a day without any in between, and a file that breaks off on each of the
dates. `east` runs and its snapshots are landed; `west` and `south` are recordings. In `west` names are out of the order
of time, and one moment stands there twice. `south` changes settings, load manager and version from cycle to cycle.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.synthetic_snapshot import Shape, configuration, write_document
from evenkeel import pipeline
from evenkeel.errors import NothingLanded
from evenkeel.handover import Handover
from evenkeel.ingest import chunks
from evenkeel.ingest.chunks import decided_already, landed_in
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_attempts, read_cycles, read_rows, read_table
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors
from evenkeel.maintenance.upkeep import Request, UpkeepResult, keep
from evenkeel.pipeline import WindowProgress, run_cycle, run_window
from evenkeel.publish import manifests
from evenkeel.sources.landing import milliseconds
from evenkeel.spark.code import code_digest
from evenkeel.times import utc_text
from tests.pipeline.window_cases import content, demand_sound, named
from tests.pulsar.small_cluster import EXTENSIBLE, MODULAR, REFUSED_REPORT, metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEGIN = datetime(2026, 3, 2, 6, tzinfo=UTC)
FIVE, DAY = timedelta(minutes=5), timedelta(days=1)
MOMENTS = tuple(BEGIN + days * DAY + n * FIVE for days in (0, 1, 3) for n in (0, 1))
BROKEN = (BEGIN + 2 * FIVE, BEGIN + DAY + 2 * FIVE, BEGIN + 3 * DAY + FIVE / 2)
NAMES = ("0001", "0000", "0003", "0004", "0006", "0008")
"""The files of `west` by time."""
TWICE, BROKEN_NAMES = "0009", ("0002", "0005", "0007")
SHAPE = Shape(topics=24, bundles=6, brokers=3)
SPLITTING = {"loadBalancerNamespaceBundleMaxTopics": 3}


@dataclass(frozen=True)
class Shown:
    """What the brokers of `south` run at a moment: a load manager and a version each, and what is set in them."""

    managers: tuple[str, ...] = (MODULAR,) * SHAPE.brokers
    versions: tuple[str, ...] = ("4.2.4",) * SHAPE.brokers
    settings: tuple[tuple[str, Any], ...] = tuple(SPLITTING.items())


MOVED = (EXTENSIBLE,) * SHAPE.brokers
SOUTH = (
    Shown(settings=()),
    Shown(),
    Shown(managers=(MODULAR, EXTENSIBLE, EXTENSIBLE)),
    Shown(managers=MOVED),
    Shown(managers=MOVED, versions=("5.0.0", "4.2.4", "5.0.0")),
    Shown(managers=MOVED, versions=("5.0.0",) * SHAPE.brokers),
)


def at(number: int) -> str:
    return utc_text(MOMENTS[number])


def snapshot(file: Path, number: int, shown: Shown | None = None) -> Path:
    """Lays the snapshot of a moment there: figures differ from moment to moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_document(file, replace(SHAPE, moment=number + 1), n=number, finished_at=MOMENTS[number])
    if shown is not None:
        body = json.loads(gzip.decompress(file.read_bytes()))
        body["requests"] = [one for request in body["requests"] for one in answered(request, shown)]
        file.write_bytes(gzip.compress(json.dumps(body).encode()))
    return file


def answered(request: dict[str, Any], shown: Shown) -> list[dict[str, Any]]:
    """The request as brokers answer it that run what is `shown`, and what else is asked of them."""
    number = int(request["broker"][len("broker-") :].partition(".")[0])
    manager, path = shown.managers[number], request["path"]
    if path.endswith("/configuration/runtime"):
        told = configuration(set_keys=dict(shown.settings)) | {"loadManagerClassName": manager}
        return [{**request, "body": json.dumps(told)}]
    if path.endswith("/brokers/version"):
        return [{**request, "body": shown.versions[number]}]
    if path.endswith("/load-report") and manager == EXTENSIBLE:
        asked = {**request, "path": "/admin/v2/broker-stats/metrics", "n": 100_000 + number}
        return [{**request, "status": 500, "body": REFUSED_REPORT}, {**asked, "body": json.dumps(metrics())}]
    return [request]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of the three clusters."""
    folder = tmp_path_factory.mktemp("trouble")
    for number, (moment, name) in enumerate(zip(MOMENTS, NAMES, strict=True)):
        whole = snapshot(folder / "landing" / "east" / f"{milliseconds(moment)}.json.gz", number)
        snapshot(folder / "west" / f"{name}.json.gz", number)
        snapshot(folder / "south" / f"{number:04d}.json.gz", number, SOUTH[number])
    snapshot(folder / "west" / f"{TWICE}.json.gz", len(MOMENTS) - 1)
    for moment, name in zip(BROKEN, BROKEN_NAMES, strict=True):
        for file in (whole.with_name(f"{milliseconds(moment)}.json.gz"), folder / "west" / f"{name}.json.gz"):
            file.write_bytes(whole.read_bytes()[:-200])
    file = folder / "clusters.toml"
    file.write_text(
        '[clusters.east]\nadmin = "http://127.0.0.1:9"\n[clusters.west]\nrecording = "west"\n'
        '[clusters.south]\nrecording = "south"\n'
    )
    return file


def over(lake: Path, clusters: Path, *names: str, **more: Any) -> CycleRequest:
    given = {"kind": "backfill", "run_id": "window", "every": "at" not in more} | more
    return CycleRequest(str(lake), configuration=str(clusters), clusters=names, **given)


def together(spark: SparkSession, request: CycleRequest) -> tuple[list[Handover], list[WindowProgress]]:
    seen: list[WindowProgress] = []
    return list(run_window(spark, request, seen.append)), seen


def alone(spark: SparkSession, request: CycleRequest) -> None:
    run_cycle(spark, request, lambda *_: None)


def with_rows(tables: dict[str, list[tuple[int, str]]]) -> dict[str, list[tuple[int, str]]]:
    """Without writes that hold rows of another cluster of the run alone, none of this cycle: a window has none such."""
    kept = {table: [one for one in own if one[0]] for table, own in tables.items()}
    return {table: own for table, own in kept.items() if own}


def of(attempts: Iterable[Attempt], cluster: str) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.cluster == cluster]


def samples(lake: Path, attempts: Iterable[Attempt]) -> list[set[int]]:
    """How many samples the averages of each cycle's loaded bundles rest on."""
    return [
        {row["long_samples"] for row in read_rows(lake, one, "bundle_load") if row["topics"] and not row["is_system"]}
        for one in attempts
    ]


def predecessors(attempts: Iterable[Attempt]) -> list[tuple[str, datetime | None]]:
    return [(one.planned["predecessor_status"], one.planned["predecessor_cycle_at"]) for one in attempts]


def went_on(*numbers: int | None) -> list[datetime | None]:
    return [None if number is None else MOMENTS[number] for number in numbers]


# A window that begins long before the first snapshot.

LONG_BEFORE = "2020-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Decided:
    """The lake that the window left."""

    lake: Path

    def attempts(self, cluster: str) -> list[Attempt]:
        return read_attempts(self.lake, cluster=cluster)


@pytest.fixture(scope="module")
def decided(
    spark: SparkSession, clusters: Path, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Decided:
    lake = empty_lake(tmp_path_factory.mktemp("decided") / "lake")
    together(spark, over(lake, clusters, since=LONG_BEFORE))
    return Decided(lake)


def demand_each_once(lake: Path) -> None:
    attempts = read_attempts(lake)
    keys = [(one.cluster, one.cycle_at) for one in attempts]
    assert len(keys) == len(set(keys)) == 3 * len(MOMENTS) + len(BROKEN), "one attempt of each cycle"
    assert {one.kind for one in attempts} == {"backfill"}
    commands = [row["command_id"] for row in read_table(lake, "commands")]
    assert len(commands) == len(set(commands)) > 0
    assert {row["outcome"] for row in read_table(lake, "outcomes")} == {"dry_run"}


@pytest.mark.exhaustive
def test_each_cycle_has_one_attempt_and_the_record_is_sound(spark: SparkSession, decided: Decided) -> None:
    demand_each_once(decided.lake)
    demand_sound(spark, decided.lake)


@pytest.mark.exhaustive
def test_of_two_windows_that_overlap_the_second_goes_on_and_nothing_is_doubled(
    spark: SparkSession, clusters: Path, new_lake: Path
) -> None:
    _, first = together(spark, over(new_lake, clusters, since=LONG_BEFORE, until=at(2)))
    _, second = together(spark, over(new_lake, clusters, since=at(1)))
    demand_each_once(new_lake)
    # East and west twice, south once: what could not be decided before is tried again, and comes to the same.
    assert len(second[0].decided_before) == 5
    assert (first[-1].share, second[-1].share) == (1.0, 1.0)
    demand_sound(spark, new_lake)


@pytest.mark.exhaustive
def test_a_window_that_begins_before_the_first_snapshot_begins_with_that(
    decided: Decided, clusters: Path, tmp_path: Path
) -> None:
    for cluster in ("east", "west", "south"):
        first = decided.attempts(cluster)[0]
        assert (first.cycle_at, first.status) == (MOMENTS[0], "closed")
        assert predecessors([first]) == [("none", None)]
    with pytest.raises(NothingLanded, match=f"the nearest is {MOMENTS[0]:%Y-%m-%dT%H:%M}"):
        landed_in(over(tmp_path, clusters, until="2020-01-01T00:00:00+00:00"))


def test_of_a_broken_landed_snapshot_per_day_that_moment_alone_is_skipped(decided: Decided) -> None:
    east = decided.attempts("east")
    skipped = [one for one in east if one.status == "skipped"]
    assert [one.cycle_at for one in skipped] == list(BROKEN)
    for one in skipped:
        assert str(one.reason).startswith("the cluster was not observed: the snapshot ")
        assert f"{milliseconds(one.cycle_at)}.json.gz cannot be read: the gzip file ends too early" in str(one.reason)
    whole = [one for one in east if one.status == "closed"]
    assert [one.cycle_at for one in whole] == list(MOMENTS)
    # Behind a broken one the state is that of the cycle before it, and the record says so.
    statuses, before = zip(*predecessors(whole), strict=True)
    assert statuses == ("none", "used", "older", "used", "older", "older")
    assert list(before) == went_on(None, 0, 1, 2, 3, 4)
    assert [one.planned["predecessor_expected_at"] for one in (whole[2], whole[4], whole[5])] == list(BROKEN)
    assert samples(decided.lake, whole) == [{n} for n in range(1, 7)]


def test_what_a_recording_holds_beside_its_snapshots_stands_with_the_cycle_after_it(decided: Decided) -> None:
    west = decided.attempts("west")
    assert [one.cycle_at for one in west] == list(MOMENTS), "by time, whatever the names say"
    assert [Path(one.planned["snapshot"]).name[:4] for one in west] == list(NAMES)
    assert {one.status for one in west} == {"closed"}
    found = [
        sorted((Path(row["file"]).name[:4], row["reason"]) for row in read_rows(decided.lake, one, "rejected"))
        for one in west
    ]
    assert [[name for name, _ in own] for own in found] == [[], [], ["0002"], [], ["0005"], ["0007", "0009"]]
    reasons = dict(one for own in found for one in own)
    assert all("the gzip file ends too early" in reasons[name] for name in BROKEN_NAMES)
    assert "is also that of 0008.json.gz, which is kept" in reasons[TWICE]


def test_a_gap_of_a_day_between_snapshots_is_gone_over_with_the_averages_of_before(decided: Decided) -> None:
    west = decided.attempts("west")
    assert MOMENTS[4] - MOMENTS[3] > DAY
    assert predecessors(west) == [
        ("none" if n == 0 else "used", moment) for n, moment in enumerate((None, *MOMENTS[:5]))
    ]
    assert samples(decided.lake, west) == [{n} for n in range(1, 7)]


def test_changes_of_settings_manager_and_version_hold_from_their_cycle_on(decided: Decided) -> None:
    south = decided.attempts("south")
    assert [one.status for one in south] == ["closed", "closed", "skipped", "closed", "closed", "closed"]
    assert [one.planned["manager"] for one in south] == [
        *("modular", "modular", "mixed"), *("extensible", "extensible", "extensible"),
    ]  # fmt: skip
    assert south[2].reason == (
        "brokers run different load managers: set evenkeelManager to modular or extensible, whose rules are then used"
    )
    assert list(zip(*predecessors(south), strict=True)) == [
        ("none", "used", "used", "older", "used", "used"),
        tuple(went_on(None, 0, 1, 1, 3, 4)),
    ]
    ran = [one for one in south if one.plan_id]
    assert len({one.planned["settings_digest"] for one in ran}) == 4, (
        "the last version but one is not yet the brokers' all"
    )
    versions, limits = [], []
    for one in ran:
        rows = {row["key"]: row for row in read_rows(decided.lake, one, "settings")}
        versions.append(json.loads(rows["evenkeelPulsarVersion"]["value"]))
        limits.append(json.loads(rows["loadBalancerNamespaceBundleMaxTopics"]["value"]))
    assert versions == ["4", "4", "4", "4", "5"]
    assert limits == [1000, 3, 3, 3, 3]
    strategies = [{row["strategy"] for row in read_rows(decided.lake, one, "split_decisions")} for one in ran]
    modular, extensible = {"BundleSplitterTask"}, {"DefaultNamespaceBundleSplitStrategyImpl"}
    assert strategies == [modular, modular, extensible, extensible, extensible]


@pytest.mark.exhaustive
def test_all_of_it_comes_to_what_it_comes_to_one_by_one(
    spark: SparkSession, decided: Decided, clusters: Path, new_lake: Path
) -> None:
    for moment in sorted((*MOMENTS, *BROKEN)):
        names = ("east",) if moment in BROKEN else ()  # what is no moment of a recording is none of its cycles
        alone(spark, over(new_lake, clusters, *names, at=utc_text(moment), run_id="alone"))
    first, second = read_attempts(new_lake), read_attempts(decided.lake)
    ids: dict[str | None, str | None] = {None: None}
    for single, own in zip(first, second, strict=True):
        ids[single.attempt_id] = own.attempt_id
        assert (own.cluster, own.cycle_at) == (single.cluster, single.cycle_at)
        assert (own.status, own.reason, own.plan_id) == (single.status, single.reason, single.plan_id)
        assert named(own.planned) == named(single.planned), (own.cluster, own.cycle_at)
        if single.closed is not None:
            assert content(decided.lake, own) == with_rows(content(new_lake, single)), (own.cluster, own.cycle_at)
            assert named(own.closed) == named(single.closed)
    for single, own in zip(first, second, strict=True):
        assert own.planned["predecessor_attempt_id"] == ids[single.planned["predecessor_attempt_id"]]


# A record with gaps, the first part of which other code has decided.

EARLIER = "d3:3.11/4.1:earlier"


@pytest.fixture(scope="module")
def gaps(
    spark: SparkSession, clusters: Path, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The first date of `west`, by earlier code; then the last of `west` and `east`."""
    lake = empty_lake(tmp_path_factory.mktemp("gaps") / "lake")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifests, "code_digest", lambda: EARLIER)
        together(spark, over(lake, clusters, "west", until=at(1)))
    together(spark, over(lake, clusters, "west", "east", since=at(4)))
    return lake


@pytest.mark.exhaustive
def test_after_a_gap_on_record_a_cycle_goes_on_from_the_newest_there_is_and_says_so(gaps: Path) -> None:
    west = read_attempts(gaps, cluster="west")
    assert [one.status for one in west] == ["closed"] * 4
    assert list(zip(*predecessors(west), strict=True)) == [
        ("none", "used", "older", "used"),
        tuple(went_on(None, 0, 1, 4)),
    ]
    assert west[2].planned["predecessor_expected_at"] == MOMENTS[3]
    assert west[2].planned["predecessor_attempt_id"] == west[1].attempt_id
    assert samples(gaps, west) == [{1}, {2}, {3}, {4}]


@pytest.mark.exhaustive
def test_where_nothing_of_the_past_is_on_record_averages_begin_anew_and_the_record_says_that_it_is_missing(
    gaps: Path,
) -> None:
    east = [one for one in read_attempts(gaps, cluster="east") if one.status != "skipped"]
    assert [one.status for one in east] == ["closed", "closed"]
    assert predecessors(east) == [("missing", None), ("older", MOMENTS[4])]
    assert east[0].planned["predecessor_expected_at"] == BROKEN[1]
    assert samples(gaps, east) == [{1}, {2}]


@pytest.mark.exhaustive
def test_what_other_code_has_decided_is_decided_anew_and_the_same_plan_adds_only_what_hands_state_on(
    spark: SparkSession, gaps: Path, clusters: Path
) -> None:
    before = read_attempts(gaps)
    asked = over(gaps, clusters, "west")
    known = decided_already(spark, asked, landed_in(asked))
    assert known == {("west", at(4)), ("west", at(5))}, "the first date is another code's"
    again, seen = together(spark, over(gaps, clusters, "west", until=at(1)))
    assert [cycle.cycle_at for one in again for cycle in one.cycles] == [at(0), at(1)]
    assert (seen[0].of, len(seen[0].decided_before)) == (2, 0)
    after = read_attempts(gaps)
    # Other code may have left other state under the same plan, and the second cycle goes on from this one's.
    recorded = {one.attempt_id for one in before}
    (added,) = (one for one in after if one.attempt_id not in recorded)
    first = of(before, "west")[0]
    assert (added.cycle_at, added.number, added.planned["plan_id"]) == (first.cycle_at, 2, first.planned["plan_id"])
    assert added.planned["code_digest"] == code_digest()
    assert [(one.planned, one.closed) for one in after if one is not added] == [
        (one.planned, one.closed) for one in before
    ]
    demand_sound(spark, gaps)


# A backfill, beside which live cycles and upkeep go on.


@dataclass(frozen=True)
class Beside:
    """A lake after it all; the live attempts as they were when they were made, and what upkeep did."""

    lake: Path
    live: tuple[Attempt, Attempt]
    kept: UpkeepResult
    chunks: tuple[int, ...]


@pytest.fixture(scope="module")
def beside(
    spark: SparkSession, clusters: Path, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Beside:
    """The first moment is decided live. All moments are backfilled under other settings, and between the two chunks the
    last moment is decided live, and the lake is kept."""
    lake = empty_lake(tmp_path_factory.mktemp("beside") / "lake")
    live = over(lake, clusters, "west", kind="live", run_id="live", at=at(0))
    alone(spark, live)
    (first,) = read_attempts(lake)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "MOST_CYCLES", 3)
        window = run_window(spark, over(lake, clusters, "west", overrides=SPLITTING), lambda _: None)
        done = [len(next(window).cycles)]
        alone(spark, replace(live, at=at(5)))
        last = read_attempts(lake)[-1]
        kept = keep(spark, Request(str(lake), "tests"), lambda _: None)
        done += [len(one.cycles) for one in window]
    return Beside(lake, (first, last), kept, tuple(done))


@pytest.mark.exhaustive
def test_live_cycles_beside_a_backfill_of_their_past_rest_on_live_ones_and_stay_what_readers_see(
    spark: SparkSession, beside: Beside
) -> None:
    attempts = read_attempts(beside.lake)
    live, past = ([one for one in attempts if (one.kind == "live") is wanted] for wanted in (True, False))
    assert [(one.cycle_at, one.planned, one.closed) for one in live] == [
        (one.cycle_at, one.planned, one.closed) for one in beside.live
    ], "not touched"
    assert [one.cycle_at for one in live] == [MOMENTS[0], MOMENTS[5]]
    assert [(one.cycle_at, one.kind) for one in past] == [(moment, "backfill") for moment in MOMENTS]
    # The backfill had reached the third moment by then.
    assert predecessors(live) == [("none", None), ("older", MOMENTS[0])]
    assert live[1].planned["predecessor_attempt_id"] == live[0].attempt_id
    assert samples(beside.lake, live) == [{1}, {2}]
    assert [one.planned["predecessor_attempt_id"] for one in past] == [None, *(one.attempt_id for one in past[:5])]
    seen = read_cycles(beside.lake)
    assert [one.kind for one in seen] == ["live", *["backfill"] * 4, "live"]
    assert [seen[0].attempt_id, seen[5].attempt_id] == [one.attempt_id for one in live]
    asked = [("west", utc_text(MOMENTS[5] + FIVE), at(5))]
    for kind, expected in (("live", live[1]), ("backfill", past[5])):
        (found,) = find_predecessors(Lake(str(beside.lake)), asked, kind=kind).values()
        assert (found.status, found.attempt_id) == ("used", expected.attempt_id), kind


@pytest.mark.exhaustive
def test_upkeep_in_the_middle_of_a_backfill_loses_nothing_and_the_next_chunk_goes_on(
    spark: SparkSession, beside: Beside
) -> None:
    assert beside.chunks == (3, 3)
    done = {one.table: one for one in beside.kept.tables}
    assert done["bundle_load"].files_after < done["bundle_load"].files_before, "the first date was over, and compacted"
    assert {(one.rows_expired, one.rows_unlisted) for one in beside.kept.tables} == {(0, 0)}
    assert beside.kept.wrong == ()
    past = [one for one in read_attempts(beside.lake) if one.kind == "backfill"]
    assert [one.status for one in past] == ["closed"] * len(MOMENTS)
    assert [one.planned["predecessor_status"] for one in past] == ["none", *["used"] * 5]
    for one in read_attempts(beside.lake):
        for table in {write.table for write in one.writes}:
            read_rows(beside.lake, one, table)  # raises where fewer are there than listed
    demand_sound(spark, beside.lake)


@pytest.mark.exhaustive
def test_upkeep_in_the_middle_of_a_chunk_leaves_alone_what_no_manifest_lists_yet(
    spark: SparkSession, clusters: Path, new_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(spark, over(new_lake, clusters, "west", kind="live", at=at(0)))
    kept: list[UpkeepResult] = []

    def place(spark_: SparkSession, handover: Handover) -> Handover:
        kept.append(keep(spark, Request(str(new_lake), "tests"), lambda _: None))
        return pipeline.place(spark_, handover)

    tasks: Sequence[Any] = [place if task is pipeline.place else task for task in pipeline.DECIDING]
    monkeypatch.setattr(pipeline, "DECIDING", tuple(tasks))
    together(spark, over(new_lake, clusters, "west", until=at(1), overrides=SPLITTING))
    (done,) = kept
    loads = next(one for one in done.tables if one.table == "bundle_load")
    assert loads.files_after < loads.files_before, "rows of the chunk lie in one file with rows on record"
    assert {(one.rows_expired, one.rows_unlisted) for one in done.tables} == {(0, 0)}
    assert done.wrong == ()
    past = [one for one in read_attempts(new_lake) if one.kind == "backfill"]
    assert [(one.cycle_at, one.status) for one in past] == [(moment, "closed") for moment in MOMENTS[:2]]
    assert samples(new_lake, past)[0] == {1}
    demand_sound(spark, new_lake)
