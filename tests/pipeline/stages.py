"""A cycle task by task: what each is given and comes to when nobody disturbs it, and what a retry has to come to."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenkeel.handover import Handover
from evenkeel.lake.record import read_attempts, read_table
from tests.pipeline.killed_task import PHASES, TASKS, Point, run_whole
from tests.planned import request
from tests.written_rows import rows_digest


@dataclass(frozen=True)
class Stage:
    """The lake as it is before a task, the task's hand-over, and what it comes to when nobody kills it."""

    lake: Path
    given: Handover
    made: Handover
    writes: tuple[tuple[str, int], ...]

    def copy(self, folder: Path) -> Handover:
        return replace(self.given, lake=str(shutil.copytree(self.lake, folder)))

    def points(self) -> list[Point]:
        return [Point(table, number, phase) for table, number in sorted(set(self.writes)) for phase in PHASES]


def stages_of(url: str, lake: Path, folder: Callable[[str], Path], last: str = "publish") -> Mapping[str, Stage]:
    """The stages of one cycle up to the task `last` in an empty lake, on the Spark server at that URL; `folder` makes a
    folder of a name."""
    from evenkeel.ingest.open_run import open_cycles
    from evenkeel.spark.session import close, connect

    session = connect(url, "tests")
    handover = open_cycles(session, request(lake, 0))
    close(session)
    found = {}
    for task in [*TASKS][: [*TASKS].index(last) + 1]:
        before = Path(shutil.copytree(lake, folder(task) / "lake"))
        made, writes = run_whole(url, task, handover)
        found[task] = Stage(before, handover, made, tuple(writes))
        handover = made
    return found


def contents(handover: Handover, known: Handover) -> dict[tuple[str, str], tuple[int, str]]:
    """What a task has written by its hand-over: rows and digest per table and cluster."""
    own = [write for write in handover.writes if write not in known.writes]
    assert len({(write.table, write.cluster) for write in own}) == len(own), "one write per table"
    return {(write.table, write.cluster): (write.rows, rows_digest(handover.lake, write)) for write in own}


def demand_one_set(stage: Stage, again: Handover) -> None:
    """The retried task comes to the same rows; after publish readers see one attempt and each command once."""
    found, known = (outside_the_outbox(contents(made, stage.given)) for made in (again, stage.made))
    assert found == known
    demand_one_attempt(stage, again)


def outside_the_outbox(found: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """What a killed try has put into the outbox is not put there again, so the retry may have no write of its own."""
    return {key: value for key, value in found.items() if key[0] not in ("commands", "outcomes")}


def demand_one_attempt(stage: Stage, again: Handover) -> None:
    lake = Path(again.lake)
    attempts = read_attempts(lake, cluster=again.cycles[0].cluster)
    if not attempts:
        return
    (attempt,) = attempts
    (before,) = read_attempts(Path(stage.made.lake), cluster=again.cycles[0].cluster)
    assert (attempt.plan_id, attempt.status) == (before.plan_id, "closed")
    commands, known = (read_table(place, "commands") for place in (lake, Path(stage.made.lake)))
    assert len(commands) == len(known) > 0
    assert {row["command_id"] for row in commands} == {row["command_id"] for row in known}
    outcomes = [(row["command_id"], row["outcome"]) for row in read_table(lake, "outcomes")]
    assert sorted(outcomes) == sorted((row["command_id"], "dry_run") for row in known)
    kinds = Counter((row["attempt_id"], row["row_kind"]) for row in read_table(lake, "cycles"))
    assert set(kinds.values()) == {1}, "planned and closed stand there once"
