"""The status of a lake: each kind of need from rows on record, in order, and what is said where rows are missing."""

import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel.errors import LakeError, NoLake, NoSuchCycle
from evenkeel.lake.record import read_cycles, read_rows
from evenkeel.lake.record import recent_rows as module
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.status import LakeStatus, read_status
from evenkeel.status.attention import KINDS, MISCONFIGURED, URGENCY, StatusRows, attention, bounces, stale_after
from evenkeel.status.gather import COURSE_CYCLES, gather_status
from evenkeel.status.line import by_urgency, line_of, sparkline, stretches
from evenkeel.status.rendering import as_json
from evenkeel.validate.configuration_rules import CONFIGURATION_RULES
from tests.lakes.plausible import broker_load, plausible_lake
from tests.lakes.small_lake import SmallLake, moment
from tests.lakes.urgent_lake import EVERY, HOT, XSS, UrgentLake, brokers, urgent_lake

pytestmark = pytest.mark.slow

NOW = moment("2026-11-21T12:00:00")
KEPT = Path(__file__).resolve().parents[1] / "kept_lakes"
LATER = NOW + timedelta(seconds=50)


@pytest.fixture(scope="module")
def urgent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return urgent_lake(tmp_path_factory.mktemp("lakes") / "urgent", NOW)


@pytest.fixture(scope="module")
def status(urgent: Path) -> LakeStatus:
    return read_status(urgent, LATER)


def made(root: Path, fill: Callable[[UrgentLake], Any]) -> Path:
    lake = UrgentLake(root, NOW)
    fill(lake)
    lake.lake.write()
    return root


def rows_of(root: Path, name: str) -> StatusRows:
    return next(rows for rows in gather_status(root).clusters if rows.cluster == name)


# Kinds


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.name != "newer_version"])
def test_each_kind_is_seen_in_its_cluster(status: LakeStatus, kind: str) -> None:
    line = next(line for line in status.clusters if line.cluster == kind)
    assert line.needs[0].kind == kind
    assert line.needs[0].text.endswith(".")
    assert status.unread == {}


def test_what_each_kind_says(status: LakeStatus) -> None:
    said = {line.cluster: line.needs[0] for line in status.clusters if line.needs}
    assert said["harm"].text.startswith(f"The unload of {HOT} to pulsar-2.prod:8080 did harm: it had 41 consumers")
    assert said["stale"].text == "No cycle for 3 h 8 min; cycles used to come every 5 min."
    assert said["approval"].text == "A plan of 4 commands waits for an answer."
    assert said["bounces"].text == f"{HOT} moved back to pulsar-1.prod:8080, which it had left within the hour."
    assert said["quarantined"].text.startswith("Left out of the newest cycle: acme/ns1 has a hole")
    assert said["hung_broker"].text == "pulsar-3.prod:8080: it is hung: SIGKILL ends it."
    assert said["idle_broker"].text == "pulsar-3.prod:8080 owns no bundle."
    assert said["planner_set_aside"].text.startswith("Evenkeel's planner is set aside: 3 plans in a row brought less")
    assert said["held"].count == 3
    assert said["misconfigured"].text == "1 of 2 isolation policies match no broker at all: port."
    assert said["paused"].text == "Paused by ada: broker upgrade."
    assert said["draining"].text.startswith("pulsar-2.prod:8080 is being emptied")


def test_what_is_misconfigured_is_known_by_its_rules() -> None:
    assert {each.rule.name for each in CONFIGURATION_RULES} == MISCONFIGURED


def test_a_calm_cluster_needs_nothing(status: LakeStatus) -> None:
    calm = [line for line in status.clusters if line.cluster.startswith("calm")]
    assert [line.mood for line in calm] == ["calm", "calm"]
    assert [line.mode for line in calm] == ["auto", "dry_run"]
    assert calm[0].balance == 1.28
    assert len(calm[0].course) == 7
    assert calm[0].brokers == 3
    assert calm[0].age_seconds == 50


def test_the_most_urgent_cluster_stands_first_and_calm_ones_last(status: LakeStatus) -> None:
    first = [URGENCY[line.needs[0].kind] for line in status.clusters if line.needs]
    assert first == sorted(first)
    assert status.clusters[0].cluster == "harm"
    assert [line.cluster for line in status.clusters[-2:]] == ["calm-a", "calm-b"]
    moods = [{"bad": 0, "warn": 1, "note": 2, "calm": 3}[line.mood] for line in status.clusters]
    assert moods == sorted(moods)


def test_a_draining_broker_is_not_idle(status: LakeStatus) -> None:
    line = next(line for line in status.clusters if line.cluster == "draining")
    assert [one.kind for one in line.needs] == ["draining"]


def test_names_are_data(status: LakeStatus, urgent: Path) -> None:
    assert {line.cluster for line in status.clusters} >= set(XSS)
    for name in XSS:
        (line,) = read_status(urgent, LATER, cluster=name).clusters
        assert line.cluster == name


def test_of_an_idle_cluster_no_broker_is_idle(urgent: Path) -> None:
    rows = rows_of(urgent, "calm-a")
    for figures in ({"bundles": 0}, {"msg_rate_in": 0.0, "msg_rate_out": 0.0}):
        assert attention(replace(rows, broker_load=brokers(0.1, 0.1, **figures)), LATER) == ()
    silent = [*brokers(0.4), broker_load("pulsar-9:8080", None, bundles=0)]
    assert attention(replace(rows, broker_load=silent), LATER) == (), "of a silent broker nothing is known"


@pytest.mark.parametrize(
    ("seconds", "answered", "waits"),
    [(299, (), True), (301, (), False), (10, ("approval-plan",), False), (10, ("another",), True)],
)
def test_a_plan_waits_until_it_is_answered_or_over(
    urgent: Path, seconds: int, answered: tuple[str, ...], waits: bool
) -> None:
    rows = replace(rows_of(urgent, "approval"), answered=frozenset(answered), answer_by=NOW + timedelta(seconds=300))
    found = attention(rows, NOW + timedelta(seconds=seconds))
    assert ("approval" in {one.kind for one in found}) is waits


def test_until_when_a_plan_may_be_approved_is_on_record(tmp_path: Path) -> None:
    setting = {"key": "evenkeelMaxReportAgeSeconds", "value": "300", "origin": "default", "settings_digest": "d"}
    root = made(
        tmp_path,
        lambda lake: lake.course("a", mode="approve", status="planned", unloads=1, tables={"settings": [setting]}),
    )
    (line,) = read_status(root, NOW + timedelta(seconds=60)).clusters
    assert line.needs[0].text == "A plan of 1 command waits for an answer for 4 min more."
    lake = UrgentLake(root, NOW)
    answer = {"cluster": "a", "plan_id": "a-plan", "answer": "rejected", "by": "ada", "at": NOW, "note": None}
    lake.lake.append("approvals", [answer])
    lake.lake.write()
    assert read_status(root, NOW + timedelta(seconds=60)).clusters[0].needs == ()


def test_a_record_is_stale_after_three_usual_distances_and_never_before_five_minutes(urgent: Path) -> None:
    rows = rows_of(urgent, "calm-a")
    assert stale_after(rows.attempts) == 3 * EVERY
    assert stale_after(rows.attempts[-1:]) == timedelta(days=1)
    kinds = [attention(rows, NOW + 3 * EVERY + timedelta(seconds=more)) for more in (0, 1)]
    assert [[one.kind for one in found] for found in kinds] == [[], ["stale"]]


def test_the_record_of_a_recording_is_never_stale(tmp_path: Path) -> None:
    plausible_lake(tmp_path)
    found = read_status(tmp_path, NOW + timedelta(days=400))
    assert {one.kind for line in found.clusters for one in line.needs} <= {"held", "bounces"}


def move(bundle: str, start: str, goal: str, minutes: float) -> dict[str, Any]:
    return {"bundle": bundle, "from_broker": start, "destination": goal, "cycle_at": NOW + timedelta(minutes=minutes)}


@pytest.mark.parametrize(
    ("moves", "back"),
    [
        ([("x", "a", "b", 0), ("x", "b", "a", 59)], 1),
        ([("x", "a", "b", 0), ("x", "b", "a", 61)], 0),
        ([("x", "a", "b", 0), ("y", "b", "a", 5)], 0),
        ([("x", "a", "b", 0), ("x", "b", "c", 5), ("x", "c", "a", 9)], 1),
        ([("x", "b", "a", 0)], 0),
        ([], 0),
    ],
)
def test_a_bounce_is_a_move_back_within_the_hour(moves: list[tuple[Any, ...]], back: int) -> None:
    assert len(bounces(move(*one) for one in moves)) == back


# Courses


@pytest.mark.parametrize(
    ("course", "drawn", "parts"),
    [
        ((1.0, 1.5, 2.0), "▁▅█", 1),
        ((1.0, None, 2.0), "▁·█", 2),
        ((1.2, 1.2), "▁▁", 1),
        ((1.2,), "▁", 1),
        ((None, None), "", 0),
        ((), "", 0),
    ],
)
def test_a_course_as_signs_and_as_lines(course: tuple[float | None, ...], drawn: str, parts: int) -> None:
    assert sparkline(course) == drawn
    found = stretches(course, 96, 24)
    assert len(found) == parts
    points = [point.split(",") for part in found for point in part.split()]
    assert all(0 <= float(x) <= 96 and 0 <= float(y) <= 24 for x, y in points)


def test_of_a_long_record_in_one_file_the_newest_cycles_are_the_course(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    with lake.one_commit():
        for number in range(400):
            lake.add("long", NOW - number * EVERY, {}, before_max_over_mean=1.0 + number, plan_id="p", source="admin")
    (line,) = read_status(tmp_path, LATER).clusters
    assert line.course == tuple(1.0 + number for number in reversed(range(COURSE_CYCLES)))
    assert line.cycle_at == NOW


def test_of_several_attempts_at_a_cycle_the_one_that_counts_is_shown(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    lake.add("a", NOW, {}, mode="auto", plan_id="p1", before_max_over_mean=1.1, source="admin")
    lake.add("a", NOW, {}, attempt=2, kind="backfill", mode="dry_run", plan_id="p2", before_max_over_mean=9.9)
    (line,) = read_status(tmp_path, LATER).clusters
    assert (line.mode, line.kind, line.balance) == ("auto", "live", 1.1)


# What is missing, newer, damaged or gone


def test_without_a_lake_or_a_cycle_it_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NoLake, match="there is no lake at"):
        read_status(tmp_path, NOW)
    SmallLake(tmp_path).append("cycles", [])
    with pytest.raises(NoSuchCycle, match="no cycle is on record"):
        read_status(tmp_path, NOW)


@pytest.mark.parametrize("name", ["hram", "' OR '1'='1", "x\x00y"])
def test_a_cluster_that_never_was_is_told_with_what_there_is(urgent: Path, name: str) -> None:
    with pytest.raises(NoSuchCycle, match="On record: "):
        read_status(urgent, NOW, cluster=name)


def test_half_a_cycle_is_shown_as_far_as_it_is_there(tmp_path: Path) -> None:
    """Its plan is on record, nothing closes it, and of its tables one was never written."""
    root = made(tmp_path, lambda lake: lake.course("a", status="planned", unloads=2))
    (line,) = read_status(root, LATER).clusters
    assert (line.state, line.unloads) == ("planned", 2)
    shutil.rmtree(root / "broker_load")
    found = read_status(root, LATER)
    assert (found.clusters[0].brokers, found.unread) == (0, {})


def test_of_a_newer_version_no_more_than_that_is_said(tmp_path: Path) -> None:
    root = made(tmp_path, lambda lake: lake.course("a", schema_version=99, held=3, status="withheld", reason="x"))
    (line,) = read_status(root, LATER).clusters
    assert [one.kind for one in line.needs] == ["newer_version"]
    assert "tables 99" in line.needs[0].text


def test_a_table_that_cannot_be_read_is_told_of_and_the_rest_stands(tmp_path: Path) -> None:
    root = made(tmp_path, lambda lake: lake.course("a", held=1))
    for file in (root / "broker_load").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    found = read_status(root, LATER)
    assert [one.kind for one in found.clusters[0].needs] == ["held"]
    assert list(found.unread) == ["broker_load"]
    for file in (root / "cycles").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    with pytest.raises(LakeError, match="table cycles of the lake"):
        read_status(root, LATER)


def test_a_lake_that_is_gone_in_the_middle_is_told_and_one_in_its_place_is_seen(tmp_path: Path) -> None:
    root = made(tmp_path / "lake", lambda lake: lake.course("before"))
    recent = Recent(root)
    assert [line.cluster for line in read_status(recent, LATER).clusters] == ["before"]
    shutil.rmtree(root)
    with pytest.raises(NoLake):
        read_status(recent, LATER)
    made(root, lambda lake: lake.course("after"))
    assert [line.cluster for line in read_status(recent, LATER).clusters] == ["after"]


def test_who_looks_again_sees_what_has_come_and_reads_that_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path, lambda lake: [lake.course(f"c{number}") for number in range(3)])
    recent = Recent(root)
    read_status(recent, LATER)
    opened: list[str] = []
    inner = module._read_files

    def spy(root: str, system: Any, files: Sequence[Any], *more: Any) -> list[Any]:
        opened.extend(file.path for file in files)
        return inner(root, system, files, *more)

    monkeypatch.setattr(module, "_read_files", spy)
    read_status(recent, LATER)
    assert opened == []
    lake = UrgentLake(root, NOW)
    lake.lake.add("c1", NOW + EVERY, {}, status="failed", reason="x", source="admin")
    lake.lake.write()
    found = read_status(recent, LATER + EVERY)
    assert (found.clusters[0].cluster, found.clusters[0].state) == ("c1", "failed")
    assert len(opened) == 1


def test_rows_that_upkeep_has_put_into_other_files_are_found(tmp_path: Path) -> None:
    root = made(tmp_path, lambda lake: lake.course("a"))
    recent = Recent(root)
    before = read_status(recent, LATER).clusters[0]
    for name in ("cycles", "broker_load"):
        table = DeltaTable(str(root / name))
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert read_status(Recent(root), LATER).clusters[0] == before
    assert read_status(recent, LATER).clusters[0] == before


def test_a_clock_that_is_behind_makes_no_negative_age(urgent: Path) -> None:
    rows = rows_of(urgent, "calm-a")
    line = line_of(rows, NOW - timedelta(hours=2))
    assert line.needs == ()
    assert by_urgency([line]) == [line]


def test_a_figure_that_is_not_a_number_counts_as_none(tmp_path: Path) -> None:
    figures = (float("nan"), float("inf"))
    root = made(
        tmp_path, lambda lake: [lake.course(f"c{n}", before_max_over_mean=one) for n, one in enumerate(figures)]
    )
    found = json.loads(as_json(read_status(root, LATER)), parse_constant=pytest.fail)
    assert [one["course"][-1] for one in found["clusters"]] == [None, None]


def test_the_clock_is_in_utc_whatever_zone_it_is_given_in(urgent: Path) -> None:
    from zoneinfo import ZoneInfo

    there = LATER.astimezone(ZoneInfo("Pacific/Auckland"))
    assert read_status(urgent, there).clusters == read_status(urgent, LATER.astimezone(UTC)).clusters
    assert datetime.now(UTC) > NOW - timedelta(days=10_000)


# Files as Spark writes them


@pytest.mark.parametrize("small", [True, False])
def test_a_lake_that_spark_wrote_has_the_figures_of_its_manifests(
    small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(KEPT / "schema_1.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    root = next(tmp_path.rglob("cycles")).parent
    if not small:
        monkeypatch.setattr(module, "_SMALL_BYTES", 0)
    attempts = read_cycles(root)
    found = read_status(root, NOW)
    assert found.unread == {}
    assert {line.cluster for line in found.clusters} == {one.cluster for one in attempts}
    for line in found.clusters:
        own = [one for one in attempts if one.cluster == line.cluster]
        assert (line.cycle_at, line.state, line.mode) == (own[-1].cycle_at, own[-1].status, own[-1].mode)
        assert line.course == tuple(one.planned["before_max_over_mean"] for one in own)[-len(line.course) :]
        assert len(line.course) == min(len(own), COURSE_CYCLES)
        load = [row for one in [one for one in own if one.decided][-1:] for row in read_rows(root, one, "broker_load")]
        assert line.brokers == sum(row["state"] == "reported" for row in load)
