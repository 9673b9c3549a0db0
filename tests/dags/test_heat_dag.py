"""The DAG `heat`: its schedule, its one task, which needs no Spark, and its param."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.airflow.xcom import XCom
from tests.heat.histories import WHOLE, History, digests, load

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def heat(dag_bag: Any) -> Any:
    assert not dag_bag.import_errors
    return dag_bag.dags["heat"]


def test_it_runs_every_ten_minutes_one_at_a_time_and_makes_up_for_no_missed_run(heat: Any) -> None:
    assert heat.timetable.expression == "*/10 * * * *"
    assert heat.timetable.interval == timedelta(0)
    assert (heat.catchup, heat.max_active_runs) == (False, 1)


def test_its_task_needs_no_spark_and_says_which_tables_it_writes(heat: Any) -> None:
    (task,) = heat.tasks
    assert task.task_id == "heat"
    assert not hasattr(task, "conn_id")
    assert {asset.uri for asset in task.outlets} == {
        f"evenkeel://lake/{name}" for name in ("heat_blocks", "heat_marks")
    }


def test_its_example_is_a_valid_trigger_and_the_manual_names_the_layers(heat: Any) -> None:
    example = json.loads(re.findall(r"```json\n(.*?)```", heat.doc_md, re.DOTALL)[0])
    assert {name: heat.params.get_param(name).resolve(value) for name, value in example.items()} == example
    assert [re.search(rf"\| {days} days \|", heat.doc_md) is not None for days in (3, 30, 100, 400)] == [True] * 4


def test_the_task_builds_what_is_missing(heat: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = History(tmp_path / "lake")
    made.cycle(0, [load("acme/a", WHOLE[0], 1.0)])
    monkeypatch.setenv("EVENKEEL_LAKE", str(made.root))
    ti = XCom().of("heat", "manual__1", "heat")
    build = heat.tasks[0].python_callable
    told = json.loads(build(params={"cluster": ""}, ti=ti))
    assert [(one["cluster"], one["columns"], one["through"]) for one in told] == [("eu-1", 1, "2026-11-21T12:00:00Z")]
    assert len(digests(made.root)) == 1
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException, match="no cycle of cluster 'eu-9' is on record"):
        build(params={"cluster": "eu-9"}, ti=ti)


def test_the_task_is_skipped_as_long_as_no_cycle_has_made_the_lake(
    heat: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path / "lake"))
    with pytest.raises(AirflowSkipException, match="heat has nothing to do: there is no lake at"):
        heat.tasks[0].python_callable(params={"cluster": ""}, ti=XCom().of("heat", "manual__1", "heat"))
    assert not (tmp_path / "lake").exists()
