"""The DAG `upkeep`: its schedule, its one task, its params."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from evenkeel.maintenance.expiry import NAMES, Periods, settled

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def upkeep(dag_bag: Any) -> Any:
    assert not dag_bag.import_errors
    return dag_bag.dags["upkeep"]


def test_it_runs_once_a_day_one_at_a_time_and_makes_up_for_no_missed_day(upkeep: Any) -> None:
    assert upkeep.timetable.expression == "17 3 * * *"
    assert upkeep.timetable.interval == timedelta(0)
    assert (upkeep.catchup, upkeep.max_active_runs) == (False, 1)


def test_its_task_runs_on_the_spark_connection_and_says_which_tables_it_writes(upkeep: Any) -> None:
    (task,) = upkeep.tasks
    assert (task.task_id, task.conn_id) == ("upkeep", "evenkeel_spark")
    assert {asset.uri for asset in task.outlets} == {
        f"evenkeel://lake/{table}" for table in ("anchors", "proofs", "upkeeps")
    }


def test_every_period_is_a_param_that_is_empty_unless_told_and_stands_in_the_manual(upkeep: Any) -> None:
    assert set(upkeep.params) == {*NAMES, "shorten"}
    for name, days in Periods().as_dict().items():
        assert upkeep.params[name] is None
        assert re.search(rf"^\| `{name}` \| .* \| {days} \|$", upkeep.doc_md, re.MULTILINE), name
        assert upkeep.params.get_param(name).description.endswith(".")


def test_the_example_in_the_manual_is_a_valid_trigger(upkeep: Any) -> None:
    example = json.loads(re.findall(r"```json\n(.*?)```", upkeep.doc_md, re.DOTALL)[0])
    given = {name: upkeep.params.get_param(name).resolve(value) for name, value in example.items()}
    assert settled(None, given, shorten=False, promised=Periods().as_dict()) != Periods()


@pytest.mark.parametrize("conf", [{"audit_days": 0}, {"audit_days": "400"}, {"shorten": "yes"}, {"topics_days": 1.5}])
def test_a_bad_param_is_refused(upkeep: Any, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    ((name, value),) = conf.items()
    with pytest.raises(ParamValidationError):
        upkeep.params.get_param(name).resolve(value)
