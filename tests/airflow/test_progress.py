"""How far a run came, by what its tasks left in XCom: what *publish* puts on record starts from that."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel import pipeline
from evenkeel.airflow.seal import Origin, sealed
from evenkeel.airflow.steps import REASON, _progress
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot, Write
from evenkeel.lake.handover_files import FOLDER, handed_on

AT = "2026-11-21T08:27:04.000000+00:00"
NAMES = [task.__name__ for task in pipeline.DECIDING]
RUN = SimpleNamespace(dag_id="rebalance", run_id="r")


class TaskInstance:
    """XCom of the tasks that ended well, and why the first of the others failed."""

    dag_id, run_id, task_id = RUN.dag_id, RUN.run_id, "publish"

    def __init__(self, texts: list[str], reason: str | None = None) -> None:
        left = {name: sealed(text, Origin("rebalance", "r", name)) for name, text in zip(NAMES, texts, strict=False)}
        self.texts, self.reason = left, reason

    def get_task_states(self, dag_id: str, **more: Any) -> dict[str, Any]:
        return {RUN.run_id: dict.fromkeys(self.texts, "success")}

    def xcom_pull(self, task_ids: str, key: str = "return_value", **more: Any) -> Any:
        return self.reason if key == REASON else self.texts.get(task_ids)


def handovers(lake: Path, cycles: int) -> list[Handover]:
    """What each task hands on: one more write than the task before."""
    opened = tuple(ClusterCycle(f"c{n}", AT, Snapshot("s", AT), {"long": "x" * 1_000}) for n in range(cycles))
    writes = tuple(Write("t", f"w{n}", n, 1, "d", "c0", cycle_at=AT) for n in range(len(NAMES)))
    return [Handover(str(lake), Run("rebalance", "r"), opened, writes[: n + 1]) for n in range(len(NAMES))]


@pytest.mark.parametrize("cycles", [1, 100])
def test_the_newest_hand_over_counts_and_a_task_that_failed_is_named(
    tmp_path: Path, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path))
    given = handovers(tmp_path, cycles)
    texts = [handed_on(one) for one in given]
    assert (tmp_path / FOLDER).exists() is (cycles == 100)
    assert _progress(TaskInstance(texts), RUN) == (None, given[-1])
    assert _progress(TaskInstance(texts[:2], "no room"), RUN) == ("aggregate failed: no room", given[1])
    assert _progress(TaskInstance([], "no lake"), RUN) == ("ingest failed: no lake", None)


def test_without_the_file_of_a_hand_over_the_one_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path))
    small, large = handovers(tmp_path, 1), handovers(tmp_path, 100)
    texts = [handed_on(small[0]), handed_on(large[1]), handed_on(large[2])]
    shutil.rmtree(tmp_path / FOLDER)
    failure, handover = _progress(TaskInstance(texts), RUN)
    assert handover == small[0]
    assert failure is not None
    assert failure.startswith("validate failed: the hand-over ")
    assert _progress(TaskInstance(texts[1:]), RUN)[1] is None


def test_a_hand_over_that_was_changed_or_is_another_tasks_does_not_count(tmp_path: Path) -> None:
    given = handovers(tmp_path, 1)
    found = TaskInstance([handed_on(one) for one in given])
    found.texts["place"] = found.texts["shed"]
    found.texts["shed"] = found.texts["shed"].replace("dry_run", "auto")
    failure, handover = _progress(found, RUN)
    assert handover == given[NAMES.index("plan_splits")]
    assert str(failure).startswith("shed failed: what the task shed of the run r of rebalance left in XCom does not")
    found.texts = {name: given[0].to_json() for name in NAMES}
    failure, handover = _progress(found, RUN)
    assert (handover, "ingest failed: what the task ingest" in str(failure)) == (None, True)
