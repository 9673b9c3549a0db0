"""What a window does behind a cycle that failed by a defect."""

from dataclasses import replace
from typing import Any

import pytest

from evenkeel import pipeline
from evenkeel.cycle.runner import without_failed
from evenkeel.handover import FAILED, SKIPPED, ClusterCycle, Handover, Run, Snapshot
from evenkeel.ingest.open_run import CycleRequest

TIMES = [f"2026-11-21T08:{minute:02}:00.000000+00:00" for minute in range(0, 40, 5)]
REQUEST = CycleRequest("lake", "recording:there", every=True)


def cycle(cluster: str, at: str) -> ClusterCycle:
    return ClusterCycle(cluster, at, Snapshot("", at), {})


def ran(monkeypatch: pytest.MonkeyPatch, cycles: list[ClusterCycle], *defects: tuple[str, str]) -> list[Handover]:
    """The hand-overs of a window in whose cycles `defects` a round always fails."""

    def run_tasks(spark: Any, handover: Handover, progress: Any) -> Handover:
        first: dict[str, str] = {}
        for cluster, at in sorted(set(defects) & {one.key for one in handover.cycles}):
            first.setdefault(cluster, at)
        for task in (*pipeline.DECIDING, pipeline.publish):
            progress(task.__name__, 0.1)
        return without_failed(handover, dict.fromkeys(first.items(), "KeyError: 'x'"), "shed")

    monkeypatch.setattr(pipeline, "_run_tasks", run_tasks)
    opened = "evenkeel.ingest.open_run.open_listed"
    monkeypatch.setattr(opened, lambda spark, request, own: Handover("lake", Run("cli", "r"), tuple(own)))
    seen: list[pipeline.WindowProgress] = []
    found = list(pipeline.run_window(None, REQUEST, seen.append, cycles=cycles, anew=True))  # type: ignore[arg-type]
    assert seen[-1].cycles <= seen[-1].of == len(cycles)
    if len(found) <= pipeline.MOST_TRIES:
        assert seen[-1].cycles == len(cycles)
    return found


def keys(handover: Handover, status: str) -> list[tuple[str, str]]:
    return [one.key for one in handover.cycles if one.status == status]


def test_the_cycles_after_it_are_decided_at_once_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = [cycle(cluster, at) for at in TIMES[:5] for cluster in ("east", "west")]
    first, second = ran(monkeypatch, cycles, ("east", TIMES[2]))
    assert keys(first, FAILED) == [("east", TIMES[2])]
    assert keys(first, SKIPPED) == [("east", TIMES[3]), ("east", TIMES[4])]
    assert [one.key for one in second.cycles] == keys(second, "open") == keys(first, SKIPPED)


def test_what_was_skipped_for_a_reason_of_its_own_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = [cycle("east", at) for at in TIMES[:4]]
    unread = replace(cycles[0], status=SKIPPED, reason="no broker answered")
    first, second = ran(monkeypatch, [unread, *cycles[1:]], ("east", TIMES[1]))
    assert keys(first, SKIPPED) == [("east", at) for at in (TIMES[0], *TIMES[2:4])]
    assert [one.key for one in second.cycles] == [("east", at) for at in TIMES[2:4]]


def test_a_chunk_in_which_every_cycle_fails_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(monkeypatch, [cycle("east", at) for at in TIMES], *(("east", at) for at in TIMES))
    assert [len(one.cycles) for one in found] == [8, 7, 6, 5]
