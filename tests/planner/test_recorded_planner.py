"""The planner over snapshots of real clusters that are part of this project: a plan or a reason for each."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.planner.recorded_cycles import RecordedCycle, recorded_cycles

CHECKOUT = Path(__file__).resolve().parents[2]
RECORDINGS = sorted(
    path
    for folder in (CHECKOUT / "tests" / "recordings", CHECKOUT / "demo" / "recordings")
    for path in folder.iterdir()
    if path.is_dir()
)


def traffic(one: RecordedCycle) -> dict[str, float]:
    assert one.rows is not None
    found: dict[str, float] = {}
    for row in one.rows["bundle_load"]:
        if row["owner"] is not None:
            own = (row["used_msg_throughput_in"] or 0.0) + (row["used_msg_throughput_out"] or 0.0)
            found[row["owner"]] = found.get(row["owner"], 0.0) + own
    return found


def decided(recording: Path) -> Iterator[RecordedCycle]:
    for one in recorded_cycles(recording, {"evenkeelPlanner": "on"}):
        assert one.made is not None, one.left_out
        yield one


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_every_snapshot_has_a_plan_or_a_reason_and_its_words_are_whole(recording: Path) -> None:
    for one in decided(recording):
        assert one.made is not None
        rows = one.made.rows
        assert [row["subject"] for row in rows["planner_targets"] if row["subject_kind"] == "cluster"] == ["lab"]
        for row in (*rows["planner_targets"], *rows["planner_findings"], *rows["planner_models"]):
            assert row["sentence"].endswith(".")
            assert not {"nan", "inf", "None"} & set(row["sentence"].replace(",", " ").split()), row["sentence"]
        moved = [row["bundle"] for row in rows["commands"] if row["kind"] == "unload"]
        assert not [name for name in moved if name.startswith(("pulsar/", "sla-monitor/"))]
        assert not [row for row in rows["guard_decisions"] if row["outcome"] == "held"]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_brokers_that_have_measured_nothing_yet_are_told_apart_by_their_traffic(recording: Path) -> None:
    for one in decided(recording):
        assert one.made is not None
        assert one.rows is not None
        if any((row["cpu_usage"] or 0.0) >= 0.2 for row in one.rows["broker_reports"]):
            continue
        carried = traffic(one)
        for row in planned(one):
            assert carried.get(row["destination"], 0.0) < carried[row["broker"]], row["sentence"]


def planned(one: RecordedCycle) -> list[dict[str, Any]]:
    assert one.made is not None
    return [dict(row) for row in one.made.rows["planner_targets"] if row["outcome"] in ("unload", "planned")]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_figures_of_brokers_are_numbers(recording: Path) -> None:
    for one in decided(recording):
        assert one.made is not None
        for row in one.made.rows["planner_targets"]:
            if row["subject_kind"] == "broker" and row["numbers"]:
                assert all(math.isfinite(value) and value >= -1e-9 for value in dict(row["numbers"]).values())
